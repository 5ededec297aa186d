"""The q-path: power means of the endpoints, and its member q = 0, the mixture."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import (
    FloatArray,
    LogDensity,
    RealLike,
    Scalar,
    ScalarLike,
    check_beta,
    check_not_nan,
    is_concrete,
    log_power_mean_pair,
    namespace,
    power_mean_pair_derivative,
    power_mean_pair_derivatives,
    power_mean_pair_shares,
)
from ..densities import DensityLike, as_density, endpoint
from ..families import power_mean_member, to_subtractive
from .base import AbstractPointwisePath, EndpointValues


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
        return power_mean_member(self.base, self.target, self._weight(beta), self.power[0]) or density

    def free_energy(self, beta: ScalarLike, log_z: ScalarLike | None = None) -> tuple[Scalar, Scalar]:
        """theta and psi_q with which the normalized path is `base exp_q(theta T(x) - psi_q)`, T = log_q(target / base).

        The q-path as a q-exponential family in its own right (paper, appendix B): `theta = beta Z^(-delta)` and
        `psi_q = -log_q(1 / Z)`, with Z the normalizing constant of the path at `beta`.

        Args:
            beta: In [0, 1].
            log_z: Log Z at `beta`. It is known, and may be left out, between two members of one family of this order.
        """
        check_beta(beta)
        if log_z is None:
            log_z = self._log_z(beta)
        delta, _ = self.power
        _, psi = to_subtractive((), log_z, delta=delta)
        return jnp.exp(jax.nn.log_sigmoid(self._log_odds(beta)) - delta * log_z), psi

    def _weight(self, beta: ScalarLike) -> ScalarLike:
        """The weight of the target at `beta`, which `log_scale` shifts."""
        shift = self.power[1]
        return beta if is_concrete(shift) and shift == 0 else jax.nn.sigmoid(self._log_odds(beta))

    def _log_odds(self, beta: ScalarLike) -> Scalar:
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return jnp.log(beta) - jnp.log1p(-beta) + self.power[1]

    def _log_z(self, beta: ScalarLike) -> ScalarLike:
        member = power_mean_member(self.base, self.target, self._weight(beta), self.power[0])
        if member is None:
            raise ValueError(
                "`log_z` must be given, got None: it is known only between two members of one family of the order of "
                "the path, q >= 1. Take the log evidence of a run to `path.at(beta)`."
            )
        return member.log_mass


class QPath(AbstractPowerMeanPath):
    """The power mean `[(1-beta) base^(1-q) + beta target^(1-q)]^(1/(1-q))` (paper, eq. qpath_mix_form).

    Args:
        base: A density, or a function of one point.
        target: Another one.
        q: Any real number or infinity: q = 1 is the geometric path, q = 0 the mixture, q = inf the minimum and q = -inf
            the maximum of the endpoints.
        delta: `1 - q`, in place of q where q is so close to 1 that the difference would lose digits.
        log_scale: Shifts `logit(beta)` by `delta log_scale`; see below. It leaves the endpoints as they are.

    Unlike the geometric path, a q-path depends on the scale of the target. Multiplying the target by `exp(c)` gives the
    same family of densities with `logit(beta)` shifted by `delta c`. `log_scale = -log Z` anneals as if the target were
    normalized.

    Values of q much below 1 make the path a mixture, which local moves cannot follow: 1 - q from 0.0001 to 0.01 is the
    usual range.

    Examples:
        >>> path = QPath(lambda x: 0.0 * x, lambda x: x, q=0.999)
        >>> round(float(path.log_density(0.5, 2.0)), 3)  # close to the geometric mean, which is 1
        1.0
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    delta: ScalarLike
    log_scale: ScalarLike

    def __init__(
        self,
        base: DensityLike | LogDensity,
        target: DensityLike | LogDensity,
        *,
        q: ScalarLike | None = None,
        delta: ScalarLike | None = None,
        log_scale: ScalarLike = 0.0,
    ):
        if (q is None) == (delta is None):
            given = "neither" if q is None else f"q = {q} and delta = {delta}"
            raise ValueError(f"give exactly one of `q` and `delta` (delta = 1 - q), got {given}.")
        if delta is None:
            check_not_nan("q", q)
            delta = 1 - q  # type: ignore[operator]
        check_not_nan("delta", delta)
        check_not_nan("log_scale", log_scale)
        if is_concrete((delta, log_scale)) and np.isinf(delta) and log_scale != 0:
            raise ValueError(
                f"`log_scale` must be 0 when q is infinite, got {log_scale}: a minimum or maximum has no weights."
            )
        self.base = as_density(base, "base")
        self.target = as_density(target, "target")
        self.delta = delta
        self.log_scale = log_scale

    @staticmethod
    def from_alpha(
        base: DensityLike | LogDensity,
        target: DensityLike | LogDensity,
        alpha: ScalarLike,
        *,
        log_scale: ScalarLike = 0.0,
    ) -> "QPath":
        """The path of Amari's alpha-integration, `alpha = 2q - 1`: the argmin of the mixed alpha-divergences."""
        check_not_nan("alpha", alpha)
        return QPath(base, target, delta=(1 - alpha) / 2, log_scale=log_scale)

    def with_delta(self, delta: ScalarLike) -> "QPath":
        """The q-path of another order between the same endpoints, with the same scale."""
        return QPath(self.base, self.target, delta=delta, log_scale=self.log_scale)

    @property
    def q(self) -> ScalarLike:
        """The order; `delta` has more digits where it is near 1."""
        return 1 - self.delta

    @property
    def alpha(self) -> ScalarLike:
        """Amari's alpha, `2q - 1`."""
        return 1 - 2 * self.delta

    @property
    def power(self) -> tuple[ScalarLike, ScalarLike]:
        """`delta`, and the shift of logit(beta) by `log_scale`."""
        if is_concrete(self.log_scale) and not np.asarray(self.log_scale).any():
            return self.delta, 0.0  # delta may be infinite
        return self.delta, namespace(self.delta, self.log_scale).where(
            self.log_scale == 0, 0.0, self.delta * self.log_scale
        )


class ArithmeticPath(AbstractPowerMeanPath):
    """The mixture `(1-beta) base + beta target`, the q-path at q = 0 (paper, section 3).

    Every point with mass at one endpoint has mass for 0 < beta < 1. It depends on the scale of the target; use
    `QPath(base, target, q=0, log_scale=...)` to change that scale.

    Args:
        base: A density, or a function of one point that returns its log density.
        target: Another one, normalized or not.

    Particles that move locally cannot follow it between ends that are far apart: mass vanishes on one side and appears
    on the other.

    Examples:
        >>> path = ArithmeticPath(lambda x: 0.0 * x, lambda x: x)
        >>> round(float(path.log_density(0.5, 2.0)), 3)  # log of (1 + exp(2)) / 2
        1.434
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    @property
    def power(self) -> tuple[float, float]:
        return 1.0, 0.0

    delta = 1.0

    def with_delta(self, delta: ScalarLike) -> QPath:
        return QPath(self.base, self.target, delta=delta)
