"""The q-path with an order that moves along the path."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..core import FloatArray, RealLike, log_power_mean_pair, power_mean_pair_shares
from ..densities import DensityLike, endpoint
from .base import AbstractPointwisePath
from .knots import along, as_table


class VaryingQPath(AbstractPointwisePath):
    """The power mean of order `delta(beta) = 1 - q(beta)`, linear between knots at equal distances in beta.

    A q that suits the first steps from the base need not suit the last ones: wide at first, geometric at the end. With
    equal knots this is `QPath`.

    Args:
        base: A density, or a function of one point that returns its log density.
        target: Another one. Its scale matters, as for `QPath`.
        deltas: `1 - q` at the knots.

    Examples:
        >>> import qpaths as qp
        >>> path = VaryingQPath(lambda x: -x, lambda x: -3.0 * x, deltas=[0.5, 0.5, 0.0])
        >>> same = qp.QPath(lambda x: -x, lambda x: -3.0 * x, q=0.5)
        >>> float(path.log_density(0.25, 1.0)) == float(same.log_density(0.25, 1.0))
        True
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    deltas: Any = eqx.field(converter=lambda value: as_table("deltas", np.reshape(value, (-1, 1)), 1)[:, 0])

    def _delta(self, beta: RealLike) -> FloatArray:
        return along(beta, self.deltas[:, None])[..., 0]

    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        return log_power_mean_pair(beta, log_base, log_target, self._delta(beta))

    def derivatives_from(self, beta: RealLike, features: Any) -> tuple[FloatArray, FloatArray]:
        """The second by differences of the first, inside the part between two knots in which beta lies."""
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        step = float(jnp.finfo(beta.dtype).eps) ** (1 / 3)
        place = beta * (len(self.deltas) - 1)
        step = jnp.where((place - jnp.floor(place) < 0.5) & (beta < 1), step, -step)
        first, near, far = (self.derivative(beta + k * step, *features) for k in range(3))
        return first, (4 * near - 3 * first - far) / (2 * step)

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        return power_mean_pair_shares(beta, log_base, log_target, self._delta(beta))
