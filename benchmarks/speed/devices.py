"""What spreading over devices costs, and whether the numbers stay: SMC with a million particles on 8 devices and fewer.

    python -m benchmarks.speed.devices [number of particles] [numbers of devices, such as 8,4,2,1] [stages]

All runs share a process with eight host devices. For each number of devices a run of two stages compiles, and the run
after it is measured. Wanted: eight devices cost under 15 % more than one, and all numbers are equal to the last bit.
"""

import hashlib
import os
import sys
import time
from datetime import date
from typing import NamedTuple

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402

LIMIT = 0.15
DIMENSION = 10


class Measured(NamedTuple):
    cpu: float
    wall: float
    compiling: float
    digest: str
    error: float
    standard_error: float


def run(num: int, devices: int, num_stages: int) -> qp.Result:
    base = qp.MultivariateNormal(jnp.zeros(DIMENSION), jnp.eye(DIMENSION))
    path = qp.QPath(base, TARGET, q=0.999)
    algorithm = qp.SMC(num, qp.LinearSchedule(num_stages + 1), qp.RandomWalk(3), devices=devices)
    return algorithm.run(path, key=jax.random.key(0))


TARGET = qp.Density(lambda x: -0.5 * jnp.sum((x - 0.5) ** 2) / 0.25)
TRUTH = 0.5 * DIMENSION * float(np.log(2 * np.pi * 0.25))


def measure(num: int, devices: int, num_stages: int) -> Measured:
    begun = time.process_time()
    run(num, devices, 2)
    cpu, wall = time.process_time(), time.monotonic()
    first = cpu - begun
    result = run(num, devices, num_stages)
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    arrays = result.samples, result.log_weights, result.log_evidence, result.log_evidence_se
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:12]
    error = float(result.log_evidence) - TRUTH
    return Measured(cpu, wall, first - 2 * cpu / num_stages, digest, error, float(result.log_evidence_se))


def main() -> None:
    given = [*sys.argv[1:], *("1000000", "8,4,2,1", "6")[len(sys.argv) - 1 :]]
    num, counts, num_stages = int(given[0]), [int(count) for count in given[1].split(",")], int(given[2])
    print(f"# Devices\n\nMade by `python -m benchmarks.speed.devices {' '.join(given)}` on {date.today()}.")
    print(f"SMC with {num:,} particles in {DIMENSION} dimensions, {num_stages} stages of 3 random-walk moves, float64.")
    print(f"The machine has {os.cpu_count()} cores. A device compiles its programs once, for all runs.\n")
    print("| devices | CPU s | wall s | compiling, CPU s | digest of all numbers |\n|---|---|---|---|---|")
    rows = {}
    for devices in counts:
        rows[devices] = found = measure(num, devices, num_stages)
        numbers = f"{found.cpu:.1f} | {found.wall:.1f} | {found.compiling:.1f}"
        print(f"| {devices} | {numbers} | {found.digest} |", flush=True)
    most, least = max(rows), min(rows)
    equal = len({found.digest for found in rows.values()}) == 1
    extra = rows[most].cpu / rows[least].cpu - 1
    print(f"\nCPU seconds on {most} devices against {least}: {extra:+.0%} (wanted: under {LIMIT:+.0%}).")
    print(f"The numbers are {'' if equal else 'NOT '}equal to the last bit.")
    print(f"Error of the log evidence {found.error:.5f}, standard error {found.standard_error:.5f}.")


if __name__ == "__main__":
    main()
