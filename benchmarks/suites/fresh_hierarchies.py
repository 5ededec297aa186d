"""Hierarchical models with simulated data that no tuning decision has looked at, and their log evidence.

    python -m benchmarks.suites.fresh_hierarchies [names] [--keys N] [--limit CPU_SECONDS] [--out FILE]

Effects are sampled as users write them, given their scales. The truth has nothing of the library: the effects are
integrated out exactly (normal data), or one by one with Gauss-Hermite quadrature, and the few that are left by
importance sampling from a Student-t distribution at their mode.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy import optimize

jax.config.update("jax_enable_x64", True)

from benchmarks.suites.posteriordb import Problem, limited, table  # noqa: E402
from benchmarks.suites.runner import append, commit, key_of, read  # noqa: E402

NUM_DRAWS, DF = 20_000, 6.0
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
LOG_WEIGHTS = np.log(WEIGHTS) - 0.5 * np.log(2 * np.pi)


def integral(log_density, dimension):
    """Return the log integral of a density over a few numbers, and its standard error."""
    value = jax.jit(log_density)
    slope = jax.jit(jax.grad(log_density))
    starts = [np.zeros(dimension), np.full(dimension, -1.0), np.full(dimension, 0.5)]
    ends = [
        optimize.minimize(lambda x: -float(value(x)), one, jac=lambda x: -np.asarray(slope(x)), method="BFGS")
        for one in starts
    ]
    mode = min(ends, key=lambda end: end.fun).x
    factor = np.linalg.cholesky(1.3 * np.linalg.inv(-np.asarray(jax.hessian(log_density)(mode))))
    rng = np.random.default_rng(0)
    noise = dist.MultivariateStudentT(DF, np.zeros(dimension), np.eye(dimension))
    z = rng.standard_normal((NUM_DRAWS, dimension)) / np.sqrt(rng.chisquare(DF, (NUM_DRAWS, 1)) / DF)
    rows = mode + z @ factor.T
    logs = np.asarray(jax.lax.map(value, jnp.asarray(rows), batch_size=500)) - np.asarray(noise.log_prob(z))
    logs += np.sum(np.log(np.diag(factor)))
    weights = np.exp(logs - logs.max())
    return float(np.log(weights.mean()) + logs.max()), float(weights.std() / weights.mean() / NUM_DRAWS**0.5)


def half_normal(log_scale, width=1.0):
    """Return the log density of the log of a half-normal scale."""
    return dist.HalfNormal(width).log_prob(jnp.exp(log_scale)) + log_scale


def normal_data(seed, design, blocks, scales, centered=True):
    """Regression with blocks of effects: `design @ b + sum_k s_k Z_k F_k u_k + s e`."""
    rng = np.random.default_rng(seed)
    num = len(design)
    y = design @ rng.normal(size=design.shape[1]) + scales[-1] * rng.normal(size=num)
    for (places, factor), scale in zip(blocks, scales[:-1], strict=True):
        y = y + scale * (factor @ rng.normal(size=len(factor)))[places]
    maps = [np.eye(len(factor))[places] @ factor for places, factor in blocks]

    def model(y):
        b = numpyro.sample("b", dist.Normal(0.0, 5.0).expand([design.shape[1]]).to_event(1))
        mean = design @ b
        for k, one in enumerate(maps):
            scale = numpyro.sample(f"scale_{k}", dist.HalfNormal(1.0))
            width = scale if centered else 1.0
            u = numpyro.sample(f"u_{k}", dist.Normal(0.0, width).expand([one.shape[1]]).to_event(1))
            mean = mean + one @ (u if centered else scale * u)
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(mean, noise), obs=y)

    def log_density(logs):
        covariance = 25.0 * design @ design.T + jnp.exp(2 * logs[-1]) * jnp.eye(num)
        for k, one in enumerate(maps):
            covariance = covariance + jnp.exp(2 * logs[k]) * one @ one.T
        likelihood = dist.MultivariateNormal(jnp.zeros(num), covariance).log_prob(y)
        return likelihood + jnp.sum(half_normal(logs))

    return model, (jnp.asarray(y),), log_density, len(scales)


def groups(rng, num, largest):
    return rng.integers(0, largest, num)


def crossed_effects():
    rng = np.random.default_rng(11)
    design = np.column_stack([np.ones(90), rng.normal(size=90)])
    blocks = [(groups(rng, 90, 12), np.eye(12)), (groups(rng, 90, 9), np.eye(9))]
    return normal_data(1, design, blocks, (0.8, 0.4, 0.5))


def nested_groups():
    rng = np.random.default_rng(12)
    classes = groups(rng, 100, 20)
    design = np.column_stack([np.ones(100), rng.normal(size=100)])
    return normal_data(2, design, [(classes // 4, np.eye(5)), (classes, np.eye(20))], (0.7, 0.3, 0.6))


def dynamic_linear():
    steps = np.tril(np.ones((50, 50)))
    return normal_data(3, np.ones((50, 1)), [(np.arange(50), steps)], (0.3, 0.5), centered=False)


def splines():
    x = np.linspace(-1.0, 1.0, 80)
    knots = np.linspace(-0.9, 0.9, 15)
    basis = np.abs(x[:, None] - knots) ** 3
    values, vectors = np.linalg.eigh(basis.T @ basis)
    bends = basis @ vectors / np.sqrt(values)  # an orthogonal basis, of which the scale of all is unknown
    design = np.column_stack([np.ones(80), x])
    model = normal_data(4, design, [(np.arange(80), np.pad(bends, ((0, 0), (0, 65))))], (1.0, 0.3), centered=False)
    return model


def spatial_car():
    side = 6
    places = np.array([(i, j) for i in range(side) for j in range(side)])
    near = (np.abs(places[:, None] - places).sum(axis=-1) == 1).astype(float)
    precision = np.diag(near.sum(axis=1)) - 0.95 * near
    factor = np.linalg.inv(np.linalg.cholesky(precision)).T
    rng = np.random.default_rng(15)
    where = np.concatenate([np.arange(36), groups(rng, 36, 36)])
    design = np.column_stack([np.ones(72), rng.normal(size=72)])
    return normal_data(5, design, [(where, factor)], (0.9, 0.4), centered=False)


def effects_one_by_one(name, log_likelihood, data, owners, num, priors):
    """Effects of groups with an unknown scale, the first parameter; `log_likelihood(parameters, effects, data)`."""
    owners = jnp.asarray(owners)

    def model(data):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        parameters = [numpyro.sample(f"p{k}", one) for k, one in enumerate(priors)]
        u = numpyro.sample("u", dist.Normal(0.0, scale).expand([num]).to_event(1))
        numpyro.factor("y", jnp.sum(log_likelihood(parameters, u[owners], data)))

    def log_density(x):
        scale, parameters = jnp.exp(x[0]), x[1:]
        logs = jax.vmap(lambda node: log_likelihood(parameters, scale * node * jnp.ones(len(owners)), data))(NODES)
        each = jax.vmap(lambda own: jax.ops.segment_sum(own, owners, num))(logs)
        prior = half_normal(x[0]) + sum(one.log_prob(value) for one, value in zip(priors, parameters, strict=True))
        return prior + jnp.sum(jax.nn.logsumexp(each + LOG_WEIGHTS[:, None], axis=0))

    return model, (data,), log_density, 1 + len(priors)


def zero_inflated():
    rng = np.random.default_rng(16)
    owners = np.repeat(np.arange(20), 5)
    counts = rng.poisson(np.exp(0.8 + 0.6 * rng.normal(size=20)[owners])) * (rng.random(100) > 0.3)

    def log_likelihood(parameters, effects, y):
        level, logit = parameters
        log_rate = level + effects
        poisson = dist.Poisson(jnp.exp(log_rate)).log_prob(y) + jax.nn.log_sigmoid(-logit)
        return jnp.where(y == 0, jnp.logaddexp(poisson, jax.nn.log_sigmoid(logit)), poisson)

    priors = (dist.Normal(0.0, 2.0), dist.Normal(0.0, 1.5))
    return effects_one_by_one("zero_inflated", log_likelihood, jnp.asarray(counts), owners, 20, priors)


def survival_frailty():
    rng = np.random.default_rng(17)
    owners = np.repeat(np.arange(25), 4)
    x = rng.normal(size=100)
    times = rng.exponential(np.exp(-(-0.5 + 0.7 * x + 0.8 * rng.normal(size=25)[owners])))
    seen = times < 3.0
    times = np.minimum(times, 3.0)

    def log_likelihood(parameters, effects, data):
        level, slope, log_shape = parameters
        log_hazard = level + slope * data[:, 0] + effects
        shape, log_time = jnp.exp(log_shape), jnp.log(data[:, 1])
        return data[:, 2] * (log_hazard + log_shape + (shape - 1) * log_time) - jnp.exp(log_hazard + shape * log_time)

    priors = (dist.Normal(0.0, 2.0), dist.Normal(0.0, 1.0), dist.Normal(0.0, 0.5))
    data = jnp.asarray(np.column_stack([x, times, seen]))
    return effects_one_by_one("survival_frailty", log_likelihood, data, owners, 25, priors)


def multilevel_irt():
    rng = np.random.default_rng(18)
    owners = np.repeat(np.arange(40), 4)
    items = np.tile(np.arange(4), 40)
    answers = rng.random(160) < 1 / (1 + np.exp(-(1.2 * rng.normal(size=40)[owners] - np.linspace(-1, 1, 4)[items])))

    def log_likelihood(parameters, effects, y):
        logits = effects - jnp.stack(list(parameters))[items]
        return y * logits - jax.nn.softplus(logits)

    return effects_one_by_one(
        "multilevel_irt", log_likelihood, jnp.asarray(answers, float), owners, 40, (dist.Normal(0.0, 2.0),) * 4
    )


MODELS = {
    make.__name__: make
    for make in (
        *(crossed_effects, nested_groups, dynamic_linear, splines, spatial_car),
        *(zero_inflated, survival_frailty, multilevel_irt),
    )
}


def problem(name):
    from qpaths.adapters import from_numpyro

    model, arguments, log_density, dimension = MODELS[name]()
    truth, error = integral(log_density, dimension)
    return Problem({"base": from_numpyro(model, *arguments)}, truth, error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="all of them unless given")
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--limit", type=float, default=150.0, help="CPU seconds for one run")
    parser.add_argument("--out", type=Path, default=Path("fresh_hierarchies.jsonl"))
    arguments = parser.parse_args()
    names, made_by = arguments.names or list(MODELS), commit()
    done = {key_of(row) for row in read(arguments.out)}
    for name in names:
        keys = [key for key in range(arguments.keys) if (name, key, None) not in done]
        given = problem(name) if keys else None
        for key in keys:
            row = limited(name, given, key, arguments.limit, made_by)
            append(arguments.out, row)
            answer = row.get("raised") or f"{row['log_evidence'] - row['truth']:+.4f} +- {row['se']:.4f}"
            print(f"{name}, key {key}: {answer} (truth +- {given.truth_se:.4f})", row.get("verdict"), flush=True)
    table(names, [row for row in read(arguments.out) if row["target"] in names])


if __name__ == "__main__":
    main()
