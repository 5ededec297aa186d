"""The order of the paper's Table 1 on Pima: median |error| over seeds, 10,000 particles, the paper's protocol.

python benchmarks/pima.py [number of seeds]
"""

import sys

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths.experiments.datasets import load, logistic_regression  # noqa: E402

TRUTH = -391.495


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    base, target = logistic_regression(load("pima"))
    print("| schedule | moves | q | paper | here, median | within 2 se |\n|---|---|---|---|---|---|")
    rows = [
        ("linear", 1, 1.0, 79.0),
        ("linear", 1, 0.9979308619188852, 10.8),
        ("linear", 5, 1.0, 45.6),
        ("linear", 5, 0.9979308619188852, 6.6),
        ("adaptive", 1, 1.0, 2.51),
        ("adaptive", 5, 1.0, 0.48),
        ("adaptive", 5, 0.9998871162108315, 0.52),
    ]
    for schedule, moves, q, paper in rows:
        betas = qp.LinearSchedule(10) if schedule == "linear" else qp.AdaptiveSchedule(0.5)
        algorithm = qp.SMC(10_000, betas, qp.RandomWalk(moves))
        path = qp.QPath(base, target, q=q)
        results = [algorithm.run(path, key=jax.random.key(seed)) for seed in range(num)]
        errors = np.array([abs(float(r.log_evidence) - TRUTH) for r in results])
        within = np.mean(errors <= 2 * np.array([float(r.log_evidence_se) for r in results]))
        print(f"| {schedule} | {moves} | {q:.6g} | {paper} | {np.median(errors):.2f} | {within:.0%} |", flush=True)


if __name__ == "__main__":
    main()
