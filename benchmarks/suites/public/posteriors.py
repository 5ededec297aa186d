"""Targets that are posterior distributions, of public data and of data simulated with a fixed seed.

Truths that are numbers in this file are made by `python -m benchmarks.suites.truths NAME`, unless another source is
named. The data are public: UCI (German credit, breast cancer, ionosphere) and Penttinen, Stoyan and Henttonen (1992,
pines).
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, gammaln
from jax.scipy.stats import norm

import qpaths as qp
from benchmarks.suites.problems import Problem, log_integral, standard_normal
from qpaths_paper.parts.datasets import load, log_sigmoid, logistic_regression

DATA = Path(__file__).parents[1] / "data"


def regression(name):
    truths = {"pima": (-391.495, 0.001, 0.002, 60_000), "sonar": (-124.1213, 0.0013, 0.01, 1_000_000)}
    return Problem(*logistic_regression(load(name)), *truths[name])


REGRESSIONS = {
    ("credit", None): (-504.4886, 0.0017),
    ("credit", 10.0): (-585.0973, 0.0013),
    ("cancer", 1.0): (-67.4940, 0.0006),
    ("cancer", 10.0): (-77.5670, 0.0015),
    ("ionosphere", 1.0): (-111.6102, 0.0007),
    ("sonar", 1.0): (-108.3833, 0.0009),
}
"""Log evidence and its standard error by data set and scale of the normal prior, where None is a flat prior."""


def suite_regression(name, prior_scale=1.0):
    """Logistic regression with an intercept, on predictors of unit variance, from a standard normal base.

    The predictors of `ionosphere` and `sonar` are centered too. Under a flat prior `cancer` has no evidence: a plane
    separates its labels, and the integral is infinite.
    """
    files = {"credit": "german_credit", "cancer": "breast_cancer", "ionosphere": "ionosphere"}
    if name in files:
        table = np.loadtxt(DATA / f"{files[name]}.csv", delimiter=",")
        predictors, labels = table[:, :-1], np.where(table[:, -1] == 1, 1.0, -1.0)
    else:
        data = load(name)
        predictors, labels = data.predictors[:, 1:], data.labels
    deviation = predictors.std(axis=0)
    if name in ("ionosphere", "sonar"):
        predictors = predictors - predictors.mean(axis=0)
    predictors = predictors / np.where(deviation > 0, deviation, 1.0)
    signed = jnp.asarray((np.column_stack([np.ones(len(labels)), predictors]) * labels[:, None]).T)
    base = standard_normal(signed.shape[0])

    def log_target(x):
        log_prior = 0.0 if prior_scale is None else jnp.sum(norm.logpdf(x, scale=prior_scale))
        return log_prior + jnp.sum(log_sigmoid(x @ signed))

    return Problem(base, qp.Density(log_target), *REGRESSIONS[name, prior_scale], 0.005, 200_000)


def cox(size, white=False):
    """Log-Gaussian Cox process of the pines on a grid; the prior is the base. White: in coordinates of unit variance.

    The truths are by Heng et al. (2020), 900 dimensions, and by another program for SMC, 1,600 dimensions.
    """
    points = np.loadtxt(DATA / "pines.csv", delimiter=",")
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=size, range=[[0, 1], [0, 1]])[0].ravel()
    cells = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), axis=-1).reshape(-1, 2)
    distance = np.linalg.norm(cells[:, None] - cells[None], axis=-1)
    factor = np.linalg.cholesky(1.91 * np.exp(-distance / (size / 33)))
    mean, inverse = np.log(126) - 1.91 / 2, jnp.asarray(np.linalg.inv(factor).T)
    constant = -np.sum(np.log(np.diag(factor))) - 0.5 * size**2 * np.log(2 * np.pi)
    root, counts = jnp.asarray(factor.T), jnp.asarray(counts)

    def log_likelihood(x):
        return jnp.sum(counts * x - jnp.exp(x) / size**2)

    def log_prior(x):
        return constant - 0.5 * jnp.sum(((x - mean) @ inverse) ** 2)

    truth = {30: (497.621, 0.003, 0.1), 40: (501.80, 0.10, 0.2)}[size]
    if white:
        base = standard_normal(size**2)
        target = qp.Density(lambda x: base.log_prob(x) + log_likelihood(mean + x @ root))
    else:
        base = qp.Density(log_prior, lambda key: mean + jax.random.normal(key, (size**2,)) @ root)
        target = qp.Density(lambda x: log_prior(x) + log_likelihood(x))
    return Problem(base, target, *truth, 500_000)


def brownian():
    """Brownian motion of 30 steps with unknown scales, observed with noise except in the middle."""
    early = [0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845]
    early += [-0.1484156, -0.3250906, -0.22957903, -0.44110894, -0.09830782]
    late = [-0.8786016, -0.83736074, -0.7384849, -0.8939254, -0.7774566]
    late += [-0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789]
    observed, at = jnp.array(early + late), np.r_[0:10, 20:30]

    def log_prior(x):
        scales = jax.nn.softplus(x[:2])
        steps = jnp.diff(x[2:], prepend=0.0)
        log_scales = jnp.log(scales)
        of_scales = jnp.sum(norm.logpdf(log_scales, scale=2.0) - log_scales + jax.nn.log_sigmoid(x[:2]))
        return of_scales + jnp.sum(norm.logpdf(steps, scale=scales[0]))

    def sample(key):
        first, second = jax.random.split(key)
        scales = jnp.exp(2.0 * jax.random.normal(first, (2,)))
        path = jnp.cumsum(scales[0] * jax.random.normal(second, (30,)))
        return jnp.concatenate([scales + jnp.log(-jnp.expm1(-scales)), path])

    def log_target(x):
        return log_prior(x) + jnp.sum(norm.logpdf(observed, x[2:][at], jax.nn.softplus(x[1])))

    return Problem(qp.Density(log_prior, sample), qp.Density(log_target), 1.18775, 0.0, 0.01, 1_000_000)


def seeds_data():
    """The BUGS example: seeds that germinated, seeds in all, and the predictors, one row each."""
    germinated = np.array([10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3.0])
    total = np.array([39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7.0])
    kind, extract = np.repeat([0.0, 1.0], [11, 10]), np.repeat([0.0, 1.0, 0.0, 1.0], [5, 6, 5, 5])
    return germinated, total, np.stack([np.ones(21), kind, extract, kind * extract])


def seeds(from_prior=False):
    """Random-effects logistic regression, from a standard normal base or from the prior, whose tails are huge."""
    germinated, total, design = map(jnp.asarray, seeds_data())
    binomial = float(jnp.sum(gammaln(total + 1) - gammaln(germinated + 1) - gammaln(total - germinated + 1)))

    def log_prior(x):
        log_tau, coefficients, effects = x[0], x[1:5], x[5:]
        of_tau = 0.01 * log_tau - 0.01 * jnp.exp(log_tau) + 0.01 * jnp.log(0.01) - gammaln(0.01)
        # Scaled first: the prior draws effects of 1e200, whose squares overflow.
        of_effects = jnp.sum(norm.logpdf(effects * jnp.exp(0.5 * log_tau)) + 0.5 * log_tau)
        return of_tau + jnp.sum(norm.logpdf(coefficients, scale=10.0)) + of_effects

    def sample(key):
        keys = jax.random.split(key, 3)
        log_tau = jax.random.loggamma(keys[0], 0.01) - jnp.log(0.01)
        effects = jnp.exp(-0.5 * log_tau) * jax.random.normal(keys[2], (21,))
        return jnp.concatenate([log_tau[None], 10.0 * jax.random.normal(keys[1], (4,)), effects])

    def log_target(x):
        logits = x[1:5] @ design + x[5:]
        return log_prior(x) + jnp.sum(germinated * logits - total * jax.nn.softplus(logits)) + binomial

    base = qp.Density(log_prior, sample) if from_prior else standard_normal(26)
    return Problem(base, qp.Density(log_target), -73.4065, 0.0004, 0.01, 1_000_000)


def eight_schools():
    """The centered parametrization: a funnel in log tau. The truth is by quadrature over mu and log tau."""
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu, log_tau = np.meshgrid(np.linspace(-40.0, 50.0, 1801), np.linspace(-15.0, 8.0, 4601), indexing="ij")
    tau = np.exp(log_tau)
    log_joint = norm.logpdf(mu, 0.0, 5.0) + np.log(2 / (np.pi * 5)) - np.log1p((tau / 5) ** 2) + log_tau
    for effect, error in zip(effects, errors, strict=True):
        log_joint = log_joint + norm.logpdf(effect, mu, np.hypot(tau, error))
    truth = log_integral(log_joint, 0.05, 0.005)

    def log_prior(x):
        tau = jnp.exp(x[1])
        of_tau = jnp.log(2 / (jnp.pi * 5)) - jnp.log1p((tau / 5) ** 2) + x[1]
        return norm.logpdf(x[0], 0.0, 5.0) + of_tau + jnp.sum(norm.logpdf(x[2:], x[0], tau))

    def sample(key):
        first, second, third = jax.random.split(key, 3)
        mu = 5.0 * jax.random.normal(first)
        log_tau = jnp.log(5.0 * jnp.abs(jax.random.cauchy(second)))
        return jnp.concatenate([jnp.array([mu, log_tau]), mu + jnp.exp(log_tau) * jax.random.normal(third, (8,))])

    def log_target(x):
        return log_prior(x) + jnp.sum(norm.logpdf(jnp.asarray(effects), x[2:], jnp.asarray(errors)))

    return Problem(qp.Density(log_prior, sample), qp.Density(log_target), truth, 0.0, 0.02, 1_000_000)


def grouped_data(num_groups=50):
    """Simulated groups of 5 to 20 binary responses: the group, the predictor and the response of each."""
    rng = np.random.default_rng(50)
    group = np.repeat(np.arange(num_groups), rng.integers(5, 21, num_groups))
    predictor = rng.standard_normal(group.size)
    effects = -0.5 + 0.8 * rng.standard_normal(num_groups)
    response = rng.uniform(size=group.size) < 1 / (1 + np.exp(-effects[group] - 0.7 * predictor))
    return group, predictor, response.astype(float)


def hierarchical_logit(num_groups=50):
    """Logistic regression with an intercept for each of 50 groups: mean, log scale, slope, then the intercepts."""
    group, predictor, response = grouped_data(num_groups)
    signs = jnp.asarray(2 * response - 1)

    def log_prior(x):
        mean, log_scale, slope, intercepts = x[0], x[1], x[2], x[3:]
        scale = jnp.exp(log_scale)
        of_scale = jnp.log(2.0) + norm.logpdf(scale) + log_scale  # half-normal
        of_others = norm.logpdf(mean, scale=2.5) + norm.logpdf(slope, scale=2.5)
        return of_scale + of_others + jnp.sum(norm.logpdf(intercepts, mean, scale))

    def sample(key):
        noise = jax.random.normal(key, (3 + num_groups,))
        mean, scale, slope = 2.5 * noise[0], jnp.abs(noise[1]), 2.5 * noise[2]
        return jnp.concatenate([jnp.stack([mean, jnp.log(scale), slope]), mean + scale * noise[3:]])

    def log_target(x):
        return log_prior(x) + jnp.sum(log_sigmoid(signs * (x[3:][group] + x[2] * predictor)))

    return Problem(qp.Density(log_prior, sample), qp.Density(log_target), -401.0076, 0.0009, 0.02, 1_000_000)


def returns_data(num_steps=100):
    """Simulated returns whose log variance is an autoregression."""
    rng = np.random.default_rng(100)
    state, returns = 0.25 / np.sqrt(1 - 0.95**2) * rng.standard_normal(), []
    for _ in range(num_steps):
        returns.append(np.exp(0.5 * (state - 0.5)) * rng.standard_normal())
        state = 0.95 * state + 0.25 * rng.standard_normal()
    return np.array(returns)


def log_volatility_prior(x):
    """Of the level, the logit of half of one plus the autocorrelation, and the log scale of the innovations."""
    level, logit, log_scale = x
    of_logit = 20.0 * log_sigmoid(logit) + 1.5 * log_sigmoid(-logit) - betaln(20.0, 1.5)  # beta distribution
    of_scale = jnp.log(2.0) + norm.logpdf(jnp.exp(log_scale)) + log_scale  # half-normal
    return norm.logpdf(level, scale=2.0) + of_logit + of_scale


def volatility(num_steps=100):
    """Stochastic volatility (Kim, Shephard and Chib, 1998): three parameters, then the log variance at each step."""
    returns = jnp.asarray(returns_data(num_steps))

    def log_prior(x):
        level, correlation, scale, states = x[0], jnp.tanh(0.5 * x[1]), jnp.exp(x[2]), x[3:] - x[0]
        first = norm.logpdf(states[0], scale=scale * jnp.cosh(0.5 * x[1]))
        steps = norm.logpdf(states[1:], correlation * states[:-1], scale)
        return log_volatility_prior((level, x[1], x[2])) + first + jnp.sum(steps)

    def sample(key):
        first, second, third = jax.random.split(key, 3)
        logit = jax.random.loggamma(first, 20.0) - jax.random.loggamma(second, 1.5)
        noise = jax.random.normal(third, (2 + num_steps,))
        level, scale = 2.0 * noise[0], jnp.abs(noise[1])

        def step(state, noise):
            state = jnp.tanh(0.5 * logit) * state + scale * noise
            return state, state

        start = scale * jnp.cosh(0.5 * logit) * noise[2]
        rest = jax.lax.scan(step, start, noise[3:])[1]
        return jnp.concatenate([jnp.stack([level, logit, jnp.log(scale), level + start]), level + rest])

    def log_target(x):
        return log_prior(x) + jnp.sum(norm.logpdf(returns, scale=jnp.exp(0.5 * x[3:])))

    return Problem(qp.Density(log_prior, sample), qp.Density(log_target), -174.0127, 0.0005, 0.02, 1_000_000)
