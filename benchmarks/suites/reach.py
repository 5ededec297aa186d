"""The front door on targets that are far away, badly scaled, curved or in many dimensions.

    python -m benchmarks.suites.reach [names of targets] [--seeds N] [--budget EVALUATIONS] [--verdicts] [--out FILE]

Runs `qpaths.evidence` on each target of `benchmarks/suites/public/targets.py` with the budget at which its error is
wanted, ascents and pilots included, a gradient counted as two. `wanted` is the median absolute error.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from benchmarks.suites.public.targets import PROBLEMS  # noqa: E402
from benchmarks.suites.runner import Summary, append, commit, key_of, read, run, show  # noqa: E402

COLUMNS = (
    "target",
    "seeds",
    "wanted",
    "median abs error",
    "largest abs error",
    "median se",
    "within 2 se",
    "largest abs error / se",
    "evaluations",
    "of them in pilots",
    "CPU seconds",
    "annealed from",
    "verdict",
)


def measure(name, num_seeds, budget, verdicts, file):
    problem, made_by = PROBLEMS[name](), commit()
    budget = budget or problem.budget
    stored = {} if file is None else {key_of(row): row for row in read(file)}
    rows = []
    for seed in range(num_seeds):
        row = stored.get((name, seed, budget))
        if row is None:
            row = run(name, problem, seed, budget, made_by)
            if file is not None:
                append(file, row)
        rows.append(row)
        if verdicts and "raised" not in row:
            error = row["log_evidence"] - row["truth"]
            print(f"{name}, seed {seed}: {error:+.4f} +- {row['se']:.4f}\n{row['text']}\n", flush=True)
        elif "raised" in row:
            print(f"{name}, seed {seed}: {row['raised']}\n", flush=True)
    summary = Summary(rows)
    errors = np.abs(summary.errors) if summary.answers else np.array([np.nan])
    show(
        name,
        num_seeds,
        problem.wanted,
        f"{np.median(errors):.4f}",
        f"{errors.max():.4f}",
        f"{summary.median('se'):.4f}",
        f"{summary.num_covered / num_seeds:.0%}",
        f"{summary.ratios.max(initial=0.0):.1f}",
        f"{summary.median('evaluations'):,.0f}",
        f"{summary.median('pilots'):,.0f}",
        f"{summary.median('cpu_seconds'):.1f}",
        summary.count("source"),
        summary.count("verdict"),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="targets; all of them unless given")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, help="another one than that at which the error is wanted")
    parser.add_argument("--verdicts", action="store_true", help="also print what each run says")
    parser.add_argument("--out", type=Path, help="a file of rows; runs that are in it are not made again")
    arguments = parser.parse_args()
    show(*COLUMNS)
    show(*("---" for _ in COLUMNS))
    for name in arguments.names or PROBLEMS:
        measure(name, arguments.seeds, arguments.budget, arguments.verdicts, arguments.out)


if __name__ == "__main__":
    main()
