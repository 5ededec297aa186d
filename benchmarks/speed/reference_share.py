"""The share of a run's CPU seconds that references take: to find them, and to use them.

    python -m benchmarks.speed.reference_share [names of targets] [--seeds N] [--out FILE]

Runs `qpaths.evidence` with defaults, each target in a fresh process. `finding` is the time in every function of
`qpaths.references` and every fit that the search for a start calls: ascents, curvature, maps, scans, with the
evaluations of the target that they make. Pilots are not in it. `using` is the time in which a run draws from its
reference, computes its density, and maps noise to points and back. The first run also compiles. Wanted: ascents and
references take less than 20 % up to 1,000 dimensions.
"""

import argparse
import functools
import inspect
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from benchmarks.suites.problems import dimension_of  # noqa: E402
from benchmarks.suites.public.targets import PROBLEMS  # noqa: E402
from benchmarks.suites.runner import append, commit, key_of, read, run, show  # noqa: E402
from qpaths.maps import Chain  # noqa: E402
from qpaths.references.reference import Reference  # noqa: E402
from qpaths.search import start, state  # noqa: E402
from qpaths.search.proposers import from_ascents as ascents  # noqa: E402
from qpaths.search.proposers import from_drivers as drivers  # noqa: E402
from qpaths.search.proposers import from_known as known  # noqa: E402
from qpaths.search.proposers import from_prior as prior  # noqa: E402
from qpaths.search.proposers import from_scans as scans  # noqa: E402
from qpaths.search.proposers import refined  # noqa: E402

NAMES = ("sonar", "brownian", "lgcp30", "credit", "normal500")
WANTED = 0.2
COLUMNS = ("target", "dimension", "run", "CPU seconds", "finding", "using", "share of finding", "share of both")
MAP_METHODS = ("forward", "inverse", "log_volume", "pull_back", "push_forward")


class Clock:
    """CPU seconds of this process in two kinds of functions; a call within another one belongs to the outer one."""

    def __init__(self, now=time.process_time):
        self.now, self.seconds, self.is_within = now, {"finding": 0.0, "using": 0.0}, False

    def timed(self, kind, function):
        @functools.wraps(function)
        def wrapper(*arguments, **named):
            if self.is_within:
                return function(*arguments, **named)
            self.is_within, begun = True, self.now()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds[kind] += self.now() - begun
                self.is_within = False

        return wrapper


def finders(module):
    """Functions that a module of the search has from `qpaths.references`, and from the fits to draws."""
    for name, value in vars(module).items():
        home = getattr(value, "__module__", "")
        if inspect.isfunction(value) and (home.startswith("qpaths.references.") or home in FITS):
            yield name, value


FITS = ("qpaths.search.fits", "qpaths.search.weighted")
MODULES = (start, state, ascents, drivers, known, prior, refined, scans)


def watch(clock):
    """Time the functions from now on, for as long as the process lives."""
    for module in MODULES:
        for name, function in list(finders(module)):
            setattr(module, name, clock.timed("finding", function))
    owners = [(Reference, ("given_inner", "draw_rows")), (Chain, MAP_METHODS)]
    for owner, names in owners:
        for name in names:
            setattr(owner, name, clock.timed("using", getattr(owner, name)))


def measure(name, num_seeds, file):
    """Rows of a target: those that are stored, and runs for the others. A process makes all of them or none."""
    stored = [row for row in read(file) if row["target"] == name] if file else []
    if len(stored) >= num_seeds:
        return stored[:num_seeds]
    problem, made_by, clock, rows = PROBLEMS[name](), commit(), Clock(), []
    watch(clock)
    for seed in range(num_seeds):
        before = dict(clock.seconds)
        row = run(name, problem, seed, None, made_by) | {"dimension": dimension_of(problem), "is_first": seed == 0}
        row |= {kind: clock.seconds[kind] - before[kind] for kind in before}
        if file and key_of(row) not in map(key_of, stored):
            append(file, row)
        rows.append(row)
    return rows


def report(name, rows):
    for label, chosen in (("first", rows[:1]), (f"later, mean of {len(rows) - 1}", rows[1:])):
        if chosen:
            total, finding, using = (
                np.mean([row[part] for row in chosen]) for part in ("cpu_seconds", "finding", "using")
            )
            shares = f"{finding / total:.0%}", f"{(finding + using) / total:.0%}"
            show(name, rows[0]["dimension"], label, f"{total:.1f}", f"{finding:.2f}", f"{using:.2f}", *shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"targets; {', '.join(NAMES)} unless given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a file of rows; targets whose runs are in it are not run again")
    parser.add_argument("--alone", action="store_true", help="one target, in this process, without the head")
    arguments = parser.parse_args()
    names = arguments.names or NAMES
    if arguments.alone:
        report(names[0], measure(names[0], arguments.seeds, arguments.out))
        return
    show(*COLUMNS)
    show(*("---" for _ in COLUMNS))
    for name in names:
        options = ["--seeds", str(arguments.seeds), *(["--out", str(arguments.out)] if arguments.out else [])]
        subprocess.run(
            [sys.executable, "-m", "benchmarks.speed.reference_share", name, "--alone", *options], check=True
        )


if __name__ == "__main__":
    main()
