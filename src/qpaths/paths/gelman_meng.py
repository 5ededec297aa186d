"""The optimal path of Gelman and Meng between normalized endpoints."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import (
    FloatArray,
    Point,
    PRNGKey,
    RealLike,
    Scalar,
    ScalarLike,
    is_concrete,
    log_power_mean_pair,
    namespace,
    power_mean_pair_shares,
    promote,
    quiet,
)
from ..densities import DensityLike, draw, endpoint
from ..families import ScaledMember, power_mean_member
from .base import AbstractPointwisePath


class GelmanMengPath(AbstractPointwisePath):
    """The shortest path between two normalized densities (Gelman and Meng, 1998, section 4.3).

    With omega = arccos of the Bhattacharyya coefficient, the integral of sqrt(base target),

        sqrt(density) = [sin((1-beta) omega) sqrt(base) + sin(beta omega) sqrt(target)] / sin(omega),

    a great circle: the power mean at q = 1/2 with a sine schedule (sin^2 as the endpoints part), normalized at every
    beta. Its speed is constant and its Fisher-Rao length is `2 omega`, at most pi.

    Between members of one exponential family the coefficient is known, and so are exact draws: the density is a mixture
    of both ends and the member half way between them. Otherwise give `log_coefficient`, for instance from
    `qpaths.families.divergences.log_bhattacharyya`. Endpoints that are not normalized have no such path.

    Args:
        base: A normalized density.
        target: Another one.
        log_coefficient: The log of the Bhattacharyya coefficient; not needed between members of one exponential family.

    Examples:
        >>> import qpaths as qp
        >>> path = GelmanMengPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> round(float(path.length), 3)  # 2 arccos(exp(-1/2))
        1.838
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    log_coefficient: ScalarLike

    def __init__(self, base: Any, target: Any, log_coefficient: ScalarLike | None = None):
        if log_coefficient is None:
            middle = power_mean_member(base, target, 0.5, 0.0)
            if middle is None:
                raise ValueError(
                    "`log_coefficient` must be given unless `base` and `target` are members of one exponential family, "
                    f"got {type(base).__name__} and {type(target).__name__}: it is the log of the integral of "
                    f"sqrt(base target); see `qpaths.families.divergences.log_bhattacharyya`."
                )
            log_coefficient = jnp.minimum(middle.log_mass, 0)
        elif is_concrete(log_coefficient) and not log_coefficient <= 0:
            raise ValueError(
                f"`log_coefficient` must not be positive, got {log_coefficient}: the Bhattacharyya coefficient of two "
                f"normalized densities is at most 1."
            )
        self.base = base
        self.target = target
        self.log_coefficient = log_coefficient

    @property
    def angle(self) -> Scalar:
        """omega, by its tangent: the arccos of a number near 1 has half the digits."""
        (log_coefficient,) = promote(self.log_coefficient)
        xp = namespace(log_coefficient)
        return xp.arctan2(xp.sqrt(-xp.expm1(2 * log_coefficient)), xp.exp(log_coefficient))

    @property
    def length(self) -> Scalar:
        """The Fisher-Rao length, 2 omega: no path between these endpoints is shorter."""
        return 2 * self.angle

    def _weights(self, beta: RealLike) -> tuple[FloatArray, FloatArray]:
        """The coefficients of sqrt(base) and sqrt(target); by sin(x)/x, so that equal endpoints are no exception."""
        angle = self.angle
        base, target = (w * _sine_ratio(w * angle) / _sine_ratio(angle) for w in (1 - beta, beta))
        return base, target

    def _power(self, beta: RealLike) -> tuple[float, FloatArray]:
        """delta = 1/2, and the shift of logit(beta) that makes the weights of the power mean sines."""
        angle = self.angle
        xp = namespace(angle, beta)
        return 0.5, xp.log(_sine_ratio(beta * angle) / _sine_ratio((1 - beta) * angle))

    @quiet()
    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        beta, log_base, log_target = promote(beta, log_base, log_target)
        xp = namespace(beta, self.log_coefficient)
        # The sum of the weights is 1 at the ends, but its logarithm only nearly 0.
        log_sum = xp.where((beta == 0) | (beta == 1), 0, xp.log(sum(self._weights(beta))))
        return log_power_mean_pair(beta, log_base, log_target, *self._power(beta)) + 2 * log_sum

    @quiet()
    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """Twice the logarithmic derivative of the square root of the density."""
        beta, log_base, log_target = promote(beta, log_base, log_target)
        angle = self.angle
        xp = namespace(beta, angle)
        largest = xp.maximum(log_base, log_target)
        empty = largest == -xp.inf
        root_base, root_target = (xp.exp((v - xp.where(empty, 0, largest)) / 2) for v in (log_base, log_target))
        base, target = self._weights(beta)
        slope = xp.cos(beta * angle) * root_target - xp.cos((1 - beta) * angle) * root_base
        root = xp.where(empty, 1, base * root_base + target * root_target)
        return xp.where((beta >= 0) & (beta <= 1), 2 * slope / _sine_ratio(angle) / root, xp.nan)

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        return power_mean_pair_shares(beta, log_base, log_target, *self._power(beta))

    def at(self, beta: ScalarLike) -> DensityLike:
        density = super().at(beta)
        middle = power_mean_member(self.base, self.target, 0.5, 0.0)
        if density is self.base or density is self.target or middle is None:
            return density
        return _Mixture(self, jnp.asarray(beta), middle)


class _Mixture(eqx.Module):
    """A density of the path: `a^2 base + b^2 target + 2 a b sqrt(base target)`, a mixture of three members."""

    path: GelmanMengPath
    beta: Scalar
    middle: ScaledMember

    def log_prob(self, x: Point) -> Scalar:
        return self.path.log_density(self.beta, x)

    def sample(self, key: PRNGKey) -> Point:
        a, b = self.path._weights(self.beta)
        shares = jnp.stack([a * a, b * b, 2 * a * b * jnp.exp(self.middle.log_mass)])
        keys = jax.random.split(key, 4)
        which = jax.random.categorical(keys[3], jnp.log(shares))
        parts = (self.path.base, self.path.target, self.middle)
        points = [draw(part, k, "part") for part, k in zip(parts, keys[:3], strict=True)]
        return jax.tree.map(lambda *leaves: jnp.select([which == 0, which == 1], leaves[:2], leaves[2]), *points)


def _sine_ratio(x: Any) -> Any:
    """sin(x) / x."""
    return namespace(x).sinc(x / np.pi)
