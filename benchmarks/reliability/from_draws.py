"""Evidence from NUTS draws of hierarchical models, compared with a bridge from a normal distribution.

    python -m benchmarks.reliability.from_draws FOLDER [schools models sets]

FOLDER holds `posteriordb.py`, ports of Stan programs to NumPyro, and `posteriordb.json`, their log evidences. It prints
Markdown tables; those of the last run are in benchmarks/results/from_draws.md.
"""

import argparse
import importlib
import json
import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from scipy.special import expit  # noqa: E402

import qpaths as qp  # noqa: E402
from qpaths.adapters import from_numpyro  # noqa: E402
from qpaths.stats.standard_errors import effective_size  # noqa: E402

MODELS = {
    "radon_hierarchical_intercept_noncentered": 2,
    "GLMM_Poisson": 2,
    "irt_2pl": 2,
    "seeds_stanified": 2,
}
"""Models, and how many runs of NUTS each has."""
NUM_SETS = 100
EFFECTS, ERRORS = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]), jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def schools_density(x):
    """Eight schools, non-centered, with the logarithm of the scale as the last coordinate."""
    z, mu, tau = x[:8], x[8], jnp.exp(x[9])
    prior = jnp.sum(dist.Normal(0, 1).log_prob(z)) + dist.Normal(0, 5).log_prob(mu)
    prior += dist.HalfCauchy(5).log_prob(tau) + x[9]
    return prior + jnp.sum(dist.Normal(mu + tau * z, ERRORS).log_prob(EFFECTS))


def nuts(kernel, num_chains, seed, *arguments, **options):
    """Draws with chains in front, 1,000 of each after as many of warmup."""
    settings = {"num_warmup": 1000, "num_samples": 1000, "num_chains": num_chains, "chain_method": "vectorized"}
    mcmc = numpyro.infer.MCMC(kernel, **settings, progress_bar=False)
    mcmc.run(jax.random.key(seed), *arguments, **options)
    return mcmc


def schools_draws(num_chains, seed):
    start = 0.1 * jax.random.normal(jax.random.key(seed + 1000), (num_chains, 10))
    kernel = numpyro.infer.NUTS(potential_fn=lambda x: -schools_density(x))
    return np.asarray(nuts(kernel, num_chains, seed, init_params=start).get_samples(group_by_chain=True))


