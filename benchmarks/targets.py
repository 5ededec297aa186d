"""Targets with a known log evidence, on which `benchmarks/reach.py` runs the front door.

Most are those on which samplers of normalizing constants are compared (Heng et al., 2020; Arbel et al., 2021; Vargas et
al., 2023; Blessing et al., 2024). The truths are exact, by quadrature, or by long runs of other programs. The data are
public: UCI (German credit, breast cancer, ionosphere) and Penttinen, Stoyan and Henttonen (1992, pines).
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.experiments.paper.parts.datasets import load, log_sigmoid, logistic_regression

DATA = Path(__file__).parent / "data"


class Problem(NamedTuple):
    """The endpoints, the truth and its standard error, and the error that is wanted within a budget."""

    base: Any
    target: Any
    truth: float
    truth_se: float
    wanted: float
    budget: int


def standard_normal(dimension, scale=1.0):
    return qp.Density(
        lambda x: jnp.sum(norm.logpdf(x, scale=scale)), lambda key: scale * jax.random.normal(key, (dimension,))
    )


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


def regression(name):
    truths = {"pima": (-391.495, 0.001, 0.002, 60_000), "sonar": (-124.13, 0.02, 0.01, 1_000_000)}
    return Problem(*logistic_regression(load(name)), *truths[name])


def suite_regression(name):
    """Logistic regression: standard normal base, which is the prior too except for `credit`, whose prior is flat."""
    files = {"credit": "german_credit", "cancer": "breast_cancer", "ionosphere": "ionosphere"}
    truths = {"credit": (-504.4886, 0.0017), "cancer": (-67.487, 0.006), "ionosphere": (-111.61, 0.01)}
    table = np.loadtxt(DATA / f"{files[name]}.csv", delimiter=",")
    predictors, labels = table[:, :-1], np.where(table[:, -1] == 1, 1.0, -1.0)
    deviation = predictors.std(axis=0)
    if name == "ionosphere":
        predictors = predictors - predictors.mean(axis=0)
    predictors = predictors / np.where(deviation > 0, deviation, 1.0)
    signed = jnp.asarray((np.column_stack([np.ones(len(labels)), predictors]) * labels[:, None]).T)
    base = standard_normal(signed.shape[0])

    def log_target(x):
        log_likelihood = jnp.sum(log_sigmoid(x @ signed))
        return log_likelihood if name == "credit" else base.log_prob(x) + log_likelihood

    return Problem(base, qp.Density(log_target), *truths[name], 0.005, 200_000)


def cox(size):
    """Log-Gaussian Cox process of the pines on a grid; the prior is the base."""
    points = np.loadtxt(DATA / "pines.csv", delimiter=",")
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=size, range=[[0, 1], [0, 1]])[0].ravel()
    cells = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), axis=-1).reshape(-1, 2)
    distance = np.linalg.norm(cells[:, None] - cells[None], axis=-1)
    factor = np.linalg.cholesky(1.91 * np.exp(-distance / (size / 33)))
    mean, inverse = np.log(126) - 1.91 / 2, jnp.asarray(np.linalg.inv(factor).T)
    constant = -np.sum(np.log(np.diag(factor))) - 0.5 * size**2 * np.log(2 * np.pi)
    root, counts = jnp.asarray(factor.T), jnp.asarray(counts)

    def log_prior(x):
        return constant - 0.5 * jnp.sum(((x - mean) @ inverse) ** 2)

    base = qp.Density(log_prior, lambda key: mean + jax.random.normal(key, (size**2,)) @ root)
    target = qp.Density(lambda x: log_prior(x) + jnp.sum(counts * x - jnp.exp(x) / size**2))
    truth = {30: (497.621, 0.003, 0.1), 40: (501.80, 0.10, 0.2)}[size]
    return Problem(base, target, *truth, 500_000)


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


def brownian():
    """Brownian motion of 30 steps with unknown scales, observed with noise except in the middle."""
    early = [0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845]
    early += [-0.1484156, -0.3250906, -0.22957903, -0.44110894, -0.09830782]
    late = [-0.8786016, -0.83736074, -0.7384849, -0.8939254, -0.7774566]
    late += [-0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789]
    observed, at = jnp.array(early + late), np.r_[0:10, 20:30]

    def log_prior(x):
        scales = jax.nn.softplus(x[:2])
        steps = jnp.diff(x[2:], prepend=0.0)
        log_scales = jnp.log(scales)
        of_scales = jnp.sum(norm.logpdf(log_scales, scale=2.0) - log_scales + jax.nn.log_sigmoid(x[:2]))
        return of_scales + jnp.sum(norm.logpdf(steps, scale=scales[0]))

    def sample(key):
        first, second = jax.random.split(key)
        scales = jnp.exp(2.0 * jax.random.normal(first, (2,)))
        path = jnp.cumsum(scales[0] * jax.random.normal(second, (30,)))
        return jnp.concatenate([scales + jnp.log(-jnp.expm1(-scales)), path])

    def log_target(x):
        return log_prior(x) + jnp.sum(norm.logpdf(observed, x[2:][at], jax.nn.softplus(x[1])))

    return Problem(qp.Density(log_prior, sample), qp.Density(log_target), 1.18775, 0.0, 0.01, 1_000_000)


def seeds():
    """Random-effects logistic regression of the BUGS examples, from a standard normal base."""
    germinated = jnp.array([10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3.0])
    total = jnp.array([39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7.0])
    kind, extract = np.repeat([0.0, 1.0], [11, 10]), np.repeat([0.0, 1.0, 0.0, 1.0], [5, 6, 5, 5])
    design = jnp.asarray(np.stack([np.ones(21), kind, extract, kind * extract]))
    binomial = float(jnp.sum(gammaln(total + 1) - gammaln(germinated + 1) - gammaln(total - germinated + 1)))

    def log_target(x):
        log_tau, coefficients, effects = x[0], x[1:5], x[5:]
        log_prior = 0.01 * log_tau - 0.01 * jnp.exp(log_tau) + 0.01 * jnp.log(0.01) - gammaln(0.01)
        log_prior += jnp.sum(norm.logpdf(coefficients, scale=10.0))
        log_prior += jnp.sum(norm.logpdf(effects, scale=jnp.exp(-0.5 * log_tau)))
        logits = coefficients @ design + effects
        return log_prior + jnp.sum(germinated * logits - total * jax.nn.softplus(logits)) + binomial

    return Problem(standard_normal(26), qp.Density(log_target), -73.413, 0.005, 0.01, 1_000_000)


def eight_schools():
    """The centered parametrization: a funnel in log tau. The truth is by quadrature over mu and log tau."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu, log_tau = np.meshgrid(np.linspace(-40.0, 50.0, 1801), np.linspace(-15.0, 8.0, 4601), indexing="ij")
    tau = np.exp(log_tau)
    log_joint = norm.logpdf(mu, 0.0, 5.0) + np.log(2 / (np.pi * 5)) - np.log1p((tau / 5) ** 2) + log_tau
    for effect, error in zip(effects, errors, strict=True):
        log_joint = log_joint + norm.logpdf(effect, mu, np.hypot(tau, error))
    peak = float(np.max(log_joint))
    truth = peak + float(np.log(np.sum(np.exp(log_joint - peak)) * 0.05 * 0.005))

    def log_prior(x):
        tau = jnp.exp(x[1])
        of_tau = jnp.log(2 / (jnp.pi * 5)) - jnp.log1p((tau / 5) ** 2) + x[1]
        return norm.logpdf(x[0], 0.0, 5.0) + of_tau + jnp.sum(norm.logpdf(x[2:], x[0], tau))

    def sample(key):
        first, second, third = jax.random.split(key, 3)
        mu = 5.0 * jax.random.normal(first)
        log_tau = jnp.log(5.0 * jnp.abs(jax.random.cauchy(second)))
        return jnp.concatenate([jnp.array([mu, log_tau]), mu + jnp.exp(log_tau) * jax.random.normal(third, (8,))])

    def log_target(x):
        return log_prior(x) + jnp.sum(norm.logpdf(jnp.asarray(effects), x[2:], jnp.asarray(errors)))

    return Problem(qp.Density(log_prior, sample), qp.Density(log_target), truth, 0.0, 0.02, 1_000_000)


