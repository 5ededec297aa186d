"""Fresh regressions: many correlated predictors, sparse priors, extra noise in counts, and perfect separation.

See `models.py`: they have been looked at. Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function
after it gives its log evidence.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import cauchy, laplace, norm
from scipy.interpolate import CubicSpline
from scipy.special import log_ndtr, logsumexp

from benchmarks.suites.held_out.curves import half_normal, normals, on_grid
from benchmarks.suites.held_out.groups import HALF_CAUCHY, mesh, spacings
from benchmarks.suites.problems import log_integral


def half_cauchy(log_scale):
    """The log density of the log of a scale that is half-Cauchy."""
    return HALF_CAUCHY + log_scale - jnp.logaddexp(0.0, 2 * log_scale)


def correlated_data(num):
    rng = np.random.default_rng(701)
    common = rng.standard_normal((num + 20, 1))
    design = 0.97 * common + 0.24 * rng.standard_normal((num + 20, num))
    return design, design @ rng.standard_normal(num) + 0.3 * rng.standard_normal(num + 20)


def correlated(num=60):
    """Linear regression: 60 predictors with correlations of 0.94, 80 responses, unknown noise: 61 dimensions."""
    design, response = map(jnp.asarray, correlated_data(num))

    def log_prior(x):
        return jnp.sum(norm.logpdf(x["coefficients"])) + half_normal(x["log_noise"])

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(response, design @ x["coefficients"], jnp.exp(x["log_noise"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_noise = jnp.log(jnp.abs(jax.random.normal(second)))
        return {"coefficients": jax.random.normal(first, (num,)), "log_noise": log_noise}

    return log_prior, log_likelihood, sample_prior


def correlated_truth(num=60, finer=1):
    """A normal density for each noise, by the eigenvalues of the design's covariance."""
    design, response = correlated_data(num)
    values, vectors = np.linalg.eigh(design @ design.T)
    axis = -9.0, 4.0, 1 + round(2600 * finer)
    log_noise = np.linspace(*axis)
    variances = np.exp(2 * log_noise)[:, None] + np.maximum(values, 0.0)
    log_values = -0.5 * np.sum(np.log(2 * np.pi * variances) + (vectors.T @ response) ** 2 / variances, axis=1)
    return log_integral(log_values + np.asarray(half_normal(log_noise)), *spacings(axis))


def lasso_data(num):
    rng = np.random.default_rng(702)
    design = np.linalg.qr(rng.standard_normal((50, 24)))[0][:, :num] * 50**0.5
    coefficients = np.array([2.0, -1.0, 0.5, -0.5, 0.3] + [0.0] * 19)[:num]
    return design, design @ coefficients + rng.standard_normal(50)


def lasso(num=24):
    """Sparse regression with Laplace coefficients, whose density has an edge at zero, and their unknown scale."""
    design, response = map(jnp.asarray, lasso_data(num))

    def log_prior(x):
        scale = jnp.exp(x["log_scale"])
        return half_cauchy(x["log_scale"]) + jnp.sum(laplace.logpdf(x["coefficients"], scale=scale))

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(response, design @ x["coefficients"]))

    def sample_prior(key):
        first, second = jax.random.split(key)
        scale = jnp.abs(jax.random.cauchy(first))
        return {"log_scale": jnp.log(scale), "coefficients": scale * jax.random.laplace(second, (num,))}

    return log_prior, log_likelihood, sample_prior


def lasso_truth(num=24, finer=1):
    """The columns are orthogonal: given the scale, each coefficient has a closed form on either side of zero."""
    design, response = lasso_data(num)
    estimates, error = design.T @ response / 50, 50**-0.5
    axis = -14.0, 14.0, 1 + round(2800 * finer)
    log_scale = np.linspace(*axis)[:, None]
    rate = np.exp(-log_scale)
    above = -rate * estimates + log_ndtr(estimates / error - error * rate)
    below = rate * estimates + log_ndtr(-estimates / error - error * rate)
    of_each = -np.log(2.0) - log_scale + 0.5 * (error * rate) ** 2 + np.logaddexp(above, below)
    rest = response @ response - 50 * estimates @ estimates
    constant = -0.5 * rest - 25 * np.log(2 * np.pi) + 0.5 * num * np.log(2 * np.pi / 50)
    of_scale = np.asarray(half_cauchy(log_scale[:, 0]))
    return log_integral(of_scale + np.sum(of_each, axis=1), *spacings(axis)) + constant


SLAB, SPIKE, SHARE = 2.0, 0.1, 0.2


def spike_data(num):
    rng = np.random.default_rng(703)
    pairs = np.repeat(rng.standard_normal((40, 6)), 2, axis=1)
    design = (0.95 * pairs + 0.3 * rng.standard_normal((40, 12)))[:, :num]
    coefficients = np.array([1.0, 0, 0, -0.6, 0.4, 0.4, 0, 0, 0, 0, 0, 0])[:num]
    return design, design @ coefficients + rng.standard_normal(40)


def spike(num=12):
    """Choice of predictors: each coefficient has a narrow or a wide normal prior. Predictors come in similar pairs."""
    design, response = map(jnp.asarray, spike_data(num))

    def log_prior(x):
        wide = jnp.log(SHARE) + norm.logpdf(x["coefficients"], scale=SLAB)
        return jnp.sum(jnp.logaddexp(wide, jnp.log1p(-SHARE) + norm.logpdf(x["coefficients"], scale=SPIKE)))

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(response, design @ x["coefficients"]))

    def sample_prior(key):
        first, second = jax.random.split(key)
        scales = jnp.where(jax.random.uniform(first, (num,)) < SHARE, SLAB, SPIKE)
        return {"coefficients": scales * jax.random.normal(second, (num,))}

    return log_prior, log_likelihood, sample_prior


