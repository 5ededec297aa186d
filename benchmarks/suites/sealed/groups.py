"""Sealed models with groups: patients, litters, studies, hospitals. See `models.py`: no tuning decision looks at them.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm, t
from scipy.special import log_ndtr, logsumexp

from benchmarks.suites.fresh.regressions import half_cauchy
from benchmarks.suites.held_out.curves import half_normal, normals, uniform
from benchmarks.suites.held_out.groups import mesh, spacings
from benchmarks.suites.problems import log_integral

VISITS = 6


def visits_data(num):
    rng = np.random.default_rng(801)
    treated = np.arange(num) % 2
    chance = np.exp(log_ndtr(-0.3 + 0.8 * treated + 0.9 * rng.standard_normal(num)))
    return treated, rng.binomial(VISITS, chance)


def visits(num=44):
    """A probit model of 44 patients in two arms, each asked at six visits: 47 dimensions.

    The effects of the patients are centered, and their scale is half-Cauchy.
    """
    treated, answers = (jnp.asarray(values, float) for values in visits_data(num))
    constant = jnp.sum(gammaln(VISITS + 1.0) - gammaln(answers + 1) - gammaln(VISITS - answers + 1))

    def log_prior(x):
        of_arms = norm.logpdf(x["intercept"]) + norm.logpdf(x["effect"])
        of_patients = jnp.sum(norm.logpdf(x["patients"], 0.0, jnp.exp(x["log_scale"])))
        return of_arms + half_cauchy(x["log_scale"]) + of_patients

    def log_likelihood(x):
        score = x["intercept"] + x["effect"] * treated + x["patients"]
        return constant + jnp.sum(answers * norm.logcdf(score) + (VISITS - answers) * norm.logcdf(-score))

    def sample_prior(key):
        first, second, third = jax.random.split(key, 3)
        scale = jnp.abs(jax.random.cauchy(second))
        arms = normals(first, intercept=(0.0, 1.0), effect=(0.0, 1.0))
        return arms | {"log_scale": jnp.log(scale), "patients": scale * jax.random.normal(third, (num,))}

    return log_prior, log_likelihood, sample_prior


def visits_truth(num=44, finer=1):
    """Patients one by one on a grid of their effects, for each mean of an arm and each scale."""
    treated, answers = visits_data(num)
    axis, scale_axis = (-8.0, 8.0, 1 + round(120 * finer)), (-12.0, 5.0, 1 + round(100 * finer))
    means, white = np.linspace(*axis), np.linspace(-8.0, 8.0, 1 + round(800 * finer))
    weights = np.asarray(norm.logpdf(white)) + np.log(white[1] - white[0])
    of_means = np.asarray(norm.logpdf(means)[:, None] + norm.logpdf(means - means[:, None]))
    log_joint = []
    for log_scale in np.linspace(*scale_axis):
        score = means[:, None] + np.exp(log_scale) * white
        log_yes, log_no = log_ndtr(score), log_ndtr(-score)
        arms = [np.zeros(len(means)), np.zeros(len(means))]
        for count in np.unique(answers):
            of_count = logsumexp(count * log_yes + (VISITS - count) * log_no + weights, axis=1)
            choose = float(gammaln(VISITS + 1.0) - gammaln(count + 1.0) - gammaln(VISITS - count + 1.0))
            for arm in (0, 1):
                arms[arm] += np.sum((treated == arm) & (answers == count)) * (of_count + choose)
        log_joint.append(of_means + arms[0][:, None] + arms[1] + float(half_cauchy(log_scale)))
    return log_integral(np.array(log_joint), *spacings(axis, axis, scale_axis))


TREATED = np.array([1.0, 0.0, 0.0])


def litters_data(num):
    """Times, and whether the event was seen: the study ends at time 2."""
    rng = np.random.default_rng(802)
    frailty = rng.gamma(2.0, 0.5, (num, 1))
    times = (rng.exponential(size=(num, 3)) / (0.5 * frailty * np.exp(0.8 * TREATED))) ** (1 / 1.5)
    return np.minimum(times, 2.0), (times < 2.0).astype(float)


def litters(num=12):
    """Weibull survival of 12 litters of three, one of them treated, with censoring and a frailty of each litter.

    Frailties are from a gamma distribution with mean one and unknown variance.
    """
    times, seen = map(jnp.asarray, litters_data(num))

    def log_prior(x):
        of_hazard = norm.logpdf(x["log_shape"], 0.0, 0.5) + norm.logpdf(x["log_level"], 0.0, 2.0)
        size, logs = jnp.exp(-x["log_variance"]), x["log_frailties"]
        of_litters = jnp.sum(size * jnp.log(size) - gammaln(size) + size * (logs - jnp.exp(logs)))
        return of_hazard + norm.logpdf(x["effect"]) + norm.logpdf(x["log_variance"], -1.0, 1.0) + of_litters

    def log_likelihood(x):
        log_scale = x["log_level"] + x["effect"] * TREATED + x["log_frailties"][:, None]
        log_cumulative = log_scale + jnp.exp(x["log_shape"]) * jnp.log(times)
        log_hazard = log_cumulative + x["log_shape"] - jnp.log(times)
        return jnp.sum(seen * log_hazard - jnp.exp(log_cumulative))

    def sample_prior(key):
        first, second = jax.random.split(key)
        numbers = normals(
            first, log_shape=(0.0, 0.5), log_level=(0.0, 2.0), effect=(0.0, 1.0), log_variance=(-1.0, 1.0)
        )
        size = jnp.exp(-numbers["log_variance"])
        return numbers | {"log_frailties": jax.random.loggamma(second, size, (num,)) - jnp.log(size)}

    return log_prior, log_likelihood, sample_prior


def litters_truth(num=12, finer=1):
    """The frailties by gamma integrals; a grid of the other four parameters."""
    times, seen = litters_data(num)
    axes = [(-2.8, 2.8, 50), (-11.0, 11.0, 110), (-5.5, 5.5, 55), (-7.0, 5.0, 50)]
    axes = [(low, high, 1 + round(size * finer)) for low, high, size in axes]
    events = seen.sum(axis=1)
    level, effect = (values[:, None] for values in mesh(axes[1], axes[2]))
    of_both = np.asarray(norm.logpdf(level, 0.0, 2.0) + norm.logpdf(effect))[:, 0]
    of_both = of_both + level[:, 0] * events.sum() + effect[:, 0] * np.sum(seen * TREATED)
    log_sums = []
    for log_shape in np.linspace(*axes[0]):
        shape = np.exp(log_shape)
        powers = times**shape
        cumulative = np.exp(level) * (np.exp(effect) * (powers @ TREATED) + powers @ (1 - TREATED))
        of_shape = float(norm.logpdf(log_shape, 0.0, 0.5)) + np.sum(seen * (log_shape + (shape - 1) * np.log(times)))
        for log_variance in np.linspace(*axes[3]):
            size = np.exp(-log_variance)
            constant = np.sum(np.asarray(gammaln(size + events) - gammaln(size))) - events.sum() * np.log(size)
            of_litters = -np.log1p(cumulative / size) @ (size + events)
            values = of_both + of_litters + constant + of_shape + float(norm.logpdf(log_variance, -1.0, 1.0))
            log_sums.append(logsumexp(values))
    return log_integral(np.array(log_sums), *spacings(*axes))


STUDIES = np.array([0.71, 0.42, 0.95, 0.26, 0.58, 0.05, 0.88, 0.33, 1.30, 0.47, 0.15, 0.62])
ERRORS = np.array([0.30, 0.20, 0.42, 0.11, 0.25, 0.18, 0.40, 0.15, 0.55, 0.22, 0.09, 0.31])
CRITICAL = 1.96


def published(num=12):
    """Twelve studies of one effect, where studies that are not significant are published with an unknown chance.

    The true effects of the studies are parameters, centered, with a half-Cauchy scale. The chance is uniform. The
    likelihood is that of the results given that they were published (Hedges, 1992).
    """
    results, errors = jnp.asarray(STUDIES[:num]), jnp.asarray(ERRORS[:num])
    number = jnp.sum(results < CRITICAL * errors)

    def log_prior(x):
        of_studies = jnp.sum(norm.logpdf(x["effects"], x["mean"], jnp.exp(x["log_scale"])))
        return norm.logpdf(x["mean"]) + half_cauchy(x["log_scale"]) + uniform(x["logit"]) + of_studies

    def log_likelihood(x):
        spread = jnp.sqrt(jnp.exp(2 * x["log_scale"]) + errors**2)
        score = (x["mean"] - CRITICAL * errors) / spread
        log_chance = jax.nn.log_sigmoid(x["logit"])
        log_published = jnp.logaddexp(norm.logcdf(score), norm.logcdf(-score) + log_chance)
        of_results = jnp.sum(norm.logpdf(results, x["effects"], errors))
        return of_results + number * log_chance - jnp.sum(log_published)

    def sample_prior(key):
        keys = jax.random.split(key, 4)
        mean, scale = jax.random.normal(keys[0]), jnp.abs(jax.random.cauchy(keys[1]))
        effects = mean + scale * jax.random.normal(keys[2], (num,))
        return {"mean": mean, "log_scale": jnp.log(scale), "logit": jax.random.logistic(keys[3]), "effects": effects}

    return log_prior, log_likelihood, sample_prior


def published_truth(num=12, finer=1):
    """Normal densities without the effects of the studies; a grid of the mean, the scale and the chance."""
    results, errors = STUDIES[:num], ERRORS[:num]
    axes = [(-6.0, 6.0, 240), (-18.0, 18.0, 150), (-12.0, 7.0, 150)]
    axes = [(low, high, 1 + round(size * finer)) for low, high, size in axes]
    mean, logit = (values[:, None] for values in mesh(*axes[:2]))
    of_both = np.asarray(norm.logpdf(mean) + uniform(logit))[:, 0]
    chance = 1 / (1 + np.exp(-logit))
    of_both = of_both - np.sum(results < CRITICAL * errors) * np.log1p(np.exp(-logit[:, 0]))
    log_sums = []
    for log_scale in np.linspace(*axes[2]):
        variance = np.exp(2 * log_scale) + errors**2
        significant = np.exp(log_ndtr((mean - CRITICAL * errors) / np.sqrt(variance)))
        of_results = -0.5 * np.sum(np.log(2 * np.pi * variance) + (results - mean) ** 2 / variance, axis=1)
        of_results -= np.sum(np.log(significant + chance * (1 - significant)), axis=1)
        log_sums.append(logsumexp(of_both + of_results) + float(half_cauchy(log_scale)))
    return log_integral(np.array(log_sums), *spacings(*axes))


def hospitals_data(num):
    """Measured log odds and their standard errors. Hospitals differ by Student-t amounts."""
    rng = np.random.default_rng(804)
    errors = rng.uniform(0.1, 0.5, num)
    return 0.4 + 0.3 * rng.standard_t(3, num) + errors * rng.standard_normal(num), errors


def hospitals(num=32):
    """The outcome of 32 hospitals, whose effects are Student-t with three degrees of freedom: 34 dimensions.

    The effects are in units of their scale.
    """
    outcomes, errors = map(jnp.asarray, hospitals_data(num))

    def log_prior(x):
        of_effects = jnp.sum(t.logpdf(x["effects"], 3.0))
        return norm.logpdf(x["mean"], 0.0, 2.0) + half_normal(x["log_scale"]) + of_effects

    def log_likelihood(x):
        return jnp.sum(norm.logpdf(outcomes, x["mean"] + jnp.exp(x["log_scale"]) * x["effects"], errors))

    def sample_prior(key):
        first, second, third = jax.random.split(key, 3)
        log_scale = jnp.log(jnp.abs(jax.random.normal(second)))
        effects = jax.random.t(third, 3.0, (num,))
        return {"mean": 2.0 * jax.random.normal(first), "log_scale": log_scale, "effects": effects}

    return log_prior, log_likelihood, sample_prior


def hospitals_truth(num=32, finer=1):
    """A Student-t effect is normal given a gamma weight: a grid of each weight for each mean and scale."""
    outcomes, errors = hospitals_data(num)
    axes = (-11.0, 11.0, 1 + round(300 * finer)), (-12.0, 2.0, 1 + round(110 * finer))
    weight_axis = -24.0, 4.0, 1 + round(130 * finer)
    log_weight = np.linspace(*weight_axis)
    of_weight = 1.5 * np.log(1.5) - float(gammaln(1.5)) + 1.5 * (log_weight - np.exp(log_weight))
    of_weight += np.log(spacings(weight_axis)[0])
    mean = np.linspace(*axes[0])[:, None]
    of_mean = np.asarray(norm.logpdf(mean[:, 0], 0.0, 2.0))
    log_joint = []
    for log_scale in np.linspace(*axes[1]):
        values = of_mean + float(half_normal(log_scale))
        for outcome, error in zip(outcomes, errors, strict=True):
            variance = error**2 + np.exp(2 * log_scale - log_weight)
            densities = np.exp(of_weight - 0.5 * (outcome - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
            values = values + np.log(np.sum(densities, axis=1))
        log_joint.append(values)
    return log_integral(np.array(log_joint), *spacings(*axes))
