"""Speed of adaptive SMC on Pima next to its floor, the same number of density evaluations, and next to BlackJAX.

    python benchmarks/speed.py [number of particles]

All three run in turn in one process, several rounds; ratios of medians. The floor evaluates both endpoint densities of
the whole population as often as the run does, compiled, and nothing else.
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


def timed(function):
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def blackjax_run(base, target, num):
    """`adaptive_tempered_smc` with a random walk of the posterior's scale, 5 moves, next beta at half the ESS."""
    algorithm = blackjax.adaptive_tempered_smc(
        base.log_prob,
        lambda x: target.log_prob(x) - base.log_prob(x),
        blackjax.additive_step_random_walk.build_kernel(),
        blackjax.additive_step_random_walk.init,
        mcmc_parameters={},
        resampling_fn=blackjax.smc.resampling.systematic,
        target_ess=0.5,
        num_mcmc_steps=MOVES,
    )
    return algorithm


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    base, target = logistic_regression(load("pima"))
    path = qp.GeometricPath(base, target)
    algorithm = qp.SMC(num, qp.AdaptiveSchedule(), qp.RandomWalk(MOVES))

    first = timed(lambda: algorithm.run(path, key=jax.random.key(0)).log_evidence)
    second = timed(lambda: algorithm.run(path, key=jax.random.key(0)).log_evidence)
    result = algorithm.run(path, key=jax.random.key(0))
    traces = algorithm.run(qp.GeometricPath(base, target), key=jax.random.key(1))
    num_calls = result.num_evaluations.target // num
    print(
        f"compilation: {first - second:.1f} s; {len(result.betas)} distributions, {num_calls} evaluations per particle"
    )

    points = jax.vmap(base.sample)(jax.random.split(jax.random.key(2), num))
    evaluate = jax.jit(lambda x: (jax.vmap(base.log_prob)(x), jax.vmap(target.log_prob)(x)))
    evaluate(points)

    def floor():
        return [evaluate(points) for _ in range(num_calls)][-1]

    rival = _blackjax(base, target, points)
    variants = {
        "floor: density evaluations alone": floor,
        "qpaths SMC": lambda: algorithm.run(path, key=jax.random.key(0)).log_evidence,
        "BlackJAX adaptive_tempered_smc": rival,
    }
    for function in variants.values():
        timed(function)
    seconds = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, function in variants.items():
            seconds[name].append(timed(function))
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    print("| | seconds | times floor |\n|---|---|---|")
    for name, value in medians.items():
        print(f"| {name} | {value:.3f} | {value / medians['floor: density evaluations alone']:.2f} |")
    print(f"\nBlackJAX over qpaths: {medians['BlackJAX adaptive_tempered_smc'] / medians['qpaths SMC']:.1f}")
    del traces


def _blackjax(base, target, points):
    covariance = jnp.eye(points.shape[1]) * 0.05
    kernel = blackjax.mcmc.random_walk.build_additive_step()

    def step(key, state, log_density):
        return kernel(key, state, log_density, blackjax.mcmc.random_walk.normal(covariance))

    algorithm = blackjax.adaptive_tempered_smc(
        base.log_prob,
        lambda x: target.log_prob(x) - base.log_prob(x),
        step,
        blackjax.additive_step_random_walk.init,
        {},
        blackjax.smc.resampling.systematic,
        target_ess=0.5,
        num_mcmc_steps=MOVES,
    )
    advance = jax.jit(algorithm.step)

    def run():
        state = algorithm.init(points)
        key, log_evidence, tempering = jax.random.key(0), 0.0, 0.0
        while tempering < 1:
            key, subkey = jax.random.split(key)
            state, info = advance(subkey, state)
            log_evidence += float(info.log_likelihood_increment)
            tempering = float(getattr(state, "tempering_param", getattr(state, "lmbda", 1.0)))
        return log_evidence

    return run


if __name__ == "__main__":
    main()
