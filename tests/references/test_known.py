"""Known optima: mass around them that draws do not have is seen, and nothing else is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.references.ascents import Mode
from qpaths.references.climb import ByDifferences
from qpaths.references.known import Sample, distinct, missing_mass
from qpaths.rows import evaluator_of

SHARE = 0.3
CENTERS = np.array([[3.0, 3.0], [-3.0, -3.0]])
BASE = qp.MultivariateNormal(jnp.zeros(2), 9 * jnp.eye(2))


def two_modes(x):
    """A normalized mixture whose first mode has the share `SHARE`."""
    logs = -0.5 * jnp.sum((x - CENTERS) ** 2, axis=1) - jnp.log(2 * jnp.pi)
    return jax.nn.logsumexp(logs + jnp.log(jnp.array([SHARE, 1 - SHARE])))


def evaluator(log_target=two_modes):
    return evaluator_of(qp.GeometricPath(BASE, qp.Density(log_target)), HostStream((0,)), with_slopes=False)


def modes(scale=1.0):
    values = (np.log([SHARE, 1 - SHARE]) - np.log(2 * np.pi)).tolist()
    return tuple(Mode(center, value, np.eye(2) / scale**2) for center, value in zip(CENTERS, values, strict=True))


def missing(share, log_evidence=0.0, num=4000, scale=1.0, seed=0):
    """What is missing from draws of which the first mode has a share."""
    rng = np.random.default_rng(seed)
    rows = CENTERS[np.where(rng.random(num) < share, 0, 1)] + rng.standard_normal((num, 2))
    sample = Sample(rows, np.full(num, 1 / num), float(num), log_evidence)
    return missing_mass(evaluator(), modes(scale), sample, HostStream((seed,)))


def test_a_lost_mode_has_the_size_of_its_mass():
    """Draws of the second mode alone, whose log evidence is too small by `-log(1 - SHARE)`."""
    found, num_values = missing(0.0, np.log(1 - SHARE))
    assert len(found.modes) == 1
    np.testing.assert_array_equal(found.modes[0].position, CENTERS[0])
    assert abs(found.error - -np.log(1 - SHARE)) < 0.06  # the region around an optimum has 90 % of it
    assert abs(found.expected - SHARE) < 0.05
    assert found.found == 0
    assert num_values > 0


@pytest.mark.parametrize("nats", [5.0, 50.0, 2000.0])
def test_an_answer_that_is_nats_too_small_is_off_by_all_of_them(nats):
    """The error is not bounded by one nat, nor by the largest number whose exponential is one."""
    found, _ = missing(0.0, -nats)
    assert abs(found.error - nats) < 1.5
    assert found.expected > 0.97


def test_an_answer_without_any_mass_is_off_by_an_infinite_amount():
    found, _ = missing(0.0, -np.inf)
    assert found.error == np.inf


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_complete_draws_miss_nothing(seed, scale):
    """Also if curvature is off by a factor of four: Laplace's mass is only a suspicion."""
    assert missing(SHARE, seed=seed, scale=scale)[0].error == 0


def test_draws_around_all_modes_cost_nothing():
    assert missing(SHARE)[1] == 0


def test_optima_without_mass_are_of_no_interest():
    rows = np.random.default_rng(0).standard_normal((500, 2)) - 3
    low = Mode(np.array([9.0, 9.0]), -30.0, np.eye(2))
    sample = Sample(rows, np.full(500, 1 / 500), 500.0, 0.0)
    assert missing_mass(evaluator(), (low,), sample, HostStream((0,)))[0].error == 0


def test_a_wrong_curvature_is_no_mass():
    """Laplace's mass of a cusp is far too large; the target says so."""
    spike = Mode(np.array([3.0, 3.0]), 5.0, 1e-4 * np.eye(2))
    rows = np.random.default_rng(0).standard_normal((2000, 2)) - 3
    sample = Sample(rows, np.full(2000, 1 / 2000), 2000.0, 0.0)
    target = evaluator(
        lambda x: jnp.logaddexp(-0.5 * jnp.sum((x + 3) ** 2) - jnp.log(2 * jnp.pi), -1e4 * jnp.sum((x - 3) ** 2))
    )
    assert missing_mass(target, (spike,), sample, HostStream((0,)))[0].error == 0


def test_draws_whose_log_evidence_is_no_number_are_not_compared():
    assert missing(0.0, np.nan)[0].error == 0


def test_the_same_optimum_is_kept_once():
    one, other = modes()
    again = one._replace(position=one.position + 0.1)
    assert len(distinct((one,), (again, other))) == 2


def test_gradients_by_differences_are_those_of_the_target():
    differences = ByDifferences(evaluator(), HostStream((1,)))
    points = np.random.default_rng(0).standard_normal((5, 2))
    found = differences.waypoints(points)
    exact = jax.vmap(jax.grad(two_modes))(points)
    np.testing.assert_allclose(found.slopes.target, exact, atol=1e-7 if jax.config.jax_enable_x64 else 5e-3)
    np.testing.assert_allclose(found.features.log_target, jax.vmap(two_modes)(points), rtol=1e-6)
    assert differences.values_each == 5
