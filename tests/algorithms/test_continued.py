"""Draws that are moved on: complete ones stay, and others drift to what is missing."""

import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.algorithms.continued import Draws, Drift, continued, drift_of, escape_of, size_for
from qpaths.core.arrays import HostStream
from qpaths.core.cost import Cost
from qpaths.kernels import FrozenKernel
from qpaths.kernels.factors import LeapfrogParams
from qpaths.rows import evaluator_of

BASE = qp.MultivariateNormal(jnp.zeros(2), 0.5 * jnp.eye(2))
"""Narrower than the target: mass far out is where the target is high compared with it."""
PATH = qp.GeometricPath(BASE, qp.Density(lambda x: -0.5 * jnp.sum(x**2)))
"""One for all tests, because each other function would be compiled anew."""


def log_ratio(rows):
    return np.sum(rows**2, axis=1)


def weighted(rows, weights=None, effective=1e5):
    weights = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    return Draws(lambda numbers: rows[numbers], 0.5 * log_ratio(rows) + 7.0, weights, effective)


def frozen(step_size=0.8):
    params = LeapfrogParams(np.ones((2, 2)), np.full(2, step_size))
    return FrozenKernel(qp.HMC(num_leapfrog=3, preconditioner="diagonal"), np.array([0.0, 1.0]), params)


def moved(draws, seed=0, step_size=0.8, size=(128, 32)):
    stream = HostStream((seed,))
    evaluator = evaluator_of(PATH, stream, with_slopes=True)
    return continued(evaluator, frozen(step_size), draws, size, stream)


def cloud(seed, farthest=np.inf, num=20_000):
    rows = np.random.default_rng(seed).standard_normal((num, 2))
    return rows[np.sum(rows**2, axis=1) < farthest**2]


def test_complete_draws_do_not_drift():
    """Probabilities below 0.001 for all sets together: none of 60, or one by bad luck."""
    found = [moved(weighted(cloud(seed)), seed, step_size)[0] for seed in range(20) for step_size in (0.1, 0.4, 0.8)]
    assert sum(drift.error > 0 for drift in found) <= 1


def test_weighted_draws_do_not_drift():
    """Draws of a wider distribution, with the weights that make up for it."""
    for seed in range(10):
        rows = 1.5 * cloud(seed)
        logs = -0.5 * log_ratio(rows) * (1 - 1 / 1.5**2)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        assert moved(weighted(rows, weights, 1 / np.sum(weights**2)), seed)[0] == Drift()


@pytest.mark.parametrize("farthest", [1.5, 2.0, 2.5])
def test_draws_without_tails_drift_by_the_mass_that_is_missing(farthest):
    """Beyond a distance r lies the share exp(-r^2 / 2) of a normal distribution in the plane."""
    missing = np.exp(-0.5 * farthest**2)
    errors = [moved(weighted(cloud(seed, farthest)), seed)[0].error for seed in range(8)]
    assert np.mean(np.array(errors) > 0) > 0.8
    np.testing.assert_allclose(np.mean(errors), -np.log1p(-missing), rtol=0.6)


def test_few_draws_are_not_trusted():
    """Twenty draws, by weights or as copies: that they end somewhere says nothing."""
    rng = np.random.default_rng(1)
    for seed in range(10):
        rows = cloud(seed)
        weights = np.zeros(len(rows))
        weights[rng.choice(len(rows), 20)] = 1 / 20
        assert moved(weighted(rows, weights / weights.sum(), 20.0), seed)[0] == Drift()


def test_chains_next_to_a_hole_show_more_than_others():
    """A few chains beyond the last draw are within noise if they come from anywhere."""
    draws = weighted(np.column_stack([np.arange(10_000.0), np.zeros(10_000)]) ** 0.5)
    anywhere, top = np.arange(0, 10_000, 100), np.arange(9501, 10_000, 5)

    def chains(starts, num_escaped):
        states = np.tile(draws.ratios[starts], (33, 1))
        states[10:, :num_escaped] = 1e6
        return states

    assert drift_of(draws, anywhere, chains(anywhere, 4)) == Drift()
    assert drift_of(draws, anywhere, chains(anywhere, 20)).error > 0.1
    found = escape_of(draws, top, chains(top, 5))
    assert found.before < 0.001
    assert found.after >= 0.05 * 0.05  # so much has left the top for good, at least
    assert escape_of(draws, top, chains(top, 0)) == Drift()


def test_the_cost_is_counted():
    assert moved(weighted(cloud(0)), size=(64, 8))[1] == Cost.gradients(64 + 64 * 8 * 3)


def test_more_evaluations_make_longer_chains_and_then_more_of_them():
    kernel = frozen()
    assert size_for(2000.0, kernel) is None
    few, more, many = (size_for(number, kernel) for number in (8000.0, 40_000.0, 1e7))
    assert few[0] >= 64
    assert few[1] < more[1] == many[1] == 64
    assert more[0] < many[0] == 512
    for number, (chains, moves) in ((8000.0, few), (40_000.0, more)):
        assert 0.8 * number < kernel.start_cost(chains).total + chains * moves * kernel.cost.total <= number
