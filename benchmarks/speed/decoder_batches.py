"""Memory and speed of `evaluate_bounds` by batch size, with a decoder of the paper's sizes, on the CPU.

    python -m benchmarks.speed.decoder_batches [--write]

Each batch size has a process of its own, which makes the call twice. The first one compiles, the second one is
measured. The memory is the peak of the whole process in the second one (Linux only: the peak is reset). `--write` puts
the table into docs/models.md.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

NUM_CHAINS, NUM_DISTRIBUTIONS, NUM_LEAPFROG = 10, 5, 5
BATCH_SIZES = (1, 10, 100, 1000)
PAGE = Path(__file__).parents[2] / "docs" / "models.md"
PLACE = re.compile(r"(<!-- decoder_batches -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def num_images(batch_size: int) -> int:
    """Fifty batches, but not more than the largest batch."""
    return min(50 * batch_size, max(BATCH_SIZES))


def measure(batch_size: int) -> dict[str, float]:
    """CPU seconds of the compiler and of the run, and the peak memory of the run in MiB."""
    import jax

    import qpaths as qp
    from qpaths.models import VAE, DecoderProblem, evaluate_bounds, simulate

    decoder = VAE.random(jax.random.key(0)).decoder
    latents, images = jax.block_until_ready(simulate(decoder, num_images(batch_size), key=jax.random.key(1)))
    kernel = qp.HMC(num_leapfrog=NUM_LEAPFROG, step_size=0.1, preconditioner="none")
    algorithm = qp.BDMC(NUM_CHAINS, qp.LinearSchedule(NUM_DISTRIBUTIONS), kernel)
    problem = DecoderProblem(decoder)
    times = [time.process_time()]
    for seed in (2, 3):
        Path("/proc/self/clear_refs").write_text("5")
        bounds = evaluate_bounds(problem, images, latents, algorithm, batch_size=batch_size, key=jax.random.key(seed))
        jax.block_until_ready(bounds.lower)
        times.append(time.process_time())
    first, second = times[1] - times[0], times[2] - times[1]
    return {"peak": _peak(), "compile": first - second, "run": second}


def _peak() -> float:
    """The peak memory of this process since the last reset, in MiB."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1024


def table() -> str:
    rows = [
        "| batch size | peak memory, MiB | gradients per CPU second | compiler, CPU s |",
        "|---|---|---|---|",
    ]
    for size in BATCH_SIZES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.speed.decoder_batches", str(size)],
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        print(f"batches of {size}: {found}", file=sys.stderr)
        gradients = 2 * num_images(size) * NUM_CHAINS * (NUM_DISTRIBUTIONS - 1) * NUM_LEAPFROG
        rows.append(f"| {size:,} | {found['peak']:,.0f} | {gradients / found['run']:,.0f} | {found['compile']:.1f} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("batch_size", nargs="?", type=int, help="measure this size in this process, and print JSON")
    parser.add_argument("--write", action="store_true", help="put the table into docs/models.md")
    args = parser.parse_args()
    if args.batch_size:
        print(json.dumps(measure(args.batch_size)))
        return
    found = table()
    print(found)
    if args.write:
        PAGE.write_text(PLACE.sub(lambda match: match[1] + found + match[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
