"""Sealed models of series, maps and curves by normal processes. See `models.py`: no tuning decision looks at them.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from scipy.special import logsumexp

from benchmarks.suites.held_out.curves import half_normal, normals, uniform
from benchmarks.suites.held_out.groups import mesh, spacings
from benchmarks.suites.problems import log_integral


def reversion_data(num):
    """The series, and whether it was seen: every seventh value is missing."""
    rng = np.random.default_rng(811)
    states = [rng.standard_normal()]
    for _ in range(num - 1):
        states.append(0.85 * states[-1] + 0.5 * rng.standard_normal())
    return np.array(states) + 0.4 * rng.standard_normal(num), np.arange(num) % 7 != 3


def reversion(num=42):
    """A series that returns to zero (an autoregression of order one), seen with noise and with gaps: 45 dimensions.

    The states are centered parameters. The memory is uniform in (0, 1); the first state is stationary.
    """
    series, seen = map(jnp.asarray, reversion_data(num))

    def first_scale(x):
        memory = jax.nn.sigmoid(x["logit_memory"])
        return jnp.exp(x["log_step"] - 0.5 * (jnp.log1p(memory) + jax.nn.log_sigmoid(-x["logit_memory"])))

    def log_prior(x):
        memory, states = jax.nn.sigmoid(x["logit_memory"]), x["states"]
        of_scales = uniform(x["logit_memory"]) + half_normal(x["log_step"]) + half_normal(x["log_noise"])
        of_steps = jnp.sum(norm.logpdf(states[1:], memory * states[:-1], jnp.exp(x["log_step"])))
        return of_scales + norm.logpdf(states[0], 0.0, first_scale(x)) + of_steps

    def log_likelihood(x):
        return jnp.sum(jnp.where(seen, norm.logpdf(series, x["states"], jnp.exp(x["log_noise"])), 0.0))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        log_step, log_noise = jnp.log(jnp.abs(jax.random.normal(keys[0], (2,))))
        x = {"logit_memory": jax.random.logistic(keys[1]), "log_step": log_step, "log_noise": log_noise}
        white = jax.random.normal(keys[2], (num,))

        def step(state, noise):
            after = jax.nn.sigmoid(x["logit_memory"]) * state + jnp.exp(log_step) * noise
            return after, after

        first = first_scale(x) * white[0]
        return x | {"states": jnp.append(first, jax.lax.scan(step, first, white[1:])[1])}

    return log_prior, log_likelihood, sample_prior


def reversion_truth(num=42, finer=1):
    """The Kalman filter without the states, on a grid of the memory and the two scales."""
    axes = [(-16.0, 16.0, 120), (-13.0, 2.0, 130), (-13.0, 2.0, 130)]
    axes = [(low, high, 1 + round(size * finer)) for low, high, size in axes]
    log_step, log_noise = mesh(*axes[1:])
    of_scales = np.asarray(half_normal(log_step) + half_normal(log_noise))
    noise, step = np.exp(2 * log_noise), np.exp(2 * log_step)
    log_sums = []
    for logit in np.linspace(*axes[0]):
        memory = 1 / (1 + np.exp(-logit))
        values = of_scales + float(uniform(logit))
        mean, variance = 0.0, step * (1 + np.exp(logit)) / (1 + memory)
        for value, is_seen in zip(*reversion_data(num), strict=True):
            if is_seen:
                total = variance + noise
                values = values - 0.5 * (np.log(2 * np.pi * total) + (value - mean) ** 2 / total)
                mean, variance = mean + variance / total * (value - mean), variance * noise / total
            mean, variance = memory * mean, memory**2 * variance + step
        log_sums.append(logsumexp(values))
    return log_integral(np.array(log_sums), *spacings(*axes))


FREEDOM = 4.0


def field_precision(num):
    """Of a map of `num` cells, six in a row: cells that share an edge are alike."""
    row, column = np.divmod(np.arange(num), 6)
    neighbors = (np.abs(row[:, None] - row) + np.abs(column[:, None] - column) == 1).astype(float)
    return np.diag(neighbors.sum(axis=1)) - 0.95 * neighbors


def field_data(num):
    rng = np.random.default_rng(812)
    values = np.linalg.solve(np.linalg.cholesky(field_precision(num)).T, rng.standard_normal(num))
    return 1.2 * values + 0.5 * rng.standard_normal(num)


def field(num=60):
    """A map of 60 cells, a conditional autoregression, with noise that is jointly Student-t: 62 dimensions."""
    seen, precision = jnp.asarray(field_data(num)), jnp.asarray(field_precision(num))
    factor = jnp.linalg.cholesky(precision)
    log_constant = jnp.sum(jnp.log(jnp.diag(factor))) - 0.5 * num * jnp.log(2 * jnp.pi)
    t_constant = gammaln((FREEDOM + num) / 2) - gammaln(FREEDOM / 2) - 0.5 * num * jnp.log(FREEDOM * jnp.pi)

    def log_prior(x):
        quadratic = jnp.sum((x["field"] @ factor) ** 2) * jnp.exp(-2 * x["log_scale"])
        of_scales = half_normal(x["log_scale"], 2.0) + half_normal(x["log_noise"])
        return of_scales + log_constant - num * x["log_scale"] - 0.5 * quadratic

    def log_likelihood(x):
        misfit = jnp.sum((seen - x["field"]) ** 2) * jnp.exp(-2 * x["log_noise"])
        return t_constant - num * x["log_noise"] - 0.5 * (FREEDOM + num) * jnp.log1p(misfit / FREEDOM)

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_scale, log_noise = jnp.log(jnp.abs(jax.random.normal(first, (2,))) * jnp.array([2.0, 1.0]))
        white = jax.random.normal(second, (num,))
        values = jnp.exp(log_scale) * solve_triangular(factor, white, trans=1, lower=True)
        return {"log_scale": log_scale, "log_noise": log_noise, "field": values}

    return log_prior, log_likelihood, sample_prior


def field_truth(num=60, finer=1):
    """The noise is normal given a gamma weight: a grid of the weight and the two scales, by eigenvalues."""
    axes = [(-11.0, 3.0, 140), (-11.0, 2.0, 130), (-12.0, 3.0, 100)]
    axes = [(low, high, 1 + round(number * finer)) for low, high, number in axes]
    values, vectors = np.linalg.eigh(np.linalg.inv(field_precision(num)))
    squares, half = (vectors.T @ field_data(num)) ** 2, FREEDOM / 2
    log_noise, log_weight = mesh(*axes[1:])
    of_both = half * np.log(half) - float(gammaln(half)) + half * (log_weight - np.exp(log_weight))
    of_both += np.asarray(half_normal(log_noise))
    noise = np.exp(2 * log_noise - log_weight)[:, None]
    log_sums = []
    for log_scale in np.linspace(*axes[0]):
        variances = np.exp(2 * log_scale) * values + noise
        of_cells = -0.5 * np.sum(np.log(2 * np.pi * variances) + squares / variances, axis=1)
        log_sums.append(logsumexp(of_both + of_cells) + float(half_normal(log_scale, 2.0)))
    return log_integral(np.array(log_sums), *spacings(*axes))


PLACES = np.linspace(0.0, 6.0, 24)
HEIGHTS = 1.2 * np.sin(PLACES) + 0.2 * np.sin(5 * PLACES + 1) + 0.1 * np.random.default_rng(813).standard_normal(24)
JITTER = 1e-6
"""Added to the diagonal of the kernel, in units of the squared amplitude."""


def wiggles():
    """Regression by a Gaussian process of a slow wave with a ripple, which is a short curve or noise: two modes.

    The parameters are the logarithms of length, amplitude and noise.
    """
    squares, heights = jnp.asarray((PLACES[:, None] - PLACES) ** 2), jnp.asarray(HEIGHTS)

    def log_prior(x):
        of_curve = norm.logpdf(x["log_length"], 0.0, 1.5) + norm.logpdf(x["log_amplitude"])
        return of_curve + norm.logpdf(x["log_noise"], -2.0, 1.5)

    def log_likelihood(x):
        kernel = jnp.exp(-0.5 * squares * jnp.exp(-2 * x["log_length"]))
        noise = jnp.exp(2 * (x["log_noise"] - x["log_amplitude"])) + JITTER
        factor = jnp.linalg.cholesky(kernel + noise * jnp.eye(len(heights)))
        white = solve_triangular(factor, heights * jnp.exp(-x["log_amplitude"]), lower=True)
        return jnp.sum(norm.logpdf(white) - jnp.log(jnp.diag(factor)) - x["log_amplitude"])

    def sample_prior(key):
        return normals(key, log_length=(0.0, 1.5), log_amplitude=(0.0, 1.0), log_noise=(-2.0, 1.5))

    return log_prior, log_likelihood, sample_prior


def wiggles_grid(finer=1):
    """The log density on a grid, by the eigenvalues of the kernel for each length."""
    axes = [(-9.0, 9.0, 180), (-6.0, 6.0, 120), (-11.0, 7.0, 180)]
    axes = [(low, high, 1 + round(number * finer)) for low, high, number in axes]
    log_amplitude, log_noise = (values[:, None] for values in mesh(*axes[1:]))
    of_both = np.asarray(norm.logpdf(log_amplitude) + norm.logpdf(log_noise, -2.0, 1.5))[:, 0]
    log_joint = []
    for log_length in np.linspace(*axes[0]):
        kernel = np.exp(-0.5 * (PLACES[:, None] - PLACES) ** 2 * np.exp(-2 * log_length))
        values, vectors = np.linalg.eigh(kernel)
        variances = np.exp(2 * log_amplitude) * (np.maximum(values, 0.0) + JITTER) + np.exp(2 * log_noise)
        of_data = -0.5 * np.sum(np.log(2 * np.pi * variances) + (vectors.T @ HEIGHTS) ** 2 / variances, axis=1)
        log_joint.append(of_both + of_data + float(norm.logpdf(log_length, 0.0, 1.5)))
    return np.array(log_joint).reshape([size for _, _, size in axes]), axes


def wiggles_truth(finer=1):
    log_joint, axes = wiggles_grid(finer)
    return log_integral(log_joint, *spacings(*axes))
