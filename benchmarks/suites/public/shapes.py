"""Targets of a known shape: normal distributions, funnels, bends, wells, mixtures.

The truths are exact, or by quadrature in one dimension.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from scipy.special import logsumexp

import qpaths as qp
from benchmarks.suites.problems import Problem, log_integral, standard_normal


def normal(dimension, condition=1e6):
    """Linear regression with unit noise and a standard normal prior; the posterior has the given condition number."""
    rng = np.random.default_rng(dimension)
    num = 2 * dimension
    left = np.linalg.qr(rng.standard_normal((num, dimension)))[0]
    right = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    design = (left * np.sqrt(np.geomspace(1.0, condition, dimension) - 1)) @ right.T
    response = design @ rng.standard_normal(dimension) + rng.standard_normal(num)
    factor = np.linalg.cholesky(np.eye(num) + design @ design.T)
    white = np.linalg.solve(factor, response)
    truth = -0.5 * white @ white - np.sum(np.log(np.diag(factor))) - 0.5 * num * np.log(2 * np.pi)
    base, transposed, observed = standard_normal(dimension), jnp.asarray(design.T), jnp.asarray(response)
    target = qp.Density(lambda x: base.log_prob(x) + jnp.sum(norm.logpdf(observed - x @ transposed)))
    return Problem(base, target, float(truth), 0.0, 0.01, 50_000)


def logistic(dimension):
    """Independent coordinates, each with a standard normal prior and a binomial likelihood with its own curve."""
    rng = np.random.default_rng(dimension)
    trials = rng.integers(1, 21, dimension).astype(float)
    offset, slope = rng.standard_normal(dimension), rng.uniform(0.5, 2.0, dimension)
    counts = rng.binomial(trials.astype(int), 1 / (1 + np.exp(-offset - slope * rng.standard_normal(dimension))))
    grid = np.linspace(-12.0, 12.0, 1201)
    logits = offset[:, None] + slope[:, None] * grid
    log_joint = norm.logpdf(grid) + counts[:, None] * logits - trials[:, None] * np.logaddexp(0.0, logits)
    truth = float(np.sum(logsumexp(log_joint, axis=1) + np.log(0.02)))
    base = standard_normal(dimension)

    def log_target(x):
        logits = offset + slope * x
        return base.log_prob(x) + jnp.sum(counts * logits - trials * jax.nn.softplus(logits))

    return Problem(base, qp.Density(log_target), truth, 0.0, 0.1, 500_000)


def funnel(dimension=10):
    """Neal's funnel: the log variance of all coordinates but the first is the first, which has standard deviation 3."""

    def log_target(x):
        return norm.logpdf(x[0], scale=3.0) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(0.5 * x[0])))

    return Problem(standard_normal(dimension), qp.Density(log_target), 0.0, 0.0, 0.02, 1_500_000)


def funnels(num=4):
    """A product of funnels in two dimensions, each with a first coordinate of standard deviation 2."""

    def log_target(x):
        first, second = x[:num], x[num:]
        return jnp.sum(norm.logpdf(first, scale=2.0)) + jnp.sum(norm.logpdf(second, scale=jnp.exp(0.5 * first)))

    return Problem(standard_normal(2 * num, 2.0), qp.Density(log_target), 0.0, 0.0, 0.02, 1_500_000)


def twisted(dimension=12, bend=0.5):
    """A normal distribution of which every second coordinate is bent by the square of the one before it."""

    def log_target(x):
        first, second = x[::2], x[1::2]
        bent = second - bend * (first**2 - 4.0)
        return jnp.sum(norm.logpdf(first, scale=2.0)) + jnp.sum(norm.logpdf(bent))

    return Problem(standard_normal(dimension, 2.0), qp.Density(log_target), 0.0, 0.0, 0.02, 1_500_000)


def manywell(dimension=32):
    """Pairs of a double well and a normal coordinate: 2^(d / 2) modes."""

    def log_target(x):
        well, other = x[::2], x[1::2]
        return jnp.sum(0.5 * well + 6 * well**2 - well**4 - 0.5 * other**2)

    grid = np.linspace(-6.0, 6.0, 12001)
    pair = log_integral(0.5 * grid + 6 * grid**2 - grid**4, 0.001) + 0.5 * np.log(2 * np.pi)
    return Problem(standard_normal(dimension), qp.Density(log_target), dimension / 2 * pair, 0.0, 0.05, 2_000_000)


def mixture(dimension):
    """Forty unit normal distributions with means that are uniform in [-40, 40]^d."""
    means = jnp.asarray(np.random.default_rng(0).uniform(-40, 40, (40, dimension)))

    def log_target(x):
        squared = jnp.sum((x - means) ** 2, axis=1)
        constant = np.log(40) + 0.5 * dimension * np.log(2 * np.pi)
        return jax.nn.logsumexp(-0.5 * squared) - constant

    wanted = 0.02 if dimension == 2 else 0.3
    return Problem(standard_normal(dimension, 40.0), qp.Density(log_target), 0.0, 0.0, wanted, 2_000_000)
