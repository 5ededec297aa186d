"""Fresh models with a latent number for each person, object or year. See `models.py`: they have been looked at.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm

from benchmarks.suites.held_out.curves import half_normal, normals
from benchmarks.suites.held_out.groups import mesh, spacings
from benchmarks.suites.problems import log_integral

ATTEMPTS = 4


def abilities_data(num):
    rng = np.random.default_rng(711)
    ability, difficulty = 1.2 * rng.standard_normal((num, 1)), np.array([-1.0, 0.2, 1.5])
    return rng.binomial(ATTEMPTS, 1 / (1 + np.exp(difficulty - ability))).astype(float)


def abilities(num=40):
    """A Rasch model: 40 persons try three tasks four times each. Abilities are centered, their scale is unknown."""
    solved = jnp.asarray(abilities_data(num))
    constant = jnp.sum(gammaln(ATTEMPTS + 1.0) - gammaln(solved + 1) - gammaln(ATTEMPTS - solved + 1))

    def log_prior(x):
        of_tasks = jnp.sum(norm.logpdf(x["difficulties"], 0.0, 1.5))
        of_persons = jnp.sum(norm.logpdf(x["abilities"], 0.0, jnp.exp(x["log_scale"])))
        return of_tasks + half_normal(x["log_scale"], 2.0) + of_persons

    def log_likelihood(x):
        logits = x["abilities"][:, None] - x["difficulties"]
        return constant + jnp.sum(solved * logits - ATTEMPTS * jax.nn.softplus(logits))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        difficulties, scale = 1.5 * jax.random.normal(keys[0], (3,)), 2.0 * jnp.abs(jax.random.normal(keys[1]))
        abilities = scale * jax.random.normal(keys[2], (num,))
        return {"difficulties": difficulties, "log_scale": jnp.log(scale), "abilities": abilities}

    return log_prior, log_likelihood, sample_prior


def abilities_truth(num=40, finer=1):
    """A grid of the difficulties and the scale. Given these, a person's chance depends on the sum of the score only."""
    solved = abilities_data(num)
    axis, scale_axis = (-6.0, 6.0, 1 + round(60 * finer)), (-8.0, 2.3, 1 + round(70 * finer))
    grid, white = np.linspace(*axis), np.linspace(-8.0, 8.0, 1 + round(120 * finer))
    of_tasks = [
        np.asarray(norm.logpdf(grid, 0.0, 1.5)) - grid * count
        - sum(float(gammaln(n + 1) + gammaln(ATTEMPTS - n + 1) - gammaln(ATTEMPTS + 1.0)) for n in column)
        for count, column in zip(solved.sum(axis=0), solved.T, strict=True)
    ]  # fmt: skip
    tasks = of_tasks[0][:, None, None] + of_tasks[1][:, None] + of_tasks[2]
    log_sums = []
    for log_scale in np.linspace(*scale_axis):
        ability = np.exp(log_scale) * white
        log_miss = -np.logaddexp(0.0, ability - grid[:, None])
        weights = np.exp(np.asarray(norm.logpdf(white))) * (white[1] - white[0])
        values = tasks + float(half_normal(log_scale, 2.0))
        for score, number in zip(*np.unique(solved.sum(axis=1), return_counts=True), strict=True):
            # A third of the score goes to each task, which keeps all numbers small.
            chances = np.exp(ATTEMPTS * log_miss + score / 3 * ability)
            pairs = (chances[:, None] * chances).reshape(-1, len(white))
            values = values + number * np.log(pairs @ (chances * weights).T).reshape(values.shape)
        log_sums.append(log_integral(values, *spacings(axis, axis, axis)))
    return log_integral(np.array(log_sums), *spacings(scale_axis))


SPREAD, BLUR = 2.0, 0.6


def blurred_data(num):
    rng = np.random.default_rng(712)
    places = SPREAD * rng.standard_normal(num)
    return places + BLUR * rng.standard_normal(num), 1.0 - 1.5 * places + 0.4 * rng.standard_normal(num)


