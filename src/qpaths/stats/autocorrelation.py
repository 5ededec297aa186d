"""What correlated draws of several chains are worth: effective sample size and r-hat."""

import numpy as np
from jaxtyping import Float

from ..core import quiet

Chains = Float[np.ndarray, "chains n"]


@quiet()
def effective_size(values: Chains) -> float:
    """The number of independent draws whose mean is as certain as that of these (Vehtari et al., 2021).

    The sum of autocorrelations ends where a pair of them turns negative, and pairs never rise (Geyer, 1992). Chains
    that disagree count as little. As `arviz.ess(..., method="mean")`, which also splits the chains.
    """
    halves = _split(values)
    num, total = halves.shape[1], halves.size
    within, mixed = _variances(halves)
    if not mixed > 0:
        return float(total)
    correlations = 1 - (within - _autocovariances(halves).mean(axis=0) * num / (num - 1)) / mixed
    correlations[0] = 1.0
    pairs = correlations[0 : 2 * (num // 2) : 2] + correlations[1 : 2 * (num // 2) : 2]
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0] if negative.size else len(pairs)])
    time = max(-1 + 2 * float(np.sum(pairs)), 1 / np.log10(max(total, 10)))
    return min(total / time, total * float(np.log10(total)))


@quiet()
def r_hat(values: Chains) -> float:
    """Spread of all draws over that within halves of chains: 1 where chains agree."""
    within, mixed = _variances(_split(values))
    return float(np.sqrt(mixed / within)) if within > 0 else 1.0


def _split(values: Chains) -> Float[np.ndarray, "halves m"]:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _variances(chains: Chains) -> tuple[float, float]:
    """Mean variance within chains, and an estimate of that of all draws that also sees how the means differ."""
    num = chains.shape[1]
    within = float(np.mean(np.var(chains, axis=1, ddof=1)))
    return within, within * (num - 1) / num + float(np.var(np.mean(chains, axis=1), ddof=1))


def _autocovariances(chains: Chains) -> Float[np.ndarray, "chains n"]:
    """At every lag, by Fourier transforms."""
    num = chains.shape[1]
    centered = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centered, 2 * num, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :num] / num
