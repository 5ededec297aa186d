"""Periodic parameters: the evidence does not change, and a mode across the cut is one mode."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, special, stats

import qpaths as qp

Y = 0.1
SD = 0.25
LOG_CONSTANT = np.log(2 * np.pi * special.i0e(1 / SD**2))


def log_likelihood(p):
    """The mass lies on both sides of the cut at 0."""
    return (jnp.cos(p["phase"] - Y) - 1) / SD**2 - LOG_CONSTANT - 0.5 * p["level"] ** 2


@pytest.mark.parametrize("prior", [dist.Uniform(0.0, 2 * np.pi), dist.Uniform(-1.0, -1.0 + 2 * np.pi)])
def test_the_plane_has_the_mass_of_the_interval(prior, key):
    own = qp.adapters.from_prior({"phase": prior, "level": dist.Normal(0, 1)}, log_likelihood)
    model = own.on_circles(["phase"])
    draws = jax.vmap(model.prior.sample)(jax.random.split(key, 4000))
    assert draws["phase"].shape == (4000, 2)
    # Half of the squared distance is gamma, and the angle uniform: within five standard errors.
    phase = np.asarray(draws["phase"], float)
    assert stats.kstest(0.5 * np.sum(phase**2, axis=1), stats.gamma(6).cdf).pvalue > 1e-6
    assert stats.kstest(np.arctan2(*phase.T), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-6
    half = 0.5 * np.sum(phase**2, axis=1)
    exact = stats.gamma(6).logpdf(half) - np.log(2 * np.pi) + stats.norm.logpdf(draws["level"])
    np.testing.assert_allclose(jax.vmap(model.prior.log_prob)(draws), exact, atol=1e-3)
    named = jax.vmap(model.constrain)(draws)
    again = jax.vmap(lambda p: model.constrain(model.unconstrain(p)))(named)
    np.testing.assert_allclose(again["phase"], named["phase"], atol=1e-4)


def test_a_density_that_is_not_uniform_keeps_its_mass(key):
    """The integral over the plane of the prior, by importance sampling from the normal distribution."""
    for prior in (dist.Beta(3.0, 2.0), dist.TruncatedNormal(1.0, 2.0, low=0.0, high=4.0)):
        model = qp.adapters.from_prior({"x": prior}, lambda p: -p["x"]).on_circles(["x"])
        z = 3.0 * jax.random.normal(key, (20_000, 2))
        log_prob = jax.vmap(lambda z: model.prior.log_prob({"x": z}))(z)
        weights = np.exp(log_prob - dist.Normal(0, 3).log_prob(z).sum(-1))
        assert abs(weights.mean() - 1) < 5 * weights.std() / 20_000**0.5
        x = np.asarray(jax.vmap(lambda z: model.constrain({"x": z})["x"])(z))
        drawn = np.asarray(jax.vmap(lambda k: model.constrain(model.prior.sample(k))["x"])(jax.random.split(key, 4000)))
        spread = np.std(drawn) / 4000**0.5 + np.std(weights * x) / 20_000**0.5
        assert abs(np.mean(weights * x) - np.mean(drawn)) < 5 * spread


def test_a_mode_across_the_cut_is_one(key):
    prior = {"phase": dist.Uniform(0.0, 2 * np.pi), "level": dist.Normal(0, 1)}
    result = qp.evidence(prior=prior, log_likelihood=log_likelihood, periodic=["phase"], budget=30_000, key=key)
    assert abs(result.log_evidence + np.log(2 * np.pi) + 0.5 * np.log(2)) < 5 * max(result.log_evidence_se, 0.002)
    assert result.samples["phase"].ndim == 1
    assert (result.samples["phase"] > 3).any()
    assert (result.samples["phase"] < 3).any()


def test_scipy_rows_have_circles_too(key):
    prior = {"phase": stats.uniform(0, 2 * np.pi)}
    truth = np.log(integrate.quad(lambda x: np.exp(2 * np.cos(x - 0.2)), 0, 2 * np.pi)[0] / (2 * np.pi))
    result = qp.evidence(
        prior=prior,
        log_likelihood=lambda p: 2 * np.cos(p["phase"] - 0.2),
        periodic=["phase"],
        budget=20_000,
        key=key,
    )
    assert abs(result.log_evidence - truth) < 5 * result.log_evidence_se


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"periodic": ["level"]}, "which has no two bounds"),
        ({"periodic": ["phases"]}, "which is no parameter: these are phase, level"),
        ({"groups": [["phase"], ["phase", "level"]]}, "must not overlap, and name some parameters, got phase twice"),
        ({"groups": [["phas"]]}, "`groups` has 'phas', which is no parameter: these are level, phase"),
        ({"groups": []}, "got no parameter"),
        ({"groups": ["phase"]}, "must hold lists of names"),
    ],
)
def test_what_makes_no_sense_is_named(given, words, key):
    prior = {"phase": dist.Uniform(0.0, 2 * np.pi), "level": dist.Normal(0, 1)}
    with pytest.raises((ValueError, TypeError), match=words):
        qp.evidence(prior=prior, log_likelihood=log_likelihood, key=key, **given)


def test_circles_need_bounds_and_names(key):
    with pytest.raises(ValueError, match="needs parameters with bounds and names"):
        qp.evidence(qp.Normal(0.0, 1.0), lambda x: -(x**2), periodic=["x"], key=key)
