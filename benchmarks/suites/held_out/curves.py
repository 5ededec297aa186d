"""Held-out models in few dimensions: bent, bounded, with several modes or heavy tails, from data of fixed seeds.

See `models.py`. Each model is `log_prior`, `log_likelihood` and `sample_prior`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm, t

from benchmarks.suites.held_out.groups import mesh, spacings
from benchmarks.suites.problems import log_integral

LOG_TWO = np.log(2.0)


def on_grid(model, **axes):
    """The log integral of prior times likelihood on a grid of parameters that are numbers."""
    log_prior, log_likelihood, _ = model
    x = {name: jnp.asarray(values) for name, values in zip(axes, mesh(*axes.values()), strict=True)}
    log_joint = jax.jit(lambda x: jax.lax.map(lambda x: log_prior(x) + log_likelihood(x), x, batch_size=10_000))(x)
    return log_integral(log_joint, *spacings(*axes.values()))


def half_normal(log_scale, spread=1.0):
    """The log density of the log of a scale that is half-normal."""
    return LOG_TWO + norm.logpdf(jnp.exp(log_scale), scale=spread) + log_scale


def uniform(logit):
    """The log density of the logit of a number that is uniform in an interval."""
    return jax.nn.log_sigmoid(logit) + jax.nn.log_sigmoid(-logit)


def normals(key, **scales):
    """Independent normal parameters by name: mean and standard deviation of each."""
    noise = jax.random.normal(key, (len(scales),))
    return {name: mean + scale * z for (name, (mean, scale)), z in zip(scales.items(), noise, strict=True)}


def ordinal():
    """Answers on a scale of three: a probit model with two thresholds, the second above the first."""
    rng = np.random.default_rng(611)
    dose = rng.uniform(-1, 1, 60)
    answers = np.digitize(1.2 * dose + rng.standard_normal(60), [-0.5, 0.7])

    def log_prior(x):
        of_slope, of_gap = norm.logpdf(x["slope"], 0.0, 2.0), norm.logpdf(x["log_gap"], 0.0, 1.0)
        return of_slope + norm.logpdf(x["threshold"], 0.0, 2.0) + of_gap

    def log_likelihood(x):
        low = x["threshold"] - x["slope"] * dose
        high = low + jnp.exp(x["log_gap"])
        # The middle answer: log(cdf(high) - cdf(low)), in the tail where both are small.
        flip = low > 0
        first, second = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
        middle = norm.logcdf(second) + jnp.log(
            -jnp.expm1(jnp.minimum(norm.logcdf(first) - norm.logcdf(second), -1e-12))
        )
        return jnp.sum(jnp.where(answers == 0, norm.logcdf(low), jnp.where(answers == 1, middle, norm.logcdf(-high))))

    def sample_prior(key):
        return normals(key, slope=(0.0, 2.0), threshold=(0.0, 2.0), log_gap=(0.0, 1.0))

    return log_prior, log_likelihood, sample_prior


def two_groups_data():
    rng = np.random.default_rng(612)
    return np.where(rng.uniform(size=50) < 0.35, -1.5, 1.2) + 0.6 * rng.standard_normal(50)


def two_groups():
    """A mixture of two normal distributions with one scale; the prior does not tell the two apart."""
    data = two_groups_data()

    def log_prior(x):
        of_means = norm.logpdf(x["first"], 0.0, 3.0) + norm.logpdf(x["second"], 0.0, 3.0)
        return of_means + uniform(x["logit_share"]) + half_normal(x["log_scale"], 2.0)

    def log_likelihood(x):
        scale = jnp.exp(x["log_scale"])
        first = jax.nn.log_sigmoid(x["logit_share"]) + norm.logpdf(data, x["first"], scale)
        second = jax.nn.log_sigmoid(-x["logit_share"]) + norm.logpdf(data, x["second"], scale)
        return jnp.sum(jnp.logaddexp(first, second))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        log_scale = jnp.log(2.0 * jnp.abs(jax.random.normal(keys[2])))
        means = normals(keys[0], first=(0.0, 3.0), second=(0.0, 3.0))
        return means | {"logit_share": jax.random.logistic(keys[1]), "log_scale": log_scale}

    return log_prior, log_likelihood, sample_prior


def two_groups_truth(finer=1.0):
    """A grid of all four parameters; the densities of the data are multiplied in groups of ten, which saves logs."""
    axes = [(*ends, 1 + round(finer * num)) for *ends, num in ((-12, 12, 150), (-12, 12, 80), (-2, 2.5, 40))]
    means, logits, log_scales = (np.linspace(*axis) for axis in axes)
    of_means = norm.logpdf(means, 0.0, 3.0)

    @jax.jit
    def log_sum(log_scale, logit):
        densities = norm.pdf(two_groups_data()[:, None], means, jnp.exp(log_scale))
        share = jax.nn.sigmoid(logit)
        mixed = share * densities[:, :, None] + (1 - share) * densities[:, None]
        log_joint = jnp.sum(jnp.log(jnp.prod(mixed.reshape(5, 10, len(means), -1), axis=1)), axis=0)
        log_prior = of_means[:, None] + of_means + uniform(logit) + half_normal(log_scale, 2.0)
        return jax.nn.logsumexp(log_joint + log_prior)

    log_sums = np.array([[log_sum(log_scale, logit) for logit in logits] for log_scale in log_scales])
    return log_integral(log_sums, *spacings(axes[0], *axes))


def robust():
    """A straight line with Student-t noise of four degrees of freedom, and a few outliers."""
    rng = np.random.default_rng(613)
    place = np.linspace(-1, 1, 30)
    response = 0.5 + 2.0 * place + 0.3 * rng.standard_normal(30)
    response[[3, 17, 25]] += [6.0, -4.0, 5.0]

    def log_prior(x):
        of_line = norm.logpdf(x["intercept"], 0.0, 5.0) + norm.logpdf(x["slope"], 0.0, 5.0)
        return of_line + half_normal(x["log_scale"], 2.0)

    def log_likelihood(x):
        return jnp.sum(t.logpdf(response, 4.0, x["intercept"] + x["slope"] * place, jnp.exp(x["log_scale"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_scale = jnp.log(2.0 * jnp.abs(jax.random.normal(second)))
        return normals(first, intercept=(0.0, 5.0), slope=(0.0, 5.0)) | {"log_scale": log_scale}

    return log_prior, log_likelihood, sample_prior


def banana(num=4):
    """Pairs with the valley of Rosenbrock's function as likelihood and a normal prior of scale 2."""

    def log_prior(x):
        return jnp.sum(norm.logpdf(x["along"], scale=2.0)) + jnp.sum(norm.logpdf(x["across"], scale=2.0))

    def log_likelihood(x):
        return -jnp.sum(0.2 * (1 - x["along"]) ** 2 + 10 * (x["across"] - x["along"] ** 2) ** 2)

    def sample_prior(key):
        along, across = 2.0 * jax.random.normal(key, (2, num))
        return {"along": along, "across": across}

    return log_prior, log_likelihood, sample_prior


