"""The truths that benchmarks and experiments compare with.

    python -m benchmarks.suites.truths NAMES                      prints truths of targets, by methods without qpaths
    python -m benchmarks.suites.truths [--runs N] [--budget N]    writes `truths.json` of the paper's experiments

The first are bridge sampling or importance sampling for regressions, quadrature over the effects inside importance
sampling over the other parameters for `seeds` and `hierarchical_logit`, and quadrature on a grid for `volatility`. The
second are long runs of `qpaths.evidence`: each run tunes for itself, so that no choice is common to all; their spread
gives the standard error.
"""

import argparse
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

jax.config.update("jax_enable_x64", True)

from jax.scipy.special import gammaln  # noqa: E402
from jax.scipy.stats import norm  # noqa: E402

import qpaths as qp  # noqa: E402
import qpaths_paper.parts  # noqa: E402
from benchmarks.suites.estimators import bridge_sampling, importance_sampling  # noqa: E402
from benchmarks.suites.problems import dimension_of, log_integral  # noqa: E402
from benchmarks.suites.public import posteriors  # noqa: E402
from benchmarks.suites.public.targets import PROBLEMS  # noqa: E402
from qpaths_paper.parts.datasets import load, logistic_regression  # noqa: E402

BRIDGES = {
    "sonar": {"num_stages": 6, "num_moves": 150, "num_replicates": 6},
    "sonar_unit": {"num_stages": 5},
    "cancer_prior": {"num_stages": 6},
    "ionosphere": {"num_replicates": 12},
}
"""Settings of bridge sampling for the posteriors that are farthest from normal."""


def regression(name):
    problem = PROBLEMS[name]()
    return bridge_sampling(problem.target.log_prob, dimension_of(problem), **BRIDGES.get(name, {}))


def near_normal(name, num_draws=1_000_000):
    """Importance sampling in the coordinates of the normal approximation at the optimum."""
    problem = PROBLEMS[name]()
    log_density, dimension = problem.target.log_prob, dimension_of(problem)
    loss = jax.jit(jax.value_and_grad(lambda x: -log_density(x)))
    optimum = minimize(loss, np.zeros(dimension), jac=True).x
    factor = jnp.linalg.cholesky(jnp.linalg.inv(-jax.hessian(log_density)(jnp.asarray(optimum))))
    constant = jnp.sum(jnp.log(jnp.diag(factor)))
    return importance_sampling(
        lambda z: log_density(optimum + factor @ z) + constant, np.zeros(dimension), np.ones(dimension), num_draws
    )


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(30)


def log_without_effects(counts, trials, offsets, scale):
    """Sum over groups (rows) of the log integral over a normal effect of a binomial likelihood with a logistic curve.

    Gauss-Hermite quadrature about the mode in each group, with the scale from the curvature there.
    """

    def log_joint(z):
        logits = offsets + scale * z[:, None]
        return jnp.sum(counts * logits - trials * jax.nn.softplus(logits), axis=1) + norm.logpdf(z)

    def derivatives(z):
        chance = jax.nn.sigmoid(offsets + scale * z[:, None])
        first = scale * jnp.sum(counts - trials * chance, axis=1) - z
        return first, scale**2 * jnp.sum(trials * chance * (1 - chance), axis=1) + 1

    def newton(_, z):
        first, curvature = derivatives(z)
        most = 2 / (1 + scale)
        return z + jnp.clip(first / curvature, -most, most)

    mode = jax.lax.fori_loop(0, 30, newton, jnp.zeros(counts.shape[0]))
    spread = derivatives(mode)[1] ** -0.5
    values = jax.vmap(lambda node: log_joint(mode + spread * node) + 0.5 * node**2)(jnp.asarray(NODES))
    terms = jax.nn.logsumexp(values + jnp.log(jnp.asarray(WEIGHTS))[:, None], axis=0)
    return jnp.sum(terms + jnp.log(spread))


def seeds():
    germinated, total, design = map(jnp.asarray, posteriors.seeds_data())
    binomial = jnp.sum(gammaln(total + 1) - gammaln(germinated + 1) - gammaln(total - germinated + 1))

    def log_density(x):
        log_tau, coefficients = x[0], x[1:]
        of_tau = 0.01 * log_tau - 0.01 * jnp.exp(log_tau) + 0.01 * jnp.log(0.01) - gammaln(0.01)
        of_data = log_without_effects(
            germinated[:, None], total[:, None], (coefficients @ design)[:, None], jnp.exp(-0.5 * log_tau)
        )
        return of_tau + jnp.sum(norm.logpdf(coefficients, scale=10.0)) + of_data + binomial

    return importance_sampling(log_density, [2.5, -0.5, 0.1, 1.3, -0.8], [1.5, 0.3, 0.4, 0.4, 0.6], 3_000_000)


