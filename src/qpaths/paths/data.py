"""Data annealing: log prior plus block log-likelihoods, each with its own power."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core import FloatArray, Point, RealLike, ScalarLike, Vector, check_beta, is_concrete, namespace, quiet
from ..densities import Density, DensityLike, as_density, as_pytree, evaluate, sampler_of
from .base import AbstractPath
from .knots import along, as_table, combined, slope_along


class DataFeatures(NamedTuple):
    """Hold what a `DataPath` needs to know about a point."""

    log_base: FloatArray
    log_likelihoods: FloatArray
    """One for each block, in the last axis."""


class DataPath(AbstractPath[DataFeatures]):
    """`log base + sum_k c_k(beta) l_k`, with another power for the log-likelihood `l_k` of each block of data.

    By default the blocks follow one after the other, each in a part `1 / K` of the path (Chopin, 2002). At the betas
    of `ends` a whole number of blocks is in, so a run with `FixedSchedule(path.ends)` has the log evidence after each
    block in `result.stats["log_evidence"]`. Other powers temper all blocks at once, scale the likelihood by its
    power, or take data out: with the posterior as the base, the row `[-1.0]` at the end removes what
    `log_likelihoods` returns.

    Args:
        base: The prior, or any normalized density that can be sampled.
        log_likelihoods: A function of one point that returns a vector with the log-likelihood of each block.
        powers: A row of powers for each knot, at equal distances in beta; the first row must be zero. None lets the
            blocks enter one after the other.

    The densities between must have a finite integral, which nothing checks: removing data from a posterior can leave an
    improper one.

    Examples:
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> y = jnp.array([0.5, 1.5])
        >>> path = DataPath(qp.Normal(0.0, 1.0), lambda mu: -0.5 * (y - mu) ** 2)
        >>> path.ends.tolist()
        [0.0, 0.5, 1.0]
        >>> float(path.log_density(0.5, 0.0) - path.base.log_prob(0.0))  # the first block alone
        -0.125
    """

    base: DensityLike
    log_likelihoods: Callable[[Point], Any]
    powers: Any

    def __init__(self, base: Any, log_likelihoods: Callable[[Point], Vector], powers: Any = None):
        self.base = as_density(base, "base")
        self.log_likelihoods = as_pytree(log_likelihoods)
        if powers is None:
            num = self._num_blocks()
            powers = np.tri(num + 1, num, -1)
        self.powers = as_table("powers", powers)
        if not is_concrete(self.powers):
            return
        if self.powers[0].any():
            raise ValueError(
                f"`powers` must begin with zeros, which is the base, got {self.powers[0]}: put what is always there "
                f"into the base."
            )
        steps = np.diff(self.powers, axis=0)
        turning = (steps > 0).any(axis=0) & (steps < 0).any(axis=0)
        if turning.any():
            block = int(np.argmax(turning))
            raise ValueError(
                f"`powers` must move one way for each block, got {self.powers[:, block]} for block {block}: data that "
                f"come and go again only lengthen the path; sort them."
            )

    def _num_blocks(self) -> int:
        sample = sampler_of(self.base, "base")
        point = jax.eval_shape(sample, jax.eval_shape(lambda: jax.random.key(0)))
        shape = jax.eval_shape(lambda x: jnp.asarray(self.log_likelihoods(x)), point).shape
        if len(shape) != 1 or shape[0] == 0:
            raise ValueError(
                f"`log_likelihoods` must return a vector with a number for each block of data, got shape {shape}: sum "
                f"over the data of each block, and `jnp.stack` the sums."
            )
        return shape[0]

    @property
    def ends(self) -> Vector:
        """The betas at which the rows of `powers` are reached."""
        return np.linspace(0.0, 1.0, len(self.powers))

    @property  # type: ignore[misc]
    def target(self) -> DensityLike:  # type: ignore[override]
        """The density at beta = 1."""
        return Density(jax.tree_util.Partial(type(self)._log_target, self))

    def _log_target(self, x: Point) -> Any:
        return self.log_density_from(1.0, self.features(x))

    def features(self, x: Point) -> DataFeatures:
        log_base = evaluate(self.base, x, "base")
        blocks = jnp.asarray(self.log_likelihoods(x))
        if blocks.shape != np.shape(self.powers)[1:]:
            raise ValueError(
                f"`log_likelihoods` must return a number for each column of `powers`, got shape {blocks.shape} for "
                f"{np.shape(self.powers)[1]} columns."
            )
        # Outside the support of the base a likelihood need not be defined.
        return DataFeatures(log_base, jnp.where(log_base == -jnp.inf, 0, blocks.astype(log_base.dtype)))

    @quiet()
    def log_density_from(self, beta: RealLike, features: DataFeatures) -> FloatArray:
        xp = namespace(beta, features.log_base, features.log_likelihoods)
        beta = xp.asarray(beta)
        gained = combined(along(beta, self.powers), features.log_likelihoods)
        value = xp.where((beta >= 0) & (beta <= 1), features.log_base + gained, xp.nan)
        return value.astype(features.log_base.dtype)

    @quiet()
    def derivative_from(self, beta: RealLike, features: DataFeatures) -> FloatArray:
        """From the right at a knot."""
        xp = namespace(beta, features.log_base, features.log_likelihoods)
        beta = xp.asarray(beta)
        slope = combined(slope_along(beta, self.powers), features.log_likelihoods) + 0 * xp.nan_to_num(
            features.log_base
        )
        return xp.where((beta >= 0) & (beta <= 1), slope, xp.nan).astype(features.log_base.dtype)

    def derivatives_from(self, beta: RealLike, features: DataFeatures) -> tuple[FloatArray, FloatArray]:
        first = self.derivative_from(beta, features)
        return first, namespace(first).where(namespace(first).isfinite(first), 0.0, first)

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        if is_concrete(beta) and beta == 0:
            return self.base
        return Density(jax.tree_util.Partial(type(self).log_density, self, beta))
