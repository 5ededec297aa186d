"""Random models, budgets, signals, kills, full disks and failing executors, from a seed, with every invariant checked.

    python -m benchmarks.reliability.soak [--seed 0] [--minutes 15] [--log FILE]

Each episode follows from the seed and its number alone, so that any can be repeated (`--first N --episodes 1`). A run
goes on where the log ends. An episode runs `qpaths evidence` in processes of its own and checks that

- it ends, with an exit code or an error of the documented ones and no traceback;
- a run that was killed, interrupted or out of disk, and then went on, has the digits of one that was not;
- an executor that is slow, fails or loses a worker changes no digit;
- an answer that is called sound is within six standard errors of the truth;
- a file that is cut, or has a byte changed, does not load;
- nothing is left in the folder but what should be there.

The memory of this process is in each line. The log is benchmarks/results/soak.jsonl, one line for each episode.
"""

import argparse
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOG = Path(__file__).parents[1] / "results" / "soak.jsonl"
LEFT = {"checkpoint.npz", "result.npz", "posterior.png", "run.png"}
"""What a folder of `qpaths evidence` may hold."""
LIMIT = 240.0
"""Seconds after which a command counts as hanging."""

MODEL = """
import numpy as np
from scipy import stats

d, scale, modes = {dimension}, {scale}, {modes}
prior = {{"x": stats.norm(np.zeros(d), scale)}}

def log_likelihood(p):
    value = -0.5 * np.sum((p["x"] - 1.0) ** 2)
    return value if modes == 1 else np.logaddexp(value, -0.5 * np.sum((p["x"] + 1.0) ** 2))
"""

CALL = """
import concurrent.futures, json, sys, time
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np, qpaths as qp

class Fails(concurrent.futures.ThreadPoolExecutor):
    '''A pool that is slow, and whose calls fail now and then as if a worker had died.'''
    calls = 0
    def submit(self, function, *arguments, **settings):
        Fails.calls += 1
        if Fails.calls % {every} == 0:
            future = concurrent.futures.Future()
            future.set_exception(concurrent.futures.BrokenExecutor("a worker died"))
            return future
        def slow(*arguments, **settings):
            time.sleep({pause})
            return function(*arguments, **settings)
        return super().submit(slow, *arguments, **settings)

found = {{}}
exec(open({model!r}).read(), found)
result = qp.evidence(prior=found["prior"], log_likelihood=found["log_likelihood"], budget={budget},
                     executor=Fails(2) if {fails} else None, key=jax.random.key({seed}))
print(json.dumps([float(result.log_evidence), float(result.log_evidence_se), str(result.verdict.level)]))
"""


def truth_of(dimension, scale, modes):
    """The log evidence of the model: normal prior and likelihood, each mode by itself."""
    variance = 1 + scale**2
    return math.log(modes) - 0.5 * dimension * (math.log(variance) + 1 / variance)


class FailedError(AssertionError):
    """An invariant that does not hold."""


def check(holds, words):
    if not holds:
        raise FailedError(words)


