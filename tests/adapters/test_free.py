"""Priors in coordinates without bounds: the same distributions, also beyond the largest and smallest numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import qpaths as qp
from qpaths.adapters.distributions import variable_of
from qpaths.families import Gamma

dist = pytest.importorskip("numpyro.distributions")

KNOWN = [
    lambda: Gamma(2.5, 1.5),
    lambda: dist.Gamma(2.5, 1.5),
    lambda: dist.Chi2(3.0),
    lambda: dist.InverseGamma(2.5, 1.5),
    lambda: dist.Beta(1.5, 0.7),
    lambda: dist.LogNormal(0.3, 0.8),
    lambda: dist.TransformedDistribution(
        dist.Normal(0.0, 1.0), [dist.transforms.AffineTransform(0.5, 2.0), dist.transforms.ExpTransform()]
    ),
    lambda: dist.Dirichlet(jnp.array([0.7, 1.5, 2.5, 1.0])),
    lambda: dist.Dirichlet(jnp.array([0.7, 1.5, 2.5])).expand([2]),
    lambda: dist.Gamma(jnp.array([1.0, 3.0]), 2.0).to_event(1),
    lambda: dist.InverseGamma(2.0, jnp.array([[1.0], [2.0]])).expand([2, 3]),
    lambda: scipy.stats.gamma(2.5, scale=0.6),
    lambda: scipy.stats.invgamma(2.5, scale=1.4),
    lambda: scipy.stats.beta([0.6, 2.0], 0.8),
]


def source(part, seed):
    return np.random.default_rng(seed) if hasattr(part, "rvs") else jax.random.key(seed)


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_the_density_is_that_of_the_variable(number):
    """With the Jacobian of the coordinate, at draws; and the draws are those of the density."""
    part = KNOWN[number]()
    variable = variable_of("x", part)
    assert variable.free is not None
    plain = variable._replace(free=None)
    for seed in range(20):
        u, x = variable.draw(source(part, seed))
        np.testing.assert_allclose(x, variable.transform(u))
        free, known = (sum(float(np.sum(p)) for p in one.log_prob_at(u, x)) for one in (variable, plain))
        np.testing.assert_allclose(free, known, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_draws_are_those_of_the_variable(number):
    part = KNOWN[number]()
    variable = variable_of("x", part)
    plain = variable._replace(free=None)

    def first(one, seed):
        u, _ = one.draw(source(part, seed))
        return np.ravel(u)[-1]

    drawn = [first(variable, seed) for seed in range(300)]
    expected = [first(plain, seed) for seed in range(1000, 1300)]
    assert scipy.stats.ks_2samp(drawn, expected).pvalue > 1e-3


TINY = {
    "gamma": (lambda: dist.Gamma(1e-4, 1e-4), scipy.stats.gamma(1e-4, scale=1e4)),
    "inverse gamma": (lambda: dist.InverseGamma(1e-3, 1e-3), scipy.stats.invgamma(1e-3, scale=1e-3)),
    "of the library": (lambda: Gamma(1e-3, 1e-3), scipy.stats.gamma(1e-3, scale=1e3)),
    "scipy": (lambda: scipy.stats.invgamma(1e-3, scale=1e-3), scipy.stats.invgamma(1e-3, scale=1e-3)),
}


@pytest.mark.parametrize("name", TINY)
def test_the_evidence_with_a_tiny_shape(name):
    """Half of the draws and more are beyond all numbers of 64 bits; only their logarithms are not."""
    make, exact = TINY[name]
    xp = np if name == "scipy" else jnp
    log_likelihood = lambda p: -0.5 * xp.square((xp.log(p["x"]) - 1) / 0.5)  # noqa: E731
    with np.errstate(divide="ignore", over="ignore"):
        result = qp.evidence(prior={"x": make()}, log_likelihood=log_likelihood, budget=40_000, key=jax.random.key(0))
    grid = np.linspace(-5, 7, 20_001)
    logs = exact.logpdf(np.exp(grid)) + grid - 0.5 * ((grid - 1) / 0.5) ** 2
    truth = np.log(np.trapezoid(np.exp(logs), grid))
    assert abs(float(result.log_evidence) - truth) < 4 * float(result.log_evidence_se) + 1e-3
    assert float(result.log_evidence_se) < 0.05


def test_a_tiny_shape_in_a_model_of_numpyro():
    numpyro = pytest.importorskip("numpyro")
    shares, counts = jnp.full(4, 0.05), jnp.array([3.0, 2.0, 1.0, 1.0])

    def model():
        x = numpyro.sample("x", dist.Dirichlet(shares))
        numpyro.factor("data", jnp.sum(counts * jnp.log(jnp.maximum(x, 1e-300))))

    result = qp.evidence(qp.adapters.from_numpyro(model), budget=40_000, key=jax.random.key(0))
    log_beta = lambda a: jnp.sum(jax.scipy.special.gammaln(a)) - jax.scipy.special.gammaln(jnp.sum(a))  # noqa: E731
    truth = float(log_beta(shares + counts) - log_beta(shares))
    assert abs(float(result.log_evidence) - truth) < 4 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.05
