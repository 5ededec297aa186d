"""Peak memory of adaptive SMC with a million particles in 20 dimensions, on the host. Wanted: under 3 GiB.

    python -m benchmarks.speed.memory [number of particles] [chunk size]

The chunk size is the number of particles that are moved at once; without one it is the library's own.
"""

import resource
import sys
import time

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    chunk_size = int(sys.argv[2]) if len(sys.argv) > 2 else None
    base = qp.MultivariateNormal(jnp.zeros(20), jnp.eye(20))
    target = qp.Density(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2) / 0.25)
    truth = 10 * jnp.log(2 * jnp.pi * 0.25)
    algorithm = qp.SMC(num, qp.AdaptiveSchedule(), qp.HMC(1, 3), chunk_size=chunk_size)
    start = time.process_time()
    result = algorithm.run(qp.QPath(base, target, q=0.999), key=jax.random.key(0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{num} particles, chunks of {chunk_size or 'the default size'}: peak {peak:.2f} GiB (wanted: under 3)")
    print(f"error {float(result.log_evidence - truth):.5f}, standard error {float(result.log_evidence_se):.5f}")
    print(f"{time.process_time() - start:.0f} CPU s for {result.num_evaluations.total:,} evaluations")


if __name__ == "__main__":
    main()
