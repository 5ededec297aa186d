"""Resampling schemes: log weights in, ancestor indices out.

Douc, Cappe and Moulines (2005) compare them. All are unbiased, and all but the multinomial scheme keep the noise of
resampling small where the weights are nearly equal.
"""

import numpy as np
from jaxtyping import Float, Int

from .core import AnyArray, Scalar, Stream, Vector, log_mean_exp, namespace, segment_sum

SCHEMES = ("systematic", "stratified", "multinomial", "residual")


def check_scheme(name: str) -> None:
    """Raise unless `resample` knows the scheme."""
    if name not in SCHEMES:
        raise ValueError(f"`resampling` must be one of {', '.join(SCHEMES)}, got {name!r}.")


def resample(scheme: str, stream: Stream, log_weights: Vector, num: int) -> Int[AnyArray, " num"]:
    """Indices of `num` ancestors in increasing order, drawn in proportion to the weights; none of weight zero.

    All schemes but the residual one invert the cumulative weights at increasing levels: equally spaced with one random
    offset (systematic), with one for each (stratified), or uniform and sorted (multinomial). Residual resampling makes
    the whole number of copies that each weight is due, and draws the rest in proportion to what is left over.
    """
    xp = namespace(log_weights)
    weights = _normalized(log_weights)
    if scheme == "residual":
        copies = xp.floor(num * weights)
        certain = xp.cumsum(copies)
        numbers = xp.arange(num)
        first = xp.searchsorted(certain, numbers, side="right")
        # Not sorted: only the last of the levels are used.
        rest = _at_levels(num * weights - copies, stream.uniform((num,), weights.dtype))
        indices = xp.sort(xp.where(numbers < certain[-1], first, rest))
    else:
        if scheme == "systematic":
            levels = (xp.arange(num) + stream.uniform((), weights.dtype)) / num
        elif scheme == "stratified":
            levels = (xp.arange(num) + stream.uniform((num,), weights.dtype)) / num
        else:
            levels = xp.sort(stream.uniform((num,), weights.dtype))
        indices = _at_levels(weights, levels)
    # Rounding at the end of the sum can name an index of weight zero.
    indices = xp.minimum(indices, weights.size - 1)
    return xp.where(weights[indices] > 0, indices, xp.argmax(weights))


def _normalized(log_weights: Vector) -> Vector:
    """Weights that sum to one; the largest is subtracted first, so that nothing overflows."""
    xp = namespace(log_weights)
    weights = xp.exp(log_weights - xp.max(log_weights))
    return weights / xp.sum(weights)


def _at_levels(weights: Vector, levels: Float[AnyArray, " num"]) -> Int[AnyArray, " num"]:
    """Indices at which the cumulative weights pass the given shares of their total."""
    xp = namespace(weights)
    cumulative = xp.cumsum(weights)
    return xp.searchsorted(cumulative, levels.astype(cumulative.dtype) * cumulative[-1], side="right")


def offspring_variance(scheme: str, log_weights: Vector, ancestors: Int[AnyArray, " n"], num: int) -> Scalar:
    """Sum over families of the variance of their share of `num` offspring: the noise that resampling alone adds.

    A family is what descends from one particle of the first generation, named by `ancestors`. The schemes keep the
    order of the particles, so a family is a run of neighbors: an interval of the cumulative weights.
    """
    xp = namespace(log_weights)
    weights = _normalized(log_weights)

    def by_family(values: AnyArray) -> AnyArray:
        return segment_sum(values, ancestors, weights.size)

    share = by_family(weights)
    if scheme == "multinomial":
        variance = num * share * (1 - share)
    elif scheme == "residual":
        rest = num * weights - xp.floor(num * weights)
        total = xp.maximum(xp.sum(rest), xp.finfo(weights.dtype).tiny)
        variance = total * (by_family(rest) / total) * (1 - by_family(rest) / total)
    elif scheme == "systematic":
        fraction = num * share - xp.floor(num * share)
        variance = fraction * (1 - fraction)
    else:
        end = num * xp.cumsum(share)
        begin = end - num * share
        first, last = xp.ceil(begin) - begin, end - xp.floor(end)
        inside = xp.floor(begin) == xp.floor(end)
        variance = xp.where(inside, (end - begin) * (1 - (end - begin)), first * (1 - first) + last * (1 - last))
    return xp.sum(variance) / num**2


def thinned(
    log_weights: Float[np.ndarray, " n"], num: int
) -> tuple[Int[np.ndarray, " num"], Float[np.ndarray, " num"]]:
    """Return which of weighted draws to keep, `num` of them, and their new log weights.

    Draws with large weights stay as they are. The others stay with a probability in proportion to their weights, and
    get one weight that they share (Fearnhead and Clifford, 2003). No other unbiased choice changes the weights less.
    The mean weight is that of all draws.
    """
    weights = np.exp(log_weights - np.max(log_weights)) if np.max(log_weights) > -np.inf else np.zeros(len(log_weights))
    if np.count_nonzero(weights) <= num:
        kept = np.sort(np.argsort(-weights, kind="stable")[:num])
        return kept, log_weights[kept] + np.log(num / len(weights))
    large, num_large = np.zeros(weights.shape, bool), -1
    while num_large < large.sum():  # until no other weight is above the one that the rest would share
        num_large = int(large.sum())
        share = weights[~large].sum() / (num - num_large)
        large |= weights > share
    levels = np.cumsum(np.where(large, 1.0, weights / share))
    kept = np.searchsorted(levels * (num / levels[-1]), np.arange(num) + np.random.default_rng(0).random())
    new = np.log(np.maximum(weights[kept], share))
    return kept, new + log_mean_exp(log_weights) - log_mean_exp(new)
