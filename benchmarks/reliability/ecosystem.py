"""People's own models: every door gives the same numbers, closed forms, draws that are there, and the first answer.

    python -m benchmarks.reliability.ecosystem [doors closed draws harmonic modes cold] [--seeds 20]

Prints Markdown tables; those of the last full run are in benchmarks/results/ecosystem.md. NumPyro is needed throughout,
PyMC for its rows of `doors` and `closed`, and harmonic for `harmonic`.
"""

import argparse
import functools
import importlib.util
import subprocess
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402

import qpaths as qp  # noqa: E402
from benchmarks.reliability.ecosystem_models import (  # noqa: E402
    CLOSED,
    DOORS,
    PIMA,
    PRIOR,
    SCHOOLS,
    SLOPES,
    hand_likelihood,
    hand_prior,
)
from qpaths.adapters import from_prior  # noqa: E402

HAS_PYMC = importlib.util.find_spec("pymc") is not None


def table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    print()


def doors(_):
    """The log density in the variables' own units at 100 random points, through every door and by hand."""
    rows = []
    for door, own in DOORS(HAS_PYMC).items():
        key, noise = jax.random.split(jax.random.key(0))
        points = jax.vmap(own.prior.sample)(jax.random.split(key, 100))
        points = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(noise, leaf.shape), points)  # noqa: B023
        ours = jax.jit(jax.vmap(lambda x: in_own_units(own, x)))(points)  # noqa: B023
        named = jax.tree.map(jnp.asarray, own.named(points))
        by_hand = jax.jit(jax.vmap(lambda p: (hand_prior(p), hand_likelihood(p))))(named)
        worst = [np.abs(x - y) / np.maximum(1, np.abs(y)) for x, y in zip(ours, by_hand, strict=True)]
        rows.append((door, *(f"{one.max():.1e}" for one in worst)))
    table(("door", "log prior", "log likelihood"), rows)


def in_own_units(own, point):
    """Log prior and likelihood at a point; the prior without the Jacobian of its map to the variables."""
    flat, unravel = jax.flatten_util.ravel_pytree(point)

    def free(flat):
        """As many numbers as the point has."""
        variables = own.constrain(unravel(flat))
        parts = {name: variables[name] for name in PRIOR}
        parts |= {"w": parts["w"][:-1], "chol": parts["chol"][jnp.tril_indices(3, -1)]}
        return jax.flatten_util.ravel_pytree(parts)[0]

    log_jacobian = jnp.linalg.slogdet(jax.jacobian(free)(flat))[1]
    return own.prior.log_prob(point) - log_jacobian, own.log_likelihood(point, *own.observed)


def closed(_):
    """Errors in standard errors, for models whose evidence is known, through every door."""
    rows = []
    for name, (exact, made) in CLOSED(HAS_PYMC).items():
        for door, own in made.items():
            begun = time.process_time()
            result = qp.evidence(own, key=jax.random.key(0))
            error, se = float(result.log_evidence) - exact, float(result.log_evidence_se)
            seconds = time.process_time() - begun
            level = result.verdict.level
            rows.append(
                (
                    name,
                    door,
                    f"{exact:.4f}",
                    f"{error:+.4f}",
                    f"{se:.4f}",
                    f"{error / se:+.1f}",
                    level,
                    f"{seconds:.1f}",
                )
            )
    table(("model", "door", "exact", "error", "se", "error / se", "verdict", "CPU s"), rows)


POSTERIORS = {"Pima": PIMA, "eight schools": SCHOOLS, "regression": SLOPES}


@functools.cache
def sampler(name):
    """NUTS with four chains of 1,000 draws, compiled once for each posterior."""
    kernel = numpyro.infer.NUTS(POSTERIORS[name].model, target_accept_prob=0.9)
    return numpyro.infer.MCMC(
        kernel, num_warmup=500, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False
    )


def nuts(name, seed):
    mcmc = sampler(name)
    mcmc.run(jax.random.key(seed), *POSTERIORS[name].args)
    return mcmc


def draws(seeds):
    rows = []
    for name, posterior in POSTERIORS.items():
        exact, own = posterior.exact, posterior.own()
        found = []
        for seed in range(seeds):
            mcmc = nuts(name, seed)
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = qp.evidence_from_draws(own, mcmc, key=jax.random.key(seed))
            seconds = time.process_time() - begun
            found.append(
                (float(result.log_evidence) - exact, float(result.log_evidence_se), seconds, result.verdict.level)
            )
        error, se, seconds, levels = zip(*found, strict=True)
        error, se = np.array(error), np.array(se)
        rows.append(
            (
                name,
                seeds,
                f"{np.median(se):.4f}",
                f"{np.median(np.abs(error)):.4f}",
                f"{np.abs(error).max():.4f}",
                f"{error.mean():+.4f} +- {error.std() / len(error) ** 0.5:.4f}",
                f"{np.mean(np.abs(error) < 2 * se):.0%}",
                f"{np.mean(np.square(error / se)):.2f}",
                f"{np.mean([level == 'sound' for level in levels]):.0%}",
                f"{np.median(seconds):.2f}",
            )
        )
    header = ("posterior", "seeds", "median se", "median abs error", "largest", "mean error", "within 2 se", "mean z^2")
    table((*header, "sound", "CPU s"), rows)


