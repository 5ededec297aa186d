"""Resampling schemes, all from BlackJAX: weights in, ancestor indices out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from blackjax.smc import resampling as _blackjax
from jax import Array
from jaxtyping import Float, Int

from ._types import PRNGKey

SCHEMES: dict[str, Callable[..., Any]] = {
    "systematic": _blackjax.systematic,
    "stratified": _blackjax.stratified,
    "multinomial": _blackjax.multinomial,
    "residual": _blackjax.residual,
}


def check_scheme(name: str) -> None:
    if name not in SCHEMES:
        raise ValueError(f"`resampling` must be one of {', '.join(SCHEMES)}, got {name!r}.")


def resample(scheme: str, key: PRNGKey, log_weights: Float[Array, " n"], num: int) -> Int[Array, " num"]:
    """Indices of `num` ancestors, drawn in proportion to the weights; one of weight zero is never drawn."""
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    weights = weights / jnp.sum(weights)
    indices = SCHEMES[scheme](key, weights, num)
    if scheme == "residual":  # the others keep the order of the particles
        indices = jnp.sort(indices)
    # A uniform draw that meets a bin edge, or rounding at the end of the sum, can name an index of weight zero.
    return jnp.where(weights[indices] > 0, indices, jnp.argmax(weights))


def offspring_variance(
    scheme: str, log_weights: Float[Array, " n"], ancestors: Int[Array, " n"], num: int
) -> Float[Array, ""]:
    """Sum over families of the variance of their share of `num` offspring: the noise that resampling alone adds.

    A family is what descends from one particle of the first generation, named by `ancestors`. The schemes keep the
    order of the particles, so a family is a run of neighbours: an interval of the cumulative weights.
    """
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    weights = weights / jnp.sum(weights)

    def by_family(values: Array) -> Array:
        return jax.ops.segment_sum(values, ancestors, num_segments=weights.size)

    share = by_family(weights)
    if scheme == "multinomial":
        variance = num * share * (1 - share)
    elif scheme == "residual":
        rest = num * weights - jnp.floor(num * weights)
        total = jnp.maximum(jnp.sum(rest), jnp.finfo(weights.dtype).tiny)
        variance = total * (by_family(rest) / total) * (1 - by_family(rest) / total)
    elif scheme == "systematic":
        fraction = num * share - jnp.floor(num * share)
        variance = fraction * (1 - fraction)
    else:
        end = num * jnp.cumsum(share)
        begin = end - num * share
        first, last = jnp.ceil(begin) - begin, end - jnp.floor(end)
        inside = jnp.floor(begin) == jnp.floor(end)
        variance = jnp.where(inside, (end - begin) * (1 - (end - begin)), first * (1 - first) + last * (1 - last))
    return jnp.sum(variance) / num**2
