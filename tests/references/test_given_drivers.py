"""References for targets that a few coordinates drive: found, fitted to curvature, and exact where they must be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.core.arrays import quiet, stream_of
from qpaths.core.numerics import log_ess
from qpaths.references.drivers import find_direction, find_drivers, rotation_to
from qpaths.references.given_drivers import conditional_design
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


def diagonal(log_target):
    hessians = jax.jit(jax.vmap(jax.hessian(log_target)))
    return lambda points: -np.diagonal(hessians(points), axis1=1, axis2=2)


def test_the_driver_of_a_funnel_is_found_and_no_other():
    rows = narrow_draws(400)
    assert find_drivers(rows, scores(funnel, rows), diagonal(funnel)) == (0,)


def test_a_normal_target_has_no_driver():
    rng = np.random.default_rng(1)
    factor = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0] * np.geomspace(0.1, 10, DIMENSION)
    precision = jnp.asarray(np.linalg.inv(factor @ factor.T))

    def target(x):
        return -0.5 * x @ precision @ x

    rows = rng.standard_normal((400, DIMENSION)) @ factor.T
    assert find_drivers(rows, scores(target, rows), diagonal(target)) == ()
    assert find_direction(rows, scores(target, rows)) is None


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
    design, found, num_gradients = conditional_design(evaluator(target), rows, scores(target, rows), 20_000, stream(1))
    assert num_gradients <= 20_000
    assert (design.rotation is not None) is turned
    again = conditional_design(evaluator(target), rows, scores(target, rows), 20_000, stream(1), known=found)
    assert again[0] is None  # and hardly anything spent
    assert again[2] < 0.1 * num_gradients
    component = design.fit()
    share, log_evidence = effective_share(component, target)
    assert share > 0.3
    assert abs(log_evidence) < 5 * ((1 / share - 1) / 4000) ** 0.5
    first = (component.draw(stream(6), 4000) @ turn)[:, 0]
    assert np.quantile(first, 0.99) > 6.0
    assert np.quantile(first, 0.01) < -6.0


def test_too_few_gradients_are_not_spent():
    rows = narrow_draws(100)
    assert conditional_design(evaluator(funnel), rows, scores(funnel, rows), 100, stream(1)) == (None, (), 0)


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
