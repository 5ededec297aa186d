"""Sealed models in few dimensions: counts, growth, copula, bounds. See `models.py`: no tuning decision looks at them.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from scipy.special import gammaln as log_gamma
from scipy.special import logsumexp

from benchmarks.suites.held_out.curves import half_normal, normals, on_grid, uniform
from benchmarks.suites.held_out.groups import mesh, spacings
from benchmarks.suites.problems import log_integral


def absences_data():
    rng = np.random.default_rng(831)
    place = rng.uniform(-1, 1, 40)
    return place, rng.poisson(np.exp(1.0 + 0.8 * place) * rng.gamma(2.0, 0.5, 40)).astype(float)


def absences():
    """Days of absence: negative-binomial regression on one predictor, with unknown size."""
    place, days = map(jnp.asarray, absences_data())

    def log_prior(x):
        of_line = norm.logpdf(x["intercept"], 0.0, 2.0) + norm.logpdf(x["slope"], 0.0, 2.0)
        return of_line + norm.logpdf(x["log_size"], 1.0, 1.0)

    def log_likelihood(x):
        log_mean, size = x["intercept"] + x["slope"] * place, jnp.exp(x["log_size"])
        log_total = jnp.logaddexp(log_mean, x["log_size"])
        of_powers = days * (log_mean - log_total) + size * (x["log_size"] - log_total)
        return jnp.sum(gammaln(days + size) - gammaln(size) - gammaln(days + 1) + of_powers)

    def sample_prior(key):
        return normals(key, intercept=(0.0, 2.0), slope=(0.0, 2.0), log_size=(1.0, 1.0))

    return log_prior, log_likelihood, sample_prior


def absences_truth(finer=1):
    """A grid of all three parameters."""
    axes = {"intercept": (-3.0, 5.0, 120), "slope": (-5.0, 6.0, 120), "log_size": (-4.0, 6.0, 80)}
    return on_grid(absences(), **{name: (low, high, 1 + round(num * finer)) for name, (low, high, num) in axes.items()})


METERS = np.array([17.93, 36.36, 67.76, 98.10, 131.0, 169.5, 205.5, 228.3, 247.1, 250.5, 253.8, 254.5]) / 100


def sunflowers(num=12):
    """The mean height of sunflowers by week (Reed and Holland, 1919): logistic growth with unknown noise."""
    weeks, heights = jnp.arange(1.0, num + 1.0), jnp.asarray(METERS[:num])

    def log_prior(x):
        of_curve = norm.logpdf(x["top"], 2.0, 1.0) + norm.logpdf(x["log_rate"]) + norm.logpdf(x["middle"], 6.0, 3.0)
        return of_curve + half_normal(x["log_noise"], 0.5)

    def log_likelihood(x):
        curve = x["top"] * jax.nn.sigmoid(jnp.exp(x["log_rate"]) * (weeks - x["middle"]))
        return jnp.sum(norm.logpdf(heights, curve, jnp.exp(x["log_noise"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        curve = normals(first, top=(2.0, 1.0), log_rate=(0.0, 1.0), middle=(6.0, 3.0))
        return curve | {"log_noise": jnp.log(0.5 * jnp.abs(jax.random.normal(second)))}

    return log_prior, log_likelihood, sample_prior


def sunflowers_truth(num=12, finer=1):
    """The top by the formula for linear regression, the rest on a grid."""
    weeks, heights = np.arange(1.0, num + 1.0), METERS[:num]
    axes = [(-5.0, 4.0, 450), (-10.0, 22.0, 800), (-8.0, 1.5, 95)]
    axes = [(low, high, 1 + round(size * finer)) for low, high, size in axes]
    log_rate, middle = (values[:, None] for values in mesh(*axes[:2]))
    of_curve = np.asarray(norm.logpdf(log_rate) + norm.logpdf(middle, 6.0, 3.0))[:, 0]
    curve = 1 / (1 + np.exp(np.minimum(-np.exp(log_rate) * (weeks - middle), 700.0)))
    # The residual from the prior mean of the top, and its products with the curve of top one.
    squared = np.sum(curve**2, axis=1)
    rest = heights - 2.0 * curve
    product, misfit = np.sum(rest * curve, axis=1), np.sum(rest**2, axis=1)
    log_sums = []
    for log_noise in np.linspace(*axes[2]):
        variance = np.exp(2 * log_noise)
        quadratic = (misfit - product**2 / (variance + squared)) / variance
        values = of_curve - 0.5 * (quadratic + np.log1p(squared / variance) + num * np.log(2 * np.pi * variance))
        log_sums.append(logsumexp(values) + float(half_normal(log_noise, 0.5)))
    return log_integral(np.array(log_sums), *spacings(*axes))


def copula_data():
    """Pairs of waiting times whose uniform numbers have the Clayton copula with parameter 2."""
    rng = np.random.default_rng(833)
    first, other = rng.uniform(size=(2, 40))
    second = (1 + first**-2.0 * (other ** (-2 / 3) - 1)) ** -0.5
    return -np.log1p(-first) / 0.5, -np.log1p(-second) / 2.0


def copula():
    """Pairs of exponential waiting times that depend on each other by a Clayton copula."""
    times = jnp.stack([jnp.asarray(values) for values in copula_data()])

    def log_prior(x):
        return jnp.sum(norm.logpdf(jnp.stack([x["log_first"], x["log_second"], x["log_bond"]])))

    def log_likelihood(x):
        log_rates, bond = jnp.stack([x["log_first"], x["log_second"]])[:, None], jnp.exp(x["log_bond"])
        reached = jnp.exp(log_rates) * times
        logs = jnp.log(-jnp.expm1(-reached))
        low, high = jnp.min(-bond * logs, axis=0), jnp.max(-bond * logs, axis=0)
        # The log of exp(low) + exp(high) - 1 without overflow.
        log_sum = high + jnp.log1p(-jnp.exp(low - high) * jnp.expm1(-low))
        of_bond = jnp.log1p(bond) - (1 + bond) * jnp.sum(logs, axis=0) - (2 + 1 / bond) * log_sum
        return jnp.sum(of_bond) + jnp.sum(log_rates - reached)

    def sample_prior(key):
        return normals(key, log_first=(0.0, 1.0), log_second=(0.0, 1.0), log_bond=(0.0, 1.0))

    return log_prior, log_likelihood, sample_prior


def copula_truth(finer=1):
    """A grid of all three parameters."""
    axes = {"log_first": (-3.0, 2.0, 80), "log_second": (-2.0, 3.0, 80), "log_bond": (-6.0, 4.0, 90)}
    return on_grid(copula(), **{name: (low, high, 1 + round(num * finer)) for name, (low, high, num) in axes.items()})


COUNTS = np.array([[3, 1], [0, 2], [4, 4], [2, 1], [1, 3], [5, 2], [2, 2], [0, 0], [3, 5], [1, 0], [2, 4], [3, 2.0]])


def animals():
    """Animals at twelve sites, counted twice: many that are rarely seen, or few that are often seen? A long horn.

    The number at a site is Poisson, and each animal is seen with the same chance at each visit. Then the animals seen
    at both visits, at the first only, and at the second only are independent Poisson numbers.
    """
    first, second = jnp.asarray(COUNTS.T)
    both = jnp.arange(1 + COUNTS.max())[:, None]

    def log_prior(x):
        return norm.logpdf(x["log_number"], 3.0, 1.5) + uniform(x["logit"])

    def log_likelihood(x):
        log_once = x["log_number"] + jax.nn.log_sigmoid(x["logit"])
        log_twice, log_other = log_once + jax.nn.log_sigmoid(x["logit"]), log_once + jax.nn.log_sigmoid(-x["logit"])
        possible = both <= jnp.minimum(first, second)
        ones, twos = jnp.where(possible, first - both, 0), jnp.where(possible, second - both, 0)
        of_each = both * log_twice + (ones + twos) * log_other
        of_each = of_each - gammaln(both + 1.0) - gammaln(ones + 1) - gammaln(twos + 1)
        of_sites = jax.nn.logsumexp(jnp.where(possible, of_each, -jnp.inf), axis=0)
        return jnp.sum(of_sites - jnp.exp(log_twice) - 2 * jnp.exp(log_other))

    def sample_prior(key):
        first, second = jax.random.split(key)
        return {"log_number": 3.0 + 1.5 * jax.random.normal(first), "logit": jax.random.logistic(second)}

    return log_prior, log_likelihood, sample_prior


def animals_truth(finer=1):
    """The sum over all numbers at a site, on a grid of the log of the expected count and the logit of the chance.

    Animals seen at neither visit are a Poisson number too: the sum over the rest is the exponential series.
    """
    axes = (-4.0, 4.0, 1 + round(400 * finer)), (-16.0, 16.0, 1 + round(320 * finer))
    log_mean, logit = mesh(*axes)
    log_chance, log_miss = -np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit)
    log_number = log_mean - log_chance
    values = -0.5 * ((log_number - 3) / 1.5) ** 2 - np.log(1.5 * np.sqrt(2 * np.pi)) + log_chance + log_miss
    for first, second in COUNTS:
        terms = []
        for seen in range(int(max(first, second)), int(first + second) + 1):
            # So many animals were seen at least once: the ways to choose those of both visits.
            ways = log_gamma(seen + 1) - log_gamma(seen - first + 1) - log_gamma(seen - second + 1)
            ways -= log_gamma(first + second - seen + 1)
            of_seen = seen * log_number - log_gamma(seen + 1) + (first + second) * log_chance
            of_missed = (2 * seen - first - second) * log_miss
            terms.append(ways + of_seen + of_missed - np.exp(log_number) * (1 - np.exp(2 * log_miss)))
        values = values + logsumexp(terms, axis=0)
    return log_integral(values, *spacings(*axes))


KINK_SCALES = np.array([3.0, 1.0, 2.0])


def kink_data():
    rng = np.random.default_rng(835)
    place = np.linspace(0.5, 9.5, 16)
    return place, 1.0 + 0.4 * place - 0.9 * np.maximum(place - 6.2, 0.0) + 0.5 * rng.standard_normal(16)


def kink():
    """A straight line that bends once, at a place that is uniform in (0, 10): the prior is zero outside."""
    place, response = map(jnp.asarray, kink_data())

    def is_inside(x):
        return (x["knot"] > 0) & (x["knot"] < 10)

    def log_prior(x):
        of_line = jnp.sum(norm.logpdf(jnp.stack([x["intercept"], x["slope"], x["bend"]]), scale=KINK_SCALES))
        return of_line + half_normal(x["log_noise"]) + jnp.where(is_inside(x), -jnp.log(10.0), -jnp.inf)

    def log_likelihood(x):
        line = x["intercept"] + x["slope"] * place + x["bend"] * jnp.maximum(place - x["knot"], 0.0)
        return jnp.sum(norm.logpdf(response, line, jnp.exp(x["log_noise"])))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        line = normals(keys[0], intercept=(0.0, 3.0), slope=(0.0, 1.0), bend=(0.0, 2.0))
        log_noise = jnp.log(jnp.abs(jax.random.normal(keys[1])))
        return line | {"log_noise": log_noise, "knot": jax.random.uniform(keys[2], minval=0.0, maxval=10.0)}

    return log_prior, log_likelihood, sample_prior


def kink_truth(finer=1):
    """Gauss-Legendre quadrature of the knot between neighbors, a grid of the noise, the rest by linear regression."""
    place, response = kink_data()
    nodes, weights = np.polynomial.legendre.leggauss(round(12 * finer))
    axis = -6.0, 2.0, 1 + round(200 * finer)
    log_noise = np.linspace(*axis)[:, None]
    ends, terms = np.concatenate([[0.0], place, [10.0]]), []
    for low, high in itertools.pairwise(ends):
        for node, weight in zip(nodes, weights, strict=True):
            knot = 0.5 * (low + high + (high - low) * node)
            design = np.column_stack([np.ones_like(place), place, np.maximum(place - knot, 0.0)]) * KINK_SCALES
            values, vectors = np.linalg.eigh(design @ design.T)
            variances = np.maximum(values, 0.0) + np.exp(2 * log_noise)
            of_data = -0.5 * np.sum(np.log(2 * np.pi * variances) + (vectors.T @ response) ** 2 / variances, axis=1)
            terms.append(of_data + np.log(0.5 * (high - low) * weight / 10))
    return log_integral(logsumexp(terms, axis=0) + np.asarray(half_normal(log_noise[:, 0])), *spacings(axis))


SICK, ANIMALS = (0, 2, 1, 4, 3, 8), 10


def doses():
    """Six doses, ten animals each: the chances to fall ill do not decrease. Some of the observed shares do.

    The prior is uniform where the chances are in order, and zero elsewhere.
    """
    sick = jnp.asarray(SICK, float)
    constant = sum(math.log(math.comb(ANIMALS, count)) for count in SICK)

    def log_prior(x):
        chances = x["chances"]
        in_order = jnp.all(jnp.diff(chances) > 0) & (chances[0] > 0) & (chances[-1] < 1)
        return jnp.where(in_order, jnp.log(1.0 * math.factorial(len(SICK))), -jnp.inf)

    def log_likelihood(x):
        chances = jnp.where((x["chances"] > 0) & (x["chances"] < 1), x["chances"], 0.5)
        return constant + jnp.sum(sick * jnp.log(chances) + (ANIMALS - sick) * jnp.log1p(-chances))

    def sample_prior(key):
        return {"chances": jnp.sort(jax.random.uniform(key, (len(SICK),), minval=1e-12))}

    return log_prior, log_likelihood, sample_prior


def doses_truth():
    """Exact, in fractions: the integral over the chances below the next one is a polynomial of it, dose by dose."""
    inner = [Fraction(1)]
    for count in SICK:
        after = [Fraction(0)] * (len(inner) + ANIMALS + 1)
        for power, coefficient in enumerate(inner):
            for missed in range(ANIMALS - count + 1):
                degree = power + count + missed + 1
                term = coefficient * math.comb(ANIMALS, count) * math.comb(ANIMALS - count, missed) * (-1) ** missed
                after[degree] += term / degree
        inner = after
    return math.log(sum(inner) * math.factorial(len(SICK)))