def decay_data():
    rng = np.random.default_rng(614)
    times = np.linspace(0.1, 6, 25)
    return times, 2.0 * np.exp(-2.5 * times) + 1.0 * np.exp(-0.4 * times) + 0.05 * rng.standard_normal(25)


def decay():
    """The sum of two exponentials with unknown rates, amplitudes and noise; the prior does not tell the two apart."""
    times, response = map(jnp.asarray, decay_data())

    def log_prior(x):
        of_rates = norm.logpdf(x["log_rates"], 0.0, 1.0)
        return jnp.sum(of_rates + norm.logpdf(x["amplitudes"], 0.0, 2.0)) + half_normal(x["log_noise"], 0.2)

    def log_likelihood(x):
        curve = jnp.exp(-jnp.outer(times, jnp.exp(x["log_rates"]))) @ x["amplitudes"]
        return jnp.sum(norm.logpdf(response, curve, jnp.exp(x["log_noise"])))

    def sample_prior(key):
        rates, amplitudes, (noise, _) = jax.random.normal(key, (3, 2))
        return {"log_rates": rates, "amplitudes": 2.0 * amplitudes, "log_noise": jnp.log(0.2 * jnp.abs(noise))}

    return log_prior, log_likelihood, sample_prior


def decay_truth(finer=1.0):
    """The amplitudes by the formula for linear regression, the rest on a grid."""
    times, response = decay_data()
    axes = (-6.0, 6.0, 1 + round(240 * finer)), (-6.0, 6.0, 1 + round(240 * finer)), (-5.0, 0.5, 1 + round(80 * finer))
    first, second = (values.reshape(-1, 1) for values in mesh(*axes[:2]))
    a, b = np.exp(-np.exp(first) * times), np.exp(-np.exp(second) * times)
    aa, ab, bb, ay, by = (np.sum(u * v, axis=1) for u, v in ((a, a), (a, b), (b, b), (a, response), (b, response)))
    log_rates = np.asarray(norm.logpdf(first) + norm.logpdf(second))[:, 0]
    log_joint = []
    for log_noise in np.linspace(*axes[2]):
        variance = np.exp(2 * log_noise)
        # Precision of the amplitudes given the data, times the variance of the noise.
        p, q = aa + variance / 4, bb + variance / 4
        determinant = p * q - ab**2
        fitted = (q * ay**2 - 2 * ab * ay * by + p * by**2) / determinant
        value = -0.5 * (response @ response - fitted) / variance - 0.5 * np.log(determinant * 16 / variance**2)
        log_joint.append(
            value + log_rates + float(half_normal(log_noise, 0.2)) - 25 * (log_noise + 0.5 * np.log(2 * np.pi))
        )
    return log_integral(np.array(log_joint), *spacings(*axes))


