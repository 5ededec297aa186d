"""Effective sample size and r-hat: those of ArviZ, and those of a process whose autocorrelation is known."""

import arviz
import numpy as np
import pytest

from qpaths.stats.standard_errors import effective_size, r_hat


def _chains(correlation, num, seed=0):
    rng = np.random.default_rng(seed)
    values = np.zeros((4, num))
    noise = rng.standard_normal((4, num)) * (1 - correlation**2) ** 0.5
    values[:, 0] = rng.standard_normal(4)
    for i in range(1, num):
        values[:, i] = correlation * values[:, i - 1] + noise[:, i]
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.7, -0.5, 0.95])
def test_as_arviz(correlation):
    values = _chains(correlation, 1000)
    # ArviZ adds half a pair at the end, which matters where draws are worth more than independent ones.
    tolerance = 0.02 if correlation >= 0 else 0.2
    np.testing.assert_allclose(effective_size(values), arviz.ess(values, method="mean"), rtol=tolerance)
    np.testing.assert_allclose(r_hat(values), arviz.rhat(values, method="split"), rtol=1e-6)


def test_autoregression_has_its_known_worth():
    values = _chains(0.8, 20_000)
    np.testing.assert_allclose(effective_size(values), values.size * 0.2 / 1.8, rtol=0.1)


def test_chains_that_disagree_are_worth_little():
    values = _chains(0.0, 500) + 3 * np.arange(4)[:, None]
    assert effective_size(values) < 20
    assert r_hat(values) > 2
    assert effective_size(np.ones((2, 100))) == 200
    assert r_hat(np.ones((2, 100))) == 1
