"""What an annealing path is: the contract, the base classes of pointwise and parametric paths, and `Reversed`."""

import abc
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from .._checks import check_beta, is_concrete
from .._numerics import log_power_mean_pair, power_mean_pair_derivative, power_mean_pair_shares
from .._types import FloatArray, Point, PRNGKey, RealLike, Scalar, ScalarLike
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


class AbstractPath(eqx.Module, Generic[Features]):
    """A path of unnormalised densities from `base` (beta = 0) to `target` (beta = 1).

    Rules for every path; `qpaths.testing.check_path` checks them.

    - `log_density(0, x)` and `log_density(1, x)` are the log densities of the endpoints, bit for bit.
    - `features(x)` evaluates the user's densities, each once; `log_density_from` and `log_ratio` need only the
      features, so a sampler that carries them re-evaluates nothing when beta (or q) changes. `linearize(x)` is the same
      for samplers that follow gradients.
    - The path is the only owner of weights: `log_ratio(beta, new_beta, features)` is the log incremental weight.
    - `beta` comes first. One point at a time; `jax.vmap` makes a batch.
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
        return jnp.where(new == -jnp.inf, -jnp.inf, new - self.log_density_from(beta, features))

    def linearize(self, x: Point) -> tuple[Features, Any]:
        """The features of `x`, and what `score` needs to give the gradient at every beta."""
        return self.features(x), x

    def waypoint(self, x: Point) -> tuple[Features, Any]:
        """As `linearize`, for a point on a trajectory, of which only the score will be asked."""
        return self.linearize(x)

    def completed(self, x: Point, features: Features) -> Features:
        """The features of a waypoint at which a trajectory ended."""
        return features

    def score(self, beta: ScalarLike, features: Features, slopes: Any) -> Point:
        """Gradient of the log density at `beta` in x, from what `linearize` or `waypoint` returned for a point."""
        return jax.grad(lambda x: self.log_density_from(beta, self.features(x)))(slopes)

    def derivative_from(self, beta: RealLike, features: Features) -> FloatArray:
        """Derivative of the log density in beta, from the features of a point: the integrand of path sampling."""
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return jax.jvp(lambda b: self.log_density_from(b, features), (beta,), (jnp.ones_like(beta),))[1]

    def sample_base(self, key: PRNGKey) -> Point:
        """One exact draw from the base."""
        return draw(self.base, key, "base")


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
        return _partial(self.interpolate, 0, beta, log_base, log_target)

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        """Derivatives of `interpolate` in `log_base` and `log_target`. Elementwise.

        The score of the path is the mix of the endpoints' scores with these weights.
        """
        arguments = beta, log_base, log_target
        return _partial(self.interpolate, 1, *arguments), _partial(self.interpolate, 2, *arguments)

    def features(self, x: Point) -> EndpointValues:
        return EndpointValues(evaluate(self.base, x, "base"), evaluate(self.target, x, "target"))

    @property
    def _guide(self) -> DensityLike | None:
        return getattr(self.target, "guide", None)

    def linearize(self, x: Point) -> tuple[EndpointValues, EndpointSlopes]:
        features, slopes = self.waypoint(x)
        return self.completed(x, features), slopes

    def waypoint(self, x: Point) -> tuple[EndpointValues, EndpointSlopes]:
        guide = self._guide
        steering = self.target if guide is None else guide
        log_base, base_slope = jax.value_and_grad(lambda x: evaluate(self.base, x, "base"))(x)
        log_target, target_slope = jax.value_and_grad(lambda x: evaluate(steering, x, "target"))(x)
        values = EndpointValues(log_base, log_target)
        return values, EndpointSlopes(base_slope, target_slope, None if guide is None else values)

    def completed(self, x: Point, features: EndpointValues) -> EndpointValues:
        return features if self._guide is None else self.features(x)

    def score(self, beta: ScalarLike, features: EndpointValues, slopes: EndpointSlopes) -> Point:
        # The values that come with the slopes, also where the target's own are known: what steers must not depend on
        # whether a trajectory begins or ends at the point.
        base_share, target_share = self.shares(beta, *(features if slopes.values is None else slopes.values))
        return jax.tree.map(lambda b, t: base_share * b + target_share * t, slopes.base, slopes.target)

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
        inside = self._log_prob(beta, features)
        value = jnp.where(beta == 0, features.log_base, jnp.where(beta == 1, features.log_target, inside))
        return jnp.where((beta >= 0) & (beta <= 1), value, jnp.nan)

    def derivative_from(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return jax.jvp(lambda b: self._log_prob(b, features), (beta,), (jnp.ones_like(beta),))[1]

    def _log_prob(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        """Log density of the members at `beta`, broadcast against a batch of points; one member for each beta."""
        coordinates = ",".join(f"n{i}" for i in range(jnp.ndim(features.x) - jnp.ndim(features.log_base)))
        log_prob = jnp.vectorize(lambda b, x: self.member(b).log_prob(x), signature=f"(),({coordinates})->()")
        return log_prob(beta, features.x)


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

    def log_density_from(self, beta: RealLike, features: Any) -> FloatArray:
        return self.path.log_density_from(1 - beta, features)

    def linearize(self, x: Point) -> tuple[Any, Any]:
        return self.path.linearize(x)

    def waypoint(self, x: Point) -> tuple[Any, Any]:
        return self.path.waypoint(x)

    def completed(self, x: Point, features: Any) -> Any:
        return self.path.completed(x, features)

    def score(self, beta: ScalarLike, features: Any, slopes: Any) -> Point:
        return self.path.score(1 - beta, features, slopes)

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        return self.path.at(1 - beta)
