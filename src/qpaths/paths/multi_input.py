"""A path through several densities."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import FloatArray, Point, RealLike, ScalarLike, check_beta, is_concrete
from ..deformed import log_power_mean, log_q_of_exp
from ..densities import Density, DensityLike, as_density, evaluate
from .base import AbstractPath, inside
from .data import DataFeatures
from .knots import along, as_table, combined, slope_along


class MultiInputPath(AbstractPath[DataFeatures]):
    """The power mean of several densities with weights that move (paper, eq. abstract_mean, with N inputs).

    By default the path passes through the inputs in turn. Rows of `weights` between may mix any of them, so that an
    approximation of the target that is cheap to reach, or two, can help on the way.

    Args:
        densities: The base first, the target last, and what helps between them. Only the base must be normalized.
        q: The order of the mean: 1 is geometric, 0 the mixture.
        weights: A row for each knot, at equal distances in beta, with a weight for each density: not negative, with a
            positive sum. The first row must have the base alone, the last the target.

    Examples:
        >>> path = MultiInputPath([lambda x: -x, lambda x: -2.0 * x, lambda x: -6.0 * x])
        >>> [float(path.log_density(beta, 1.0)) for beta in (0.0, 0.25, 0.5, 1.0)]
        [-1.0, -1.5, -2.0, -6.0]
    """

    densities: tuple[DensityLike, ...]
    q: ScalarLike
    weights: Any

    def __init__(self, densities: Sequence[Any], q: ScalarLike = 1.0, weights: Any = None):
        if len(densities) < 2:
            raise ValueError(f"`densities` must have two or more, got {len(densities)}: the base and the target.")
        self.densities = tuple(as_density(one, f"densities[{i}]") for i, one in enumerate(densities))
        self.q = q
        weights = np.eye(len(densities)) if weights is None else weights
        self.weights = as_table("weights", weights, len(densities))
        if not is_concrete(self.weights):
            return
        ends = np.flatnonzero(self.weights[0]), np.flatnonzero(self.weights[-1])
        if ends[0].tolist() != [0] or ends[1].tolist() != [len(densities) - 1]:
            raise ValueError(
                f"`weights` must begin with the first density alone and end with the last, got {self.weights[0]} and "
                f"{self.weights[-1]}."
            )
        if (self.weights < 0).any() or (self.weights.sum(axis=1) <= 0).any():
            raise ValueError(f"`weights` must not be negative, and have positive sums, got {self.weights}.")

    @property  # type: ignore[misc]
    def base(self) -> DensityLike:  # type: ignore[override]
        """The first density."""
        return self.densities[0]

    @property  # type: ignore[misc]
    def target(self) -> DensityLike:  # type: ignore[override]
        """The last density."""
        return self.densities[-1]

    def features(self, x: Point) -> DataFeatures:
        values = [evaluate(one, x, f"densities[{i}]") for i, one in enumerate(self.densities)]
        return DataFeatures(values[0], jnp.stack(values))

    def log_density_from(self, beta: RealLike, features: DataFeatures) -> FloatArray:
        beta = jnp.asarray(beta)
        values = jnp.asarray(features.log_likelihoods)
        mean = self._mean(_within(beta), values)
        mean = jnp.where(beta == 0, values[..., 0], jnp.where(beta == 1, values[..., -1], mean))
        return inside(beta, mean)

    def derivative_from(self, beta: RealLike, features: DataFeatures) -> FloatArray:
        """`sum_i w_i' log_q(u_i / mean)` over the sum of the weights; from the right at a knot."""
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        values = jnp.asarray(features.log_likelihoods)
        within, mean = _within(beta), self.log_density_from(beta, features)
        table = jnp.asarray(self.weights, values.dtype)
        empty = mean == -jnp.inf
        gains = log_q_of_exp(values - jnp.where(empty, 0, mean)[..., None], jnp.asarray(1 - self.q, values.dtype))
        slope = combined(slope_along(within, table), gains) / jnp.sum(along(within, table), axis=-1)
        return inside(beta, jnp.where(empty, 0, slope))

    def derivatives_from(self, beta: RealLike, features: DataFeatures) -> tuple[FloatArray, FloatArray]:
        """The second is `-first (delta first + 2 W' / W)`, with W the sum of the weights."""
        first, within = self.derivative_from(beta, features), _within(jnp.asarray(beta))
        table = jnp.asarray(self.weights, first.dtype)
        growth = jnp.sum(slope_along(within, table), axis=-1) / jnp.sum(along(within, table), axis=-1)
        return first, -first * ((1 - self.q) * first + 2 * growth)

    def _mean(self, beta: Array, values: Array) -> Array:
        values, weights = jnp.broadcast_arrays(values, along(beta, jnp.asarray(self.weights, values.dtype)))
        return log_power_mean(values, weights, self.q)

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        if is_concrete(beta) and beta in (0, 1):
            return self.target if beta else self.base
        return Density(jax.tree_util.Partial(type(self).log_density, self, beta))


def _within(beta: Array) -> Array:
    """A beta in [0, 1] in place of one outside."""
    return jnp.where((beta >= 0) & (beta <= 1), beta, 0.5)
