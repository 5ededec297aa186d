"""What spreading over devices costs, and whether the numbers stay: SMC with a million particles on 1 to 8 devices.

    python benchmarks/devices.py [number of particles]

Every number of devices runs twice in a process of its own, which always has eight host devices; the second run is
measured. Wanted: eight devices cost under 15 % more than one, and all numbers are equal to the last bit.
"""

import hashlib
import os
import resource
import subprocess
import sys
import time
from datetime import date

COUNTS = (1, 2, 4, 8)
LIMIT = 0.15


def measure(num: int, devices: int) -> None:
    """One run in this process, after another one that compiles."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    import jax
    import jax.numpy as jnp
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    import qpaths as qp

    base = qp.MultivariateNormal(jnp.zeros(10), jnp.eye(10))
    target = qp.Density(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2) / 0.25)
    path = qp.QPath(base, target, q=0.999)
    algorithm = qp.SMC(num, qp.LinearSchedule(6), qp.HMC(1, 3), devices=devices)
    begun = time.process_time()
    algorithm.run(path, key=jax.random.key(0))
    first, cpu, wall = time.process_time() - begun, time.process_time(), time.monotonic()
    result = algorithm.run(path, key=jax.random.key(0))
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    arrays = result.samples, result.log_weights, result.log_evidence, result.log_evidence_se
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[:12]
    error = float(result.log_evidence - 5 * jnp.log(2 * jnp.pi * 0.25))
    print("RESULT", cpu, wall, first - cpu, peak, digest, error, float(result.log_evidence_se), flush=True)


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    if len(sys.argv) > 2:
        measure(num, int(sys.argv[2]))
        return
    print(f"# Devices\n\nMade by `python benchmarks/devices.py {num}` on {date.today()}.")
    print(f"SMC with {num:,} particles in 10 dimensions, 5 steps, HMC with 3 leapfrog steps, float64.")
    print(f"The machine has {os.cpu_count()} cores.\n")
    print("| devices | CPU s | against one | wall s | compiling, CPU s | peak, GiB | digest of all numbers |")
    print("|---|---|---|---|---|---|---|")
    rows = {}
    for devices in COUNTS:
        command = [sys.executable, __file__, str(num), str(devices)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        cpu, wall, compiling, peak, digest, error, se = next(
            line.split()[1:] for line in output.splitlines() if line.startswith("RESULT")
        )
        rows[devices] = float(cpu), digest
        ratio = float(cpu) / rows[1][0]
        line = f"{float(cpu):.1f} | {ratio:.2f} | {float(wall):.1f} | {float(compiling):.1f} | {float(peak):.2f}"
        print(f"| {devices} | {line} | {digest} |", flush=True)
    extra = rows[8][0] / rows[1][0] - 1
    equal = len({digest for _, digest in rows.values()}) == 1
    print(f"\nEight devices cost {extra:+.0%} (wanted: under {LIMIT:.0%}).")
    print(f"The numbers are {'' if equal else 'NOT '}equal to the last bit.")
    print(f"Error of the log evidence {float(error):.5f}, standard error {float(se):.5f}.")


if __name__ == "__main__":
    main()
