"""Mean of Z-hat / Z over independent runs, on three problems in ten dimensions with known evidence.

    python benchmarks/evidence.py [number of runs] [names of algorithms]

`z` is the distance of the mean from 1 in its own standard errors; wanted: at most 5 everywhere.
"""

import sys
import time

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths import testing  # noqa: E402
from qpaths.testing.algorithms import replicate  # noqa: E402

ALGORITHMS = {
    "AIS, HMC": qp.AIS(100, qp.LinearSchedule(16), qp.HMC(1, 3)),
    "SMC, random walk": qp.SMC(1000, qp.LinearSchedule(12), qp.RandomWalk(5)),
    "SMC, adaptive, HMC": qp.SMC(1000, qp.AdaptiveSchedule(), qp.HMC(1, 3)),
    "SMC, waste-free": qp.SMC(1000, qp.LinearSchedule(12), qp.RandomWalk(5), chain_length=20),
    "parallel tempering": qp.ParallelTempering(8, 5, qp.RandomWalk(3), num_chains=4),
}


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("| problem | algorithm | q | mean of Z-hat / Z | z | spread of log Z-hat | seconds |")
    print("|---|---|---|---|---|---|---|")
    for make in (testing.gaussian, testing.skewed, testing.truncated):
        problem = make(10)
        for label in sys.argv[2:] or ALGORITHMS:
            algorithm = ALGORITHMS[label]
            for q in (1.0, 0.999, 0.99):
                start = time.perf_counter()
                path = qp.QPath(problem.base, problem.target, q=q)
                estimates = replicate(algorithm, path, key=jax.random.key(0), num=num)["log_evidence"]
                ratio = np.exp(estimates - float(problem.log_evidence))
                error = ratio.std(ddof=1) / num**0.5
                print(
                    f"| {make.__name__} | {label} | {q} | {ratio.mean():.4f} +- {error:.4f} "
                    f"| {(ratio.mean() - 1) / error:.1f} | {estimates.std():.3f} | {time.perf_counter() - start:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
