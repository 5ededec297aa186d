"""The ten problems, written once for NumPy, JAX and PyTensor: prior, likelihood, and the prior as a map of noise.

`PROBLEMS[name](xp)` takes the namespace that the peer works in. Functions act on the last axis, so that they accept one
point or a batch. Targets that are given as a base and a target have the base as prior and the ratio as likelihood.
Only NumPy and SciPy are imported, because every peer's environment has them. The truths are those of
`benchmarks/suites/public/targets.py`; `tests/benchmarks/test_peers.py` compares the densities with the ones there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve()
SUITE = HERE.parents[1] / "suites" / "data"
PAPER = HERE.parents[2] / "paper" / "src" / "qpaths_paper" / "parts" / "data"
LOG_ROOT = 0.5 * np.log(2 * np.pi)


class Problem(NamedTuple):
    """Functions of points `x` of the given dimension. `scale` is None unless the prior is normal with that scale.

    `log_target` is the sum of log prior and log likelihood. Where the target is given, it is that: the sum would lose
    all digits far away.
    """

    name: str
    dimension: int
    scale: float | None
    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any], Any]
    from_normal: Callable[[Any], Any]
    log_target: Callable[[Any], Any]
    truth: float
    truth_se: float


def normal(name, dimension, scale, truth, truth_se=0.0, *, log_likelihood=None, log_target=None):
    """A problem with a normal prior of mean zero and the same scale everywhere, and a likelihood or a target."""

    def log_prior(x):
        return (-0.5 * (x / scale) ** 2).sum(-1) - dimension * (np.log(scale) + LOG_ROOT)

    def ratio(x):
        return log_target(x) - log_prior(x)

    def product(x):
        return log_prior(x) + log_likelihood(x)

    functions = (log_prior, log_likelihood or ratio, lambda z: scale * z, log_target or product)
    return Problem(name, dimension, scale, *functions, truth, truth_se)


def softplus(xp, x):
    return xp.maximum(x, 0.0) + xp.log1p(xp.exp(-abs(x)))


def regression(xp, name, predictors, labels, scale, *truth, flat=False):
    """Logistic regression with an intercept. `flat`: the prior is flat, and the normal base takes its place."""
    signed = -(np.column_stack([np.ones(len(labels)), predictors]) * labels[:, None]).T

    def log_likelihood(x):
        return -softplus(xp, x @ signed).sum(-1)

    functions = {"log_target" if flat else "log_likelihood": log_likelihood}
    return normal(name, len(signed), scale, *truth, **functions)


def paper_regression(xp, name, *truth):
    """Pima and Sonar as in the paper: predictors of standard deviation 0.5, weights of prior scale 5."""
    table = np.genfromtxt(PAPER / f"{name}.csv", delimiter=",", dtype=str)
    labels = np.where(np.isin(table[:, -1], ["1", "M"]), 1.0, -1.0)
    predictors = table[:, :-1].astype(float)
    predictors = 0.5 * (predictors - predictors.mean(axis=0)) / predictors.std(axis=0)
    return regression(xp, name, predictors, labels, 5.0, *truth)


def suite_regression(xp, name, *truth, centered=False, flat=False):
    table = np.loadtxt(SUITE / f"{name}.csv", delimiter=",")
    predictors, labels = table[:, :-1], np.where(table[:, -1] == 1, 1.0, -1.0)
    deviation = predictors.std(axis=0)
    predictors = (predictors - centered * predictors.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return regression(xp, name, predictors, labels, 1.0, *truth, flat=flat)


def funnel(xp, dimension=10):
    """Neal's funnel from a standard normal base."""

    def log_target(x):
        first, rest = x[..., 0], (x[..., 1:] ** 2).sum(-1)
        log_constant = np.log(3.0) + dimension * LOG_ROOT
        return -(first**2) / 18 - 0.5 * rest * xp.exp(-first) - 0.5 * (dimension - 1) * first - log_constant

    return normal("funnel", dimension, 1.0, 0.0, log_target=log_target)


def manywell(xp, dimension=32):
    """Sixteen double wells and sixteen normal coordinates, from a standard normal base."""
    grid = np.linspace(-6.0, 6.0, 12001)
    pair = np.log(np.sum(np.exp(0.5 * grid + 6 * grid**2 - grid**4)) * 0.001) + LOG_ROOT

    def log_target(x):
        well, other = x[..., ::2], x[..., 1::2]
        return (0.5 * well + 6 * well**2 - well**4 - 0.5 * other**2).sum(-1)

    return normal("manywell", dimension, 1.0, dimension / 2 * pair, log_target=log_target)


def mixture(xp, dimension=2, scale=40.0):
    """Forty unit normal distributions with means in a wide square, from a normal base of standard deviation 40."""
    means = np.random.default_rng(0).uniform(-40, 40, (40, dimension))

    def log_target(x):
        terms = -0.5 * ((x[..., None, :] - means) ** 2).sum(-1)
        peak = terms.max(-1)
        return peak + xp.log(xp.exp(terms - peak[..., None]).sum(-1)) - np.log(40) - dimension * LOG_ROOT

    return normal("mixture", dimension, scale, 0.0, log_target=log_target)


