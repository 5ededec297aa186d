"""Spline paths: exponents of base and target that move along knots."""

from typing import Any

import equinox as eqx
import numpy as np

from ..core import FloatArray, RealLike, is_concrete, namespace, promote, quiet
from ..densities import DensityLike, endpoint
from .base import AbstractPointwisePath
from .knots import along, as_table, combined, slope_along


class SplinePath(AbstractPointwisePath):
    """`base^a(beta) target^c(beta)`, with (a, c) linear between knots from (1, 0) to (0, 1) (Syed et al., 2021).

    The geometric path is the straight line `a = 1 - beta, c = beta`. Between narrow ends that are far apart a detour
    through small exponents is much shorter: both ends become wide before they meet. `qpaths.paths.learn` finds knots.

    Args:
        base: A density, or a function of one point that returns its log density.
        target: Another one, normalized or not.
        knots: Rows (a, c), at equal distances in beta. None of them may be negative, and no row all zero: the density
            there would have no end. Exponents whose sum is small need ends that both have finite tails.

    Examples:
        >>> path = SplinePath(lambda x: -x, lambda x: -3.0 * x, knots=[(1.0, 0.0), (0.1, 0.1), (0.0, 1.0)])
        >>> round(float(path.log_density(0.5, 1.0)), 3)
        -0.4
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    knots: Any = eqx.field(converter=lambda value: as_table("knots", value, 2))

    def __check_init__(self) -> None:
        if not is_concrete(self.knots):
            return
        knots = np.asarray(self.knots)
        if tuple(knots[0]) != (1, 0) or tuple(knots[-1]) != (0, 1):
            raise ValueError(
                f"`knots` must run from (1, 0), the base, to (0, 1), the target, got {tuple(knots[0].tolist())} and "
                f"{tuple(knots[-1].tolist())}."
            )
        wrong = (knots < 0).any(axis=1) | (knots.sum(axis=1) <= 0)
        if wrong.any():
            raise ValueError(
                f"`knots` must be non-negative exponents that are not both 0, got {tuple(knots[wrong][0].tolist())} in "
                f"row {int(np.argmax(wrong))}: elsewhere the density may not be integrable."
            )

    def _exponents(self, beta: RealLike) -> tuple[FloatArray, FloatArray]:
        table = along(beta, self.knots)
        return table[..., 0], table[..., 1]

    @quiet()
    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        beta, log_base, log_target = promote(beta, log_base, log_target)
        xp, dtype = namespace(beta, log_base), namespace(log_base).result_type(log_base)
        a, c = self._exponents(beta)
        mean = xp.where(a == 0, 0, a * log_base) + xp.where(c == 0, 0, c * log_target)
        mean = xp.where(beta == 0, log_base, xp.where(beta == 1, log_target, mean))
        return xp.where((beta >= 0) & (beta <= 1), mean, xp.nan).astype(dtype)

    @quiet()
    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """From the right at a knot."""
        beta, log_base, log_target = promote(beta, log_base, log_target)
        xp, dtype = namespace(beta, log_base), namespace(log_base).result_type(log_base)
        values = xp.stack(xp.broadcast_arrays(log_base, log_target), axis=-1)
        slope = combined(slope_along(beta, self.knots), values)
        slope = xp.where(self.interpolate(beta, log_base, log_target) == -xp.inf, 0, slope)
        return xp.where((beta >= 0) & (beta <= 1), slope, xp.nan).astype(dtype)

    def derivatives_from(self, beta: RealLike, features: Any) -> tuple[FloatArray, FloatArray]:
        first = self.derivative(beta, *features)
        return first, 0 * first

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        """The exponents themselves, whose sum need not be 1."""
        beta, log_base, log_target = promote(beta, log_base, log_target)
        nothing = 0 * namespace(log_base).nan_to_num(log_base)
        a, c = self._exponents(beta)
        return a + nothing, c + nothing
