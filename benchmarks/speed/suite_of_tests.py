"""Times `make test`: CPU seconds of all processes and the memory of the largest, without and with compiled programs.

    python -m benchmarks.speed.suite_of_tests [--workers 2] [--write]

The first run finds no compiled programs, as in a fresh clone; the second finds those of the first. `--write` stores the
results in benchmarks/results/tests.md.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
WANTED = {"no programs": "9 CPU min, 1.5 GB", "programs kept": "5 CPU min, 1.5 GB"}


def run(workers: int, programs: str) -> tuple[str, str]:
    """CPU minutes, memory and time of a run, and what pytest says at its end."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "loadscope"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": programs}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    load = os.getloadavg()[1]
    measured = f"{cpu / 60:.1f} CPU min, {after.ru_maxrss / 2**20:.1f} GB, {seconds / 60:.0f} min at load {load:.0f}"
    return measured, re.sub(r" in .*", "", done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Both runs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = ["| | measured | wanted, at most | tests |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as programs:
        for name, wanted in WANTED.items():
            measured, said = run(options.workers, programs)
            lines.append(f"| {name} | {measured} | {wanted} | {said} |")
            print(lines[-1], flush=True)
    if options.write:
        head = f"# The tests\n\nMade by `python -m benchmarks.speed.suite_of_tests --write` on {date.today()}."
        text = "CPU time of all processes, and the memory of the largest one."
        (ROOT / "benchmarks/results/tests.md").write_text("\n\n".join([head, text, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
