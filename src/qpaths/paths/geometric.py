"""The geometric path, the power mean at q = 1."""

import equinox as eqx

from ..core import ScalarLike
from ..densities import DensityLike, endpoint
from .q_path import AbstractPowerMeanPath, QPath


class GeometricPath(AbstractPowerMeanPath):
    """`base^(1-beta) target^beta`: tempering of the likelihood when the base is the prior (paper, eq. geo_path).

    The usual path, and the q-path at q = 1. A constant factor in the target does not change it. Where only one endpoint
    has mass, nothing is left for 0 < beta < 1.

    Args:
        base: A density, or a function of one point that returns its log density.
        target: Another one, normalized or not.

    Examples:
        >>> path = GeometricPath(lambda x: -x, lambda x: -3 * x)
        >>> float(path.log_density(0.5, 1.0))
        -2.0
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    @property
    def power(self) -> tuple[float, float]:
        return 0.0, 0.0

    delta = 0.0

    def with_delta(self, delta: ScalarLike) -> QPath:
        return QPath(self.base, self.target, delta=delta)
