"""A q that changes along the path: the paper's future work, and one thing that the atlas compares."""

from typing import Any

import equinox as eqx

from qpaths.core import (
    FloatArray,
    RealLike,
    log_power_mean_pair,
    namespace,
    power_mean_pair_derivative,
    power_mean_pair_shares,
    quiet,
)
from qpaths.densities import DensityLike, endpoint
from qpaths.paths import AbstractPointwisePath, EndpointValues

_SMALL = 1e-4
"""Exponents below which the derivative in delta comes from its series."""


class VaryingQPath(AbstractPointwisePath):
    """Power means of the endpoints whose order goes from `1 - first` at the base to `1 - last` at the target.

    `delta = 1 - q` is linear in beta. At each beta the density is that of the q-path of that order, so a path with
    `first == last` is a `QPath`.
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    first: float
    last: float

    def delta_at(self, beta: RealLike) -> Any:
        """1 - q at a beta."""
        return self.first + beta * (self.last - self.first)

    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        return log_power_mean_pair(beta, log_base, log_target, self.delta_at(beta))

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        return power_mean_pair_shares(beta, log_base, log_target, self.delta_at(beta))

    @quiet()
    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """That of the q-path of the order at beta, and what the change of the order adds.

        Let a be the share of the target, m the log mean and r the log ratio. The derivative of m in delta is
        `(a r - (m - log_base)) / delta`, and `beta (1 - beta) r^2 / 2` for small `delta r`.
        """
        delta = self.delta_at(beta)
        xp = namespace(log_base, log_target, delta)
        ratio = log_target - log_base
        mean = log_power_mean_pair(beta, log_base, log_target, delta)
        share = power_mean_pair_shares(beta, log_base, log_target, delta)[1]
        small = xp.abs(delta * ratio) < _SMALL
        series = 0.5 * beta * (1 - beta) * ratio**2
        in_delta = xp.where(small, series, (share * ratio - (mean - log_base)) / xp.where(delta == 0, 1.0, delta))
        inner = (beta > 0) & (beta < 1)  # at the ends the order does not matter
        in_beta = power_mean_pair_derivative(beta, log_base, log_target, delta)
        return xp.where(inner, in_beta + (self.last - self.first) * in_delta, in_beta)

    def derivatives_from(self, beta: RealLike, features: EndpointValues) -> tuple[FloatArray, FloatArray]:
        """The second derivative is a difference quotient: only standard errors of the lag depend on it."""
        xp = namespace(beta, *features)
        low, high = xp.maximum(beta - 1e-5, 0.0), xp.minimum(beta + 1e-5, 1.0)
        slope = (self.derivative(high, *features) - self.derivative(low, *features)) / (high - low)
        return self.derivative(beta, *features), slope
