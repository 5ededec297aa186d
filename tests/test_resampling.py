"""Resampling: unbiased, never a particle of weight zero, and as noisy as the error bars assume."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qpaths.resampling import SCHEMES, check_scheme, offspring_variance, resample

LOG_WEIGHTS = jnp.log(jnp.array([0.0, 0.05, 0.3, 0.02, 0.0, 0.13, 0.4, 0.1]))
FAMILIES = jnp.array([0, 0, 0, 3, 3, 3, 6, 7])
NUM = 8


@pytest.mark.parametrize("scheme", SCHEMES)
def test_offspring(scheme, key):
    """Mean offspring and variance of the families' shares over many draws, to five standard deviations."""
    repeats = 20_000
    indices = jax.vmap(lambda k: resample(scheme, k, LOG_WEIGHTS, NUM))(jax.random.split(key, repeats))
    counts = np.asarray(jax.vmap(lambda i: jnp.bincount(i, length=NUM))(indices))
    expected = NUM * np.exp(LOG_WEIGHTS)
    assert (np.abs(counts.mean(0) - expected) <= 5 * counts.std(0) / repeats**0.5 + 1e-12).all()
    assert (counts[:, expected == 0] == 0).all()

    shares = np.stack([counts[:, np.asarray(FAMILIES) == f].sum(1) / NUM for f in np.unique(FAMILIES)], axis=1)
    squared = ((shares - shares.mean(0)) ** 2).sum(1)
    measured, spread = squared.mean(), squared.std() / repeats**0.5
    predicted = offspring_variance(scheme, LOG_WEIGHTS, FAMILIES, NUM)
    assert abs(measured - predicted) < 5 * spread + 1e-12


def test_every_scheme_is_less_noisy_than_multinomial():
    noise = {scheme: float(offspring_variance(scheme, LOG_WEIGHTS, FAMILIES, NUM)) for scheme in SCHEMES}
    assert all(noise[scheme] < noise["multinomial"] for scheme in ("systematic", "stratified", "residual"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_survivor(scheme, key):
    log_weights = jnp.full(50, -jnp.inf).at[17].set(-1e4)
    assert (resample(scheme, key, log_weights, 50) == 17).all()


def test_unknown_scheme():
    with pytest.raises(ValueError, match=r"`resampling` must be one of systematic.*got 'sistematic'"):
        check_scheme("sistematic")
