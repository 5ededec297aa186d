"""Define annealing paths: the contract, and the base class of pointwise paths.

A path through the members of a family derives from `AbstractParametricPath` in `parametric.py`.
"""

import abc
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..core import (
    FloatArray,
    Module,
    Point,
    PRNGKey,
    RealLike,
    Scalar,
    ScalarLike,
    check_beta,
    is_concrete,
    namespace,
    quiet,
)
from ..densities import Density, DensityLike, draw, evaluate

Features = TypeVar("Features")


class EndpointValues(NamedTuple):
    """All that a pointwise path needs to know about a point: two numbers."""

    log_base: FloatArray
    log_target: FloatArray


class EndpointSlopes(NamedTuple):
    """Gradients of the log densities of the endpoints; `values` are set where a guide stands in for the target."""

    base: Point
    target: Point
    values: EndpointValues | None


class AbstractPath(Module, Generic[Features]):
    """A path of unnormalized densities from `base` (beta = 0) to `target` (beta = 1).

    Rules for every path; `qpaths.testing.check_path` checks them.

    - `log_density(0, x)` and `log_density(1, x)` are the log densities of the endpoints, bit for bit.
    - `features(x)` evaluates the user's densities, each once; `log_density_from` and `log_ratio` need only the
      features, so a sampler that carries them re-evaluates nothing when beta (or q) changes.
    - The path is the only owner of weights: `log_ratio(beta, new_beta, features)` is the log incremental weight.
    - `beta` comes first. `features` takes one point, and `jax.vmap` makes a batch of them. What takes features is
      elementwise: the features of many points, stacked, give one number for each, also with one beta for each.

    The tutorial [Write a path](tutorials/own_path.md) has a complete example.

    Examples:
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(lambda x: -x, lambda x: -3.0 * x)
        >>> features = path.features(1.0)  # evaluates both densities
        >>> float(path.log_ratio(0.25, 0.75, features))  # evaluates nothing
        -1.0
    """

    base: eqx.AbstractVar[DensityLike]
    target: eqx.AbstractVar[DensityLike]

    @abc.abstractmethod
    def features(self, x: Point) -> Features:
        """Return what the path needs to know about `x` to give its density at every beta."""

    @abc.abstractmethod
    def log_density_from(self, beta: RealLike, features: Features) -> FloatArray:
        """Log of the unnormalized density at `beta`, from the features of a point."""

    @abc.abstractmethod
    def at(self, beta: ScalarLike) -> DensityLike:
        """The density at `beta`; it can be sampled where the path knows how."""

    def log_density(self, beta: ScalarLike, x: Point) -> Scalar:
        """Log of the unnormalized density at `beta` and `x`."""
        check_beta(beta)
        return self.log_density_from(beta, self.features(x))

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Features) -> FloatArray:
        """`log_density(new_beta) - log_density(beta)`; `-inf` wherever the new density is zero."""
        new = self.log_density_from(new_beta, features)
        xp = namespace(new)
        with quiet():
            return xp.where(new == -xp.inf, -xp.inf, new - self.log_density_from(beta, features))

    def derivative_from(self, beta: RealLike, features: Features) -> FloatArray:
        """Derivative of the log density in beta, from the features of a point: the integrand of path sampling."""
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        derivative = jax.jvp(lambda b: self.log_density_from(b, features), (beta,), (jnp.ones_like(beta),))[1]
        return inside(beta, derivative)

    def derivatives_from(self, beta: RealLike, features: Features) -> tuple[FloatArray, FloatArray]:
        """First and second derivative of the log density in beta, from the features of a point.

        The second gives the slope of the mean derivative; see `qpaths.stats.estimators.derivative_moments`.
        """
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return jax.jvp(lambda b: self.derivative_from(b, features), (beta,), (jnp.ones_like(beta),))

    @property
    def is_pointwise(self) -> bool:
        """Return whether the features are the two log densities of a point, so that beta and q are plain arithmetic."""
        return False

    def sample_base(self, key: PRNGKey) -> Point:
        """One exact draw from the base."""
        return draw(self.base, key, "base")