def spike_truth(num=12):
    """The sum over all choices of wide and narrow priors, each a normal density."""
    design, response = spike_data(num)
    terms = []
    for choice in itertools.product([True, False], repeat=num):
        scales = np.where(choice, SLAB, SPIKE)
        precision = design.T @ design + np.diag(scales**-2.0)
        product = design.T @ response
        quadratic = response @ response - product @ np.linalg.solve(precision, product)
        determinant = np.linalg.slogdet(precision)[1] + 2 * np.sum(np.log(scales))
        log_density = -0.5 * (quadratic + determinant + len(response) * np.log(2 * np.pi))
        terms.append(log_density + np.sum(np.log(np.where(choice, SHARE, 1 - SHARE))))
    return float(logsumexp(terms))


PLATES = np.array([[15, 21, 29], [16, 18, 21], [16, 26, 33], [27, 41, 60], [33, 38, 41], [20, 27, 42.0]])
DOSES = np.arange(6) - 2.5


def plates(num=6):
    """Colonies of salmonella at six doses, three plates each (Breslow, 1984): Poisson, with an effect of each plate.

    The effects are in units of their scale. Doses are about a factor of three apart, so their number is used.
    """
    counts, doses = jnp.asarray(PLATES[:num]), jnp.asarray(DOSES[:num])

    def log_prior(x):
        of_line = norm.logpdf(x["intercept"], 3.0, 2.0) + norm.logpdf(x["slope"], 0.0, 0.5)
        return of_line + half_normal(x["log_scale"]) + jnp.sum(norm.logpdf(x["effects"]))

    def log_likelihood(x):
        means = x["intercept"] + x["slope"] * doses[:, None] + jnp.exp(x["log_scale"]) * x["effects"]
        return jnp.sum(counts * means - jnp.exp(means) - gammaln(counts + 1))

    def sample_prior(key):
        first, second, third = jax.random.split(key, 3)
        log_scale, effects = jnp.log(jnp.abs(jax.random.normal(second))), jax.random.normal(third, (num, 3))
        return normals(first, intercept=(3.0, 2.0), slope=(0.0, 0.5)) | {"log_scale": log_scale, "effects": effects}

    return log_prior, log_likelihood, sample_prior


def plates_truth(num=6, finer=1):
    """The effects one by one on a grid for each mean of a dose and each scale; then a grid of the line and the scale.

    The values at the means of the line come from those on a grid of means, by a cubic spline.
    """
    axes = (-5.0, 11.0, 1 + round(400 * finer)), (-3.0, 3.0, 1 + round(150 * finer))
    scale_axis = (-9.0, 1.7, 1 + round(54 * finer))
    intercept, slope = mesh(*axes)
    of_line = np.asarray(norm.logpdf(intercept, 3.0, 2.0) + norm.logpdf(slope, 0.0, 0.5))
    means, effects = np.linspace(-13.0, 19.0, 641), np.linspace(-9.0, 9.0, 1 + round(360 * finer))
    weights = np.asarray(norm.logpdf(effects)) + np.log(effects[1] - effects[0])
    log_joint = []
    for log_scale in np.linspace(*scale_axis):
        values = of_line + float(half_normal(log_scale))
        logs = means[:, None] + np.exp(log_scale) * effects
        rates = np.exp(logs)
        for row, dose in zip(PLATES[:num], DOSES[:num], strict=True):
            table = sum(logsumexp(n * logs - rates + weights, axis=1) - float(gammaln(n + 1)) for n in row)
            values = values + CubicSpline(means, table)(intercept + slope * dose)
        log_joint.append(values)
    return log_integral(np.array(log_joint), *spacings(*axes, scale_axis))


def separation():
    """A probit model of answers that the predictor separates, with Cauchy priors, whose tails the posterior keeps."""
    place = jnp.asarray([-1.9, -1.5, -1.1, -0.8, -0.5, -0.2, 0.1, 0.3, 0.6, 1.0, 1.4, 1.8])
    signs = jnp.where(place > 0, 1.0, -1.0)

    def log_prior(x):
        return cauchy.logpdf(x["intercept"], scale=10.0) + cauchy.logpdf(x["slope"], scale=2.5)

    def log_likelihood(x):
        return jnp.sum(norm.logcdf(signs * (x["intercept"] + x["slope"] * place)))

    def sample_prior(key):
        intercept, slope = jax.random.cauchy(key, (2,))
        return {"intercept": 10.0 * intercept, "slope": 2.5 * slope}

    return log_prior, log_likelihood, sample_prior


def separation_truth(finer=1):
    """A grid of the inverse hyperbolic sines of the coefficients, in which the tails are exponential."""
    log_prior, log_likelihood, _ = separation()

    def moved(v):
        return {"intercept": 10.0 * jnp.sinh(v["intercept"]), "slope": 2.5 * jnp.sinh(v["slope"])}

    def log_moved_prior(v):
        jacobian = jnp.log(25.0) + jnp.log(jnp.cosh(v["intercept"])) + jnp.log(jnp.cosh(v["slope"]))
        return log_prior(moved(v)) + jacobian

    model = log_moved_prior, lambda v: log_likelihood(moved(v)), None
    axes = {name: (-14.0, 14.0, 1 + round(1400 * finer)) for name in ("intercept", "slope")}
    return on_grid(model, **axes)
