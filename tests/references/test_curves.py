"""Triangular maps fitted to draws: the terms that are there are found, and no others."""

import time

import numpy as np
import pytest

from qpaths.references.curves import fit_map, slopes_of
from qpaths.remarks import Refusal

NUM = 2048


def funnel(rng):
    first = 3 * rng.standard_normal(NUM)
    rest = np.exp(0.5 * first)[:, None] * rng.standard_normal((NUM, 5))
    return np.column_stack([rest[:, :3], first, rest[:, 3:]])


def twisted(rng):
    first = 2 * rng.standard_normal((NUM, 3))
    return np.column_stack([first**2 / 2 + rng.standard_normal((NUM, 3)), first])


@pytest.mark.parametrize(("make", "drivers"), [(funnel, {3}), (twisted, {3, 4, 5})])
def test_curved_draws_become_plain_noise(make, drivers):
    draws = make(np.random.default_rng(0))
    component = fit_map(draws).fitted
    fitted = component.map
    conditional, permute, _ = fitted.layers
    assert set(permute.order[conditional.features[0].bending()].tolist()) == drivers
    noise = fitted.inverse(draws).noise * ((component.df - 2) / component.df) ** 0.5
    np.testing.assert_allclose(np.cov(noise.T), np.eye(draws.shape[1]), atol=0.1)
    assert abs(np.corrcoef(np.log(np.abs(noise[:, 1])), noise[:, 0])[0, 1]) < 0.1


def test_the_law_of_a_funnel_is_right_where_the_draws_end():
    """Draws without the neck: the log scale still has slope one half, so that the map reaches into it."""
    draws = funnel(np.random.default_rng(1))
    fitted = fit_map(draws[draws[:, 3] > -2]).fitted.map
    _, permute, scale = fitted.layers
    assert permute.order[0] == 3
    slopes = slopes_of(fitted)[1:, 0] / scale.scale[3]
    np.testing.assert_allclose(slopes, 0.5, atol=0.05)


def test_normal_draws_get_no_curves():
    rng = np.random.default_rng(2)
    factor = np.linalg.cholesky(np.full((12, 12), 0.5) + 0.5 * np.eye(12))
    for _ in range(5):
        assert fit_map(rng.standard_normal((600, 12)) @ factor.T).fitted.map.is_linear


def test_few_draws_are_refused():
    assert fit_map(np.random.default_rng(3).standard_normal((10, 8))).refusal is Refusal.TOO_FEW


def test_fits_in_a_second():
    draws = np.random.default_rng(4).standard_normal((4096, 30))
    draws[:, 1:] *= np.exp(0.5 * draws[:, :1])
    start = time.process_time()
    assert not fit_map(draws).fitted.map.is_linear
    assert time.process_time() - start < 5  # one on a quiet machine