def normal_bridge(log_density, chains, seed):
    """Value and standard error of a bridge from a normal distribution that is fitted to the other half of the draws."""
    half, dimension = chains.shape[1] // 2, chains.shape[2]
    halves, found = (chains[:, :half], chains[:, half : 2 * half]), []
    for number, (fitted, used) in enumerate((halves, halves[::-1])):
        rows = fitted.reshape(-1, dimension)
        mean, factor = rows.mean(axis=0), np.linalg.cholesky(np.cov(rows.T))
        noise = np.random.default_rng([seed, number]).standard_normal((used.size // dimension, dimension))

        def log_ratio(points, mean=mean, factor=factor):
            standard = np.linalg.solve(factor, (points - mean).T)
            log_normal = -0.5 * np.sum(standard**2, axis=0) - 0.5 * dimension * np.log(2 * np.pi)
            return np.asarray(log_density(points)) - log_normal + np.sum(np.log(np.diag(factor)))

        forward, reverse = log_ratio(mean + noise @ factor.T), log_ratio(used.reshape(-1, dimension))
        forward = np.where(np.isfinite(forward), forward, -np.inf)
        value = float(qp.stats.bridge(forward[None], -reverse[None])[0])
        there, back = expit(forward - value), expit(value - reverse)
        worth = min(effective_size(back.reshape(used.shape[:2])), back.size)
        variance = np.var(there) / np.mean(there) ** 2 / there.size + np.var(back) / np.mean(back) ** 2 / worth
        found.append((value, variance))
    values, variances = np.array(found).T
    return float(values.mean()), float(variances.sum() ** 0.5 / 2)


def ours(model, draws, seed):
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = qp.evidence_from_draws(model, draws, key=jax.random.key(seed))
    kinds = [finding.kind.name for finding in result.verdict.findings]
    numbers = float(result.log_evidence), float(result.log_evidence_se), time.process_time() - begun
    return *numbers, f"{result.verdict.level} {' '.join(kinds)}".strip()


HEADER = ("model", "run", "error", "se", "error of a normal bridge", "its se", "verdict", "CPU s")


def line(name, seed, exact, mine, other):
    value, error, seconds, verdict = mine
    theirs = f"{other[0] - exact:+.4f}", f"{other[1]:.4f}"
    row(name, seed, f"{value - exact:+.4f}", f"{error:.4f}", *theirs, verdict, f"{seconds:.1f}")


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def head(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def schools(folder):
    """Six runs of NUTS, with the log density as a plain function."""
    exact = truths(folder)["eight_schools_noncentered"]
    head(*HEADER)
    values = jax.jit(jax.vmap(schools_density))
    for seed in range(6):
        draws = schools_draws(4, seed)
        line("eight schools", seed, exact, ours(schools_density, draws, seed), normal_bridge(values, draws, seed))
    print()


def models(folder):
    """Models of posteriordb through NumPyro."""
    sys.path.insert(0, str(folder))
    ports = importlib.import_module("posteriordb").MODELS
    head(*HEADER)
    for name, num in MODELS.items():
        port, exact = ports[name](), truths(folder)[name]
        own = from_numpyro(port.model, *port.args)
        flatten = jax.vmap(lambda x: jax.flatten_util.ravel_pytree(x)[0])
        unravel = jax.flatten_util.ravel_pytree(own.prior.sample(jax.random.key(0)))[1]

        def log_joint(row, own=own, unravel=unravel):
            x = unravel(row)
            return own.prior.log_prob(x) + own.log_likelihood(x, *own.observed)

        for seed in range(num):
            mcmc = nuts(numpyro.infer.NUTS(port.model), 4, seed, *port.args)
            grouped = mcmc.get_samples(group_by_chain=True)
            flat = {one: np.asarray(grouped[one]).reshape(-1, *shape) for one, shape in own.variables.items()}
            rows = np.asarray(flatten(jax.tree.map(jnp.asarray, own.points(flat))))
            other = normal_bridge(jax.jit(jax.vmap(log_joint)), rows.reshape(4, 1000, -1), seed)
            line(name, seed, exact, ours(own, mcmc, seed), other)
    print()


def sets(folder):
    """Many sets of honest draws of eight schools, and the same with one coordinate's scale times 1.5 or 0.7."""
    exact = truths(folder)["eight_schools_noncentered"]
    draws = schools_draws(4 * NUM_SETS, 0).reshape(NUM_SETS, 4, 1000, 10)
    head("draws", "sets", "within 2 se", "mean square of error / se", "median se", "other density", "sound")
    for what, factors in (("honest", (1.0, 1.0)), ("z[2] times 1.5", (1.5, 1.0)), ("log scale times 0.7", (1.0, 0.7))):
        scales = np.ones(10)
        scales[[2, 9]] = factors
        found = [ours(schools_density, one * scales, seed) for seed, one in enumerate(draws)]
        error, se = np.array([(value - exact, error) for value, error, _, _ in found]).T
        told = sum("OTHER_DENSITY" in verdict for *_, verdict in found)
        sound = sum(verdict == "sound" for *_, verdict in found)
        numbers = f"{np.sum(np.abs(error) < 2 * se)}", f"{np.mean((error / se) ** 2):.2f}", f"{np.median(se):.4f}"
        row(what, NUM_SETS, *numbers, told, sound)
    print()


def truths(folder):
    return {name: one["logz"] for name, one in json.loads((folder / "posteriordb.json").read_text()).items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parts = {"schools": schools, "models": models, "sets": sets}
    parser.add_argument("parts", nargs="*", default=[], choices=[*parts, []])
    chosen = parser.parse_args()
    for name in chosen.parts or parts:
        print(f"## {name}\n")
        parts[name](chosen.folder)
