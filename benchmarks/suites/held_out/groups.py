"""Held-out models with groups, latent values or closed forms. See `models.py`.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, gammaln
from jax.scipy.stats import norm
from scipy.special import logsumexp

from benchmarks.suites.problems import log_integral

HALF_CAUCHY = np.log(2 / np.pi)


def mesh(*axes):
    """Points of a regular grid, flat, one array for each axis (low, high, number)."""
    return [values.ravel() for values in np.meshgrid(*(np.linspace(*axis) for axis in axes), indexing="ij")]


def spacings(*axes):
    return [(high - low) / (num - 1) for low, high, num in axes]


def regression_data():
    rng = np.random.default_rng(601)
    design = np.column_stack([np.ones(40), rng.standard_normal((40, 4))])
    return design, design @ np.array([1.0, 2.0, -1.0, 0.5, 0.0]) + 1.5 * rng.standard_normal(40)


def conjugate():
    """Linear regression: variance inverse-gamma(3, 4), coefficients normal given it with variance 10 times as large."""
    design, response = map(jnp.asarray, regression_data())

    def log_prior(x):
        variance = jnp.exp(x["log_variance"])
        of_variance = 3 * jnp.log(4.0) - gammaln(3.0) - 3 * x["log_variance"] - 4 / variance
        return of_variance + jnp.sum(norm.logpdf(x["coefficients"], scale=jnp.sqrt(10 * variance)))

    def log_likelihood(x):
        scale = jnp.exp(0.5 * x["log_variance"])
        return jnp.sum(norm.logpdf(response, design @ x["coefficients"], scale))

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_variance = jnp.log(4.0) - jax.random.loggamma(first, 3.0)
        noise = jax.random.normal(second, (5,))
        return {"log_variance": log_variance, "coefficients": jnp.exp(0.5 * log_variance) * 10**0.5 * noise}

    return log_prior, log_likelihood, sample_prior


def conjugate_truth():
    """A multivariate Student-t density."""
    design, response = regression_data()
    num = len(response)
    covariance = np.eye(num) + 10 * design @ design.T
    quadratic = response @ np.linalg.solve(covariance, response)
    constant = 3 * np.log(4) - gammaln(3.0) + gammaln(3 + num / 2) - 0.5 * num * np.log(2 * np.pi)
    return float(constant - 0.5 * np.linalg.slogdet(covariance)[1] - (3 + num / 2) * np.log(4 + quadratic / 2))


TUMORS = np.array(
    [0] * 14 + [1] * 8 + [2] * 9 + [1, 5, 2, 5, 3, 2, 7, 7, 3, 3, 2, 9, 10] + [4] * 7 + [10, 4, 4, 4, 5, 11, 12, 5, 5]
    + [6, 5, 6, 6, 6, 6, 16, 15, 15, 9, 4.0]
)  # fmt: skip
RATS = np.array(
    [20] * 7 + [19] * 4 + [18, 18, 17, 20, 20, 20, 20, 19, 19, 18, 18, 25, 24, 23] + [20] * 6
    + [10, 49, 19, 46, 27, 17, 49, 47, 20, 20, 13, 48, 50] + [20] * 7 + [48, 19, 19, 19, 22, 46, 49, 20, 20]
    + [23, 19, 22, 20, 20, 20, 52, 46, 47, 24, 14.0]
)  # fmt: skip


def tumors(num=71):
    """Rats with tumors in 71 experiments (Tarone, 1982): rates from a beta distribution with unknown mean and size."""
    counts, totals = jnp.asarray(TUMORS[:num]), jnp.asarray(RATS[:num])

    def shapes(x):
        mean, size = jax.nn.sigmoid(x["logit_mean"]), jnp.exp(x["log_size"])
        return mean * size, (1 - mean) * size

    def log_prior(x):
        first, second = shapes(x)
        of_mean = jax.nn.log_sigmoid(x["logit_mean"]) + jax.nn.log_sigmoid(-x["logit_mean"])  # uniform
        of_size = norm.logpdf(x["log_size"], 3.0, 1.0)
        logits = x["logits"]
        of_rates = first * jax.nn.log_sigmoid(logits) + second * jax.nn.log_sigmoid(-logits) - betaln(first, second)
        return of_mean + of_size + jnp.sum(of_rates)

    def log_likelihood(x):
        binomial = -jnp.log(totals + 1) - betaln(counts + 1, totals - counts + 1)
        chances = counts * jax.nn.log_sigmoid(x["logits"]) + (totals - counts) * jax.nn.log_sigmoid(-x["logits"])
        return jnp.sum(binomial + chances)

    def sample_prior(key):
        keys = jax.random.split(key, 4)
        x = {"logit_mean": jax.random.logistic(keys[0]), "log_size": 3.0 + jax.random.normal(keys[1])}
        first, second = shapes(x)
        gammas = jax.random.loggamma(keys[2], first, (num,)), jax.random.loggamma(keys[3], second, (num,))
        return x | {"logits": gammas[0] - gammas[1]}

    return log_prior, log_likelihood, sample_prior


def tumors_truth(num=71):
    """Beta-binomial probabilities, on a grid of the mean and the size."""
    axes = (-12.0, 12.0, 1201), (-6.0, 12.0, 601)
    logit, log_size = mesh(*axes)
    mean, size = 1 / (1 + np.exp(-logit)), np.exp(log_size)
    first, second = mean * size, (1 - mean) * size
    log_joint = -np.logaddexp(0, -logit) - np.logaddexp(0, logit) + np.asarray(norm.logpdf(log_size, 3.0, 1.0))
    for count, total in zip(TUMORS[:num], RATS[:num], strict=True):
        log_joint = log_joint - np.log(total + 1) - betaln(count + 1, total - count + 1)
        log_joint = log_joint + np.asarray(betaln(first + count, second + total - count) - betaln(first, second))
    return log_integral(log_joint, *spacings(*axes))


FAILURES = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22.0])
TIMES = np.array([94.3, 15.7, 62.9, 126, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])


def pumps(num=10):
    """Failures of pumps (BUGS examples): rates from a gamma distribution, shape exponential(1), rate gamma(0.1, 1)."""
    failures, times = jnp.asarray(FAILURES[:num]), jnp.asarray(TIMES[:num])

    def log_prior(x):
        shape, rate = jnp.exp(x["log_shape"]), jnp.exp(x["log_rate"])
        of_shape = -shape + x["log_shape"]
        of_rate = 0.1 * x["log_rate"] - rate - gammaln(0.1)
        of_rates = shape * (x["log_rate"] + x["log_rates"]) - rate * jnp.exp(x["log_rates"]) - gammaln(shape)
        return of_shape + of_rate + jnp.sum(of_rates)

    def log_likelihood(x):
        expected = x["log_rates"] + jnp.log(times)
        return jnp.sum(failures * expected - jnp.exp(expected) - gammaln(failures + 1))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        shape, log_rate = jax.random.exponential(keys[0]), jax.random.loggamma(keys[1], 0.1)
        log_rates = jax.random.loggamma(keys[2], shape, (num,)) - log_rate
        return {"log_shape": jnp.log(shape), "log_rate": log_rate, "log_rates": log_rates}

    return log_prior, log_likelihood, sample_prior


def pumps_truth(num=10):
    """Negative binomial probabilities, on a grid of the shape and the rate."""
    axes = (-16.0, 5.0, 701), (-90.0, 6.0, 1601)
    log_shape, log_rate = mesh(*axes)
    shape, rate = np.exp(log_shape), np.exp(log_rate)
    log_joint = -shape + log_shape + 0.1 * log_rate - rate - gammaln(0.1)
    for count, time in zip(FAILURES[:num], TIMES[:num], strict=True):
        log_joint = log_joint + np.asarray(gammaln(shape + count) - gammaln(shape)) - gammaln(count + 1)
        log_joint = log_joint + shape * (log_rate - np.log(rate + time)) + count * (np.log(time) - np.log(rate + time))
    return log_integral(log_joint, *spacings(*axes))


def effects_data(num):
    rng = np.random.default_rng(602)
    sizes = rng.integers(1, 7, num)
    effects = 2.0 + 0.7 * rng.standard_normal(num)
    return effects + rng.standard_normal(num) / np.sqrt(sizes), sizes**-0.5


def random_effects(num=98):
    """One mean for each of 98 groups with 1 to 6 measurements, centered: 100 dimensions."""
    means, errors = map(jnp.asarray, effects_data(num))

    def log_prior(x):
        scale = jnp.exp(x["log_scale"])
        of_scale = HALF_CAUCHY - jnp.log1p(scale**2) + x["log_scale"]
        return norm.logpdf(x["mean"], 0.0, 5.0) + of_scale + jnp.sum(norm.logpdf(x["effects"], x["mean"], scale))

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(means, x["effects"], errors))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        mean, scale = 5.0 * jax.random.normal(keys[0]), jnp.abs(jax.random.cauchy(keys[1]))
        effects = mean + scale * jax.random.normal(keys[2], (num,))
        return {"mean": mean, "log_scale": jnp.log(scale), "effects": effects}

    return log_prior, log_likelihood, sample_prior


def random_effects_truth(num=98):
    """Normal densities without the effects, on a grid of the mean and the scale."""
    axes = (-25.0, 25.0, 2501), (-14.0, 10.0, 601)
    mean, log_scale = mesh(*axes)
    scale = np.exp(log_scale)
    log_joint = np.asarray(norm.logpdf(mean, 0.0, 5.0)) + HALF_CAUCHY - np.log1p(scale**2) + log_scale
    for value, error in zip(*effects_data(num), strict=True):
        variance = scale**2 + error**2
        log_joint = log_joint - 0.5 * (np.log(2 * np.pi * variance) + (value - mean) ** 2 / variance)
    return log_integral(log_joint, *spacings(*axes))


def process_data(num):
    rng = np.random.default_rng(603)
    places = np.sort(rng.uniform(0, 10, num))
    return places, np.sin(places) + 0.3 * places + 0.3 * rng.standard_normal(num)


def gaussian_process(num=25):
    """Regression by a Gaussian process whose values are parameters, in white coordinates; noise of 0.3 is known."""
    places, response = map(jnp.asarray, process_data(num))
    squared = (places[:, None] - places) ** 2

    def log_prior(x):
        of_scales = norm.logpdf(x["log_length"], 0.5, 1.0) + norm.logpdf(x["log_amplitude"], 0.0, 1.0)
        return of_scales + jnp.sum(norm.logpdf(x["white"]))

    def log_likelihood(x):
        covariance = jnp.exp(2 * x["log_amplitude"] - 0.5 * squared * jnp.exp(-2 * x["log_length"]))
        values = jnp.linalg.cholesky(covariance + 1e-4 * jnp.eye(num)) @ x["white"]
        return jnp.sum(norm.logpdf(response, values, 0.3))

    def sample_prior(key):
        first, second = jax.random.split(key)
        length, amplitude = jax.random.normal(first, (2,))
        return {"log_length": 0.5 + length, "log_amplitude": amplitude, "white": jax.random.normal(second, (num,))}

    return log_prior, log_likelihood, sample_prior


def gaussian_process_truth(num=25):
    """Multivariate normal densities on a grid of the two scales."""
    axes = (-5.5, 6.5, 161), (-6.0, 6.0, 161)
    places, response = process_data(num)
    squared = (places[:, None] - places) ** 2
    log_joint = []
    for log_length, log_amplitude in zip(*mesh(*axes), strict=True):
        covariance = np.exp(2 * log_amplitude - 0.5 * squared * np.exp(-2 * log_length)) + (1e-4 + 0.09) * np.eye(num)
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, response)
        log_likelihood = -0.5 * white @ white - np.sum(np.log(np.diag(factor))) - 0.5 * num * np.log(2 * np.pi)
        log_joint.append(log_likelihood - 0.5 * ((log_length - 0.5) ** 2 + log_amplitude**2) - np.log(2 * np.pi))
    return log_integral(np.array(log_joint), *spacings(*axes))


def sparse_data(num):
    rng = np.random.default_rng(604)
    design = np.linalg.qr(rng.standard_normal((40, 10)))[0][:, :num] * 40**0.5
    coefficients = np.array([1.5, -0.8, 0.3] + [0.0] * 7)[:num]
    return design, design @ coefficients + rng.standard_normal(40)


def horseshoe(num=10):
    """Sparse regression (Carvalho, Polson and Scott, 2010): a half-Cauchy scale for each coefficient and for all."""
    design, response = map(jnp.asarray, sparse_data(num))

    def log_prior(x):
        log_scales = jnp.append(x["log_local"], x["log_global"])
        of_scales = jnp.sum(HALF_CAUCHY - jnp.logaddexp(0.0, 2 * log_scales) + log_scales)
        spread = jnp.exp(x["log_local"] + x["log_global"])
        return of_scales + jnp.sum(norm.logpdf(x["coefficients"], scale=spread))

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(response, design @ x["coefficients"]))

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_scales = jnp.log(jnp.abs(jax.random.cauchy(first, (num + 1,))))
        log_local, log_global = log_scales[:num], log_scales[num]
        coefficients = jnp.exp(log_local + log_global) * jax.random.normal(second, (num,))
        return {"log_local": log_local, "log_global": log_global, "coefficients": coefficients}

    return log_prior, log_likelihood, sample_prior


def horseshoe_truth(num=10):
    """The columns of the design are orthogonal: one grid for the common scale, and one for each of the others."""
    design, response = sparse_data(num)
    estimates = design.T @ response / 40
    rest = response @ response - 40 * estimates @ estimates
    grid = np.linspace(-30.0, 30.0, 3001)
    of_scale = HALF_CAUCHY - np.logaddexp(0, 2 * grid) + grid
    log_joint = of_scale.copy()
    for index, log_global in enumerate(grid):
        variance = 1 / 40 + np.exp(2 * (grid + log_global))
        for estimate in estimates:
            terms = of_scale - 0.5 * (np.log(40 * variance) + estimate**2 / variance)
            log_joint[index] += logsumexp(terms) + np.log(0.02)
    return log_integral(log_joint, 0.02) - 0.5 * rest - 20 * np.log(2 * np.pi)
