"""Models of posteriordb with `qpaths.evidence` and its defaults, compared with their log evidence from elsewhere.

    python -m benchmarks.suites.posteriordb [--models NAMES] [--keys N] [--limit SECONDS] [--folder FOLDER] [--out FILE]

The models are not in this repository. The folder needs `posteriordb.py`, whose `MODELS` maps names to functions that
return a NumPyro model and its arguments, and `posteriordb.json` with the log evidence of each and its standard error.
Without the argument it is `../shared/suite`, beside the repository.

Each run appends a row to the file (JSON lines); runs that are there already are skipped. What is wanted of a model:
all keys within two standard errors, with a standard error of at most 0.02 and the verdict "sound". A run that takes
more CPU time than the limit is a row without an answer.
"""

import argparse
import dataclasses
import importlib.util
import json
import signal
import sys
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from benchmarks.suites.runner import Summary, append, commit, key_of, read, run, show  # noqa: E402

FOLDER = Path(__file__).parents[3] / "shared" / "suite"
WANTED_SE = 0.02
COLUMNS = ("model", "truth", "errors", "standard errors", "verdicts", "annealed from", "CPU seconds", "wanted")


class TookTooLong(BaseException):
    """Not an `Exception`, which a search takes for a point at which the density fails."""


@dataclasses.dataclass
class Problem:
    arguments: dict
    truth: float
    truth_se: float


def problems(folder):
    """Return functions that make the problems, by name; ends with a message where there are none."""
    program, truths = folder / "posteriordb.py", folder / "posteriordb.json"
    missing = [str(file) for file in (program, truths) if not file.exists()]
    if missing:
        sys.exit(f"{' and '.join(missing)} not found: give the folder of the models with --folder.")
    spec = importlib.util.spec_from_file_location("posteriordb_models", program)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    known = json.loads(truths.read_text(encoding="utf-8"))

    def make(name):
        from qpaths.adapters import from_numpyro

        port, truth = module.MODELS[name](), known.get(name, {"logz": np.nan, "se": np.nan})
        return Problem({"base": from_numpyro(port.model, *port.args)}, truth["logz"], truth["se"])

    return {name: lambda name=name: make(name) for name in module.MODELS}


def limited(name, problem, key, seconds, made_by):
    """Return the row of a run, which ends when it has taken so many CPU seconds."""

    def stop(*_):
        raise TookTooLong

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return run(name, problem, key, None, made_by)
    except TookTooLong:
        return {
            "target": name, "seed": key, "budget": None, "truth": problem.truth, "truth_se": problem.truth_se,
            "raised": f"no answer in {seconds} CPU seconds", "cpu_seconds": seconds, "commit": made_by,
        }  # fmt: skip
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def is_wanted(row):
    """Return whether a run is what a user wants: right, precise, and said so."""
    if "raised" in row:
        return False
    off = abs(row["log_evidence"] - row["truth"]) > 2 * np.hypot(row["se"], row["truth_se"])
    return row["verdict"] == "sound" and row["se"] <= WANTED_SE and not off


def table(names, rows):
    """Print a line for each model, and what they add up to."""
    show(*COLUMNS)
    show(*("---" for _ in COLUMNS))
    wanted = 0
    for name in names:
        own = [row for row in rows if row["target"] == name]
        if not own:
            continue
        answers = Summary(own).answers
        wanted += all(map(is_wanted, own))
        show(
            name,
            f"{own[0]['truth']:.3f}",
            *(", ".join(part) for part in zip(*(_figures(row) for row in own), strict=True)),
            Summary(own).count("verdict"),
            Summary(own).count("source") if answers else "",
            f"{np.median([row['cpu_seconds'] for row in own]):.1f}",
            f"{sum(map(is_wanted, own))} of {len(own)}",
        )
    known = [row for row in rows if np.isfinite(row["truth"])]
    summary = Summary(known)
    print(
        f"\nModels with all keys as wanted: {wanted}. Within 2 standard errors: {summary.num_covered} of {len(known)}."
    )
    print(f"Beyond 4 and sound: {len(summary.confidently_wrong)}. Commits: {sorted({row['commit'] for row in rows})}.")


def _figures(row):
    if "raised" in row:
        return "none", "none"
    return f"{row['log_evidence'] - row['truth']:+.4f}", f"{row['se']:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="all of them unless given")
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first key")
    parser.add_argument("--limit", type=float, default=150.0, help="CPU seconds for one run")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, default=Path("posteriordb.jsonl"))
    parser.add_argument("--table", action="store_true", help="run nothing, show the table of the rows that are there")
    arguments = parser.parse_args()
    makers = problems(arguments.folder)
    names = arguments.models or list(makers)
    unknown = [name for name in names if name not in makers]
    if unknown:
        parser.error(f"{', '.join(unknown)} must be among {', '.join(makers)}")
    if not arguments.table:
        made_by, done = commit(), {key_of(row) for row in read(arguments.out)}
        for name in names:
            keys = range(arguments.first, arguments.first + arguments.keys)
            keys = [key for key in keys if (name, key, None) not in done]
            problem = makers[name]() if keys else None
            for key in keys:
                row = limited(name, problem, key, arguments.limit, made_by)
                append(arguments.out, row)
                error, se = _figures(row)
                print(f"{name}, key {key}: {error} +- {se}, {row.get('verdict', row.get('raised'))}, ", end="")
                print(f"{row['cpu_seconds']:.0f} CPU s, {row.get('findings', '')}", flush=True)
            jax.clear_caches()
    table(names, [row for row in read(arguments.out) if row["target"] in names])


if __name__ == "__main__":
    main()
