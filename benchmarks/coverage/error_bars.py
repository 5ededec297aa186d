"""How often the truth lies within two reported standard errors, over independent runs.

    python -m benchmarks.coverage.error_bars [number of runs] [names of problems or algorithms] [float32] [traced]

A normal error with the right size gives 95 %. `size` is the reported standard error (root mean square) over the spread
of the estimates, `bias` the mean error over the spread, `corrected` the root mean square of the error over that of
the error less the estimated lag of the particles (above 1 where the lag explains the error). Runs are made one after
the other on the host; with `traced` they are compiled as a batch, which leaves out adaptive schedules.
"""

import sys
import time

import jax
import numpy as np

TRACED = "traced" in sys.argv
jax.config.update("jax_enable_x64", "float32" not in sys.argv)

import qpaths as qp  # noqa: E402
from qpaths import testing  # noqa: E402
from qpaths.testing.algorithms import replicate  # noqa: E402
from qpaths.testing.gridworld import GridMetropolis  # noqa: E402
from qpaths_paper.parts.datasets import load, logistic_regression  # noqa: E402

NUM = 1000
QS = (1.0, 0.999)


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
            "parallel tempering": qp.ParallelTempering(8, 6, GridMetropolis(2)),
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
            "SMC, waste-free, 1 move": qp.SMC(NUM, qp.LinearSchedule(15), qp.RandomWalk(1), chain_length=20),
            "parallel tempering": qp.ParallelTempering(8, 6, qp.RandomWalk(3)),
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
            "SMC, adaptive, random walk 1": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.RandomWalk(1)),
            "SMC, adaptive, random walk 5": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.RandomWalk(5)),
            "SMC, adaptive, random walk 20": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.RandomWalk(20)),
            "SMC, fixed, waste-free": qp.SMC(NUM, qp.FixedSchedule(betas), qp.HMC(1, 5), chain_length=10),
            "SMC, fixed, HMC 2 x 5": qp.SMC(NUM, qp.FixedSchedule(betas), qp.HMC(2, 5)),
            "SMC, adaptive, HMC 2 x 5": qp.SMC(NUM, qp.AdaptiveSchedule(), qp.HMC(2, 5)),
            "parallel tempering": qp.ParallelTempering(15, 6, qp.HMC(1, 5)),
        },
    )


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    wanted = [name for name in sys.argv[2:] if name not in ("float32", "traced")]
    print("| problem | algorithm | q | coverage of 2 se | size | bias | spread | corrected | CPU seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, base, target, truth, algorithms in problems():
        for label, algorithm in algorithms.items():
            if wanted and name not in wanted and label not in wanted:
                continue
            if TRACED and isinstance(getattr(algorithm, "schedule", None), qp.AdaptiveSchedule):
                continue
            for q in QS:
                start = time.process_time()
                path = qp.QPath(base, target, q=q)
                rows = replicate(algorithm, path, key=jax.random.key(0), num=num, traced=TRACED)
                error, se = rows["log_evidence"] - truth, rows["log_evidence_se"]
                spread = error.std(ddof=1)
                corrected = np.sqrt(np.mean(error**2) / np.mean((error - rows["lag"]) ** 2))
                print(
                    f"| {name} | {label} | {q} | {np.mean(np.abs(error) <= 2 * se):.1%} "
                    f"| {np.sqrt(np.mean(se**2)) / spread:.2f} | {error.mean() / spread:.2f} | {spread:.4f} "
                    f"| {corrected:.2f} | {time.process_time() - start:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
