"""Targets with many modes, and others on which answers were wrong and confident, each with its truth.

`MODELS` were looked at while the search for modes was built. `KEPT` (`multimodal_kept.py`) were run once, at the end.

    python -m benchmarks.suites.run --suite multimodal
    python -m benchmarks.suites.run --suite multimodal-kept

Truths are closed forms, enumerations and quadrature, computed when a target is made, where no comment says otherwise.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from scipy import stats

import qpaths as qp
from benchmarks.suites.problems import log_integral, standard_normal
from qpaths.adapters import from_numpyro


class Target(NamedTuple):
    """Arguments of `qpaths.evidence`, and the truth."""

    arguments: dict[str, Any]
    truth: float
    truth_se: float = 0.0


def lines(num):
    """Gaussian lines in a spectrum that has two."""
    rng = np.random.default_rng(0)
    rng.normal(size=30)
    x = np.linspace(0, 10, 80)
    y = 3 * np.exp(-0.5 * ((x - 3) / 0.4) ** 2) + 2 * np.exp(-0.5 * ((x - 7) / 0.6) ** 2) + 0.3 * rng.normal(size=80)

    def model(y):
        height = numpyro.sample("A", dist.Uniform(0, 10).expand([num]).to_event(1))
        place = numpyro.sample("m", dist.Uniform(0, 10).expand([num]).to_event(1))
        width = numpyro.sample("w", dist.LogUniform(0.1, 3).expand([num]).to_event(1))
        noise = numpyro.sample("s", dist.HalfNormal(1))
        shape = jnp.exp(-0.5 * ((x[:, None] - place) / width) ** 2)
        numpyro.sample("y", dist.Normal(shape @ height, noise).to_event(1), obs=y)

    # Three lines: five runs of SMC from the posterior of two lines times the prior of a third, which is the smallest.
    truth, error = {2: (-41.666, 0.004), 3: (-43.2, 0.08)}[num]
    return Target({"base": from_numpyro(model, jnp.asarray(y))}, truth, error)


def wells(dimension=10, num=8):
    centers = 2.5 * jax.random.normal(jax.random.key(5), (num, dimension))
    target = qp.Density(lambda x: logsumexp(-0.5 * jnp.sum((x - centers) ** 2, axis=-1) / 0.16))
    base = qp.MultivariateNormal(jnp.zeros(dimension), 9 * jnp.eye(dimension))
    return Target({"base": base, "target": target}, np.log(num) + 0.5 * dimension * np.log(2 * np.pi * 0.16))


def blind(dimension):
    """Two modes of a black box: a likelihood in NumPy, without a gradient."""

    def log_likelihood(p):
        x = 10 * p["u"] - 5
        near = (stats.norm.logpdf(x, place, 0.3).sum() for place in (2.0, -2.0))
        return np.logaddexp(*(np.log(share) + value for share, value in zip((0.3, 0.7), near, strict=True)))

    prior = {"u": stats.uniform(np.zeros(dimension), np.ones(dimension))}
    return Target({"prior": prior, "log_likelihood": log_likelihood}, -dimension * np.log(10))


def slab(size=12, num=40):
    """A spike and a slab for each of twelve correlated coefficients; the truth sums over the 4,096 sets of slabs."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=(num, size)) + 0.7 * rng.normal(size=(num, 1))
    y = x[:, :3] @ np.array([1.0, -0.8, 0.5]) + rng.normal(size=num)
    narrow, wide, share = 0.05, 1.5, 0.25
    spikes = dist.MixtureGeneral(
        dist.Categorical(probs=jnp.array([1 - share, share])), [dist.Normal(0, narrow), dist.Normal(0, wide)]
    )
    terms = []
    for chosen in itertools.product((0, 1), repeat=size):
        sd = np.where(chosen, wide, narrow)
        cov = (x * sd**2) @ x.T + np.eye(num)
        log_det = np.linalg.slogdet(cov)[1]
        value = -0.5 * (y @ np.linalg.solve(cov, y) + log_det + num * np.log(2 * np.pi))
        terms.append(value + sum(chosen) * np.log(share) + (size - sum(chosen)) * np.log(1 - share))
    arguments = {
        "prior": {"b": spikes.expand([size]).to_event(1)},
        "log_likelihood": lambda p: jnp.sum(norm.logpdf(y, x @ p["b"], 1.0)),
    }
    return Target(arguments, float(logsumexp(np.array(terms))))


def cauchy(size=6):
    """Locations of Cauchy variables with two observations far apart, and one more: 64 unequal modes."""
    data = np.array([[-4.0, 5.0, 5.0 + 0.6 * j] for j in range(size)])

    def log_likelihood(x):
        return jnp.sum(-jnp.log(np.pi * 0.5) - jnp.log1p(((data - x[:, None]) / 0.5) ** 2))

    axis = np.linspace(-60, 60, 240_001)
    each = -np.log(np.pi * 0.5) - np.log1p(((data[:, :, None] - axis) / 0.5) ** 2)
    truth = sum(log_integral(one.sum(0) + stats.norm.logpdf(axis, 0, 5), axis[1] - axis[0]) for one in each)
    prior = standard_normal(size, 5.0)
    return Target({"base": prior, "target": qp.Density(lambda x: prior.log_prob(x) + log_likelihood(x))}, truth)


