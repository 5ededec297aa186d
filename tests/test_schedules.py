"""Schedules, and the search for the next beta."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.schedules import next_beta


def test_betas():
    np.testing.assert_allclose(qp.LinearSchedule(5).betas, [0, 0.25, 0.5, 0.75, 1])
    betas = np.asarray(qp.SigmoidSchedule(9).betas)
    assert betas[0] == 0
    assert betas[-1] == 1
    assert (np.diff(betas) > 0).all()
    np.testing.assert_allclose(betas + betas[::-1], 1.0, atol=1e-12)
    assert np.diff(betas)[0] < np.diff(betas)[4]
    np.testing.assert_array_equal(qp.FixedSchedule([0, 0.2, 1]).betas, [0, 0.2, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qp.LinearSchedule(1), "`num` must be at least 2, got 1"),
        (lambda: qp.SigmoidSchedule(5, rate=-1.0), "`rate` must be positive, got -1.0"),
        (lambda: qp.FixedSchedule([0.1, 1.0]), r"`betas` must run from 0 to 1, got \[0.1 1. \]: start with 0"),
        (lambda: qp.FixedSchedule([0.0, 0.9]), "`betas` must run from 0 to 1"),
        (lambda: qp.FixedSchedule([0.0, 0.6, 0.5, 1.0]), r"must increase.*entry 2 \(0.5\) does not exceed.*\(0.6\)"),
        (lambda: qp.FixedSchedule([0.0, np.nan, 1.0]), "must increase"),
        (lambda: qp.FixedSchedule([0.0]), "at least two numbers"),
        (lambda: qp.AdaptiveSchedule(1.5), r"`target_ess` must lie in \(0, 1\), got 1.5"),
    ],
)
def test_bad_schedules(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def _conditional_ess(increments, log_weights):
    weights = np.exp(log_weights - np.max(log_weights))
    weights /= weights.sum()
    u = np.exp(np.asarray(increments) - np.max(increments))
    return (weights @ u) ** 2 / (weights @ u**2)


@pytest.fixture
def population(key):
    """Values of two endpoints at 500 points, and uneven weights."""
    first, second, third = jax.random.split(key, 3)
    log_base = -0.5 * jax.random.normal(first, (500,)) ** 2
    log_target = -300 * jax.random.exponential(second, (500,))
    return log_base, log_target, jax.random.normal(third, (500,))


def _search(path, population, beta, target=0.5):
    log_base, log_target, log_weights = population
    features = jax.vmap(lambda a, b: (a, b))(log_base, log_target)

    def log_ratio(new_beta):
        return path.interpolate(new_beta, *features) - path.interpolate(beta, *features)

    return next_beta(log_ratio, jnp.asarray(beta), log_weights, target), log_ratio


FLAT = qp.Density(lambda x: 0.0)


@pytest.mark.parametrize("q", [1.0, 0.999, 0.99, 0.5])
@pytest.mark.parametrize("beta", [0.0, 1e-4, 0.3])
def test_next_beta_meets_the_target_with_the_weights_of_the_path(q, beta, population):
    new_beta, log_ratio = _search(qp.QPath(FLAT, FLAT, q=q), population, beta)
    ess = _conditional_ess(log_ratio(new_beta), population[2])
    assert new_beta > beta
    np.testing.assert_allclose(ess, 0.5, rtol=1e-6) if new_beta < 1 else _at_least(ess, 0.5)


def _at_least(value, bound):
    assert value >= bound


def test_ignoring_q_in_the_search_is_seen(population):
    """The mutant: the search uses the weights of the geometric path, the run those of the q-path."""
    path = qp.QPath(FLAT, FLAT, q=0.9)
    wrong, _ = _search(qp.GeometricPath(FLAT, FLAT), population, 0.0)
    _, log_ratio = _search(path, population, 0.0)
    assert abs(_conditional_ess(log_ratio(wrong), population[2]) - 0.5) > 0.05


def test_one_is_taken_when_it_is_close_enough(population):
    log_base, _, log_weights = population
    near = log_base, log_base + 0.01 * log_weights, log_weights
    assert _search(qp.GeometricPath(FLAT, FLAT), near, 0.2)[0] == 1.0


def test_particles_off_the_support_do_not_stop_the_search(population):
    """Nine in ten fall off at once: no beta keeps half of them, so the smallest step is taken, and then the next."""
    log_base, log_target, log_weights = population
    off = jnp.where(jnp.arange(500) % 10 == 0, log_target, -jnp.inf)
    first, log_ratio = _search(qp.GeometricPath(FLAT, FLAT), (log_base, off, log_weights), 0.0)
    assert 0 < first < 1e-12
    reweighted = log_base, off, log_weights + log_ratio(first)
    second, _ = _search(qp.GeometricPath(FLAT, FLAT), reweighted, float(first))
    assert second > 1e-6


def test_no_nan_where_nothing_is_left():
    nothing = jnp.zeros(4), jnp.full(4, -jnp.inf), jnp.zeros(4)
    beta, _ = _search(qp.GeometricPath(FLAT, FLAT), nothing, 0.0)
    assert 0 < beta <= 1


def test_float32(population):
    single = tuple(a.astype(jnp.float32) for a in population)
    path = qp.QPath(FLAT, FLAT, q=0.99)
    log_base, log_target, log_weights = single
    beta = next_beta(
        lambda b: path.interpolate(b, log_base, log_target) - log_base, jnp.zeros((), jnp.float32), log_weights, 0.5
    )
    assert beta.dtype == jnp.float32
    np.testing.assert_allclose(beta, _search(path, population, 0.0)[0], rtol=1e-3)
