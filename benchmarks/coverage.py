"""How often the truth lies within two reported standard errors, over independent runs.

    python benchmarks/coverage.py [number of runs] [names of problems]

A normal error with the right size gives 95 %. `size` is the reported standard error (root mean square) over the spread
of the estimates, `bias` the mean error over the spread.
"""

import sys
import time

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths import testing  # noqa: E402
from qpaths.experiments.datasets import load, logistic_regression  # noqa: E402
from qpaths.testing.algorithms import replicate  # noqa: E402
from qpaths.testing.gridworld import GridMetropolis  # noqa: E402

NUM = 1000
QS = (0.999,)


def problems():
    world = testing.GridWorld()
    moves = GridMetropolis(20)
    yield (
        "gridworld",
        world.base,
        world.target,
        float(world.log_evidence),
        {
            "AIS, 40 distributions": qp.AIS(NUM, qp.LinearSchedule(40), moves),
            "SMC, 15 distributions": qp.SMC(NUM, qp.LinearSchedule(15), moves),
            "SMC, adaptive": qp.SMC(NUM, qp.AdaptiveSchedule(), moves),
            "SMC, adaptive, multinomial": qp.SMC(NUM, qp.AdaptiveSchedule(), moves, resampling="multinomial"),
            "SMC, waste-free": qp.SMC(NUM, qp.LinearSchedule(15), GridMetropolis(1), chain_length=20),
        },
    )
    problem = testing.gaussian(10)
    yield (
        "gaussian",
        problem.base,
        problem.target,
        float(problem.log_evidence),
        {
            "AIS, 40 distributions": qp.AIS(NUM, qp.LinearSchedule(40), qp.HMC(1, 5)),
            "SMC, 15 distributions": qp.SMC(NUM, qp.LinearSchedule(15), qp.RandomWalk(5)),
            "SMC, threshold 0.5": qp.SMC(NUM, qp.LinearSchedule(15), qp.RandomWalk(5), threshold=0.5),
            "SMC, adaptive": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.HMC(1, 5)),
            "SMC, waste-free": qp.SMC(NUM, qp.LinearSchedule(15), qp.RandomWalk(5), chain_length=20),
        },
    )
    base, target = logistic_regression(load("pima"))
    betas = (
        qp.SMC(2 * NUM, qp.AdaptiveSchedule(), qp.HMC(2, 5))
        .run(qp.GeometricPath(base, target), key=jax.random.key(1))
        .betas
    )
    yield (
        "pima",
        base,
        target,
        -391.495,
        {
            "SMC, adaptive, HMC 2 x 5": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.HMC(2, 5)),
            "SMC, fixed, HMC 2 x 5": qp.SMC(NUM, qp.FixedSchedule(betas), qp.HMC(2, 5)),
            "SMC, fixed, waste-free": qp.SMC(NUM, qp.FixedSchedule(betas), qp.HMC(1, 5), chain_length=10),
            "SMC, adaptive, random walk 20": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.RandomWalk(20)),
        },
    )


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    wanted = sys.argv[2:]
    print("| problem | algorithm | q | coverage of 2 se | size | bias | spread | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name, base, target, truth, algorithms in problems():
        if wanted and name not in wanted:
            continue
        for label, algorithm in algorithms.items():
            for q in QS:
                start = time.perf_counter()
                rows = replicate(algorithm, qp.QPath(base, target, q=q), key=jax.random.key(0), num=num)
                error, se = rows["log_evidence"] - truth, rows["log_evidence_se"]
                spread = error.std(ddof=1)
                print(
                    f"| {name} | {label} | {q} | {np.mean(np.abs(error) <= 2 * se):.1%} "
                    f"| {np.sqrt(np.mean(se**2)) / spread:.2f} | {error.mean() / spread:.2f} | {spread:.4f} "
                    f"| {time.perf_counter() - start:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
