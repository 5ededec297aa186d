"""References for many coordinates given a few: drivers found, fits to curvature, exact where they must be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.core.arrays import quiet, stream_of
from qpaths.core.numerics import log_ess
from qpaths.references.hierarchy import find_direction, find_drivers, fit_hierarchy, fit_mixture, rotation_to
from qpaths.references.sparsity import Sparsity
from qpaths.rows import evaluator_of

DIMENSION = 8


def funnel(x):
    return norm.logpdf(x[0], scale=3.0) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(0.5 * x[0])))


def narrow_draws(num, seed=0):
    """Draws of the funnel without its ends, as a short run would leave them."""
    rng = np.random.default_rng(seed)
    first = np.clip(3 * rng.standard_normal((num, 1)), -3.0, 3.0)
    return np.concatenate([first, np.exp(0.5 * first) * rng.standard_normal((num, DIMENSION - 1))], axis=1)


def stream(number):
    return stream_of(jax.random.key(number), host=True)


def evaluator(log_target):
    base = qp.Density(lambda x: jnp.sum(norm.logpdf(x)), lambda key: jax.random.normal(key, (DIMENSION,)))
    return evaluator_of(qp.GeometricPath(base, qp.Density(log_target)), stream(0), with_slopes=True)


def scores(log_target, rows):
    return np.asarray(jax.jit(jax.vmap(jax.grad(log_target)))(jnp.asarray(rows)))


@quiet()
def effective_share(component, log_target, num=4000):
    rows = component.draw(stream(5), num)
    log_weights = np.asarray(jax.jit(jax.vmap(log_target))(rows)) - component.log_prob_and_slope(rows)[0]
    log_weights = np.nan_to_num(log_weights, nan=-np.inf)
    return float(np.exp(log_ess(log_weights))) / num, float(jax.nn.logsumexp(log_weights)) - np.log(num)


def drivers_of(log_target, rows):
    """Drivers that second differences of gradients show at some of the rows."""
    spread = np.subtract(*np.quantile(rows, [0.84, 0.16], axis=0)) / 2
    steps = 1 / np.sqrt(np.mean(scores(log_target, rows) ** 2, axis=0))
    return find_drivers(lambda points: scores(log_target, points), rows[:6], steps, spread)


def test_the_driver_of_a_funnel_is_found_and_no_other():
    assert drivers_of(funnel, narrow_draws(400)) == (0,)


def test_a_normal_target_has_no_driver():
    rng = np.random.default_rng(1)
    factor = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0] * np.geomspace(0.1, 10, DIMENSION)
    precision = jnp.asarray(np.linalg.inv(factor @ factor.T))

    def target(x):
        return -0.5 * x @ precision @ x

    rows = rng.standard_normal((400, DIMENSION)) @ factor.T
    assert drivers_of(target, rows) == ()
    assert find_direction(rows, scores(target, rows)) is None


def test_a_sparse_hessian_takes_few_gradients_and_is_exact():
    """Two means that all effects share, and effects in a chain: five directions show twelve coordinates."""
    coupled = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) <= 1
    coupled[:2] = coupled[:, :2] = True
    values = np.random.default_rng(0).standard_normal((12, 12)) * coupled
    precision = values + values.T
    points = np.random.default_rng(1).standard_normal((3, 12))
    sparsity = Sparsity.of(coupled)
    assert sparsity.num_directions == 5
    found = sparsity.minus_hessians(lambda rows: -rows @ precision, points, np.full(12, 1e-3))
    np.testing.assert_allclose(found, np.tile(precision, (3, 1, 1)), atol=1e-9)
    order = sparsity.order()[::-1]
    definite = coupled * -0.05 + np.eye(12)
    factor = np.linalg.cholesky(definite[np.ix_(order, order)])
    assert np.sum(np.abs(factor) > 1e-12, axis=0).max() == 4  # each depends on one neighbor and on both means


def test_a_mixture_has_the_density_of_weighted_values():
    rng = np.random.default_rng(2)
    values = 3 * rng.standard_normal((6000, 2))
    log_density = np.logaddexp(norm.logpdf(values - 2.0, scale=0.5).sum(1), norm.logpdf(values + 1.0).sum(1)) - np.log(
        2
    )
    mixture = fit_mixture(values, np.exp(log_density - norm.logpdf(values, scale=3.0).sum(1)))
    rows = mixture.draw(stream(3), rng.standard_normal((4000, 2)))
    log_prob, slope = mixture.log_prob_and_slope(rows)
    log_weights = np.logaddexp(norm.logpdf(rows - 2.0, scale=0.5).sum(1), norm.logpdf(rows + 1.0).sum(1)) - np.log(2)
    assert np.exp(log_ess(log_weights - log_prob)) / 4000 > 0.85
    ahead = mixture.log_prob_and_slope(rows[:5] + np.array([1e-5, 0.0]))[0]
    np.testing.assert_allclose((ahead - log_prob[:5]) / 1e-5, slope[:5, 0], rtol=1e-3, atol=1e-3)


def test_the_direction_of_a_turned_funnel_is_found():
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((DIMENSION, DIMENSION)))[0]
    rows = narrow_draws(800) @ turn.T
    found = find_direction(rows, scores(lambda x: funnel(x @ turn), rows))
    assert abs(found[:, 0] @ turn[:, 0]) > 0.98
    np.testing.assert_allclose(found.T @ found, np.eye(DIMENSION), atol=1e-12)


def test_rotation_has_the_axis_first():
    axis = np.array([0.3, -2.0, 1.0])
    first = rotation_to(axis)[:, 0]
    np.testing.assert_allclose(np.abs(first @ axis), np.linalg.norm(axis))


@pytest.mark.parametrize("turned", [False, True])
def test_curvature_reaches_the_ends_that_draws_do_not(turned):
    """Draws end at one standard deviation; a fit to curvature has the whole funnel, and its evidence, 0."""
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((DIMENSION, DIMENSION)))[0]
    turn = turn if turned else np.eye(DIMENSION)

    def target(x):
        return funnel(x @ jnp.asarray(turn))

    rows = narrow_draws(800) @ turn.T
    rotation = find_direction(rows, scores(target, rows)) if turned else None
    fit, num_gradients = fit_hierarchy(evaluator(target), rows, (0,), 20_000, stream(1), rotation, is_exact=False)
    assert num_gradients <= 22_000
    component = fit.component
    share, log_evidence = effective_share(component, target)
    assert share > 0.3
    assert abs(log_evidence) < 5 * ((1 / share - 1) / 4000) ** 0.5
    first = (component.draw(stream(6), 4000) @ turn)[:, 0]
    assert np.quantile(first, 0.99) > 5.5
    assert np.quantile(first, 0.01) < -5.5


def test_too_few_gradients_are_not_spent():
    assert fit_hierarchy(evaluator(funnel), narrow_draws(100), (0,), 60, stream(1)) == (None, 0)


def test_hierarchical_model_is_nearly_exact(key):
    """Normal effects around a mean with an unknown scale, in the centered form. The truth is by quadrature."""
    data, error = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0]), 10.0

    def log_prior(x):
        effects = norm.logpdf(x[2:], x[0], jnp.exp(x[1]))
        return norm.logpdf(x[0], scale=5.0) + norm.logpdf(x[1], 1.0, 1.5) + jnp.sum(effects)

    def sample(key):
        first, second, third = jax.random.split(key, 3)
        mean, log_scale = 5 * jax.random.normal(first), 1 + 1.5 * jax.random.normal(second)
        return jnp.concatenate(
            [jnp.stack([mean, log_scale]), mean + jnp.exp(log_scale) * jax.random.normal(third, (6,))]
        )

    def log_target(x):
        return log_prior(x) + jnp.sum(norm.logpdf(data, x[2:], error))

    log_scales = np.linspace(-8, 10, 4001)
    variance = np.exp(2 * log_scales) + error**2
    # The mean and the effects are integrated out: a normal distribution with a common part.
    total, squares, num = float(jnp.sum(data)), float(jnp.sum(data**2)), 6
    log_marginal = -0.5 * (num - 1) * np.log(variance) - 0.5 * np.log(variance + num * 25.0)
    log_marginal += -0.5 * (squares - 25.0 * total**2 / (variance + num * 25.0)) / variance - 0.5 * num * np.log(
        2 * np.pi
    )
    log_marginal += norm.logpdf(log_scales, 1.0, 1.5)
    truth = float(jax.nn.logsumexp(jnp.asarray(log_marginal))) + np.log(log_scales[1] - log_scales[0])

    result = qp.evidence(qp.Density(log_prior, sample), qp.Density(log_target), key=key, budget=200_000)
    assert result.log_evidence_se < 0.01
    assert abs(result.log_evidence - truth) < 4 * result.log_evidence_se
    assert str(result.verdict.level) == "sound"