def brownian(xp):
    """Brownian motion of 30 steps with unknown scales (softplus of the first two coordinates), partly observed."""
    early = [0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845]
    early += [-0.1484156, -0.3250906, -0.22957903, -0.44110894, -0.09830782]
    late = [-0.8786016, -0.83736074, -0.7384849, -0.8939254, -0.7774566]
    late += [-0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789]
    early, late = np.array(early), np.array(late)

    def log_prior(x):
        scales = softplus(xp, x[..., :2])
        log_scales = xp.log(scales)
        of_scales = (-(log_scales**2) / 8 - np.log(2) - LOG_ROOT - log_scales - softplus(xp, -x[..., :2])).sum(-1)
        squares = x[..., 2] ** 2 + ((x[..., 3:] - x[..., 2:-1]) ** 2).sum(-1)
        return of_scales - 0.5 * squares / scales[..., 0] ** 2 - 30 * (log_scales[..., 0] + LOG_ROOT)

    def log_likelihood(x):
        scale = softplus(xp, x[..., 1])
        squares = ((x[..., 2:12] - early) ** 2).sum(-1) + ((x[..., 22:] - late) ** 2).sum(-1)
        return -0.5 * squares / scale**2 - 20 * (xp.log(scale) + LOG_ROOT)

    def from_normal(z):
        scales = xp.exp(2.0 * z[..., :2])
        path = xp.cumsum(scales[..., :1] * z[..., 2:], axis=-1)
        return xp.concatenate([scales + xp.log(-xp.expm1(-scales)), path], axis=-1)

    def log_target(x):
        return log_prior(x) + log_likelihood(x)

    return Problem("brownian", 32, None, log_prior, log_likelihood, from_normal, log_target, 1.18775, 0.0)


def seeds_data():
    """The BUGS example: seeds that germinated, seeds in all, and the predictors, one row each."""
    germinated = np.array([10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3.0])
    total = np.array([39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7.0])
    kind, extract = np.repeat([0.0, 1.0], [11, 10]), np.repeat([0.0, 1.0, 0.0, 1.0], [5, 6, 5, 5])
    return germinated, total, np.stack([np.ones(21), kind, extract, kind * extract])


def log_gamma_quantile(z, shape=0.01):
    """The logarithm of the quantile of a gamma variable with unit rate, at the normal quantile `z`.

    The quantile itself underflows for most `z`; its leading term does not.
    """
    from scipy.special import gammainccinv, gammaln, log_ndtr, ndtr

    leading = (log_ndtr(z) + gammaln(shape + 1)) / shape
    with np.errstate(divide="ignore"):
        exact = np.log(gammainccinv(shape, ndtr(-z)))
    return np.where(leading < -40.0, leading, exact)


def seeds(xp):
    """Random-effects logistic regression in the coordinates of BUGS: log precision, coefficients, effects."""
    from scipy.special import gammaln

    germinated, total, design = seeds_data()
    binomial = np.sum(gammaln(total + 1) - gammaln(germinated + 1) - gammaln(total - germinated + 1))
    of_gamma = 0.01 * np.log(0.01) - gammaln(0.01)
    nodes = np.linspace(-8.0, 8.0, 40_001)
    quantiles = log_gamma_quantile(nodes) - np.log(0.01)

    def log_prior(x):
        log_tau, coefficients, effects = x[..., 0], x[..., 1:5], x[..., 5:]
        of_tau = 0.01 * log_tau - 0.01 * xp.exp(log_tau) + of_gamma
        of_coefficients = (-0.5 * (coefficients / 10) ** 2).sum(-1) - 4 * (np.log(10) + LOG_ROOT)
        # Scaled first: the prior draws effects of 1e200, whose squares overflow.
        scaled = effects * xp.exp(0.5 * log_tau)[..., None]
        return of_tau + of_coefficients - (0.5 * scaled**2).sum(-1) + 21 * (0.5 * log_tau - LOG_ROOT)

    def log_likelihood(x):
        logits = x[..., 1:5] @ design + x[..., 5:]
        return (germinated * logits - total * softplus(xp, logits)).sum(-1) + binomial

    def from_normal(z):
        log_tau = xp.interp(z[..., :1], nodes, quantiles)
        return xp.concatenate([log_tau, 10.0 * z[..., 1:5], xp.exp(-0.5 * log_tau) * z[..., 5:]], axis=-1)

    def log_target(x):
        return log_prior(x) + log_likelihood(x)

    return Problem("seeds", 26, None, log_prior, log_likelihood, from_normal, log_target, -73.4065, 0.0004)


PROBLEMS: dict[str, Callable[[Any], Problem]] = {
    "pima": lambda xp: paper_regression(xp, "pima", -391.495, 0.001),
    "funnel": funnel,
    "mixture": mixture,
    "seeds": seeds,
    "credit": lambda xp: suite_regression(xp, "german_credit", -504.4886, 0.0017, flat=True),
    "cancer": lambda xp: suite_regression(xp, "breast_cancer", -67.4940, 0.0006),
    "ionosphere": lambda xp: suite_regression(xp, "ionosphere", -111.6102, 0.0007, centered=True),
    "brownian": brownian,
    "manywell": manywell,
    "sonar": lambda xp: paper_regression(xp, "sonar", -124.1213, 0.0013),
}
TARGETS = {"seeds": "seeds_prior", "mixture": "mixture2"}
"""Names in `benchmarks/suites/public/targets.py`, where they differ."""
