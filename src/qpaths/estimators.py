"""Estimators: arrays in, log evidence and its standard error out. Nothing here samples."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from ._numerics import log_mean_exp
from ._types import Scalar


def importance_log_evidence(log_weights: Float[Array, " n"]) -> tuple[Scalar, Scalar]:
    """Log of the mean weight of independent chains, and its standard error.

    The delta method, which a run of few good weights would make too small: `dominance` is added to its variance.
    """
    log_mean = log_mean_exp(log_weights)
    relative = jnp.exp(log_weights - jnp.where(jnp.isfinite(log_mean), log_mean, 0.0))
    variance = jnp.var(relative, ddof=1) / log_weights.shape[0]
    return log_mean, jnp.sqrt(variance + dominance(log_weights))


def dominance(log_weights: Float[Array, " n"]) -> Scalar:
    """Square of what the log of the mean weight would lose without the heaviest particle, beyond the first order.

    Nothing where many particles share the weight: the first order is part of the relative variance. That variance
    cannot exceed 1; but where one particle has all the weight, the log of the mean is wrong by as much as the others
    lie below.
    """
    heaviest = jnp.max(jax.nn.softmax(log_weights))
    rest = jnp.maximum(1.0 - heaviest, jnp.finfo(heaviest.dtype).tiny)
    return jnp.square(jnp.log(rest) + heaviest)


def genealogy_se(
    log_weights: Float[Array, " n"], ancestors: Int[Array, " n"], resampling_variance: Scalar, stage_variance: Scalar
) -> Scalar:
    """Standard error of log Z-hat from the genealogy of one run of sequential Monte Carlo.

    `ancestors` names the particle of the first generation that each final particle descends from. The idea is that of
    Chan and Lai (2013) and of Lee and Whiteley (2018): descendants of one ancestor stay correlated when the moves do
    not mix, and the spread of the final weight over the N families shows it. Their estimator subtracts the spread that
    multinomial resampling causes by itself; `resampling_variance` is that spread for the scheme in use, summed over the
    resampling steps, so that the better schemes get the smaller error they deserve. `stage_variance`, the sum over the
    steps of the relative variance of the mean weight, is what is left when the moves mix perfectly, and so a floor.
    """
    num = log_weights.shape[0]
    per_family = jax.ops.segment_sum(jax.nn.softmax(log_weights), ancestors, num_segments=num)
    spread = jnp.sum(jnp.square(per_family)) - 1.0 / num - resampling_variance
    # 1 - spread estimates Z^2 / E[Z-hat^2], which is exp(-variance) for a log-normal Z-hat.
    variance = -jnp.log1p(-jnp.clip(spread, 0.0, 1.0 - 1.0 / num**2))
    return jnp.sqrt(jnp.maximum(variance, stage_variance))