@runtime_checkable
class Ordered(Protocol):
    """A path of a family over `q = 1 - delta`; tuning may choose another member of the family.

    `GeometricPath`, `ArithmeticPath` and `QPath` are such paths. A path without an order cannot be tuned in q, and is
    left as it is.

    See [The rules](tutorials/own_path.md#the-rules).

    Examples:
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(lambda x: -x, lambda x: -3.0 * x)
        >>> isinstance(path, Ordered), float(path.with_delta(0.01).q)
        (True, 0.99)
    """

    @property
    def delta(self) -> ScalarLike: ...

    def with_delta(self, delta: ScalarLike) -> AbstractPath[Any]:
        """The member of order 1 - `delta` between the same endpoints."""


class AbstractPointwisePath(AbstractPath[EndpointValues]):
    """A path whose log density at a point is a function of beta, `log_base(x)` and `log_target(x)` alone.

    A new pointwise path needs `interpolate`; `derivative` and `shares` follow by differentiation unless a closed form
    is better.

    A target may have a `guide`, a density that is cheaper and nearly the same. The path then takes its scores from
    there: they steer proposals, while densities and weights are those of the target itself. The score is a function of
    the point alone, so a trajectory that follows it can be walked back, and the Metropolis rule keeps it exact.

    The tutorial [Write a path](tutorials/own_path.md) has a complete example.

    Examples:
        >>> import qpaths as qp
        >>> path = qp.QPath(lambda x: -x, lambda x: -3.0 * x, q=0.5)
        >>> isinstance(path, AbstractPointwisePath), float(path.interpolate(1.0, -1.0, -3.0))
        (True, -3.0)
    """

    @abc.abstractmethod
    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """Log density at `beta` where the endpoints have the given log densities. Elementwise."""

    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """Derivative of `interpolate` in beta: the integrand of thermodynamic integration. Elementwise."""
        return inside(beta, _partial(self.interpolate, 0, beta, log_base, log_target))

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        """Derivatives of `interpolate` in `log_base` and `log_target`. Elementwise.

        The score of the path is the mix of the endpoints' scores with these weights.
        """
        arguments = beta, log_base, log_target
        return _partial(self.interpolate, 1, *arguments), _partial(self.interpolate, 2, *arguments)

    is_pointwise = True

    def features(self, x: Point) -> EndpointValues:
        return EndpointValues(evaluate(self.base, x, "base"), evaluate(self.target, x, "target"))

    def score(self, beta: RealLike, features: EndpointValues, slopes: EndpointSlopes) -> Point:
        """Gradient of the log density at `beta`: the slopes of the endpoints, mixed by `shares`.

        No density is evaluated.
        """
        # The values that come with the slopes, also where the target's own are known: what steers must not depend on
        # whether a trajectory begins or ends at the point.
        shares = self.shares(beta, *(features if slopes.values is None else slopes.values))

        def mix(base: Any, target: Any) -> Any:
            # One share for each point, and slopes with the coordinates of a point behind.
            b, t = (share.reshape(share.shape + (1,) * (base.ndim - share.ndim)) for share in shares)
            return b * base + t * target

        return jax.tree.map(mix, slopes.base, slopes.target)

    def log_density_from(self, beta: RealLike, features: EndpointValues) -> FloatArray:
        return self.interpolate(beta, features.log_base, features.log_target)

    def derivative_from(self, beta: RealLike, features: EndpointValues) -> FloatArray:
        return self.derivative(beta, features.log_base, features.log_target)

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        if is_concrete(beta) and beta == 0:
            return self.base
        if is_concrete(beta) and beta == 1:
            return self.target
        return Density(jax.tree_util.Partial(type(self).log_density, self, beta))


def inside(beta: RealLike, values: Array) -> Array:
    """NaN where beta lies outside [0, 1]; the derivative of a NaN is 0."""
    return jnp.where((beta >= 0) & (beta <= 1), values, jnp.nan)


def _partial(function: Any, index: int, *arguments: RealLike) -> FloatArray:
    """Partial derivative of an elementwise function in one of its arguments, of the broadcast shape."""
    shape = jnp.broadcast_shapes(*map(jnp.shape, arguments))
    dtype = jnp.result_type(0.0, *arguments)
    values = tuple(jnp.broadcast_to(jnp.asarray(a, dtype), shape) for a in arguments)

    # One argument at a time: a zero tangent of the others would meet infinite values, and 0 * inf is NaN.
    def of_one(value: Array) -> Array:
        return function(*values[:index], value, *values[index + 1 :])

    return jax.jvp(of_one, (values[index],), (jnp.ones(shape, dtype),))[1]
