"""Speed of adaptive SMC on Pima next to its floor, the same number of density evaluations, and next to BlackJAX.

    python benchmarks/speed.py [number of particles]

All variants run in turn in one process, several rounds; ratios of medians. The floor evaluates both endpoint densities
of the whole population as often as the run does, compiled, and nothing else. BlackJAX runs twice: with the density that
this library ships, and with the logistic likelihood as it is usually written.
"""

import statistics
import sys
import time

import blackjax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths.experiments.datasets import load, logistic_regression  # noqa: E402

ROUNDS, MOVES = 5, 5
FLOOR, OURS = "floor: density evaluations alone", "qpaths SMC"


def timed(function):
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def blackjax_run(log_prior, log_likelihood, points):
    """`adaptive_tempered_smc` with five random-walk moves and the next beta at half the ESS."""
    kernel = blackjax.mcmc.random_walk.build_additive_step()
    proposal = blackjax.mcmc.random_walk.normal(0.2 * jnp.ones(points.shape[1]))
    algorithm = blackjax.adaptive_tempered_smc(
        log_prior,
        log_likelihood,
        lambda key, state, log_density: kernel(key, state, log_density, proposal),
        blackjax.additive_step_random_walk.init,
        {},
        blackjax.smc.resampling.systematic,
        target_ess=0.5,
        num_mcmc_steps=MOVES,
    )
    advance = jax.jit(algorithm.step)

    def run():
        state, key, num_steps = algorithm.init(points), jax.random.key(0), 0
        while float(state.tempering_param) < 1:
            key, subkey = jax.random.split(key)
            state, _ = advance(subkey, state)
            num_steps += 1
        run.num_steps = num_steps
        return state.particles

    return run


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    data = load("pima")
    base, target = logistic_regression(data)
    path = qp.GeometricPath(base, target)
    algorithm = qp.SMC(num, qp.AdaptiveSchedule(), qp.RandomWalk(MOVES))

    first, second = (timed(lambda: algorithm.run(path, key=jax.random.key(0)).log_evidence) for _ in range(2))
    result = algorithm.run(path, key=jax.random.key(0))
    num_calls = result.num_evaluations.target // num
    print(f"{num} particles, {num_calls} evaluations each; compilation {first - second:.1f} s")

    points = jax.vmap(base.sample)(jax.random.split(jax.random.key(2), num))
    evaluate = jax.jit(lambda x: (jax.vmap(base.log_prob)(x), jax.vmap(target.log_prob)(x)))
    signed = jnp.asarray(data.predictors * data.labels[:, None])
    variants = {
        FLOOR: lambda: [evaluate(points) for _ in range(num_calls)][-1],
        OURS: lambda: algorithm.run(path, key=jax.random.key(0)).log_evidence,
        "BlackJAX, our density": blackjax_run(base.log_prob, lambda x: target.log_prob(x) - base.log_prob(x), points),
        "BlackJAX, log_sigmoid(X @ w)": blackjax_run(
            base.log_prob, lambda x: jnp.sum(jax.nn.log_sigmoid(signed @ x)), points
        ),
    }
    seconds = {name: [] for name in variants}
    for function in variants.values():
        timed(function)
    for _ in range(ROUNDS):
        for name, function in variants.items():
            seconds[name].append(timed(function))
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    print("\n| | seconds | times floor | times qpaths | steps |\n|---|---|---|---|---|")
    for name, value in medians.items():
        steps = getattr(variants[name], "num_steps", len(result.betas) - 1)
        print(f"| {name} | {value:.3f} | {value / medians[FLOOR]:.2f} | {value / medians[OURS]:.2f} | {steps} |")


if __name__ == "__main__":
    main()
