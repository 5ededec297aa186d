"""Fresh time series: a level that wanders, hidden states, a variance that moves. See `models.py`: they have been
looked at.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.scipy.stats import norm
from scipy.special import logsumexp
from scipy.stats import poisson

from benchmarks.suites.held_out.curves import normals, uniform
from benchmarks.suites.held_out.groups import mesh, spacings
from benchmarks.suites.problems import log_integral

# fmt: off
FLOW = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969,
    831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759,
    781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874,
]) / 100
# fmt: on


def nile(num=78):
    """The flow of the Nile from 1871 to 1948 (Cobb, 1978): a level that wanders, seen with noise: 80 dimensions.

    The steps of the level are in units of their scale.
    """
    flow = jnp.asarray(FLOW[:num])

    def log_prior(x):
        of_scales = norm.logpdf(x["log_step"]) + norm.logpdf(x["log_noise"])
        return of_scales + norm.logpdf(x["start"], 10.0, 5.0) + jnp.sum(norm.logpdf(x["steps"]))

    def log_likelihood(x):
        level = x["start"] + jnp.exp(x["log_step"]) * jnp.append(0.0, jnp.cumsum(x["steps"]))
        return jnp.sum(norm.logpdf(flow, level, jnp.exp(x["log_noise"])))

    def sample_prior(key):
        first, second = jax.random.split(key)
        numbers = normals(first, log_step=(0.0, 1.0), log_noise=(0.0, 1.0), start=(10.0, 5.0))
        return numbers | {"steps": jax.random.normal(second, (num - 1,))}

    return log_prior, log_likelihood, sample_prior


def nile_truth(num=78, finer=1):
    """Normal densities without the levels, on a grid of the two scales."""
    axes = (-7.0, 6.0, 1 + round(130 * finer)), (-6.0, 6.0, 1 + round(240 * finer))
    years, log_noise = np.arange(num), np.linspace(*axes[1])
    flow = FLOW[:num] - 10.0
    log_joint = []
    for log_step in np.linspace(*axes[0]):
        covariance = 25.0 + np.exp(2 * log_step) * np.minimum(years[:, None], years)
        values, vectors = np.linalg.eigh(covariance)
        variances = np.maximum(values, 0.0) + np.exp(2 * log_noise)[:, None]
        of_flow = -0.5 * np.sum(np.log(2 * np.pi * variances) + (vectors.T @ flow) ** 2 / variances, axis=1)
        log_joint.append(of_flow - 0.5 * (log_step**2 + log_noise**2) - np.log(2 * np.pi))
    return log_integral(np.array(log_joint), *spacings(*axes))


def hidden_data():
    rng = np.random.default_rng(721)
    state, counts = 0, []
    for _ in range(60):
        counts.append(rng.poisson([1.0, 4.5][state]))
        state = state if rng.uniform() < [0.92, 0.85][state] else 1 - state
    return np.array(counts, float)


def hidden():
    """Counts of a hidden Markov model with two states, equally likely at first, that the prior does not tell apart.

    Rates are gamma(2, 1/2), and the chance to stay in a state has the density 2 p.
    """
    counts = jnp.asarray(hidden_data())

    def log_prior(x):
        of_rates = 2 * x["log_rates"] - 0.5 * jnp.exp(x["log_rates"]) + 2 * jnp.log(0.5)
        return jnp.sum(of_rates + uniform(x["logits"]) + jnp.log(2.0) + jax.nn.log_sigmoid(x["logits"]))

    def log_likelihood(x):
        stay, leave = jax.nn.log_sigmoid(x["logits"]), jax.nn.log_sigmoid(-x["logits"])
        of_counts = counts[:, None] * x["log_rates"] - jnp.exp(x["log_rates"]) - gammaln(counts + 1)[:, None]

        def step(log_chances, of_count):
            return jnp.logaddexp(log_chances + stay, (log_chances + leave)[::-1]) + of_count, None

        return jax.nn.logsumexp(jax.lax.scan(step, of_counts[0] - jnp.log(2.0), of_counts[1:])[0])

    def sample_prior(key):
        first, second = jax.random.split(key)
        log_rates = jax.random.loggamma(first, 2.0, (2,)) + jnp.log(2.0)
        chances = jnp.sqrt(jax.random.uniform(second, (2,), minval=1e-12))
        return {"log_rates": log_rates, "logits": jnp.log(chances) - jnp.log1p(-chances)}

    return log_prior, log_likelihood, sample_prior


def hidden_truth(finer=1):
    """A grid of both rates and both chances; the chances of the states are carried along and scaled to one."""
    counts = hidden_data()
    rate_axis, axis = (-4.0, 3.4, 1 + round(60 * finer)), (-8.0, 12.0, 1 + round(40 * finer))
    first, second = (values[:, None] for values in mesh(axis, axis))
    stays = 1 / (1 + np.exp(-first)), 1 / (1 + np.exp(-second))
    of_chances = sum(np.log(2 * stay**2 * (1 - stay)) for stay in stays)
    log_rates = np.linspace(*rate_axis)
    rates = np.exp(log_rates)
    of_rates = np.log(0.25 * rates**2) - 0.5 * rates
    log_sums = []
    for index, rate in enumerate(rates):
        one, two = 0.5 * poisson.pmf(counts[0], rate), 0.5 * poisson.pmf(counts[0], rates)
        log_total = np.zeros((len(first), len(rates)))
        for count in counts[1:]:
            one, two = stays[0] * one + (1 - stays[1]) * two, (1 - stays[0]) * one + stays[1] * two
            one, two = one * poisson.pmf(count, rate), two * poisson.pmf(count, rates)
            total = one + two
            log_total += np.log(total)
            one, two = one / total, two / total
        log_sums.append(logsumexp(log_total + of_chances + of_rates[index] + of_rates))
    return log_integral(np.array(log_sums), *spacings(rate_axis, rate_axis, axis, axis))


def triangle_data():
    rng = np.random.default_rng(723)
    variance, returns = 1.0, []
    for _ in range(150):
        returns.append(variance**0.5 * rng.standard_normal())
        variance = 0.1 + 0.25 * returns[-1] ** 2 + 0.65 * variance
    return np.array(returns)


def triangle():
    """Returns whose variance follows the last one and the last return (GARCH), with a density only in a triangle.

    The two shares are positive and their sum is below one; outside, the prior is zero. The first variance is one.
    """
    squares = jnp.asarray(triangle_data() ** 2)

    def is_inside(x):
        return (x["shock"] > 0) & (x["memory"] > 0) & (x["shock"] + x["memory"] < 1)

    def log_prior(x):
        return norm.logpdf(x["log_level"], -2.0, 1.5) + jnp.where(is_inside(x), jnp.log(2.0), -jnp.inf)

    def log_likelihood(x):
        shock, memory = (jnp.where(is_inside(x), x[name], 0.1) for name in ("shock", "memory"))

        def step(variance, square):
            return jnp.exp(x["log_level"]) + shock * square + memory * variance, variance

        variances = jax.lax.scan(step, jnp.ones_like(shock), squares)[1]
        return -0.5 * jnp.sum(jnp.log(2 * jnp.pi * variances) + squares / variances)

    def sample_prior(key):
        first, second = jax.random.split(key)
        low, high = jnp.sort(jax.random.uniform(first, (2,)))
        return {"log_level": -2.0 + 1.5 * jax.random.normal(second), "shock": low, "memory": high - low}

    return log_prior, log_likelihood, sample_prior


def triangle_truth(finer=1):
    """Gauss-Legendre quadrature of the sum of both shares and the part of the first; a grid of the level."""
    nodes, weights = np.polynomial.legendre.leggauss(round(60 * finer))
    nodes, weights = (nodes + 1) / 2, weights / 2
    axis = -10.0, 6.0, 1 + round(160 * finer)
    log_level = np.linspace(*axis)[:, None, None]
    shock, memory = nodes[:, None] * nodes, nodes[:, None] * (1 - nodes)
    of_shares = np.log(2 * nodes * weights)[:, None] + np.log(weights)
    log_joint = of_shares - 0.5 * ((log_level + 2) / 1.5) ** 2 - np.log(1.5 * np.sqrt(2 * np.pi))
    variance = np.ones_like(log_joint)
    for value in triangle_data():
        log_joint = log_joint - 0.5 * (np.log(2 * np.pi * variance) + value**2 / variance)
        variance = np.exp(log_level) + shock * value**2 + memory * variance
    return log_integral(log_joint, *spacings(axis))
