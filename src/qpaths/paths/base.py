"""What an annealing path is: the contract, the base classes of pointwise and parametric paths, and `Reversed`."""

import abc
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .._checks import check_beta, is_concrete
from .._modules import Module
from .._numerics import (
    log_power_mean_pair,
    power_mean_pair_derivative,
    power_mean_pair_derivatives,
    power_mean_pair_shares,
)
from .._types import FloatArray, Point, PRNGKey, RealLike, Scalar, ScalarLike
from ..arrays import namespace, quiet
from ..densities import Density, DensityLike, draw, evaluate
from ..families.base import power_mean_member

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
    """A path of unnormalised densities from `base` (beta = 0) to `target` (beta = 1).

    Rules for every path; `qpaths.testing.check_path` checks them.

    - `log_density(0, x)` and `log_density(1, x)` are the log densities of the endpoints, bit for bit.
    - `features(x)` evaluates the user's densities, each once; `log_density_from` and `log_ratio` need only the
      features, so a sampler that carries them re-evaluates nothing when beta (or q) changes.
    - The path is the only owner of weights: `log_ratio(beta, new_beta, features)` is the log incremental weight.
    - `beta` comes first. `features` takes one point, and `jax.vmap` makes a batch of them. What takes features is
      elementwise: the features of many points, stacked, give one number for each, also with one beta for each.
    """

    base: eqx.AbstractVar[DensityLike]
    target: eqx.AbstractVar[DensityLike]

    @abc.abstractmethod
    def features(self, x: Point) -> Features:
        """What the path needs to know about `x` to give its density at every beta."""

    @abc.abstractmethod
    def log_density_from(self, beta: RealLike, features: Features) -> FloatArray:
        """Log of the unnormalised density at `beta`, from the features of a point."""

    @abc.abstractmethod
    def at(self, beta: ScalarLike) -> DensityLike:
        """The density at `beta`; it can be sampled where the path knows how."""

    def log_density(self, beta: ScalarLike, x: Point) -> Scalar:
        """Log of the unnormalised density at `beta` and `x`."""
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
        return _inside(beta, derivative)

    def derivatives_from(self, beta: RealLike, features: Features) -> tuple[FloatArray, FloatArray]:
        """First and second derivative of the log density in beta, from the features of a point."""
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return jax.jvp(lambda b: self.derivative_from(b, features), (beta,), (jnp.ones_like(beta),))

    @property
    def is_pointwise(self) -> bool:
        """Whether the features are the two log densities of a point, so that beta and q are arithmetic on numbers."""
        return False

    def sample_base(self, key: PRNGKey) -> Point:
        """One exact draw from the base."""
        return draw(self.base, key, "base")


@runtime_checkable
class Ordered(Protocol):
    """A path of a family over `q = 1 - delta`; tuning may choose another member of the family."""

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
    """

    @abc.abstractmethod
    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """Log density at `beta` where the endpoints have the given log densities. Elementwise."""

    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """Derivative of `interpolate` in beta: the integrand of thermodynamic integration. Elementwise."""
        return _inside(beta, _partial(self.interpolate, 0, beta, log_base, log_target))

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


class MemberFeatures(NamedTuple):
    """What a parametric path needs to know about a point: the point, and its log densities at the two ends."""

    x: FloatArray
    log_base: FloatArray
    log_target: FloatArray


class AbstractParametricPath(AbstractPath[MemberFeatures]):
    """A path through the members of one family; every `at(beta)` is normalised and can be sampled exactly.

    A new parametric path needs `member`.
    """

    @abc.abstractmethod
    def member(self, beta: ScalarLike) -> Any:
        """The member of the family at `beta`, which may be traced."""

    def at(self, beta: ScalarLike) -> Any:
        check_beta(beta)
        if is_concrete(beta) and beta == 0:
            return self.base
        if is_concrete(beta) and beta == 1:
            return self.target
        return self.member(beta)

    def features(self, x: Point) -> MemberFeatures:
        x = jnp.asarray(x)
        return MemberFeatures(x, evaluate(self.base, x, "base"), evaluate(self.target, x, "target"))

    def log_density_from(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        beta = jnp.asarray(beta)
        inside = self._log_prob(_within(beta), features)
        return _inside(beta, jnp.where(beta == 0, features.log_base, jnp.where(beta == 1, features.log_target, inside)))

    def derivative_from(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return _inside(beta, _member_derivative(self, _within(beta), features))

    def _log_prob(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        """Log density of the members at `beta`, broadcast against a batch of points; one member for each beta."""
        return _member_log_prob(self, beta, features)

    def _log_prob_of_members(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        coordinates = ",".join(f"n{i}" for i in range(jnp.ndim(features.x) - jnp.ndim(features.log_base)))
        log_prob = jnp.vectorize(lambda b, x: self.member(b).log_prob(x), signature=f"(),({coordinates})->()")
        return log_prob(beta, features.x)


@jax.jit
def _member_log_prob(path: AbstractParametricPath, beta: Any, features: MemberFeatures) -> Array:
    """Compiled, because on the host the members' own functions would run operation by operation."""
    return path._log_prob_of_members(beta, features)


