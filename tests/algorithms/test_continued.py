"""Draws that are moved on: complete ones stay, and others drift to what is missing."""

import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.algorithms.continued import NUM_DRAWS, Drift, continued, drift_of, size_for
from qpaths.arrays import HostStream
from qpaths.cost import Cost
from qpaths.evaluation import evaluator_of
from qpaths.kernels import FrozenKernel
from qpaths.kernels.factors import LeapfrogParams

BASE = qp.MultivariateNormal(jnp.zeros(2), 0.5 * jnp.eye(2))
"""Narrower than the target: mass far out is where the target is high compared with it."""


def standard(x):
    return -0.5 * jnp.sum(x**2)


def frozen(kernel=None, step_size=0.8):
    params = LeapfrogParams(np.ones((2, 2)), np.full(2, step_size))
    kernel = qp.HMC(num_leapfrog=3, preconditioner="diagonal") if kernel is None else kernel
    return FrozenKernel(kernel, np.array([0.0, 1.0]), params)


def moved(draws, seed=0, step_size=0.8, size=(128, 32), effective=1e6):
    kernel = frozen(step_size=step_size)
    stream = HostStream((seed,))
    evaluator = evaluator_of(qp.GeometricPath(BASE, qp.Density(standard)), stream, with_slopes=True)
    return continued(evaluator, kernel, draws, effective, size, stream)


def draws(seed, farthest=np.inf):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((4 * NUM_DRAWS, 2))
    return rows[np.sum(rows**2, axis=1) < farthest**2][:NUM_DRAWS]


def test_complete_draws_do_not_drift():
    assert all(moved(draws(seed), seed)[0] == Drift() for seed in range(40))


@pytest.mark.parametrize("farthest", [1.5, 2.0])
def test_draws_without_tails_drift_by_the_mass_that_is_missing(farthest):
    """Beyond a distance r lies the share exp(-r^2 / 2) of a normal distribution in the plane."""
    missing = np.exp(-0.5 * farthest**2)
    errors = [moved(draws(seed, farthest), seed)[0].error for seed in range(5)]
    assert min(errors) > 0
    np.testing.assert_allclose(np.mean(errors), -np.log1p(-missing), rtol=0.4)


def test_moves_that_are_too_small_show_little():
    """The test sees only what moves lead to. They lead farther than the draws, and only a part of the way."""
    far, near = (moved(draws(1, 1.5), step_size=size)[0].error for size in (0.8, 0.002))
    assert near < 0.2 * far


def test_draws_that_are_few_in_truth_are_not_trusted():
    """Copies of 8 draws: the shares before any move are noise."""
    copies = np.repeat(draws(3)[:8], NUM_DRAWS // 8, axis=0)
    drifts = [moved(np.random.default_rng(s).permutation(copies), s, effective=8.0)[0] for s in range(10)]
    assert sum(drift.error > 0 for drift in drifts) <= 1


def test_the_cost_is_counted():
    assert moved(draws(0), size=(64, 8))[1] == Cost.values(NUM_DRAWS) + Cost.gradients(64 + 64 * 8 * 3)


def test_slow_chains_count_once_and_fast_ones_often():
    """The same share of states above the level: by 8 chains that stay there, and by all chains in turns."""
    before, chosen = np.arange(1000.0), np.arange(0, 1000, 10)
    late = np.zeros((20, 100))
    slow, fast = late.copy(), late.copy()
    slow[:, :8] = 2000.0
    fast[np.arange(100) % 20, np.arange(100)] = 2000.0
    fast[(np.arange(60) + 1) % 20, np.arange(60)] = 2000.0
    assert slow.mean() == fast.mean()
    assert drift_of(before, chosen, fast, 1e6, 100).error > 0
    assert drift_of(before, chosen, slow, 20.0, 20).error == 0


def test_more_evaluations_make_longer_chains_and_then_more_of_them():
    kernel = frozen()
    assert size_for(2000.0, kernel) is None
    few, more, many = (size_for(number, kernel) for number in (8000.0, 40_000.0, 1e7))
    assert few[0] >= 64
    assert few[1] < more[1] == many[1] == 64
    assert more[0] < many[0] == 512
    for number, (chains, moves) in ((8000.0, few), (40_000.0, more)):
        assert NUM_DRAWS + kernel.start_cost(chains).total + chains * moves * kernel.cost.total <= number
