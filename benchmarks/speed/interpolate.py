"""The exact power mean in both worlds, JAX and NumPy: how accurate it is, and what it costs.

    python -m benchmarks.speed.interpolate [number of pairs]

Accuracy: the largest error against 60-digit arithmetic, in units of the rounding error `eps * max(1, |log_base|,
|log_target|)`, over a grid of beta, log densities and delta. Wanted: at most 8. Cost: CPU time next to the plain
geometric formula, side by side in one process. JAX computes all pairs in one compiled call. NumPy computes populations
of 10,000 pairs, as a run on the host does.
"""

import itertools
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths.core.numerics import log_power_mean_pair  # noqa: E402

DELTAS = [0.0] + [sign * d for d in (1e-20, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 1.0, 3.0) for sign in (1, -1)]
BETAS = [1e-12, 1e-8, 1e-6, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-8, 1 - 1e-12]
LOG_DENSITIES = [-1e4, -3e3, -456.7, -33.3, -2.5, -0.123, 0.0, 1e-5, 0.7, 8.8, 123.4, 1e3]
NUM_RANDOM, POPULATION, ROUNDS = 5000, 10_000, 10
PLAIN = "plain geometric formula"


def grid(dtype):
    """All combinations of the lists, and random pairs where `delta (log_target - log_base)` is of order one."""
    rows = list(itertools.product(BETAS, LOG_DENSITIES, LOG_DENSITIES, DELTAS))
    generator = np.random.default_rng(0)
    for _ in range(NUM_RANDOM):
        delta = generator.choice(DELTAS[1:])
        log_base = generator.uniform(-1e4, 1e3)
        log_target = np.clip(log_base + generator.uniform(-60, 60) / delta, -1e4, 1e3)
        rows.append((1 / (1 + np.exp(generator.uniform(-27, 27))), log_base, log_target, delta))
    table = np.array(rows, dtype)
    return table[(table[:, 0] > 0) & (table[:, 0] < 1)].T  # 1 - 1e-12 is 1 in float32


def exact(beta, log_base, log_target, delta):
    b, l0, l1, d = (mp.mpf(float(value)) for value in (beta, log_base, log_target, delta))
    return (1 - b) * l0 + b * l1 if d == 0 else l0 + mp.log1p(b * mp.expm1(d * (l1 - l0))) / d


def print_accuracy():
    print("\n| precision | world | pairs | largest error, eps |\n|---|---|---|---|")
    for dtype in (np.float64, np.float32):
        arguments = grid(dtype)
        with mp.workdps(60):
            truths = [exact(*row) for row in arguments.T]
        unit = np.finfo(dtype).eps * np.maximum(1, np.maximum(*np.abs(arguments[1:3].astype(float))))
        worlds = {"JAX": jax.jit(log_power_mean_pair), "NumPy": log_power_mean_pair}
        for world, function in worlds.items():
            values = np.asarray(function(*arguments))
            assert values.dtype == dtype, values.dtype
            with mp.workdps(60):
                errors = np.array([float(mp.mpf(float(v)) - t) for v, t in zip(values, truths, strict=True)])
            print(f"| {dtype.__name__} | {world} | {len(values):,} | {np.max(np.abs(errors) / unit):.2f} |", flush=True)


def plain(path, beta, log_base, log_target):
    return (1 - beta) * log_base + beta * log_target


def power_mean(path, beta, log_base, log_target):
    return path.interpolate(beta, log_base, log_target)


def print_cost(num):
    print("\n| precision | world | variant | CPU ns per pair | times plain |\n|---|---|---|---|---|")
    generator = np.random.default_rng(0)
    compiled = {plain: jax.jit(plain), power_mean: jax.jit(power_mean)}
    flat = qp.Density(lambda x: 0.0)
    for dtype in (np.float64, np.float32):
        ends = [generator.normal(-400, 300, num).astype(dtype) for _ in range(2)]
        on_device = [jnp.asarray(end) for end in ends]
        parts = [[end[i : i + POPULATION] for end in ends] for i in range(0, num // 10, POPULATION)]
        beta = dtype(0.3)

        def in_one_call(function, path):
            compiled[function](path, beta, *on_device).block_until_ready()  # noqa: B023
            return num

        def in_populations(function, path):
            for log_base, log_target in parts:  # noqa: B023
                function(path, beta, log_base, log_target)  # noqa: B023
            return sum(part[0].size for part in parts)  # noqa: B023

        for world, run, number in (("JAX", in_one_call, jnp.asarray), ("NumPy", in_populations, np.dtype(dtype).type)):
            variants = {PLAIN: (plain, qp.QPath(flat, flat, delta=number(dtype(0.0))))}
            for delta in (0.0, 1e-3, 1.0):
                variants[f"QPath, delta = {delta:g}"] = power_mean, qp.QPath(flat, flat, delta=number(dtype(delta)))
            seconds = {name: [] for name in variants}
            for _ in range(ROUNDS):
                for name, variant in variants.items():
                    start = time.process_time()
                    size = run(*variant)
                    seconds[name].append((time.process_time() - start) / size)
            medians = {name: statistics.median(s[1:]) for name, s in seconds.items()}
            for name, value in medians.items():
                ratio = value / medians[PLAIN]
                print(f"| {dtype.__name__} | {world} | {name} | {1e9 * value:.2f} | {ratio:.2f} |", flush=True)


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    versions = f"jax {jax.__version__}, numpy {np.__version__}"
    print(f"{num:,} pairs, {versions}, {jax.devices()[0]}; median of {ROUNDS - 1} rounds")
    print_accuracy()
    print_cost(num)


if __name__ == "__main__":
    main()
