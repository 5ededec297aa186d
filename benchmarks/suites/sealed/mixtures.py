"""Sealed models with parts that the prior does not tell apart. See `models.py`: no tuning decision looks at them.

Each model is `log_prior`, `log_likelihood` and `sample_prior`; the function after it gives its log evidence.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e as bessel
from jax.scipy.stats import norm
from scipy.special import betaln, i0e, logsumexp

from benchmarks.suites.held_out.curves import uniform
from benchmarks.suites.held_out.groups import spacings
from benchmarks.suites.problems import log_integral

NOISE, WIDE = 0.5, 2.0


def lines_data():
    rng = np.random.default_rng(821)
    place = np.linspace(-2.0, 2.0, 14)
    is_first = rng.uniform(size=14) < 0.6
    return place, np.where(is_first, 1.0 + 1.2 * place, -0.5 - 0.7 * place) + NOISE * rng.standard_normal(14)


def lines():
    """A mixture of two straight lines with known noise and unknown shares: which line a point is on is not known."""
    place, response = map(jnp.asarray, lines_data())

    def log_prior(x):
        of_lines = norm.logpdf(x["intercepts"], scale=WIDE) + norm.logpdf(x["slopes"], scale=WIDE)
        return jnp.sum(of_lines) + uniform(x["logit"])

    def log_likelihood(x):
        of_points = norm.logpdf(response[:, None], x["intercepts"] + x["slopes"] * place[:, None], NOISE)
        log_shares = jax.nn.log_sigmoid(jnp.stack([x["logit"], -x["logit"]]))
        return jnp.sum(jax.nn.logsumexp(of_points + log_shares, axis=1))

    def sample_prior(key):
        first, second = jax.random.split(key)
        intercepts, slopes = WIDE * jax.random.normal(first, (2, 2))
        return {"intercepts": intercepts, "slopes": slopes, "logit": jax.random.logistic(second)}

    return log_prior, log_likelihood, sample_prior


def lines_truth():
    """Exact: the sum over all ways to deal the points to the two lines."""
    place, response = lines_data()
    num, design = len(place), np.column_stack([np.ones_like(place), place])
    subsets = np.array(list(itertools.product([0.0, 1.0], repeat=num)))
    precision = np.einsum("sn,ni,nj->sij", subsets, design, design) / NOISE**2 + np.eye(2) / WIDE**2
    product = (subsets * response) @ design / NOISE**2
    explained = np.einsum("si,si->s", product, np.linalg.solve(precision, product[:, :, None])[:, :, 0])
    determinant = np.linalg.slogdet(WIDE**2 * precision)[1]
    of_noise = subsets @ (np.log(2 * np.pi * NOISE**2) + response**2 / NOISE**2)
    log_density = 0.5 * (explained - determinant - of_noise)
    number = subsets.sum(axis=1)
    # The reversed list has the other points: the complement of each subset.
    return float(logsumexp(log_density + log_density[::-1] + betaln(number + 1, num - number + 1)))


def compass_data():
    rng = np.random.default_rng(822)
    return np.where(rng.uniform(size=25) < 0.7, 1.1, 1.1 - np.pi) + rng.vonmises(0.0, 3.0, 25)


def compass():
    """Headings of 25 animals: most go one way, some the opposite way. A mixture of two von Mises distributions.

    Each mean direction is that of an arrow with normal coordinates. The concentration is common to both.
    """
    data = compass_data()
    headings = jnp.asarray(np.column_stack([np.cos(data), np.sin(data)]))

    def log_prior(x):
        return jnp.sum(norm.logpdf(x["arrows"])) + norm.logpdf(x["log_focus"], 1.0, 1.0) + uniform(x["logit"])

    def log_likelihood(x):
        focus, length = jnp.exp(x["log_focus"]), jnp.sqrt(jnp.sum(x["arrows"] ** 2, axis=1) + 1e-30)
        along = headings @ (x["arrows"] / length[:, None]).T
        log_shares = jax.nn.log_sigmoid(jnp.stack([x["logit"], -x["logit"]]))
        of_each = jax.nn.logsumexp(focus * (along - 1) + log_shares, axis=1)
        return jnp.sum(of_each) - len(data) * jnp.log(2 * jnp.pi * bessel(focus))

    def sample_prior(key):
        keys = jax.random.split(key, 3)
        log_focus, logit = 1.0 + jax.random.normal(keys[1]), jax.random.logistic(keys[2])
        return {"arrows": jax.random.normal(keys[0], (2, 2)), "log_focus": log_focus, "logit": logit}

    return log_prior, log_likelihood, sample_prior


def compass_truth(finer=1):
    """A grid of both angles, the concentration and the share; densities are multiplied by fives, which saves logs."""
    data, num = compass_data(), round(64 * finer)
    axis, focus_axis = (-14.0, 14.0, 1 + round(56 * finer)), (-5.0, 5.5, 1 + round(50 * finer))
    angles, logits = 2 * np.pi * np.arange(num) / num, np.linspace(*axis)
    shares = (1 / (1 + np.exp(-logits)))[:, None, None]
    of_logits = np.asarray(uniform(logits))[:, None, None]
    log_sums = []
    for log_focus in np.linspace(*focus_axis):
        focus = np.exp(log_focus)
        densities = np.exp(focus * (np.cos(data[:, None] - angles) - 1))
        values = of_logits + np.zeros((1, num, num))
        for group in densities.reshape(5, 5, num):
            terms = [shares * row[:, None] + (1 - shares) * row for row in group]
            values = values + np.log(np.maximum(np.prod(terms, axis=0), 1e-300))
        constant = float(norm.logpdf(log_focus, 1.0, 1.0)) - len(data) * np.log(2 * np.pi * i0e(focus))
        log_sums.append(logsumexp(values) + constant)
    return log_integral(np.array(log_sums), *spacings(axis, focus_axis)) - 2 * np.log(num)


FRIENDS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6), (5, 8), (6, 7), (6, 8), (1, 7))
PERSONS = 9


def blocks_counts():
    """For all 512 ways to split nine persons: pairs of friends and other pairs in both groups and across, and sizes.

    The columns: friends and others in the first group, in the second group, across; sizes of both groups.
    """
    ways = np.array(list(itertools.product([0, 1], repeat=PERSONS)))
    counts = np.zeros((len(ways), 8))
    counts[:, 6], counts[:, 7] = np.sum(ways == 0, axis=1), np.sum(ways == 1, axis=1)
    for one, two in itertools.combinations(range(PERSONS), 2):
        kind = np.where(ways[:, one] == ways[:, two], ways[:, one], 2)
        counts[np.arange(len(ways)), 2 * kind + ((one, two) not in FRIENDS)] += 1
    return counts


def blocks():
    """A stochastic block model: nine persons in two unknown groups, who know each other by chance.

    The chances are uniform: within the first group, within the second, and across; and so is the share of the first.
    """
    counts = jnp.asarray(blocks_counts())

    def log_prior(x):
        return jnp.sum(uniform(x["logits"])) + uniform(x["logit_share"])

    def log_likelihood(x):
        logits = jnp.append(x["logits"], x["logit_share"])
        log_chances = jnp.stack([jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)], axis=1).ravel()
        return jax.nn.logsumexp(counts @ log_chances)

    def sample_prior(key):
        logits = jax.random.logistic(key, (4,))
        return {"logits": logits[:3], "logit_share": logits[3]}

    return log_prior, log_likelihood, sample_prior


def blocks_truth():
    """Exact: the sum over all splits of products of beta functions."""
    counts = blocks_counts()
    return float(logsumexp(np.sum(betaln(counts[:, ::2] + 1, counts[:, 1::2] + 1), axis=1)))
