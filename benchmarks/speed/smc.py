"""Speed of adaptive SMC on Pima, next to its floor and next to BlackJAX.

    python -m benchmarks.speed.smc [number of particles] [blackjax]

The floor is the same number of density evaluations and nothing else: both endpoint densities of the whole population,
in one compiled call for each move. "Floor in chunks" makes the same calls for 2,000 rows at a time, which is closer to
what the library does. Random-walk moves need values, on the geometric path and on a q-path, whose arithmetic costs
more. HMC needs values and gradients. With `blackjax` that library runs as well, with random-walk moves, twice: with the
density that this library ships, and with the logistic likelihood as it is usually written. All variants run in turn in
one process, several rounds. Ratios of medians, of wall time and of CPU time.
"""

import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths_paper.parts.datasets import load, logistic_regression  # noqa: E402

ROUNDS, MOVES, CHUNK = 5, 5, 2000
RUNS = {
    "random walk": (qp.RandomWalk(MOVES), 1.0),
    "random walk, q = 0.999": (qp.RandomWalk(MOVES), 0.999),
    "HMC": (qp.HMC(1, MOVES), 1.0),
}


def timed(function):
    """Wall and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(function())
    return time.perf_counter() - wall, time.process_time() - cpu


def blackjax_run(log_prior, log_likelihood, points):
    """`adaptive_tempered_smc` with five random-walk moves and the next beta at half the ESS."""
    import blackjax

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
    step = jax.jit(algorithm.step)

    def run():
        state, key, num_steps = algorithm.init(points), jax.random.key(0), 0
        while float(state.tempering_param) < 1:
            key, subkey = jax.random.split(key)
            state, _ = step(subkey, state)
            num_steps += 1
        run.num_steps = num_steps
        return state.particles

    return run


def floor(base, target, points, num_calls, with_gradient, size):
    """`num_calls` evaluations of both endpoint densities at all points, `size` of them at a time."""

    def of(density):
        return jax.value_and_grad(density.log_prob) if with_gradient else density.log_prob

    evaluate = jax.jit(lambda x: (jax.vmap(of(base))(x), jax.vmap(of(target))(x)))
    parts = [points[i : i + size] for i in range(0, len(points) - size + 1, size)]
    parts += [points[-size:]] if len(points) % size else []  # the last chunk is always a full one
    return lambda: [evaluate(part) for _ in range(num_calls) for part in parts][-1]


def main() -> None:
    num = next((int(word) for word in sys.argv[1:] if word.isdigit()), 10_000)
    data = load("pima")
    base, target = logistic_regression(data)
    points = np.asarray(jax.vmap(base.sample)(jax.random.split(jax.random.key(2), num)))
    variants, floors, steps = {}, {}, {}
    for label, (kernel, q) in RUNS.items():
        path = qp.GeometricPath(base, target) if q == 1 else qp.QPath(base, target, q=q)
        algorithm = qp.SMC(num, qp.AdaptiveSchedule(), kernel)

        def run(algorithm=algorithm, path=path):
            return algorithm.run(path, key=jax.random.key(0))

        (first, _), (second, _) = timed(lambda: run().log_evidence), timed(lambda: run().log_evidence)
        result = run()
        evaluations = result.num_evaluations
        num_calls = round((evaluations.target + evaluations.target_gradient) / num)
        steps[label] = len(result.betas) - 1
        print(f"{label}: {num} particles, {num_calls} evaluations each; compilation {first - second:.1f} s", flush=True)
        names = [f"{label}: {what}" for what in ("floor", f"floor in chunks of {CHUNK}", "qpaths SMC")]
        with_gradient = evaluations.target_gradient > 0
        variants[names[0]] = floor(base, target, points, num_calls, with_gradient, num)
        variants[names[1]] = floor(base, target, points, num_calls, with_gradient, CHUNK)
        variants[names[2]] = lambda run=run: run().log_evidence
        floors |= dict.fromkeys(names, names[0])
    if "blackjax" in sys.argv:
        signed = jnp.asarray(data.predictors * data.labels[:, None])
        rivals = {
            "random walk: BlackJAX, our density": lambda x: target.log_prob(x) - base.log_prob(x),
            "random walk: BlackJAX, log_sigmoid(X @ w)": lambda x: jnp.sum(jax.nn.log_sigmoid(signed @ x)),
        }
        for name, log_likelihood in rivals.items():
            variants[name] = blackjax_run(base.log_prob, log_likelihood, jnp.asarray(points))
            floors[name] = "random walk: floor"
    seconds = {name: [] for name in variants}
    for function in variants.values():
        timed(function)
    for _ in range(ROUNDS):
        for name, function in variants.items():
            seconds[name].append(timed(function))
    medians = {name: [statistics.median(times) for times in zip(*rows, strict=True)] for name, rows in seconds.items()}
    print("\n| | seconds | times floor | CPU seconds | times floor | steps |\n|---|---|---|---|---|---|")
    for name, (wall, cpu) in medians.items():
        floor_wall, floor_cpu = medians[floors[name]]
        num_steps = getattr(variants[name], "num_steps", steps[name.split(":")[0]])
        print(f"| {name} | {wall:.3f} | {wall / floor_wall:.2f} | {cpu:.3f} | {cpu / floor_cpu:.2f} | {num_steps} |")


if __name__ == "__main__":
    main()
