"""Resampling: unbiased, never a particle of weight zero, and as noisy as the error bars assume."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qpaths.core.arrays import stream_of
from qpaths.resampling import SCHEMES, check_scheme, offspring_variance, resample

with np.errstate(divide="ignore"):
    LOG_WEIGHTS = np.log([0.0, 0.05, 0.3, 0.02, 0.0, 0.13, 0.4, 0.1])
FAMILIES = np.array([0, 0, 0, 3, 3, 3, 6, 7])
NUM = 8


def _indices(scheme, key, repeats, traced):
    if not traced:
        stream = stream_of(key, host=True)
        return np.stack([resample(scheme, stream.fold(i), LOG_WEIGHTS, NUM) for i in range(repeats)])
    log_weights = jnp.asarray(LOG_WEIGHTS)
    one = jax.jit(jax.vmap(lambda k: resample(scheme, stream_of(k, host=False), log_weights, NUM)))
    return np.asarray(one(jax.random.split(key, repeats)))


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_offspring(scheme, traced, key):
    """Mean offspring and variance of the families' shares over many draws, to five standard deviations."""
    repeats = 20_000 if traced else 5_000
    indices = _indices(scheme, key, repeats, traced)
    assert (np.diff(indices, axis=1) >= 0).all()  # copies are neighbors
    counts = np.stack([(indices == i).sum(1) for i in range(NUM)], axis=1)
    expected = NUM * np.exp(LOG_WEIGHTS)
    assert (np.abs(counts.mean(0) - expected) <= 5 * counts.std(0) / repeats**0.5 + 1e-12).all()
    assert (counts[:, expected == 0] == 0).all()

    shares = np.stack([counts[:, f == FAMILIES].sum(1) / NUM for f in np.unique(FAMILIES)], axis=1)
    squared = ((shares - shares.mean(0)) ** 2).sum(1)
    measured, spread = squared.mean(), squared.std() / repeats**0.5
    xp = jnp if traced else np
    predicted = offspring_variance(scheme, xp.asarray(LOG_WEIGHTS), xp.asarray(FAMILIES), NUM)
    assert abs(measured - predicted) < 5 * spread + 1e-12


def test_every_scheme_is_less_noisy_than_multinomial():
    noise = {scheme: float(offspring_variance(scheme, LOG_WEIGHTS, FAMILIES, NUM)) for scheme in SCHEMES}
    assert all(noise[scheme] < noise["multinomial"] for scheme in ("systematic", "stratified", "residual"))


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_survivor(scheme, xp, key):
    log_weights = xp.where(xp.arange(50) == 17, -1e4, -xp.inf)
    assert (resample(scheme, stream_of(key, host=xp is np), log_weights, 50) == 17).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fewer_offspring_than_particles(scheme, key):
    """As waste-free runs draw them."""
    indices = resample(scheme, stream_of(key, host=True), LOG_WEIGHTS, 3)
    assert indices.shape == (3,)
    assert np.isfinite(LOG_WEIGHTS[indices]).all()


def test_unknown_scheme():
    with pytest.raises(ValueError, match=r"`resampling` must be one of systematic.*got 'sistematic'"):
        check_scheme("sistematic")