def manywell(dimension=32):
    """Pairs of a double well and a normal coordinate: 2^(d / 2) modes."""

    def log_target(x):
        well, other = x[::2], x[1::2]
        return jnp.sum(0.5 * well + 6 * well**2 - well**4 - 0.5 * other**2)

    return Problem(standard_normal(dimension), qp.Density(log_target), 164.6957 * dimension / 32, 0.0, 0.05, 2_000_000)


def mixture(dimension):
    """Forty unit normal distributions with means that are uniform in [-40, 40]^d."""
    means = jnp.asarray(np.random.default_rng(0).uniform(-40, 40, (40, dimension)))

    def log_target(x):
        squared = jnp.sum((x - means) ** 2, axis=1)
        constant = np.log(40) + 0.5 * dimension * np.log(2 * np.pi)
        return jax.nn.logsumexp(-0.5 * squared) - constant

    wanted = 0.02 if dimension == 2 else 0.3
    return Problem(standard_normal(dimension, 40.0), qp.Density(log_target), 0.0, 0.0, wanted, 2_000_000)


PROBLEMS = {
    "pima": lambda: regression("pima"),
    "sonar": lambda: regression("sonar"),
    "credit": lambda: suite_regression("credit"),
    "cancer": lambda: suite_regression("cancer"),
    "ionosphere": lambda: suite_regression("ionosphere"),
    "normal50": lambda: normal(50),
    "normal150": lambda: normal(150),
    "normal500": lambda: normal(500),
    "normal2000": lambda: normal(2000),
    "lgcp30": lambda: cox(30),
    "lgcp40": lambda: cox(40),
    "funnel": funnel,
    "funnels": funnels,
    "twisted": twisted,
    "brownian": brownian,
    "seeds": seeds,
    "eight_schools": eight_schools,
    "manywell": manywell,
    "mixture2": lambda: mixture(2),
    "mixture50": lambda: mixture(50),
}
