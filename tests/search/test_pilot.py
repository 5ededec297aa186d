"""Pilots: particles stay at a beta until its moves have renewed them."""

import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.search.pilot import _KEPT, _MOST_MOVES, run_pilot

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
PATH = qp.GeometricPath(BASE, qp.Density(lambda x: -20.0 * jnp.sum((x - 1.5) ** 2)))
TRUTH = float(np.log(np.pi / 20))  # of the target itself
SLOW, QUICK = qp.RandomWalk(1), qp.HMC(num_leapfrog=10)


@pytest.fixture(scope="module", params=["slow", "quick"])
def pilot(request):
    kernel = SLOW if request.param == "slow" else QUICK
    return request.param, run_pilot(PATH, qp.AdaptiveSchedule(), kernel, 500, key=HostStream((3,)))


def test_slow_moves_are_made_more_often(pilot):
    name, found = pilot
    moves = found.num_moves[:-1]
    assert (moves.mean() > 2) if name == "slow" else (moves == 1).all()
    assert found.num_moves.max() <= _MOST_MOVES
    assert float(found.state.lag.kept) < _KEPT


def test_betas_and_lengths_are_those_of_the_steps(pilot):
    _, found = pilot
    assert (np.diff(found.betas) > 0).all()
    assert found.betas[0] == 0
    assert found.betas[-1] == 1
    assert found.lengths.shape == found.num_moves.shape == (found.betas.size - 1,)
    assert (found.lengths > 0).all()
    assert found.result.betas.size == 1 + found.num_moves.sum()
    assert abs(found.mass[0] - TRUTH) < 4 * found.mass[1] < 1


def test_moves_that_cost_too_much_are_not_made():
    found = run_pilot(PATH, qp.AdaptiveSchedule(), SLOW, 500, key=HostStream((3,)), max_cost=5_000.0)
    assert (found.num_moves == 1).all()


def test_betas_of_a_fixed_schedule_are_kept():
    found = run_pilot(PATH, qp.LinearSchedule(6), SLOW, 100, key=HostStream((3,)))
    np.testing.assert_allclose(found.betas, np.linspace(0, 1, 6))


def test_slowness_is_the_number_of_moves_worth_a_draw(pilot):
    name, found = pilot
    assert found.slowness.shape == found.lengths.shape
    assert (found.slowness >= 1).all()
    assert (found.slowness.mean() > 4) if name == "slow" else (found.slowness.mean() < 4)
    # Two moves that leave a quarter together leave a half each; a move that leaves a half is worth a third of a draw.
    half = found._replace(kept=np.array([0.25, 0.5]), num_moves=np.array([2, 1]))
    np.testing.assert_allclose(half.slowness, [2.0, 3.0])
    stuck = found._replace(kept=np.array([1.0]), num_moves=np.array([1]))
    assert np.isfinite(stuck.slowness).all()