@jax.jit
def _member_derivative(path: AbstractParametricPath, beta: Any, features: MemberFeatures) -> Array:
    # Inside the ends: the `where` of `log_density_from` has no derivative there.
    return jax.jvp(lambda b: path._log_prob_of_members(b, features), (beta,), (jnp.ones_like(beta),))[1]


class AbstractPowerMeanPath(AbstractPointwisePath):
    """A path of power means: the one implementation behind the geometric path, the mixture and every q-path."""

    @property
    @abc.abstractmethod
    def power(self) -> tuple[ScalarLike, ScalarLike]:
        """`delta = 1 - q`, and the shift of logit(beta)."""

    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        return log_power_mean_pair(beta, log_base, log_target, *self.power)

    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        return power_mean_pair_derivative(beta, log_base, log_target, *self.power)

    def derivatives_from(self, beta: RealLike, features: EndpointValues) -> tuple[FloatArray, FloatArray]:
        return power_mean_pair_derivatives(beta, *features, *self.power)

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        return power_mean_pair_shares(beta, log_base, log_target, *self.power)

    def at(self, beta: ScalarLike) -> DensityLike:
        """The density at `beta`; a multiple of a member where the endpoints are members of one family of this order."""
        density = super().at(beta)
        if density is self.base or density is self.target:
            return density
        delta, shift = self.power
        weight = beta / (beta + (1 - beta) * jnp.exp(-shift))
        return power_mean_member(self.base, self.target, weight, delta) or density


def _inside(beta: RealLike, values: Array) -> Array:
    """NaN where beta lies outside [0, 1]; the derivative of a NaN is 0."""
    return jnp.where((beta >= 0) & (beta <= 1), values, jnp.nan)


def _within(beta: Array) -> Array:
    """A beta in [0, 1] in place of one outside, where there is no member of the family."""
    return jnp.where((beta >= 0) & (beta <= 1), beta, 0.5)


def _partial(function: Any, index: int, *arguments: RealLike) -> FloatArray:
    """Partial derivative of an elementwise function in one of its arguments, of the broadcast shape."""
    shape = jnp.broadcast_shapes(*map(jnp.shape, arguments))
    dtype = jnp.result_type(0.0, *arguments)
    values = tuple(jnp.broadcast_to(jnp.asarray(a, dtype), shape) for a in arguments)

    # One argument at a time: a zero tangent of the others would meet infinite values, and 0 * inf is NaN.
    def of_one(value: Array) -> Array:
        return function(*values[:index], value, *values[index + 1 :])

    return jax.jvp(of_one, (values[index],), (jnp.ones(shape, dtype),))[1]


class Reversed(AbstractPath[Any]):
    """A path walked from its target to its base: `beta` here is `1 - beta` there."""

    path: AbstractPath[Any]

    def __init__(self, path: AbstractPath[Any]):
        self.path = path

    @property  # type: ignore[misc]
    def base(self) -> DensityLike:  # type: ignore[override]
        return self.path.target

    @property  # type: ignore[misc]
    def target(self) -> DensityLike:  # type: ignore[override]
        return self.path.base

    def features(self, x: Point) -> Any:
        return self.path.features(x)

    @property
    def is_pointwise(self) -> bool:
        return self.path.is_pointwise

    def log_density_from(self, beta: RealLike, features: Any) -> FloatArray:
        return self.path.log_density_from(1 - beta, features)

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Any) -> FloatArray:
        return self.path.log_ratio(1 - beta, 1 - new_beta, features)

    def derivative_from(self, beta: RealLike, features: Any) -> FloatArray:
        return -self.path.derivative_from(1 - beta, features)

    def derivatives_from(self, beta: RealLike, features: Any) -> tuple[FloatArray, FloatArray]:
        first, second = self.path.derivatives_from(1 - beta, features)
        return -first, second

    def score(self, beta: RealLike, features: Any, slopes: Any) -> Point:
        return self.path.score(1 - beta, features, slopes)  # type: ignore[attr-defined]

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        return self.path.at(1 - beta)
