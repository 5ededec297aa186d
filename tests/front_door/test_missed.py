"""Modes and ends that the draws of a run have missed."""

import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.algorithms.islands import Identities, Islands
from qpaths.core.arrays import HostStream
from qpaths.front_door.checks.scans import missed_modes
from qpaths.rows import evaluator_of

SHARE = 0.1
NORMAL = qp.MultivariateNormal(jnp.zeros(2), 9 * jnp.eye(2))


def two_wells(x):
    wells = jnp.logaddexp(jnp.log(SHARE) - 2 * (x[0] + 4) ** 2, jnp.log(1 - SHARE) - 2 * (x[0] - 1) ** 2)
    return wells - 0.5 * (x[1] - 0.2 * x[0]) ** 2


def draws(share, size=4000):
    rng = np.random.default_rng(0)
    well = np.where(rng.random(size) < share, -4.0, 1.0) + 0.5 * rng.standard_normal(size)
    return np.column_stack([well, 0.2 * well + rng.standard_normal(size)])


def missed(rows, log_target=two_wells, num_spent=100_000, weights=None, num_left=np.inf, base=NORMAL, seed=1):
    evaluator = evaluator_of(qp.GeometricPath(base, qp.Density(log_target)), HostStream((0,)), with_slopes=False)
    samples = rows.reshape(8, -1, rows.shape[1])
    log_weights = np.zeros(samples.shape[:2]) if weights is None else np.log(weights).reshape(samples.shape[:2])
    stats = {"num_ancestors": np.full((8, 3), samples.shape[1])}
    nothing = Identities(*(np.zeros((8, 0)) for _ in Identities._fields))
    islands = Islands(np.zeros(8), np.zeros(8), samples, log_weights, stats, nothing)
    return missed_modes(evaluator, islands, num_spent, num_left, HostStream((seed,)))


def test_a_lost_mode_is_seen_with_its_mass():
    found, num = missed(draws(0.0))
    assert found.coordinate == "x[0]"
    assert found.found < 0.003
    assert num < 0.1 * 100_000
    # The other coordinate has the mean of the well that is there, so the mass that a step finds is near, not equal.
    assert 0.02 < found.expected < 0.2


@pytest.mark.parametrize("weighted", [False, True])
def test_complete_draws_miss_nothing(weighted):
    rows = draws(0.5 if weighted else SHARE)
    weights = np.where(rows[:, 0] < -1.5, SHARE / 0.5, (1 - SHARE) / 0.5) if weighted else None
    assert missed(rows, weights=weights)[0].error == 0.0


def test_the_end_of_a_coordinate_is_seen():
    """Draws that stop at one standard deviation, of a target with a single mode."""
    rng = np.random.default_rng(3)
    whole = rng.standard_normal((8000, 2))
    assert missed(whole, lambda x: -0.5 * jnp.sum(x**2))[0].error == 0.0
    found, _ = missed(whole[whole[:, 1] < 1][:6400], lambda x: -0.5 * jnp.sum(x**2))
    assert found.coordinate == "x[1]"
    assert abs(found.error - 0.159) < 0.03


def test_a_small_run_is_not_checked_at_a_high_price():
    assert missed(draws(0.0), num_spent=1000)[1] == 0
    assert missed(draws(0.0), num_left=100.0)[1] == 0
    assert missed(draws(0.0), num_left=500.0)[1] <= 500


def test_islands_without_any_weight_are_not_checked():
    with np.errstate(divide="ignore"):
        assert missed(draws(0.0), weights=np.zeros(4000))[1] == 0


def test_the_neck_of_a_rotated_funnel_hides_no_mode():
    """Scans through the neck miss the narrow peak that they go through, and see only the wide mouth."""
    dimension = 8
    rotation = np.linalg.qr(np.random.default_rng(8).standard_normal((dimension, dimension)))[0]

    def funnel(x):
        y = jnp.asarray(rotation) @ x
        return -0.5 * (y[0] / 3) ** 2 - jnp.sum(0.5 * y[1:] ** 2 * jnp.exp(-y[0]) + 0.5 * y[0])

    base = qp.MultivariateNormal(jnp.zeros(dimension), 9 * jnp.eye(dimension))
    rng = np.random.default_rng(5)
    for seed in range(5):
        driver = 3 * rng.standard_normal((16_000, 1))
        rows = np.hstack([driver, np.exp(0.5 * driver) * rng.standard_normal((16_000, dimension - 1))]) @ rotation
        assert missed(rows, funnel, base=base, seed=seed)[0].error == 0


def test_a_mode_that_is_there_is_not_missed_by_the_error_of_a_grid():
    """Two wells of known mass, with as many draws in each as belong there, and no noise in the scans."""
    rng = np.random.default_rng(0)
    well = np.where(np.arange(160_000) < 0.1545 * 160_000, -4.0, 1.0) + 0.5 * rng.standard_normal(160_000)
    rows = rng.permutation(np.column_stack([well, rng.standard_normal(160_000)]))

    def target(x):
        wells = jnp.logaddexp(jnp.log(0.16) - 2 * (x[0] + 4) ** 2, jnp.log(0.84) - 2 * (x[0] - 1) ** 2)
        return wells - 0.5 * x[1] ** 2

    assert missed(rows, target)[0].error == 0
