"""Sums over the values of discrete variables, one variable after the other."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core import QpathsError

MOST_COMBINATIONS = 1024
"""Values of discrete variables together in one table of a sum."""


class Term(NamedTuple):
    """Log factors of a density with named axes: discrete variables, and plates of independent rows."""

    axes: tuple[str, ...]
    logs: Any


def joint_values(name: str, elements: Any, shape: tuple[int, ...]) -> np.ndarray:
    """All values of an array of discrete numbers, each of which is one of the elements: (number, *shape)."""
    elements = np.asarray(elements).reshape(-1)
    num_values = len(elements) ** math.prod(shape)
    if num_values > MOST_COMBINATIONS:
        raise QpathsError(
            f"`{name}` has {num_values:,} values, too many to sum over (at most {MOST_COMBINATIONS:,}): where its "
            f"{math.prod(shape)} numbers are independent, put it and what depends on it into a `numpyro.plate` of a "
            f"NumPyro model, or sum over it yourself (a mixture's `logsumexp`)."
        )
    grid = np.meshgrid(*[elements] * math.prod(shape), indexing="ij") if shape else [elements]
    return np.stack([axis.reshape(-1) for axis in grid], axis=-1).reshape(num_values, *shape)


def check_combinations(sizes: Mapping[str, int]) -> None:
    """Raise where some variables have too many values together."""
    if (num := math.prod(sizes.values())) > MOST_COMBINATIONS:
        raise QpathsError(
            f"`{'`, `'.join(sizes)}` have {num:,} values together, too many to sum over (at most "
            f"{MOST_COMBINATIONS:,}): sum over them yourself, for instance one by one."
        )


def marginalize(terms: Iterable[Term], plates: Mapping[str, frozenset[str]]) -> Any:
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
    total: Any = 0.0
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


def aligned(term: Term, axes: tuple[str, ...]) -> Any:
    """A factor with an axis for each name, of size 1 where it has none."""
    kept = [term.axes.index(axis) for axis in axes if axis in term.axes]
    missing = [i for i, axis in enumerate(axes) if axis not in term.axes]
    return jnp.expand_dims(jnp.transpose(term.logs, kept), missing)


def dependences(function: Any, *arguments: Any) -> Any:
    """The arguments on which each output can depend, by position: a tree of sets in place of the outputs' arrays.

    What happens inside another compiled function or a loop is taken as one step, so a set can be too large.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    found: dict[Any, frozenset[int]] = {}
    positions = [i for i, argument in enumerate(arguments) for _ in jax.tree.leaves(argument)]
    for variable, position in zip(closed.jaxpr.invars, positions, strict=True):
        found[variable] = frozenset([position])

    def of(atom: Any) -> frozenset[int]:
        return frozenset() if hasattr(atom, "val") else found.get(atom, frozenset())

    for step in closed.jaxpr.eqns:
        sources = frozenset[int]().union(*map(of, step.invars))
        found.update(dict.fromkeys(step.outvars, sources))
    return jax.tree.unflatten(jax.tree.structure(shapes), [of(atom) for atom in closed.jaxpr.outvars])
