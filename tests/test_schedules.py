"""Schedules, and the search for the next beta."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.schedules import next_beta, step_length


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
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    log_base = -0.5 * generator.standard_normal(500) ** 2
    return log_base, -300 * generator.exponential(size=500), generator.standard_normal(500)


def _search(path, population, beta, target=0.5, xp=np):
    """In the world of `xp`: a loop of Python's or a compiled one."""
    log_base, log_target, log_weights = map(xp.asarray, population)

    def log_ratio(new_beta):
        with np.errstate(invalid="ignore"):
            return path.interpolate(new_beta, log_base, log_target) - path.interpolate(beta, log_base, log_target)

    found = next_beta(log_ratio, xp.asarray(beta), log_weights, target)
    assert isinstance(found, jax.Array) == (xp is jnp)
    return found, log_ratio


FLAT = qp.Density(lambda x: 0.0)


@pytest.mark.parametrize(
    ("q", "beta", "xp"),
    [
        *((q, beta, np) for q in (1.0, 0.999, 0.99, 0.5) for beta in (0.0, 1e-4, 0.3)),
        *((q, beta, jnp) for q, beta in ((1.0, 0.0), (0.99, 1e-4), (0.5, 0.3))),
    ],
)
def test_next_beta_meets_the_target_with_the_weights_of_the_path(q, beta, xp, population):
    new_beta, log_ratio = _search(qp.QPath(FLAT, FLAT, q=q), population, beta, xp=xp)
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


@pytest.mark.parametrize(("q", "most"), [(1.0, 14), (0.999, 14), (0.99, 12), (0.5, 12)])
def test_the_search_asks_for_few_weights(q, most, population):
    """Bisection after each interpolation that does not halve the bracket asks 15 to 19 times."""
    path, (log_base, log_target, log_weights) = qp.QPath(FLAT, FLAT, q=q), population
    asked = []

    def log_ratio(new_beta):
        asked.append(new_beta)
        return path.interpolate(new_beta, log_base, log_target) - log_base

    next_beta(log_ratio, np.asarray(0.0), log_weights, 0.5)
    assert len(asked) <= most


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize(("scale", "end"), [(-10.0, 1), (3.0, 0)])
def test_an_answer_next_to_an_end_is_found(scale, end, xp, population):
    """The mixture with a target that is tiny or huge everywhere changes within 1e-13 of an end."""
    log_base, _, log_weights = population
    log_target = log_base + np.sign(scale) * 30 + scale * np.abs(log_weights)
    found, log_ratio = _search(qp.ArithmeticPath(FLAT, FLAT), (log_base, log_target, log_weights), 0.0, xp=xp)
    assert 0 < abs(found - end) < 1e-13
    np.testing.assert_allclose(_conditional_ess(log_ratio(found), log_weights), 0.5, rtol=0.02)


@pytest.mark.parametrize("xp", [np, jnp])
def test_one_is_taken_when_it_is_close_enough(xp, population):
    log_base, _, log_weights = population
    near = log_base, log_base + 0.01 * log_weights, log_weights
    assert _search(qp.GeometricPath(FLAT, FLAT), near, 0.2, xp=xp)[0] == 1.0


@pytest.mark.parametrize("xp", [np, jnp])
def test_particles_off_the_support_do_not_stop_the_search(xp, population):
    """Nine in ten fall off at once: no beta keeps half of them, so the smallest step is taken, and then the next."""
    log_base, log_target, log_weights = population
    off = np.where(np.arange(500) % 10 == 0, log_target, -np.inf)
    first, log_ratio = _search(qp.GeometricPath(FLAT, FLAT), (log_base, off, log_weights), 0.0, xp=xp)
    assert 0 < first < 1e-12
    reweighted = log_base, off, log_weights + log_ratio(first)
    second, _ = _search(qp.GeometricPath(FLAT, FLAT), reweighted, float(first), xp=xp)
    assert second > 1e-6


@pytest.mark.parametrize("xp", [np, jnp])
def test_no_nan_where_nothing_is_left(xp):
    nothing = np.zeros(4), np.full(4, -np.inf), np.zeros(4)
    beta, _ = _search(qp.GeometricPath(FLAT, FLAT), nothing, 0.0, xp=xp)
    assert 0 < beta <= 1


@pytest.mark.parametrize("xp", [np, jnp])
def test_float32(xp, population):
    path = qp.QPath(FLAT, FLAT, q=0.99)
    log_base, log_target, log_weights = (xp.asarray(a, np.float32) for a in population)
    beta = next_beta(
        lambda b: path.interpolate(b, log_base, log_target) - log_base, xp.zeros((), np.float32), log_weights, 0.5
    )
    assert beta.dtype == np.float32
    np.testing.assert_allclose(beta, _search(path, population, 0.0)[0], rtol=1e-3)


@pytest.mark.parametrize("increments", [[1.0, -2.0, 0.5], [-900.0, -1.0, 800.0], [-np.inf, 0.0, 1.0]])
def test_the_length_of_a_step_of_equal_particles(increments):
    """The short way for weights that are all zero, against the long way for a common constant and under JAX."""
    increments = np.array(increments)
    found = step_length(np.zeros(3), increments)
    np.testing.assert_allclose(found, step_length(np.full(3, 0.7), increments), rtol=1e-12)
    np.testing.assert_allclose(found, step_length(jnp.zeros(3), jnp.asarray(increments)), rtol=1e-12)


@pytest.mark.parametrize("wrong", [-np.inf, np.nan])
def test_a_step_off_the_support_is_infinitely_long(wrong):
    for weights in (np.zeros(2), np.full(2, 0.7), jnp.zeros(2)):
        assert step_length(weights, weights + wrong) == np.inf
