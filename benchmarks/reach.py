"""The front door on targets that are far away, badly scaled, curved or in many dimensions.

    python benchmarks/reach.py [names of targets] [--seeds N] [--budget EVALUATIONS] [--verdicts]

Runs `qpaths.evidence` on each target of `benchmarks/targets.py` with the budget at which its error is wanted, ascents
and pilots included, a gradient counted as two. `wanted` is the median absolute error.
"""

import argparse
import time
import warnings

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")

from targets import PROBLEMS  # noqa: E402

import qpaths as qp  # noqa: E402

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


def show(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def run(name, num_seeds, budget, verdicts):
    problem = PROBLEMS[name]()
    budget = budget or problem.budget
    rows, chosen, levels = [], {}, {}
    for seed in range(num_seeds):
        start = time.process_time()
        result = qp.evidence(problem.base, problem.target, key=jax.random.key(seed), budget=budget)
        seconds = time.process_time() - start
        error, bar = float(result.log_evidence) - problem.truth, float(result.log_evidence_se)
        pilots = result.verdict.stopped.pilots
        rows.append((error, bar, np.hypot(bar, problem.truth_se), result.num_evaluations.total, pilots, seconds))
        source = str(getattr(result.verdict.chosen[0], "source", "the base"))
        chosen[source] = chosen.get(source, 0) + 1
        levels[result.verdict.level] = levels.get(result.verdict.level, 0) + 1
        if verdicts:
            print(f"{name}, seed {seed}: {error:+.4f} +- {bar:.4f}\n{result.verdict}\n", flush=True)
    errors, bars, whole, costs, pilots, seconds = np.array(rows).T
    show(
        name,
        num_seeds,
        problem.wanted,
        f"{np.median(np.abs(errors)):.4f}",
        f"{np.abs(errors).max():.4f}",
        f"{np.median(bars):.4f}",
        f"{np.mean(np.abs(errors) <= 2 * whole):.0%}",
        f"{np.max(np.abs(errors) / whole):.1f}",
        f"{np.median(costs):,.0f}",
        f"{np.median(pilots):,.0f}",
        f"{np.median(seconds):.1f}",
        ", ".join(f"{source} ({num})" for source, num in chosen.items()),
        ", ".join(f"{level} ({num})" for level, num in levels.items()),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="targets; all of them unless given")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, help="another one than that at which the error is wanted")
    parser.add_argument("--verdicts", action="store_true", help="also print what each run says")
    arguments = parser.parse_args()
    show(*COLUMNS)
    show(*("---" for _ in COLUMNS))
    for name in arguments.names or PROBLEMS:
        run(name, arguments.seeds, arguments.budget, arguments.verdicts)


if __name__ == "__main__":
    main()
