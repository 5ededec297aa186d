"""Fitting a reference: exact where it can be, refused where it must be, normalised always."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.tuning.reference import Reference, fit_reference, log_mass, share_outside


@pytest.fixture
def normal():
    """A correlated normal distribution in five dimensions."""
    factor = np.linalg.cholesky(np.full((5, 5), 0.6) + 0.4 * np.eye(5)) * np.arange(1, 6)[:, None]
    return np.arange(5.0), factor @ factor.T, factor


def test_scores_make_a_normal_target_exact(normal):
    """For a normal target the fit does not depend on the draws at all; the sample covariance is far off."""
    mean, covariance, factor = normal
    x = mean + 1.7 * np.random.default_rng(0).standard_normal((40, 5)) @ factor.T + 0.3
    scores = -np.linalg.solve(covariance, (x - mean).T).T
    fitted = fit_reference(x, scores).fitted
    scale = covariance * (fitted.df - 2) / fitted.df
    np.testing.assert_allclose(fitted.scale_matrix, scale, rtol=1e-9)
    np.testing.assert_allclose(fitted.mean, mean, atol=1e-9)
    assert np.abs(fit_reference(x).fitted.mean - mean).max() > 0.1


def test_degrees_of_freedom_follow_the_tails():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 3)) / np.sqrt(rng.chisquare(8, (4000, 1)) / 8)
    assert 5 < fit_reference(x).fitted.df < 13
    assert fit_reference(rng.standard_normal((4000, 3))).fitted.df == 30


@pytest.mark.parametrize("dimension", [1, 3, 10])
@pytest.mark.parametrize(("share", "distance"), [(0.5, 8.0), (0.1, 10.0)])
def test_two_groups_are_refused(dimension, share, distance):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((600, dimension))
    x[:, 0] += distance * (rng.random(600) < share)

    def log_prob(v):
        near, far = jnp.log(1 - share) - v[0] ** 2 / 2, jnp.log(share) - (v[0] - distance) ** 2 / 2
        return jnp.logaddexp(near, far) - jnp.sum(v[1:] ** 2) / 2

    rotation = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    scores = np.asarray(jax.vmap(jax.grad(log_prob))(x))
    assert "several groups" in fit_reference(x @ rotation, scores @ rotation).refusal


def test_skewed_and_normal_draws_are_not_refused():
    rng = np.random.default_rng(3)
    x = np.log(rng.gamma(2.0, size=(600, 10)))
    assert fit_reference(x, 2 - np.exp(x)).fitted is not None
    assert fit_reference(rng.standard_normal((600, 10))).fitted is not None


def test_what_cannot_be_fitted_is_refused():
    rng = np.random.default_rng(4)
    assert "too few" in fit_reference(rng.standard_normal((10, 8))).refusal
    assert fit_reference(rng.standard_cauchy((500, 3))).fitted is None
    flat = np.zeros((100, 2))
    flat[:, 0] = rng.standard_normal(100)
    assert "subspace" in fit_reference(flat).refusal


def test_scores_that_say_nothing_are_left_aside():
    x = np.random.default_rng(5).standard_normal((100, 2))
    np.testing.assert_allclose(fit_reference(x, np.zeros((100, 2))).fitted.mean, fit_reference(x).fitted.mean)


def test_reference_is_normalised_and_draws_what_it_says(key):
    """Weights from the base to the mixture have mean 1, and draws have its mean; a point that is a dict."""
    base = qp.Density(
        lambda x: jnp.sum(jax.scipy.stats.norm.logpdf(x["a"])) + jax.scipy.stats.norm.logpdf(x["b"]),
        lambda k: {"a": jax.random.normal(k, (2,)), "b": jax.random.normal(jax.random.fold_in(k, 1))},
    )
    fitted = qp.MultivariateStudentT(10.0, jnp.array([0.3, 0.2, 0.1]), 0.3 * jnp.eye(3))
    example = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    reference = Reference(fitted, base, 0.25, example)
    keys = jax.random.split(key, 20_000)
    draws = jax.vmap(base.sample)(keys)
    weights = np.exp(jax.vmap(reference.log_prob)(draws) - jax.vmap(base.log_prob)(draws))
    assert abs(weights.mean() - 1) < 5 * weights.std() / len(weights) ** 0.5
    means = jax.vmap(reference.sample)(keys)["a"]
    expected = 0.75 * np.array([0.3, 0.2])
    np.testing.assert_allclose(means.mean(axis=0), expected, atol=5 * means.std() / len(keys) ** 0.5)


def test_log_mass_sees_a_missing_constant(key):
    normal = qp.MultivariateNormal(jnp.ones(3), jnp.eye(3))
    points = jax.vmap(normal.sample)(jax.random.split(key, 1000))
    value, error = log_mass(qp.Density(lambda x: normal.log_prob(x) + 1.5), points, key=key)
    assert abs(value - 1.5) < 5 * error < 0.2
    heavy = qp.MultivariateStudentT(1.0, jnp.zeros(3), jnp.eye(3))
    points = jax.vmap(heavy.sample)(jax.random.split(key, 1000))
    assert log_mass(heavy, points, key=key) is None


def test_share_of_draws_beyond_a_hard_bound(key):
    reference = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    half = qp.Density(lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf))
    assert abs(share_outside(reference, half, 1000, key=key) - 0.5) < 5 * 0.5 / 1000**0.5
    assert share_outside(reference, qp.Density(lambda x: -jnp.sum(x**2)), 1000, key=key) == 0
