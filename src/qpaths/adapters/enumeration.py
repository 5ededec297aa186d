"""Sums over the values of discrete variables, one variable after the other, and the discrete sites of NumPyro models.

A site in a plate has one value for each row, and rows are independent. So the model runs with the same value in all
rows, once for each value, and the sums are taken row by row. The model sees values of the usual shape.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..core import AnyArray, PyTree, QpathsError
from .distributions import MOST_COMBINATIONS, Values, discrete_elements, joint_values
from .model import Named

Site: TypeAlias = dict[str, Any]
Trace: TypeAlias = dict[str, Site]
Factors = Callable[[Named], Named]
"""The log densities of all sites by name, with the axes of their batches, given the values of the discrete sites."""

_NUM_TRIES = 3
"""Random values of all rows with which the independence of rows is checked."""


class Term(NamedTuple):
    """Log factors of a density with named axes: discrete variables, and plates of independent rows."""

    axes: tuple[str, ...]
    logs: Values


def check_combinations(sizes: Mapping[str, int]) -> None:
    """Raise where some variables have too many values together."""
    if (num := math.prod(sizes.values())) > MOST_COMBINATIONS:
        raise QpathsError(
            f"`{'`, `'.join(sizes)}` have {num:,} values together, too many to sum over (at most "
            f"{MOST_COMBINATIONS:,}): sum over them yourself, for instance one by one."
        )


def marginalize(terms: Iterable[Term], plates: Mapping[str, frozenset[str]]) -> Values:
    """The log of the sum of a product of factors over all variables.

    Args:
        terms: The factors. One that depends on a variable has the plates of that variable.
        plates: The plates of each variable. It has one value for each row of them.

    The factors of the innermost plates come first. Given the variables further out, their rows are independent. So the
    variables of a row are summed out, and the rows multiplied (Obermeyer and others, 2019, "Tensor variable
    elimination for plated factor graphs").
    """
    waiting: dict[frozenset[str], list[Term]] = {}
    for term in terms:
        waiting.setdefault(frozenset(term.axes) - set(plates), []).append(term)
    total: Values = 0.0
    while waiting:
        inner = max(waiting, key=len)
        own = waiting.pop(inner)
        for term in _sum_out([name for name in plates if plates[name] == inner], own, plates):
            left = [name for name in term.axes if name in plates]
            outer = frozenset[str]().union(*(plates[name] for name in left))
            if left and outer == inner:
                raise QpathsError(
                    f"`{'`, `'.join(left)}` cannot be summed out: they meet in a site of the plates "
                    f"{', '.join(sorted(inner))}, and none of them is in all of these. Sum over them yourself."
                )
            rows = tuple(term.axes.index(plate) for plate in term.axes if plate in inner - outer)
            reduced = Term(tuple(name for name in term.axes if name not in inner - outer), jnp.sum(term.logs, rows))
            if left:
                waiting.setdefault(outer, []).append(reduced)
            else:
                total = total + reduced.logs
    return total


def _sum_out(names: list[str], terms: list[Term], variables: Collection[str]) -> list[Term]:
    """The factors after the sum over some variables, of which the one with the smallest table comes first."""

    def table(name: str) -> dict[str, int]:
        return {axis: size for term in terms if name in term.axes for axis, size in _sizes(term).items()}

    while names:
        name = min(names, key=lambda name: math.prod(table(name).values()))
        names = [other for other in names if other != name]
        axes = tuple(table(name))
        check_combinations({axis: size for axis, size in table(name).items() if axis in variables})
        if not axes:
            continue
        product = sum(aligned(term, axes) for term in terms if name in term.axes)
        summed = jax.nn.logsumexp(product, axis=axes.index(name))
        left = tuple(axis for axis in axes if axis != name)
        terms = [term for term in terms if name not in term.axes] + [Term(left, summed)]
    return terms


def _sizes(term: Term) -> dict[str, int]:
    return dict(zip(term.axes, jnp.shape(term.logs), strict=True))


def aligned(term: Term, axes: tuple[str, ...]) -> Values:
    """A factor with an axis for each name, of size 1 where it has none."""
    kept = [term.axes.index(axis) for axis in axes if axis in term.axes]
    missing = [i for i, axis in enumerate(axes) if axis not in term.axes]
    return jnp.expand_dims(jnp.transpose(term.logs, kept), missing)


def dependences(function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    """The arguments on which each output can depend, by position: a tree of sets in place of the outputs' arrays.

    What happens inside another compiled function or a loop is taken as one step, so a set can be too large.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    found: dict[Any, frozenset[int]] = {}
    positions = [i for i, argument in enumerate(arguments) for _ in jax.tree.leaves(argument)]
    for variable, position in zip(closed.jaxpr.invars, positions, strict=True):
        found[variable] = frozenset([position])

    def of(atom: object) -> frozenset[int]:
        return frozenset() if hasattr(atom, "val") else found.get(atom, frozenset())

    for step in closed.jaxpr.eqns:
        sources = frozenset[int]().union(*map(of, step.invars))
        found.update(dict.fromkeys(step.outvars, sources))
    return jax.tree.unflatten(jax.tree.structure(shapes), [of(atom) for atom in closed.jaxpr.outvars])


class DiscreteSites:
    """Values, plates and sums of the discrete latent sites.

    Attributes:
        values: All values of each site in one row of its plates: axes of size 1 in place of plates.
        depends: The discrete sites on which the log density of each site depends, after `look`.
    """

    def __init__(self, trace: Trace, latent: Iterable[str]):
        sites = {name: site for name, site in trace.items() if site["type"] == "sample"}
        self._dims = {
            name: {frame.name: frame.dim for frame in site["cond_indep_stack"]} for name, site in sites.items()
        }
        self.values: dict[str, np.ndarray] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._axes: dict[str, dict[str, int]] = {}
        self.depends: dict[str, tuple[str, ...]] = {}
        for name in latent:
            fn = sites[name]["fn"]
            if (elements := discrete_elements(name, fn)) is not None:
                self._shapes[name] = shape = fn.shape()
                self._axes[name] = {
                    plate: len(fn.batch_shape) + self._dims[name][plate] for plate in self._plates(name)
                }
                one_row = tuple(1 if axis in self._axes[name].values() else size for axis, size in enumerate(shape))
                self.values[name] = joint_values(name, elements, one_row)

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def __bool__(self) -> bool:
        return bool(self.values)

    def chosen(self, indices: Mapping[str, Any]) -> Named:
        """The value with some index in all rows, for each site; the first one where there is no index."""
        return {
            name: jnp.broadcast_to(jnp.asarray(values)[indices.get(name, 0)], self._shapes[name])
            for name, values in self.values.items()
        }

    def look(self, outputs: Callable[[Any, Named], dict[str, Named]], point: PyTree) -> set[str]:
        """Find what depends on what; an error where that cannot be summed out.

        Args:
            outputs: The log densities ("logs"), values of the continuous sites ("values") and computed quantities
                ("computed") at a point, given the values of the discrete sites.
            point: A point, or its shapes.

        Returns:
            The names of the computed quantities that depend on discrete sites.
        """
        names = list(self.values)
        indices = [np.int32(0) for _ in names]
        found = dependences(
            lambda at, *own: outputs(at, self.chosen(dict(zip(names, own, strict=True)))), point, *indices
        )
        by_name = {
            kind: {name: tuple(names[i - 1] for i in sorted(one) if i > 0) for name, one in group.items()}
            for kind, group in found.items()
        }
        for name, own in by_name["values"].items():
            if own:
                raise ValueError(
                    f"the support of `{name}` depends on the discrete site `{own[0]}`, so no one map from all real "
                    f"numbers serves all its values: give `{name}` a support that does not depend on it."
                )
        self.depends = by_name["logs"]
        for name, own in self.depends.items():
            for discrete in own:
                self._check_plates(name, discrete)
        return {name for name, own in by_name["computed"].items() if own}

    def _check_plates(self, name: str, discrete: str) -> None:
        if missing := set(self._dims[discrete]) - set(self._dims[name]):
            raise ValueError(
                f"the site `{name}` depends on the discrete site `{discrete}`, which is in the plate "
                f"`{min(missing)}`, and is not in that plate itself, so the rows are not independent: put `{name}` "
                f"into the plate too, or sum over `{discrete}` yourself."
            )

    def terms(self, factors: Factors, names: Iterable[str]) -> dict[str, Term]:
        """The log densities of some sites, for all values of the discrete ones on which they depend."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in names:
            groups.setdefault(self.depends[name], []).append(name)
        found = {}
        for own, members in groups.items():
            sizes = {name: len(self.values[name]) for name in own}
            check_combinations(sizes)

            def at(*indices: AnyArray, own: tuple[str, ...] = own, members: list[str] = members) -> Named:
                logs = factors(self.chosen(dict(zip(own, indices, strict=True))))
                return {name: self._by_plates(name, logs[name]) for name in members}

            grid = [axis.reshape(-1) for axis in np.meshgrid(*map(np.arange, sizes.values()), indexing="ij")]
            for name, logs in (jax.vmap(at)(*grid) if own else at()).items():
                shape = (*sizes.values(), *logs.shape[bool(own) :])
                found[name] = Term((*own, *self._plates(name)), logs.reshape(shape))
        return found

    def log_sum(self, factors: Factors, names: Iterable[str]) -> Values:
        """The log of the sum, over all values of the discrete sites, of the product of some sites' densities."""
        plates = {name: frozenset(self._dims[name]) for name in self.values}
        return marginalize(self.terms(factors, names).values(), plates)

    def _plates(self, name: str) -> tuple[str, ...]:
        """The plates of a site, the outermost axis first."""
        return tuple(sorted(self._dims[name], key=lambda plate: self._dims[name][plate]))

    def _by_plates(self, name: str, logs: AnyArray) -> Values:
        """The log density of each row of a site's plates."""
        kept = {logs.ndim + dim for dim in self._dims[name].values()}
        return jnp.sum(logs, axis=tuple(axis for axis in range(logs.ndim) if axis not in kept))

    def check_rows(self, factors: Factors, generator: np.random.Generator) -> None:
        """Raise where a row depends on the discrete values of other rows.

        The densities with random values in all rows are compared with those of the tables.
        """
        names = [name for name, own in self.depends.items() if any(self._dims[discrete] for discrete in own)]
        if not names:
            return
        tables = jax.jit(lambda: {name: term.logs for name, term in self.terms(factors, names).items()})()
        given = jax.jit(lambda chosen: {name: self._by_plates(name, logs) for name, logs in factors(chosen).items()})
        for _ in range(_NUM_TRIES):
            indices = {name: self._random_rows(name, generator) for name in self.values}
            logs = given({name: self._spread(name, own) for name, own in indices.items()})
            for name in names:
                expected = self._looked_up(name, np.asarray(tables[name]), indices)
                if not np.allclose(logs[name], expected, rtol=1e-3, atol=1e-3, equal_nan=True):
                    raise ValueError(
                        f"a row of the site `{name}` depends on the values of `{'`, `'.join(self.depends[name])}` in "
                        f"other rows, though both are in a plate, so the sum cannot be taken row by row: write "
                        f"`{name}` with the values of its own row, or sum over the discrete site yourself."
                    )

    def _random_rows(self, name: str, generator: np.random.Generator) -> np.ndarray:
        """A random index of a value in each row of a site's plates."""
        sizes = [self._shapes[name][axis] for axis in self._axes[name].values()]
        return generator.integers(len(self.values[name]), size=sizes)

    def _spread(self, name: str, indices: np.ndarray) -> np.ndarray:
        """The values of a site with some index in each row."""
        values, shape = self.values[name], self._shapes[name]
        rows = [1] * len(shape)
        for size, axis in zip(indices.shape, self._axes[name].values(), strict=True):
            rows[axis] = size
        everywhere = np.broadcast_to(indices.reshape(rows), (1, *shape))
        return np.asarray(np.take_along_axis(np.broadcast_to(values, (len(values), *shape)), everywhere, axis=0)[0])

    def _looked_up(self, name: str, table: np.ndarray, indices: Mapping[str, np.ndarray]) -> np.ndarray:
        """The log density of each row of a site in its table, with some indices of the discrete sites."""
        plates, own = self._plates(name), self.depends[name]
        of_sites = [np.asarray(aligned(Term(self._plates(discrete), indices[discrete]), plates)) for discrete in own]
        return table[(*of_sites, *np.ix_(*map(np.arange, table.shape[len(own) :])))]