class Episode:
    """One model, and what happens to its runs."""

    def __init__(self, seed, number, folder):
        self.random = random.Random(f"{seed}/{number}")
        self.folder = Path(folder)
        self.kind = self.random.choice(["signals", "signals", "disk", "executor", "damage"])
        self.model = {
            "dimension": self.random.randint(1, 6),
            "scale": self.random.choice([0.5, 1.0, 3.0]),
            "modes": self.random.choice([1, 1, 2]),
        }
        self.budget = self.random.choice([20_000, 40_000])
        self.file = self.folder / f"{self.random.choice(['model', 'a b', '[x]', 'µ'])}.py"
        self.file.write_text(MODEL.format(**self.model))
        self.environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(Path(tempfile.gettempdir()) / "soak-cache")}

    def start(self, out, limit=None):
        """Start the command, with a limit in bytes on the files that it may write."""
        program = "from qpaths.cli import main; main()"
        command = [
            sys.executable,
            "-c",
            program,
            "evidence",
            str(self.file),
            "--budget",
            str(self.budget),
            "--out",
            str(out),
        ]

        def restrict():
            if limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": self.environment}
        return subprocess.Popen(command, preexec_fn=restrict, **pipes)

    def end(self, process):
        """Wait for a command; return its exit code and what it printed."""
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise FailedError("it hangs") from None
        check("Traceback" not in err, f"a traceback: {err[-500:]}")
        return process.returncode, out + err

    def whole(self, out):
        """Run the command to its end; return the numbers of its result."""
        code, text = self.end(self.start(out))
        check(code in (0, 3, 4), f"exit code {code}: {text[-300:]}")
        return self.numbers(out)

    def numbers(self, out):
        import qpaths as qp

        left = {path.name for path in out.iterdir()}
        check(left <= LEFT, f"left in the folder: {sorted(left - LEFT)}")
        result = qp.load_result(out / "result.npz")
        value, error, level = float(result.log_evidence), float(result.log_evidence_se), str(result.verdict.level)
        self.check_right(value, error, level)
        return value, error, level, float(result.log_weights.sum())

    def check_right(self, value, error, level):
        off = abs(value - truth_of(**self.model))
        check(level != "sound" or off <= 6 * error, f"called sound, and {off / error:.1f} standard errors off")

    def signals(self):
        """Kills and interrupts at random times; then the same command to its end."""
        alone = self.whole(self.folder / "alone")
        for _ in range(self.random.randint(1, 3)):
            process = self.start(self.folder / "out")
            time.sleep(self.random.uniform(0.5, 8.0))
            number = self.random.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
            process.send_signal(number)
            code, text = self.end(process)
            wanted = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}[number]
            check(code in (wanted, 0, 3, 4, -number), f"exit code {code} after {number.name}: {text[-300:]}")
        for hidden in (self.folder / "out").glob(".*.part.*"):  # a kill may leave one, as docs/files.md says
            hidden.unlink()
        again = self.whole(self.folder / "out")
        check(again == alone, f"after signals {again}, and without {alone}")

    def disk(self):
        """A disk that is full at some size of file; then room is made."""
        alone = self.whole(self.folder / "alone")
        code, text = self.end(
            self.start(self.folder / "out", limit=self.random.choice([2_000, 50_000, 150_000, 400_000]))
        )
        check(code in (0, 2, 3, 4), f"exit code {code} with a full disk: {text[-300:]}")
        again = self.whole(self.folder / "out")
        check(again == alone, f"after a full disk {again}, and without {alone}")

    def executor(self):
        """A pool that is slow and loses calls gives the digits of none, or says what it lost."""
        found = []
        for fails in (False, True):
            settings = {"every": self.random.choice([7, 50]), "pause": self.random.choice([0.0, 0.002])}
            settings |= {"fails": fails, "model": str(self.file), "budget": self.budget, "seed": 1}
            command = [sys.executable, "-W", "ignore", "-c", CALL.format(**settings)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": self.environment}
            process = subprocess.Popen(command, **pipes)
            out, err = process.communicate(timeout=LIMIT)
            if fails and process.returncode:  # every worker lost: an error in words
                check("worker" in err.splitlines()[-1], f"an executor that fails: {err[-300:]}")
                return
            check(process.returncode == 0, f"an executor: {err[-300:]}")
            found.append(json.loads(out))
        self.check_right(*found[0])
        check(found[0] == found[1], f"with an executor {found[1]}, and without {found[0]}")

    def damage(self):
        """Results and checkpoints that are cut or changed are refused with their name, or are what they were."""
        import numpy as np

        import qpaths as qp

        out = self.folder / "out"
        numbers = self.whole(out)
        data = (out / "result.npz").read_bytes()
        file = out / "result.npz"
        for _ in range(20):
            place = self.random.randrange(len(data))
            changed = data[:place] if self.random.random() < 0.3 else bytearray(data)
            if isinstance(changed, bytearray):
                changed[place] ^= 1 << self.random.randrange(8)
            file.write_bytes(bytes(changed))
            try:
                result = qp.load_result(file)
            except ValueError as error:
                check(str(file) in str(error), f"an error without the name of the file: {error}")
            else:
                same = float(result.log_evidence), float(np.sum(result.log_weights))
                check(same == (numbers[0], numbers[3]), f"a file with a changed byte at {place} loads as {same}")

    def run(self):
        getattr(self, self.kind)()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--first", type=int, help="number of the first episode; after the last of the log by default")
    parser.add_argument("--episodes", type=int, default=10**9)
    parser.add_argument("--log", type=Path, default=LOG)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in arguments.log.read_text().splitlines()] if arguments.log.exists() else []
    done = [line["episode"] for line in lines if line["seed"] == arguments.seed]
    first = arguments.first if arguments.first is not None else max(done, default=-1) + 1
    begun, failures = time.monotonic(), 0
    for number in range(first, first + arguments.episodes):
        if time.monotonic() - begun > 60 * arguments.minutes:
            break
        at, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryDirectory() as folder:
            episode = Episode(arguments.seed, number, folder)
            try:
                episode.run()
                failure = None
            except FailedError as error:
                failure, failures = str(error), failures + 1
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        row = {
            "seed": arguments.seed,
            "episode": number,
            "kind": episode.kind,
            **episode.model,
            "budget": episode.budget,
            "seconds": round(time.monotonic() - at, 1),
            "cpu_seconds": round(now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime, 1),
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "failure": failure,
        }
        with open(arguments.log, "a") as log:
            log.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
