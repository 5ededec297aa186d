"""Held-out models with bounds, simplices and many modes. See `models.py`.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from scipy.special import logsumexp

from benchmarks.suites.held_out.curves import uniform
from benchmarks.suites.problems import log_integral

# fmt: off
DISASTERS = np.array([
    4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4, 2, 5, 2, 2, 3, 4, 2, 1,
    3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0,
    1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2, 4, 2, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1.0,
])
# fmt: on


def change_point():
    """Disasters in coal mines by year (Jarrett, 1979): the rate changes once, at a time that is uniform.

    Rates are gamma(2, 1). The likelihood is a step function of the time.
    """
    counts, num = jnp.asarray(DISASTERS), len(DISASTERS)

    def log_prior(x):
        return uniform(x["logit_time"]) + jnp.sum(2 * x["log_rates"] - jnp.exp(x["log_rates"]))

    def log_likelihood(x):
        is_late = jnp.arange(num) >= num * jax.nn.sigmoid(x["logit_time"])
        log_rate = jnp.where(is_late, x["log_rates"][1], x["log_rates"][0])
        return jnp.sum(counts * log_rate - jnp.exp(log_rate) - gammaln(counts + 1))

    def sample_prior(key):
        first, second = jax.random.split(key)
        return {"logit_time": jax.random.logistic(first), "log_rates": jax.random.loggamma(second, 2.0, (2,))}

    return log_prior, log_likelihood, sample_prior


def change_point_truth():
    """A sum over the years of products of two closed forms: `k` years are early if the time is in (k - 1, k]."""
    early, total, num = np.cumsum(DISASTERS), DISASTERS.sum(), len(DISASTERS)
    years = np.arange(1, num + 1)

    def of_rate(count, length):
        return np.asarray(gammaln(2.0 + count)) - (2.0 + count) * np.log(1.0 + length)

    terms = of_rate(early, years) + of_rate(total - early, num - years)
    return float(logsumexp(terms) - np.log(num) - jnp.sum(gammaln(DISASTERS + 1)))


VOTES = np.array([31, 12, 0, 5, 1, 0, 22, 3.0])


def multinomial():
    """Counts in eight categories, two of them empty: Dirichlet(1/2) prior, logits against the last category."""
    num = len(VOTES)

    def log_chances(x):
        return jax.nn.log_softmax(jnp.append(x["logits"], 0.0))

    def log_prior(x):
        return gammaln(0.5 * num) - num * gammaln(0.5) + 0.5 * jnp.sum(log_chances(x))

    def log_likelihood(x):
        constant = gammaln(VOTES.sum() + 1) - jnp.sum(gammaln(VOTES + 1))
        return constant + jnp.sum(VOTES * log_chances(x))

    def sample_prior(key):
        gammas = jax.random.loggamma(key, 0.5, (num,))
        return {"logits": gammas[:-1] - gammas[-1]}

    return log_prior, log_likelihood, sample_prior


def multinomial_truth():
    """The Dirichlet-multinomial probability."""
    total, num = VOTES.sum(), len(VOTES)
    value = gammaln(0.5 * num) - num * gammaln(0.5) + jnp.sum(gammaln(VOTES + 0.5)) - gammaln(total + 0.5 * num)
    return float(value + gammaln(total + 1) - jnp.sum(gammaln(VOTES + 1)))


def wave_data():
    rng = np.random.default_rng(621)
    times = np.sort(rng.uniform(0, 20, 30))
    return times, 0.8 * np.cos(2.1 * times) + 0.5 * np.sin(2.1 * times) + 0.8 * rng.standard_normal(30)


def frequency():
    """A wave of unknown frequency, uniform in (0, 5): the likelihood has many modes."""
    times, response = map(jnp.asarray, wave_data())

    def log_prior(x):
        return uniform(x["logit"]) + jnp.sum(norm.logpdf(x["amplitudes"]))

    def log_likelihood(x):
        angles = 5.0 * jax.nn.sigmoid(x["logit"]) * times
        wave = x["amplitudes"] @ jnp.stack([jnp.cos(angles), jnp.sin(angles)])
        return jnp.sum(norm.logpdf(response, wave, 0.8))

    def sample_prior(key):
        first, second = jax.random.split(key)
        return {"logit": jax.random.logistic(first), "amplitudes": jax.random.normal(second, (2,))}

    return log_prior, log_likelihood, sample_prior


def frequency_truth():
    """The amplitudes by the formula for linear regression, the frequency at the middles of small intervals."""
    times, response = wave_data()
    log_values = []
    for value in (np.arange(5000) + 0.5) / 1000:
        waves = np.stack([np.cos(value * times), np.sin(value * times)])
        covariance = 0.64 * np.eye(len(times)) + waves.T @ waves
        quadratic = response @ np.linalg.solve(covariance, response)
        log_values.append(-0.5 * (quadratic + np.linalg.slogdet(covariance)[1] + len(times) * np.log(2 * np.pi)))
    return log_integral(np.array(log_values), 1 / 5000)


def interval_data():
    return np.random.default_rng(622).uniform(-1.0, 3.0, 20)


def interval():
    """Numbers that are uniform between unknown ends: the likelihood is zero where a number is outside."""
    data = interval_data()
    lowest, highest = data.min(), data.max()

    def log_prior(x):
        return norm.logpdf(x["low"], 0.0, 3.0) + norm.logpdf(x["high"], 0.0, 3.0)

    def log_likelihood(x):
        inside = (x["low"] < lowest) & (x["high"] > highest)
        width = jnp.where(inside, x["high"] - x["low"], 1.0)
        return jnp.where(inside, -len(data) * jnp.log(width), -jnp.inf)

    def sample_prior(key):
        low, high = 3.0 * jax.random.normal(key, (2,))
        return {"low": low, "high": high}

    return log_prior, log_likelihood, sample_prior


def interval_truth():
    """Gauss-Legendre quadrature outside the data, on both sides."""
    data = interval_data()
    nodes, weights = np.polynomial.legendre.leggauss(400)
    low, high = data.min() - 10 * (nodes + 1), data.max() + 10 * (nodes + 1)
    log_low, log_high = (np.asarray(norm.logpdf(end, 0.0, 3.0)) + np.log(10 * weights) for end in (low, high))
    return float(logsumexp(log_low[:, None] + log_high - len(data) * np.log(high - low[:, None])))
