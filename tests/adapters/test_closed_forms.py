"""Evidences that are known: by closed forms, or by quadrature, through priors as objects and NumPyro.

Beta-binomial and gamma-Poisson are in test_priors.py, mixtures in test_enumeration.py.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, multigammaln

import qpaths as qp
from qpaths.adapters import from_numpyro, from_prior

X = np.linspace(-1, 1, 12)
DESIGN = np.stack([np.ones_like(X), X], axis=1)
RESPONSE = 0.5 + 1.5 * X + 0.4 * np.random.default_rng(0).standard_normal(12)
ROWS = np.random.default_rng(1).standard_normal((8, 2)) @ np.array([[1.0, 0.0], [0.7, 0.8]]).T


def normal_inverse_gamma():
    """Variance v ~ InverseGamma(2, 1), weights given v ~ N(0, 4 v)."""
    precision = DESIGN.T @ DESIGN + np.eye(2) / 4
    mean = np.linalg.solve(precision, DESIGN.T @ RESPONSE)
    shape, rate = 2 + len(X) / 2, 1 + 0.5 * (RESPONSE @ RESPONSE - mean @ precision @ mean)
    exact = -0.5 * len(X) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1] - 2 * np.log(2)
    exact += gammaln(shape) - gammaln(2) - shape * np.log(rate)

    def model(y):
        v = numpyro.sample("v", dist.InverseGamma(2.0, 1.0))
        w = numpyro.sample("w", dist.Normal(0, 2 * jnp.sqrt(v)).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(DESIGN @ w, jnp.sqrt(v)), obs=y)

    return exact, from_numpyro(model, jnp.asarray(RESPONSE))


def dirichlet_multinomial():
    alpha, counts = np.array([1.0, 2.0, 0.5, 1.5]), np.array([4, 7, 0, 2])
    exact = gammaln(14) - gammaln(counts + 1.0).sum() + gammaln(5.0) - gammaln(18.0)
    exact += (gammaln(alpha + counts) - gammaln(alpha)).sum()
    prior = {"w": dist.Dirichlet(jnp.asarray(alpha))}
    return exact, from_prior(prior, lambda p: dist.Multinomial(13, p["w"]).log_prob(counts))


def wishart():
    """Rows ~ N(0, inverse of P) with P ~ Wishart(5, I)."""
    exact = -len(ROWS) * np.log(np.pi) + multigammaln((5 + len(ROWS)) / 2, 2) - multigammaln(5 / 2, 2)
    exact -= (5 + len(ROWS)) / 2 * np.linalg.slogdet(np.eye(2) + ROWS.T @ ROWS)[1]

    def log_likelihood(p):
        return dist.MultivariateNormal(jnp.zeros(2), precision_matrix=p["P"]).log_prob(ROWS).sum()

    return exact, from_prior({"P": dist.Wishart(5.0, jnp.eye(2))}, log_likelihood)


def lkj():
    """Unit scales, and a correlation r with density 3/4 (1 - r^2), by quadrature."""
    cross, squares = float(np.sum(ROWS[:, 0] * ROWS[:, 1])), float(np.sum(ROWS**2))

    def density(r):
        log_likelihood = -len(ROWS) * (np.log(2 * np.pi) + 0.5 * np.log1p(-(r**2)))
        return 0.75 * (1 - r**2) * np.exp(log_likelihood - 0.5 * (squares - 2 * r * cross) / (1 - r**2) + 20)

    def model(y):
        chol = numpyro.sample("chol", dist.LKJCholesky(2, 2.0))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2), scale_tril=chol), obs=y)

    return np.log(quad(density, -1, 1, epsabs=0, epsrel=1e-10)[0]) - 20, from_numpyro(model, jnp.asarray(ROWS))


@pytest.mark.parametrize("case", [normal_inverse_gamma, dirichlet_multinomial, wishart, lkj], ids=lambda c: c.__name__)
def test_the_evidence_is_the_known_one(case, key):
    exact, own = case()
    result = qp.evidence(own, budget=20_000, key=key)
    assert abs(float(result.log_evidence) - exact) < 4 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.1