def blurred(num=20):
    """A straight line whose places are measured with error: the 20 true places are parameters, times the slope."""
    seen, response = map(jnp.asarray, blurred_data(num))

    def log_prior(x):
        of_line = norm.logpdf(x["intercept"], 0.0, 3.0) + norm.logpdf(x["slope"], 0.0, 3.0)
        return of_line + half_normal(x["log_noise"]) + jnp.sum(norm.logpdf(x["places"], scale=SPREAD))

    def log_likelihood(x):
        line = x["intercept"] + x["slope"] * x["places"]
        return jnp.sum(norm.logpdf(seen, x["places"], BLUR) + norm.logpdf(response, line, jnp.exp(x["log_noise"])))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        line = normals(keys[0], intercept=(0.0, 3.0), slope=(0.0, 3.0))
        log_noise = jnp.log(jnp.abs(jax.random.normal(keys[1])))
        return line | {"log_noise": log_noise, "places": SPREAD * jax.random.normal(keys[2], (num,))}

    return log_prior, log_likelihood, sample_prior


def blurred_truth(num=20, finer=1):
    """Both measurements of a place are jointly normal without it; a grid of the line and the noise."""
    seen, response = blurred_data(num)
    axes = (-14.0, 14.0, 1 + round(280 * finer)), (-14.0, 14.0, 1 + round(560 * finer))
    noise_axis = (-12.0, 2.0, 1 + round(140 * finer))
    intercept, slope = mesh(*axes)
    of_line = np.asarray(norm.logpdf(intercept, 0.0, 3.0) + norm.logpdf(slope, 0.0, 3.0)) - num * np.log(2 * np.pi)
    rest = np.sum(response**2) - 2 * intercept * response.sum() + num * intercept**2
    product = seen @ response - intercept * seen.sum()
    first, both = SPREAD**2 + BLUR**2, SPREAD**2 * slope
    log_sums = []
    for log_noise in np.linspace(*noise_axis):
        second = SPREAD**2 * slope**2 + np.exp(2 * log_noise)
        determinant = first * np.exp(2 * log_noise) + (SPREAD * BLUR * slope) ** 2
        quadratic = (second * np.sum(seen**2) - 2 * both * product + first * rest) / determinant
        values = of_line - 0.5 * (num * np.log(determinant) + quadratic) + float(half_normal(log_noise))
        log_sums.append(log_integral(values, *spacings(*axes)))
    return log_integral(np.array(log_sums), *spacings(noise_axis))


def factor_data(num):
    rng = np.random.default_rng(713)
    return np.outer(rng.standard_normal(num), [1.1, -0.8, 0.5]) + 0.6 * rng.standard_normal((num, 3))


def factor(num=25):
    """Factor analysis: three tests of 25 persons, one factor. All signs may change together: two modes."""
    tests = jnp.asarray(factor_data(num))

    def log_prior(x):
        of_each = jnp.sum(norm.logpdf(x["loadings"])) + jnp.sum(norm.logpdf(x["factors"]))
        return of_each + half_normal(x["log_noise"])

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(tests, jnp.outer(x["factors"], x["loadings"]), jnp.exp(x["log_noise"])))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        log_noise = jnp.log(jnp.abs(jax.random.normal(keys[1])))
        factors = jax.random.normal(keys[2], (num,))
        return {"loadings": jax.random.normal(keys[0], (3,)), "log_noise": log_noise, "factors": factors}

    return log_prior, log_likelihood, sample_prior


def factor_truth(num=25, finer=1):
    """Normal densities without the factors, on a grid of the loadings and the noise."""
    tests = factor_data(num)
    axis, noise_axis = (-5.0, 5.0, 1 + round(100 * finer)), (-4.0, 2.0, 1 + round(100 * finer))
    loadings = np.stack(mesh(axis, axis, axis))
    squared, products = np.sum(loadings**2, axis=0), np.sum((tests @ loadings) ** 2, axis=0)
    of_loadings = -0.5 * squared - 1.5 * np.log(2 * np.pi)
    log_sums = []
    for log_noise in np.linspace(*noise_axis):
        variance = np.exp(2 * log_noise)
        quadratic = (np.sum(tests**2) - products / (variance + squared)) / variance
        values = of_loadings - 0.5 * (quadratic + num * np.log1p(squared / variance))
        constant = float(half_normal(log_noise)) - 1.5 * num * np.log(2 * np.pi * variance)
        log_sums.append(log_integral(values, *spacings(axis, axis, axis)) + constant)
    return log_integral(np.array(log_sums), *spacings(noise_axis))
