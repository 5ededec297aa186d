"""The paper's rules for q from weights: Algorithm 1 with all its inputs and outputs, and the largest weight."""

import jax
import numpy as np
import pytest

from qpaths.core.numerics import log_ess, log_power_mean_pair
from qpaths.search import ess_heuristic, rho_rule

RATIOS = -np.square(np.random.default_rng(0).normal(size=400) - 3)
WALL = np.where(np.arange(1000) < 320, np.linspace(-3, 0, 1000), -np.inf)
"""A target with a hard bound: 32 % of the draws have mass."""


def share(log_weights, beta, delta):
    weights = log_power_mean_pair(beta, np.zeros_like(log_weights), log_weights, delta)
    return float(np.exp(log_ess(weights))) / log_weights.size


def test_both_beta_and_q_come_back_and_reach_the_wanted_share(key):
    found = ess_heuristic(RATIOS, key=key, num_restarts=5)
    assert share(RATIOS, found.beta, found.delta) == pytest.approx(0.5, abs=1e-3)
    assert found.loss == pytest.approx(np.square(share(RATIOS, found.beta, found.delta) - 0.5), abs=1e-12)
    assert found.q == 1 - found.delta
    assert 0 < found.beta <= 1
    other = ess_heuristic(RATIOS, key=key, num_restarts=5, target_ess=0.8)
    assert share(RATIOS, other.beta, other.delta) == pytest.approx(0.8, abs=1e-3)


def test_restarts_lie_around_rho_with_the_given_spread(key):
    """Without spread every restart starts at rho and ends at one point; with spread the starts decide."""
    keys = jax.random.split(key, 8)
    same = [ess_heuristic(RATIOS, key=k, num_restarts=1, spread=0.0).delta for k in keys]
    assert len(set(same)) == 1
    moved = np.log10([ess_heuristic(RATIOS, key=k, num_restarts=1, spread=0.5).delta for k in keys])
    assert np.std(moved) > 0.05


def test_more_restarts_are_no_worse(key):
    losses = [ess_heuristic(RATIOS, key=key, num_restarts=num, first_beta=1e-3).loss for num in (1, 10)]
    assert losses[1] <= losses[0]


def test_draws_without_mass_keep_their_weight_for_q_below_one(key):
    """At the first beta 0.3 the share of all draws, those of zero mass included, must be a half."""
    found = ess_heuristic(WALL, key=key, num_restarts=3, first_beta=0.3)
    assert share(WALL, 0.3, found.delta) == pytest.approx(0.5, abs=1e-6)
    finite = WALL[np.isfinite(WALL)]  # what is found where they are dropped
    wrong = ess_heuristic(finite, key=key, num_restarts=3, first_beta=0.3)
    assert abs(share(WALL, 0.3, wrong.delta) - 0.5) > 0.05


def test_the_rule_of_the_largest_weight():
    assert rho_rule([-3.0, 2.0, -40.0, -np.inf]) == 1 / 40
    assert rho_rule([0.1, -0.2]) == 1.0  # nothing can overflow, and q is not negative


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda key: rho_rule([1.0, np.nan]), "`log_weights` must be finite or -inf, got nan at 1"),
        (lambda key: rho_rule([1.0, -np.inf]), "must have two finite values"),
        (lambda key: ess_heuristic(RATIOS, key=key, target_ess=1.0), r"`target_ess` must lie in \(0, 1\), got 1.0"),
        (lambda key: ess_heuristic(RATIOS, key=key, num_restarts=0), "`num_restarts` must be at least 1, got 0"),
        (lambda key: ess_heuristic(RATIOS, key=key, spread=-1.0), "`spread` must not be negative, got -1.0"),
        (lambda key: ess_heuristic(RATIOS, key=key, first_beta=0.0), "`first_beta` must lie in"),
        (lambda key: ess_heuristic(WALL, key=key, num_restarts=2, first_beta=1.0), "at the first beta 1; at most"),
        (
            lambda key: ess_heuristic([-1e17, 0.0, 0.0, 0.0], key=key, target_ess=0.9, first_beta=0.99, num_restarts=2),
            "no q makes 90% of the draws effective",
        ),
    ],
)
def test_bad_input(call, message, key):
    with pytest.raises(ValueError, match=message):
        call(key)


def test_a_first_beta_far_below_one_is_found(key):
    """Weights as on Pima: the root in beta is near 1e-3, where a search from beta = 1 with linear steps misses it."""
    ratios = -np.exp(np.random.default_rng(1).normal(7.5, 0.7, size=10_000))
    for k in jax.random.split(key, 5):
        found = ess_heuristic(ratios, key=k)
        assert found.loss < 1e-10
        assert found.beta < 0.01
        assert 1 - found.q > 1e-6
        assert share(ratios, found.beta, found.delta) == pytest.approx(0.5, abs=1e-5)


def test_where_the_whole_way_is_one_step(key):
    found = ess_heuristic(np.linspace(-1.0, 0.0, 50), key=key)
    assert found.beta == 1.0
    assert share(np.linspace(-1.0, 0.0, 50), 1.0, found.delta) > 0.5
