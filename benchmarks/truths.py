"""Long runs for the truths that experiments compare with: writes `truths.json` beside the other data.

    python benchmarks/truths.py [number of runs] [evaluations of each]

Each run tunes for itself, so that no choice is common to all; their spread gives the standard error.
"""

import json
import pathlib
import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
import qpaths.experiments.paper.parts  # noqa: E402
from qpaths.experiments.paper.parts.datasets import load, logistic_regression  # noqa: E402


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    budget = int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000
    truths = {}
    for name in ("pima", "sonar"):
        problem = logistic_regression(load(name))
        results = [qp.evidence(*problem, key=jax.random.key(1000 + seed), budget=budget) for seed in range(num)]
        values = np.array([float(result.log_evidence) for result in results])
        truths[name] = {
            "log_evidence": round(float(values.mean()), 5),
            "standard_error": round(float(values.std(ddof=1) / num**0.5), 5),
            "num_runs": num,
            "evaluations_per_run": budget,
            "mean_reported_standard_error": round(float(np.mean([r.log_evidence_se for r in results])), 5),
        }
        print(name, truths[name], flush=True)
    folder = pathlib.Path(qpaths.experiments.paper.parts.__path__[0]) / "data"
    (folder / "truths.json").write_text(json.dumps(truths, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
