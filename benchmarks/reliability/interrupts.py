"""Interrupts at random times: `qpaths evidence` and `qpaths run` end with their exit code, and go on from there.

    python -m benchmarks.reliability.interrupts [number of interrupts of each command]

Each command is started again in the same folder until it ends by itself, and the answer must then be that of a run
that was not interrupted. SIGINT and SIGTERM take turns. The first 0.5 s are left out: until Python has started and read
the command, signals are those of Python.
"""

import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = """
import jax, jax.numpy as jnp
def log_prior(x): return jnp.sum(jax.scipy.stats.norm.logpdf(x))
def log_likelihood(x): return -2.0 * jnp.sum((x - 1.0) ** 2) + jnp.sin(3 * x[0])
def sample_prior(key): return jax.random.normal(key, (6,))
"""
EARLIEST = 0.5


def answer_of_evidence(folder):
    from qpaths import load_result

    return float(load_result(folder / "result.npz").log_evidence)


def answer_of_run(folder):
    from qpaths_paper.harness.store import Store

    with Store.open(folder) as store:
        return json.dumps(sorted((str(row.settings), row.seed, str(row.values)) for row in store.rows()))


def start(command, folder):
    code = "from qpaths.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *command, "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def check(number, process, output, folder):
    """What is wrong after an interrupt, if anything is."""
    if process.returncode in (0, 3):
        return None
    if process.returncode != 128 + number:
        return f"exit code {process.returncode}: {output[-300:]}"
    stored = re.search(r"(\d+) of \d+ runs are stored", output)
    if "islands are stored" in output and not (folder / "checkpoint.npz").exists():
        return "said to be stored, and is not"
    if stored and int(stored[1]) > count_rows(folder):
        return "fewer rows than said"
    return f"files left: {list(folder.glob('.*part*'))}" if list(folder.glob(".*part*")) else None


def count_rows(folder):
    from qpaths_paper.harness.store import Store

    with Store.open(folder) as store:
        return store.count()


def measure(name, command, answer, num, scratch):
    begun = time.monotonic()
    process = start(command, scratch / "whole")
    process.communicate()
    longest, expected = time.monotonic() - begun, answer(scratch / "whole")
    interrupts, done, wrong, tries = 0, 0, [], 0
    while interrupts < num:
        folder = scratch / f"{name}-{done}"
        process = start(command, folder)
        number = (signal.SIGINT, signal.SIGTERM)[tries % 2]
        tries += 1
        try:
            output, _ = process.communicate(timeout=random.uniform(EARLIEST, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            output, _ = process.communicate(timeout=120)
            interrupts += 1
        problem = check(number, process, output, folder)
        wrong += [problem] if problem else []
        if process.returncode in (0, 3):
            wrong += [] if answer(folder) == expected else ["another answer"]
            done += 1
    print(f"| {name} | {interrupts} | {done} | {longest:.1f} | {len(wrong)} {'; '.join(wrong)} |", flush=True)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    random.seed(0)
    print("| command | interrupts | same answer in the end | seconds uninterrupted | wrong |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model.py"
        model.write_text(MODEL)
        evidence = ["evidence", str(model), "--budget", "1000000", "--standard-error", "0.0001"]
        measure("evidence", evidence, answer_of_evidence, count, Path(scratch))
        measure("run", ["run", "fig2", "--smoke"], answer_of_run, count, Path(scratch) / "rows")
