"""Priors as objects: a distribution for each name becomes density, sampler and transform of a model.

from_prior({"mu": dist.Normal(0, 10), "sigma": dist.HalfCauchy(2)}, lambda p: ...)
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import AnyArray, Identity, PyTree, QpathsError, QpathsTypeError, takes_two
from ..densities import Backend, Density, ask
from .distributions import Source, Values, Variable, is_distribution, is_scipy, variable_of
from .enumeration import check_combinations
from .model import Model, Named


def from_prior(prior: Mapping[str, Any], log_likelihood: Callable[..., Any], data: PyTree = None) -> Model:
    """A model from one distribution for each variable and a log likelihood of the variables.

    Args:
        prior: Distributions by name: of NumPyro, of `qpaths.families`, or frozen ones of SciPy, which make the
            likelihood a NumPy function. A function of the variables above it makes a hierarchical prior:
            `"theta": lambda p: dist.Normal(p["mu"], p["tau"])`.
        log_likelihood: `log_likelihood(p)`, or `log_likelihood(p, data)` with data. `p` holds the variables by name, in
            their own units.
        data: Arrays that the likelihood takes.

    Discrete variables with few values are summed out: the likelihood is called with each of their values, and the
    result has no draws of them.

    Returns:
        A `Model`, for `qpaths.evidence` and `qpaths.evidence_from_draws`.

    Distributions of SciPy cannot be mixed with the others. See [Priors as objects](your_model.md#priors-as-objects).

    Examples:
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> own = from_prior({"mu": qp.Normal(0.0, 1.0)}, lambda p, y: -0.5 * (y - p["mu"]) ** 2, data=2.0)
        >>> float(own.log_likelihood({"mu": jnp.zeros(())}, own.data))
        -2.0
    """
    own = Prior(prior)
    if not callable(log_likelihood):
        raise QpathsTypeError(f"`log_likelihood` must be a function of the variables, got {log_likelihood!r}.")
    if data is not None and not takes_two(log_likelihood):
        raise QpathsTypeError("`log_likelihood` must take the variables and the data, since `data` is given.")
    return Model(
        prior=Density(_Bound(own, "log_prob"), _Bound(own, "sample"), backend=own.backend, batched=own.batched),
        log_likelihood=_Bound(own, "log_likelihood", log_likelihood),
        data=data,
        constrain=own.constrain,
        unconstrain=own.unconstrain,
        variables=own.variables,
        parts=own.parts,
    )


class _Bound:
    """A method of a prior as a function that equals another one of the same distributions.

    Compiled programs are kept by their functions, so the same prior compiles nothing the second time.
    """

    def __init__(self, prior: "Prior", method: str, *arguments: Callable[..., Values]):
        self.prior, self.method, self.arguments = prior, method, arguments
        objects = *prior.parts.values(), *arguments
        self._identity = Identity(objects, *prior.parts, method, is_leaf=lambda part: part is not objects)

    def __call__(self, *values: PyTree) -> PyTree:
        return getattr(self.prior, self.method)(*self.arguments, *values)

    def __reduce__(self) -> tuple[type["_Bound"], tuple[object, ...]]:
        return _Bound, (self.prior, self.method, *self.arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bound) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


class Prior:
    """Named distributions, one after the other; each may depend on those above it.

    Points are unconstrained: a dictionary with one array for each continuous variable.
    """

    def __init__(self, parts: Mapping[str, Any]):
        if not isinstance(parts, Mapping) or not parts:
            raise QpathsTypeError(
                f"`prior` must be a dictionary of distributions by name, such as {{'mu': dist.Normal(0, 10)}}, "
                f"got {parts!r}."
            )
        self.parts = dict(parts)
        direct = {name: part for name, part in self.parts.items() if is_distribution(part)}
        numpy_ones = [name for name, part in direct.items() if is_scipy(part)]
        if numpy_ones and len(numpy_ones) < len(direct):
            other = next(name for name in direct if name not in numpy_ones)
            raise QpathsTypeError(
                f"`prior` mixes SciPy (`{numpy_ones[0]}`) with JAX (`{other}`): take all distributions from one side."
            )
        self.backend: Backend = "numpy" if numpy_ones else "jax"
        self.batched = bool(numpy_ones) and len(direct) == len(self.parts)
        self.discrete: list[str] = []
        self._known = {name: variable_of(name, part) for name, part in direct.items()}
        if self.backend == "numpy":
            example = self._look(np.random.default_rng(0))
        else:
            example = jax.eval_shape(self._look, jax.eval_shape(lambda: jax.random.key(0)))
        self.variables = {name: tuple(example[name].shape) for name in self.parts if name in example}
        if not self.variables:
            raise ValueError(f"`prior` has no continuous variable, got {', '.join(self.parts)}: sum these by hand.")

    def _look(self, source: Source) -> Named:
        """One draw, which shows the kinds and shapes of the variables."""
        named = self._walk(source, lambda variable, name, own: variable.sample(own))
        for name in self.discrete:
            self._variable(name, named)
        return jax.tree.map(jnp.asarray if self.backend == "jax" else np.asarray, named)

    def _variable(self, name: str, named: Named) -> Variable:
        """The distribution of a variable, given those above it."""
        if name in self._known:
            return self._known[name]
        part = self.parts[name]
        if not callable(part) or isinstance(part, type):
            return variable_of(name, part)
        try:
            made = part(named)
        except KeyError as error:
            parent = error.args[0]
            why = f"there is no variable of that name, only {', '.join(self.parts)}"
            if parent in self.discrete:
                why = "that is a discrete variable, which is summed out: sum over it in the likelihood yourself"
            elif parent in self.parts:
                why = f"that one comes later: put {parent!r} above {name!r}"
            raise ValueError(f"the prior of `{name}` asks for {parent!r}, and {why}.") from error
        variable = variable_of(name, made)
        if (self.backend == "numpy") != is_scipy(made):
            raise TypeError(f"the prior of `{name}` mixes SciPy with JAX: take all distributions from one side.")
        return variable

    def _walk(self, source: Source, value: Callable[[Variable, str, Any], Any]) -> Named:
        """The variables from top to bottom, with a value for each from its distribution and its random numbers."""
        named: Named = {}
        for number, name in enumerate(self.parts):
            variable = self._variable(name, named)
            if variable.values is not None:
                if name not in self.discrete:
                    self.discrete.append(name)
                continue
            own = source
            if source is not None and self.backend == "jax":
                own = jax.random.fold_in(source, number)
            named[name] = value(variable, name, own)
        return named

    def sample(self, source: Source) -> Named:
        """An unconstrained draw, by a key of JAX or a generator of NumPy."""
        point = {}

        def draw(variable: Variable, name: str, own: Source) -> Values:
            point[name], x = variable.draw(own)
            return x

        self._walk(source, draw)
        return point

    def log_prob(self, point: Named) -> Values:
        """The log density of an unconstrained point, or of rows of them."""
        total: Values = 0.0

        def add(variable: Variable, name: str, own: Source) -> Values:
            nonlocal total
            u = point[name]
            x = variable.transform(u)
            for part in variable.log_prob_at(u, x):
                values = part if isinstance(part, jax.Array) else np.asarray(part)
                total = total + values.sum(axis=tuple(range(int(self.batched), values.ndim)))  # rows stay
            return x

        self._walk(None, add)
        return total

    def log_prob_of(self, named: Named) -> Any:
        """The log density of the variables in their own units, without the Jacobians of unconstrained coordinates."""
        total: Any = 0.0

        def add(variable: Variable, name: str, own: Any) -> Any:
            nonlocal total
            total = total + jnp.sum(variable.log_prob(named[name]))
            return named[name]

        self._walk(None, add)
        return total

    def constrain(self, point: Named) -> Named:
        """The variables at a point."""
        return self._walk(None, lambda variable, name, own: variable.transform(point[name]))

    def unconstrain(self, named: Named) -> Named:
        """The point of some variables."""
        point = {}

        def invert(variable: Variable, name: str, own: Source) -> Values:
            point[name] = variable.transform.inv(named[name])
            return named[name]

        self._walk(None, invert)
        return point

    def log_likelihood(self, function: Callable[..., Any], point: Named, *data: PyTree) -> Values:
        """A log likelihood of the variables at a point; discrete variables are summed out."""
        named = self.constrain(point)
        if not self.discrete and self.backend == "numpy":
            return ask(lambda *given: _ask(function, *given), "log_likelihood", named, *data)
        if not self.discrete:
            return _ask(function, named, *data)
        variables = [self._variable(name, named) for name in self.discrete]
        values = [np.asarray(variable.values) for variable in variables]
        check_combinations(dict(zip(self.discrete, map(len, values), strict=True)))
        columns = [jnp.asarray(np.stack(column)) for column in zip(*itertools.product(*values), strict=True)]

        def joint(*chosen: AnyArray) -> Values:
            log_probs = [jnp.sum(variable.log_prob(value)) for variable, value in zip(variables, chosen, strict=True)]
            return sum(log_probs) + _ask(function, named | dict(zip(self.discrete, chosen, strict=True)), *data)

        return jax.nn.logsumexp(jax.vmap(joint)(*columns))


def _ask(function: Callable[..., Any], named: Named, *data: PyTree) -> Values:
    """The user's likelihood; a name that is not there gets an error of ours."""
    try:
        return function(named, *data)
    except KeyError as error:
        if error.args and error.args[0] not in named:
            raise QpathsError(
                f"`log_likelihood` asks for {error.args[0]!r}, and the prior has {', '.join(named)}."
            ) from error
        raise