def harmonic(seeds):
    """Ours and the learned harmonic mean (rational quadratic splines) on the same draws."""
    import harmonic as hm

    rows = []
    for name, posterior in POSTERIORS.items():
        exact, own = posterior.exact, posterior.own()
        ours, theirs = [], []
        for seed in range(min(seeds, 5)):
            mcmc = nuts(name, seed)
            begun = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = qp.evidence_from_draws(own, mcmc, key=jax.random.key(seed))
            error = float(result.log_evidence) - exact
            ours.append((error, float(result.log_evidence_se), time.process_time() - begun))
            theirs.append(by_harmonic(hm, own, mcmc, exact, seed))
        for who, values in (("qpaths", ours), ("harmonic 1.3.1", theirs)):
            error, se, seconds = np.array(values).T
            inside = f"{np.sum(np.abs(error) < 2 * se)} of {len(error)}"
            row = (f"{np.median(np.abs(error)):.4f}", f"{np.median(se):.4f}", inside, f"{np.median(seconds):.1f}")
            rows.append((name, who, *row))
    table(("posterior", "by", "median abs error", "median se", "within 2 se", "CPU s"), rows)


def by_harmonic(hm, own, mcmc, exact, seed):
    """Error, standard error and CPU seconds; the log densities at the draws are not counted."""
    by_chain = mcmc.get_samples(group_by_chain=True)
    num = next(iter(by_chain.values())).shape[:2]
    flat = {name: np.asarray(by_chain[name]).reshape(-1, *shape) for name, shape in own.variables.items()}
    points = jax.tree.map(jnp.asarray, own.points(flat))
    rows = np.asarray(jax.vmap(lambda x: jax.flatten_util.ravel_pytree(x)[0])(points))
    log_joint = jax.vmap(lambda x: own.prior.log_prob(x) + own.log_likelihood(x, *own.observed))(points)
    begun = time.process_time()
    chains = hm.Chains(rows.shape[1])
    chains.add_chains_3d(rows.reshape(*num, -1), np.asarray(log_joint).reshape(num))
    train, infer = hm.utils.split_data(chains, training_proportion=0.5)
    flow = hm.model.RQSplineModel(rows.shape[1], standardize=True, temperature=0.8)
    flow.fit(train.samples, epochs=20, verbose=False, key=jax.random.PRNGKey(seed))
    evidence = hm.Evidence(infer.nchains, flow)
    evidence.add_chains(infer)
    value = -float(evidence.ln_evidence_inv)
    low, high = evidence.compute_ln_inv_evidence_errors()
    return value - exact, 0.5 * float(high - low), time.process_time() - begun


def modes(seeds):
    """Draws from one of two modes: how often the answer is neither covered nor warned of."""
    rows = []
    for dimension in (2, 10):
        for apart in (4.0, 6.0, 10.0, 20.0):
            for what in ("log density", "model"):
                rows.append((dimension, f"{apart:g}", what, *one_mode(dimension, apart, what, seeds)))
    table(("dimension", "sd apart", "given", "warned", "covered", "neither"), rows)


def one_mode(dimension, apart, what, seeds):
    center = jnp.zeros(dimension).at[0].set(apart / 2)

    def log_likelihood(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x - center) ** 2), -0.5 * jnp.sum((x + center) ** 2))

    wide = 10.0
    variance = 1 / (1 + wide**-2)
    mean = np.asarray(center) * variance
    log_mass = np.log(2) + 0.5 * dimension * np.log(2 * np.pi)
    target = log_likelihood
    if what == "model":
        target = from_prior({"x": dist.Normal(0, wide).expand([dimension])}, lambda p: log_likelihood(p["x"]))
        log_mass += -0.5 * (apart / 2) ** 2 / (1 + wide**2) - 0.5 * dimension * np.log(2 * np.pi * (1 + wide**2))
    else:
        variance, mean = 1.0, np.asarray(center)
    counts = np.zeros(3, int)
    for seed in range(seeds):
        x = np.random.default_rng(seed).standard_normal((4, 1000, dimension)) * variance**0.5 + mean
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = {"x": x} if what == "model" else x
            result = qp.evidence_from_draws(target, given, key=jax.random.key(seed))
        warned = bool(result.verdict.findings)
        covered = abs(float(result.log_evidence) - log_mass) < 2 * float(result.log_evidence_se)
        counts += [warned, covered, not (warned or covered)]
    return counts.tolist()


COLD = """
import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist, qpaths as qp
from qpaths.adapters import from_numpyro
y, s = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]), jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])
def schools(s, y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, s), obs=y)
result = qp.evidence(from_numpyro(schools, s, y), key=jax.random.key(0))
import time; print(float(result.log_evidence), float(result.log_evidence_se), time.process_time())
"""


def cold(_):
    """A fresh process, imports included, in the 32 bits that are JAX's default."""
    found = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
        found.append([float(word) for word in done.stdout.split()])
    value, error, _ = found[0]
    seconds = sorted(run[2] for run in found)
    rows = [("eight schools", f"{value - SCHOOLS.exact:+.4f}", f"{error:.4f}", ", ".join(f"{s:.1f}" for s in seconds))]
    table(("model", "error", "se", "CPU s of three processes"), rows)


def main():
    parts = {part.__name__: part for part in (doors, closed, draws, harmonic, modes, cold)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    for name in arguments.parts or parts:
        print(f"## {name}\n")
        parts[name](arguments.seeds)


if __name__ == "__main__":
    main()