def narrow():
    """A mode with 70 % of the mass, and a hundredth of the other's width."""
    center, sd = jnp.array([2.5, -1.5]), 0.01

    def target(x):
        near = jnp.sum(norm.logpdf(x, center, sd))
        return jnp.logaddexp(jnp.log(0.7) + near, jnp.log(0.3) + jnp.sum(norm.logpdf(x)))

    return Target({"base": standard_normal(2, 4.0), "target": qp.Density(target)}, 0.0)


def positive(size=3):
    """Log-normal priors on the positive axis itself: the density is zero elsewhere."""
    y = jnp.array([0.4, 1.5, 3.0])[:size]

    def log_prior(x):
        safe = jnp.where(x > 0, x, 1.0)
        return jnp.sum(jnp.where(x > 0, norm.logpdf(jnp.log(safe)) - jnp.log(safe), -jnp.inf))

    arguments = {
        "log_prior": log_prior,
        "log_likelihood": lambda x: jnp.sum(norm.logpdf(y, x, 0.5)),
        "sample_prior": lambda key: jnp.exp(jax.random.normal(key, (size,))),
    }
    axis = np.linspace(-12, 6, 100_001)
    truth = sum(
        log_integral(stats.norm.logpdf(axis) + stats.norm.logpdf(float(one), np.exp(axis), 0.5), axis[1] - axis[0])
        for one in y
    )
    return Target(arguments, truth)


def labels(num=5):
    """A normal mixture with unknown means: 120 copies of each mode.

    The truth is from importance sampling with 300,000 draws of a t mixture at the modes with ordered means.
    """
    rng = np.random.default_rng(15)
    centers = np.array([-6.0, -2.5, 0.0, 3.0, 7.0])
    y = jnp.asarray(centers[rng.integers(num, size=100)] + 0.7 * rng.normal(size=100))
    arguments = {
        "prior": {"m": dist.Normal(0, 5).expand([num]).to_event(1)},
        "log_likelihood": lambda p: jnp.sum(logsumexp(norm.logpdf(y[:, None], p["m"], 0.7), axis=1) - jnp.log(num)),
    }
    return Target(arguments, *LABELS)


LABELS = (-275.2400, 0.001)


def rosenbrock():
    """The hybrid Rosenbrock of Pagani, Wiegand and Nadarajah (2022) in seven dimensions, with its constant."""
    a, b, mean, num, size = 0.5, 2.0, 1.0, 3, 2

    def target(x):
        blocks = x[1:].reshape(num, size)
        before = jnp.concatenate([jnp.full((num, 1), x[0]), blocks[:, :-1]], axis=1)
        return -a * (x[0] - mean) ** 2 - b * jnp.sum((blocks - before**2) ** 2)

    truth = 0.5 * np.log(np.pi / a) + 0.5 * num * size * np.log(np.pi / b)
    return Target({"base": standard_normal(1 + num * size, 4.0), "target": qp.Density(target)}, truth)


def states(num=40):
    """A local level with unknown scales of both noises; the truth is a Kalman filter on a grid of the scales."""
    rng = np.random.default_rng(17)
    y = np.cumsum(0.3 * rng.normal(size=num)) + 0.5 * rng.normal(size=num)

    def model(y):
        level = numpyro.sample("level", dist.HalfNormal(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        x = numpyro.sample("x", dist.GaussianRandomWalk(level, num_steps=num))
        numpyro.sample("y", dist.Normal(x, noise).to_event(1), obs=y)

    step = 0.01
    grid = np.exp(np.arange(-8, 2, step))
    level, noise = np.meshgrid(grid, grid)
    mean, variance, value = np.zeros_like(level), np.zeros_like(level), np.zeros_like(level)
    for one in y:
        variance = variance + level**2
        value += stats.norm.logpdf(one, mean, np.sqrt(variance + noise**2))
        gain = variance / (variance + noise**2)
        mean, variance = mean + gain * (one - mean), (1 - gain) * variance
    prior = stats.halfnorm.logpdf(level) + stats.halfnorm.logpdf(noise) + np.log(level) + np.log(noise)
    return Target({"base": from_numpyro(model, jnp.asarray(y))}, log_integral(value + prior, step, step))


def network(hidden=3, num=30):
    """A network with three hidden units: signs and labels.

    Given the hidden units the output is linear with a normal prior. The truth is the mean of that evidence over six
    million draws of the first layer.
    """
    rng = np.random.default_rng(18)
    x = np.linspace(-2, 2, num)
    y = np.tanh(2 * x + 1) - 0.7 * np.tanh(3 * x - 2) + 0.2 * rng.normal(size=num)

    def log_likelihood(p):
        return jnp.sum(norm.logpdf(y, jnp.tanh(x[:, None] * p["a"] + p["b"]) @ p["w"] + p["c"], 0.2))

    prior = {name: dist.Normal(0, sd).expand([hidden]).to_event(1) for name, sd in (("a", 2.0), ("b", 2.0), ("w", 1.0))}
    return Target({"prior": prior | {"c": dist.Normal(0, 1)}, "log_likelihood": log_likelihood}, *NETWORK)


NETWORK = (-5.2487, 0.0038)

MODELS = {
    "lines2": lambda: lines(2),
    "lines3": lambda: lines(3),
    "wells8": wells,
    "blind10": lambda: blind(10),
    "blind20": lambda: blind(20),
    "slab": slab,
    "cauchy": cauchy,
    "narrow": narrow,
    "positive": positive,
    "labels5": labels,
    "rosenbrock": rosenbrock,
    "states": states,
    "network3": network,
}
