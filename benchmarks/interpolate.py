"""What the exact power mean costs next to the plain geometric formula, side by side in one process.

python benchmarks/interpolate.py [number of pairs]
"""

import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    generator = np.random.default_rng(0)
    plain = jax.jit(lambda path, beta, log_base, log_target: (1 - beta) * log_base + beta * log_target)
    exact = jax.jit(lambda path, beta, log_base, log_target: path.interpolate(beta, log_base, log_target))
    print(f"{num} pairs, jax {jax.__version__}, {jax.devices()[0]}; median of 9 rounds, all variants in each round\n")
    print("| precision | variant | ms | times plain |\n|---|---|---|---|")
    for dtype in (jnp.float64, jnp.float32):
        log_base, log_target = (jnp.asarray(generator.normal(-400, 300, num), dtype) for _ in range(2))
        beta = jnp.asarray(0.3, dtype)
        flat = qp.Density(lambda x: 0.0)
        path = qp.QPath(flat, flat, delta=jnp.asarray(0.0, dtype))
        variants = {"plain geometric formula": (plain, path)}
        for delta in (0.0, 1e-3, 1.0):
            path = qp.QPath(flat, flat, delta=jnp.asarray(delta, dtype))
            variants[f"QPath, delta = {delta:g}"] = (exact, path)
        seconds: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(10):
            for name, (function, path) in variants.items():
                start = time.perf_counter()
                function(path, beta, log_base, log_target).block_until_ready()
                seconds[name].append(time.perf_counter() - start)
        medians = {name: statistics.median(s[1:]) for name, s in seconds.items()}
        for name, value in medians.items():
            ratio = value / medians["plain geometric formula"]
            print(f"| {dtype.__name__} | {name} | {1e3 * value:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