def hierarchical_logit():
    group, predictor, response = posteriors.grouped_data()
    num_groups, most = group.max() + 1, np.bincount(group).max()
    counts, trials, predictors = np.zeros((3, num_groups, most))
    for row in range(num_groups):
        members = group == row
        filled = slice(0, members.sum())
        counts[row, filled], trials[row, filled], predictors[row, filled] = response[members], 1.0, predictor[members]
    counts, trials, predictors = map(jnp.asarray, (counts, trials, predictors))

    def log_density(x):
        mean, log_scale, slope = x
        scale = jnp.exp(log_scale)
        log_prior = jnp.log(2.0) + norm.logpdf(scale) + log_scale
        log_prior += norm.logpdf(mean, scale=2.5) + norm.logpdf(slope, scale=2.5)
        return log_prior + log_without_effects(counts, trials, mean + slope * predictors, scale)

    return importance_sampling(log_density, [-0.5, -0.3, 0.7], [0.3, 0.3, 0.2], 200_000, batch=200)


def volatility(finer=1.0):
    """A filter on a grid of the standardized log variance, on a grid of the three parameters; no randomness.

    Sums on a regular grid are exact to many digits where the spacing is below the standard deviation of a step. Mass
    with an autocorrelation above 0.9997 is left out, which has a share of 0.0001 in the prior.
    """
    returns = posteriors.returns_data()
    stretched, logits, log_scales = (
        np.linspace(*ends, 1 + round(num * finer)) for *ends, num in ((-3.5, 3.5, 40), (-1, 9, 24), (-7, 1.5, 34))
    )
    place, log_scale = (values.ravel() for values in np.meshgrid(stretched, log_scales, indexing="ij"))
    level, log_stretch = -0.5 + 0.4 * np.sinh(place), np.log(0.4 * np.cosh(place))
    log_joint = []
    for logit in logits:
        correlation, width = np.tanh(0.5 * logit), 1 / np.cosh(0.5 * logit)
        spacing = min(0.1, 0.7 * width) / finer
        grid = np.arange(-6.5, 6.5, spacing)
        steps = spacing * np.asarray(norm.pdf(grid[:, None], correlation * grid, width))
        log_variance = level + np.outer(grid, np.exp(log_scale) / width)
        precision = np.exp(np.minimum(-log_variance, 600.0))
        weights = np.repeat(spacing * np.asarray(norm.pdf(grid))[:, None], level.size, axis=1)
        log_likelihood = np.zeros(level.size)
        for value in returns:
            log_terms = -0.5 * (log_variance + value**2 * precision)
            peak = log_terms.max(axis=0)
            weights = weights * np.exp(log_terms - peak)
            total = weights.sum(axis=0)
            log_likelihood += peak + np.log(total) - 0.5 * np.log(2 * np.pi)
            weights = steps @ (weights / total)
        log_prior = np.asarray(posteriors.log_volatility_prior((level, logit, log_scale)))
        log_joint.append(log_likelihood + log_prior + log_stretch)
    log_joint = np.array(log_joint).reshape(len(logits), len(stretched), len(log_scales))
    for axis, name in enumerate(("logit", "level", "log scale")):
        ends = [logsumexp(np.take(log_joint, end, axis)) - logsumexp(log_joint) for end in (0, -1)]
        print(f"  log shares of the mass at the ends of the grid of the {name}:", *np.round(ends, 1))
    return log_integral(log_joint, *(values[1] - values[0] for values in (logits, stretched, log_scales))), 0.0


REGRESSIONS = ("pima", "sonar", "sonar_unit", "credit", "cancer", "cancer_prior", "ionosphere")
METHODS = {
    **{name: lambda name=name: regression(name) for name in REGRESSIONS},
    "credit_prior": lambda: near_normal("credit_prior"),
    "seeds": seeds,
    "hierarchical_logit": hierarchical_logit,
    "volatility": volatility,
}


def of_the_paper(num, budget):
    truths = {}
    for name in ("pima", "sonar"):
        problem = logistic_regression(load(name))
        results = [qp.evidence(*problem, key=jax.random.key(1000 + seed), budget=budget) for seed in range(num)]
        values = np.array([float(result.log_evidence) for result in results])
        truths[name] = {
            "log_evidence": round(float(values.mean()), 5),
            "standard_error": round(float(values.std(ddof=1) / num**0.5), 5),
            "num_runs": num,
            "evaluations_per_run": budget,
            "mean_reported_standard_error": round(float(np.mean([r.log_evidence_se for r in results])), 5),
        }
        print(name, truths[name], flush=True)
    folder = pathlib.Path(qpaths_paper.parts.__path__[0]) / "data"
    (folder / "truths.json").write_text(json.dumps(truths, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*METHODS, []], metavar="NAMES", help=", ".join(METHODS))
    parser.add_argument("--runs", type=int, default=10, help="of qpaths, where no name is given")
    parser.add_argument("--budget", type=int, default=5_000_000, help="of each of these runs")
    arguments = parser.parse_args()
    for name in arguments.names:
        start = time.perf_counter()
        value, error = METHODS[name]()
        print(f"{name}: {value:.5f} +- {error:.5f} ({time.perf_counter() - start:.0f} s)", flush=True)
    if not arguments.names:
        of_the_paper(arguments.runs, arguments.budget)


if __name__ == "__main__":
    main()