def autoregression():
    """A stationary autoregression of order two: partial autocorrelations uniform in (-1, 1)."""
    rng = np.random.default_rng(615)
    series = [0.0, 0.5]
    for _ in range(60):
        series.append(1.3 * series[-1] - 0.6 * series[-2] + 0.8 * rng.standard_normal())
    series = np.array(series)

    def log_prior(x):
        return uniform(x["first"]) + uniform(x["second"]) + half_normal(x["log_scale"], 2.0)

    def log_likelihood(x):
        first, second = jnp.tanh(0.5 * x["first"]), jnp.tanh(0.5 * x["second"])
        mean = first * (1 - second) * series[1:-1] + second * series[:-2]
        return jnp.sum(norm.logpdf(series[2:], mean, jnp.exp(x["log_scale"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        logits = jax.random.logistic(first, (2,))
        log_scale = jnp.log(2.0 * jnp.abs(jax.random.normal(second)))
        return {"first": logits[0], "second": logits[1], "log_scale": log_scale}

    return log_prior, log_likelihood, sample_prior


def correlation():
    """The covariance of pairs: half-normal scales, and a correlation from the LKJ distribution with parameter 2."""
    rng = np.random.default_rng(616)
    data = rng.standard_normal((15, 2)) @ np.array([[1.0, 1.6], [0.0, 0.5]])
    ((first, both), (_, second)), num = data.T @ data, len(data)

    def log_prior(x):
        # The density of (1 + correlation) / 2 is beta(2, 2); its logit is the parameter.
        of_correlation = 2 * uniform(x["logit"]) + jnp.log(6.0)
        return of_correlation + half_normal(x["log_first"], 2.0) + half_normal(x["log_second"], 2.0)

    def log_likelihood(x):
        rho = jnp.tanh(0.5 * x["logit"])
        log_rest = LOG_TWO * 2 + uniform(x["logit"])  # log(1 - rho^2)
        a, b = jnp.exp(-x["log_first"]), jnp.exp(-x["log_second"])
        quadratic = (first * a**2 - 2 * rho * both * a * b + second * b**2) * jnp.exp(-log_rest)
        return -0.5 * quadratic - num * (jnp.log(2 * jnp.pi) + x["log_first"] + x["log_second"] + 0.5 * log_rest)

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        log_scales = jnp.log(2.0 * jnp.abs(jax.random.normal(keys[0], (2,))))
        logit = jax.random.loggamma(keys[1], 2.0) - jax.random.loggamma(keys[2], 2.0)
        return {"logit": logit, "log_first": log_scales[0], "log_second": log_scales[1]}

    return log_prior, log_likelihood, sample_prior


def survival():
    """Times until an event, a third of them censored: a Weibull distribution with an effect of treatment."""
    rng = np.random.default_rng(617)
    treated = np.tile([0.0, 1.0], 20)
    times = np.exp(0.6 * treated) * rng.weibull(1.5, 40)
    seen = times < 1.4
    log_times = np.log(np.minimum(times, 1.4))

    def log_prior(x):
        of_shape, of_scale = norm.logpdf(x["log_shape"], 0.0, 1.0), norm.logpdf(x["log_scale"], 0.0, 2.0)
        return of_shape + of_scale + t.logpdf(x["effect"], 3.0, 0.0, 1.0)

    def log_likelihood(x):
        shape = jnp.exp(x["log_shape"])
        log_hazard = shape * (log_times - x["log_scale"] - x["effect"] * treated)
        return jnp.sum(seen * (x["log_shape"] + log_hazard - log_times) - jnp.exp(log_hazard))

    def sample_prior(key):
        first, second = jax.random.split(key)
        effect = jax.random.t(second, 3.0)
        return normals(first, log_shape=(0.0, 1.0), log_scale=(0.0, 2.0)) | {"effect": effect}

    return log_prior, log_likelihood, sample_prior
