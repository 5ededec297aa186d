"""Fresh models in few dimensions: a ridge, rings, angles, exchangeable parts, data that disagree.

See `models.py`: they have been looked at. Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function
after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.special import i0e as bessel
from jax.scipy.stats import cauchy, norm
from scipy.special import gammaln as log_gamma
from scipy.special import i0e, logsumexp

from benchmarks.suites.held_out.curves import half_normal, normals, on_grid
from benchmarks.suites.held_out.groups import spacings
from benchmarks.suites.problems import log_integral


def kinetics():
    """The speed of a reaction at low concentrations (Treloar, 1974): a ridge of the top speed and the constant."""
    amount = jnp.asarray([0.02, 0.02, 0.06, 0.06, 0.11, 0.11])
    speed = jnp.asarray([76.0, 47.0, 97.0, 107.0, 123.0, 139.0])

    def log_prior(x):
        of_curve = norm.logpdf(x["log_top"], 4.0, 2.0) + norm.logpdf(x["log_constant"], 0.0, 2.0)
        return of_curve + half_normal(x["log_noise"], 20.0)

    def log_likelihood(x):
        curve = jnp.exp(x["log_top"]) * amount / (jnp.exp(x["log_constant"]) + amount)
        return jnp.sum(norm.logpdf(speed, curve, jnp.exp(x["log_noise"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_noise = jnp.log(20.0 * jnp.abs(jax.random.normal(second)))
        return normals(first, log_top=(4.0, 2.0), log_constant=(0.0, 2.0)) | {"log_noise": log_noise}

    return log_prior, log_likelihood, sample_prior


def kinetics_truth(finer=1):
    """A grid of all three parameters."""
    axes = {"log_top": (-3.0, 13.0, 240), "log_constant": (-11.0, 9.0, 300), "log_noise": (-3.0, 5.0, 80)}
    return on_grid(kinetics(), **{name: (low, high, 1 + round(num * finer)) for name, (low, high, num) in axes.items()})


AROUND = 3.0


def rings_data(num):
    rng = np.random.default_rng(724)
    return np.array([[2.0], [4.0], [5.5]])[:num] + 0.05 * rng.standard_normal((num, 4))


def rings(num=3):
    """Three objects in the plane, their distances from one station measured four times: each posterior is a ring.

    The prior is normal around the point (1, 0) with standard deviation 3.
    """
    distances = jnp.asarray(rings_data(num))

    def log_prior(x):
        of_places = norm.logpdf(x["places"], jnp.array([1.0, 0.0]), AROUND)
        return jnp.sum(of_places) + half_normal(x["log_noise"], 0.5)

    def log_likelihood(x):
        radius = jnp.sqrt(jnp.sum(x["places"] ** 2, axis=1) + 1e-12)
        return jnp.sum(norm.logpdf(distances, radius[:, None], jnp.exp(x["log_noise"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        places = jnp.array([1.0, 0.0]) + AROUND * jax.random.normal(first, (num, 2))
        return {"places": places, "log_noise": jnp.log(0.5 * jnp.abs(jax.random.normal(second)))}

    return log_prior, log_likelihood, sample_prior


def rings_truth(num=3, finer=1):
    """The angle by a Bessel function (a Rice density of the radius); a grid of the radius for each noise."""
    axis = -5.5, 2.0, 1 + round(300 * finer)
    radius = np.linspace(0.0, 20.0, 1 + round(8000 * finer))[1:]
    variance = AROUND**2
    log_rice = np.log(radius * i0e(radius / variance) / variance) - 0.5 * (radius - 1) ** 2 / variance
    log_joint = []
    for log_noise in np.linspace(*axis):
        value = float(half_normal(log_noise, 0.5))
        for row in rings_data(num):
            misfit = np.sum((row[:, None] - radius) ** 2, axis=0)
            terms = log_rice - 0.5 * misfit * np.exp(-2 * log_noise)
            value += log_integral(terms, radius[1] - radius[0]) - len(row) * (log_noise + 0.5 * np.log(2 * np.pi))
        log_joint.append(value)
    return log_integral(np.array(log_joint), *spacings(axis))


CLUSTERS = np.array([0, 1, 1, 0, 2, 1, 0, 1, 4, 6, 5, 3, 5, 7, 4, 5, 12, 10, 13, 9, 11, 14])


def clusters():
    """A mixture of three Poisson distributions: rates gamma(2, 1/4), shares uniform, so that there are six modes."""
    counts = jnp.asarray(CLUSTERS, float)

    def log_shares(x):
        return jax.nn.log_softmax(jnp.append(x["logits"], 0.0))

    def log_prior(x):
        of_rates = 2 * x["log_rates"] - 0.25 * jnp.exp(x["log_rates"]) + 2 * jnp.log(0.25)
        return jnp.sum(of_rates) + jnp.log(2.0) + jnp.sum(log_shares(x))

    def log_likelihood(x):
        of_counts = counts[:, None] * x["log_rates"] - jnp.exp(x["log_rates"]) - gammaln(counts + 1)[:, None]
        return jnp.sum(jax.nn.logsumexp(of_counts + log_shares(x), axis=1))

    def sample_prior(key):
        first, second = jax.random.split(key)
        gammas = jax.random.loggamma(second, 1.0, (3,))
        log_rates = jax.random.loggamma(first, 2.0, (3,)) + jnp.log(4.0)
        return {"log_rates": log_rates, "logits": gammas[:-1] - gammas[-1]}

    return log_prior, log_likelihood, sample_prior


def clusters_truth():
    """Exact: all ways to deal the counts to the parts, counted by the number and the sum of the first two parts."""
    num, total = len(CLUSTERS), int(CLUSTERS.sum())
    ways = np.zeros((num + 1, total + 1, num + 1, total + 1))
    ways[0, 0, 0, 0] = 1.0
    for count in CLUSTERS:
        rest = total + 1 - count
        after = ways.copy()
        after[1:, count:] += ways[:-1, :rest]
        after[:, :, 1:, count:] += ways[:, :, :-1, :rest]
        ways = after
    first, first_sum, second, second_sum = np.nonzero(ways)
    value = np.log(ways[first, first_sum, second, second_sum])
    numbers = np.stack([first, second, num - first - second])
    sums = np.stack([first_sum, second_sum, total - first_sum - second_sum])
    of_rates = 2 * np.log(0.25) + log_gamma(2.0 + sums) - (2.0 + sums) * np.log(0.25 + numbers)
    of_shares = np.sum(log_gamma(1.0 + numbers), axis=0) + np.log(2.0) - log_gamma(3.0 + num)
    return float(logsumexp(value + np.sum(of_rates, axis=0) + of_shares) - np.sum(log_gamma(CLUSTERS + 1.0)))


def directions_data():
    rng = np.random.default_rng(725)
    return np.pi + 0.1 + rng.vonmises(0.0, 2.5, 15)


def directions():
    """Directions around the angle pi, where the interval of the mean ends: the prior is uniform, and zero outside."""
    across, upward = float(np.cos(directions_data()).sum()), float(np.sin(directions_data()).sum())
    num = len(directions_data())

    def log_prior(x):
        of_mean = jnp.where(jnp.abs(x["mean"]) < jnp.pi, -jnp.log(2 * jnp.pi), -jnp.inf)
        return of_mean + norm.logpdf(x["log_focus"], 0.0, 1.5)

    def log_likelihood(x):
        focus = jnp.exp(x["log_focus"])
        along = across * jnp.cos(x["mean"]) + upward * jnp.sin(x["mean"])
        return focus * (along - num) - num * jnp.log(2 * jnp.pi * bessel(focus))

    def sample_prior(key):
        first, second = jax.random.split(key)
        mean = jax.random.uniform(first, minval=-jnp.pi, maxval=jnp.pi)
        return {"mean": mean, "log_focus": 1.5 * jax.random.normal(second)}

    return log_prior, log_likelihood, sample_prior


def directions_truth(finer=1):
    """The mean by a Bessel function, a grid of the logarithm of the concentration."""
    axis = -12.0, 12.0, 1 + round(2400 * finer)
    log_focus, num = np.linspace(*axis), len(directions_data())
    focus, length = np.exp(log_focus), np.abs(np.sum(np.exp(1j * directions_data())))
    of_data = focus * (length - num) + np.log(i0e(focus * length)) - num * np.log(2 * np.pi * i0e(focus))
    return log_integral(of_data + np.asarray(norm.logpdf(log_focus, 0.0, 1.5)), *spacings(axis))


DISTANT = np.array([-20.0, 31.0])


def distant():
    """Two numbers that disagree with each other and with the prior, all Cauchy: three modes in one dimension."""

    def log_prior(x):
        return cauchy.logpdf(x["place"])

    def log_likelihood(x):
        return jnp.sum(cauchy.logpdf(DISTANT, x["place"]))

    def sample_prior(key):
        return {"place": jax.random.cauchy(key)}

    return log_prior, log_likelihood, sample_prior


def distant_truth():
    """Exact, by residues: the poles are one unit above the three centers."""
    centers = np.append(DISTANT, 0.0)
    terms = [
        np.prod([1 / ((center - other + 1j) ** 2 + 1) for other in centers if other != center]) for center in centers
    ]
    return float(np.log(np.sum(terms).real / np.pi**2))
