"""Mean of Z-hat / Z over independent runs, on three problems in ten dimensions with known evidence.

    python -m benchmarks.coverage.evidence [number of runs] [names of algorithms] [float32] [traced]

`z` is the distance of the mean from 1 in its own standard errors; wanted: at most 5 everywhere. The forward bound of
BDMC is AIS. Thermodynamic integration refuses the truncated target at q = 1, whose integrand is infinite. Runs are made
one after the other on the host; with `traced` they are compiled as a batch, which leaves out adaptive schedules.
"""

import sys
import time

import jax
import numpy as np

NAMES = [name for name in sys.argv[2:] if name not in ("float32", "traced")]
TRACED = "traced" in sys.argv
jax.config.update("jax_enable_x64", "float32" not in sys.argv)

import qpaths as qp  # noqa: E402
from qpaths import testing  # noqa: E402
from qpaths.testing.algorithms import replicate  # noqa: E402

INTEGRATION = "thermodynamic integration"
# Dense near the base, where the derivative of a truncated target falls by orders of magnitude.
POWERS = qp.FixedSchedule(np.linspace(0.0, 1.0, 31) ** 4)
ALGORITHMS = {
    "AIS, HMC": qp.AIS(100, qp.LinearSchedule(16), qp.HMC(1, 3)),
    "SMC, random walk": qp.SMC(1000, qp.LinearSchedule(12), qp.RandomWalk(5)),
    "SMC, adaptive, HMC": qp.SMC(1000, qp.AdaptiveSchedule(), qp.HMC(1, 3)),
    "SMC, waste-free": qp.SMC(500, qp.LinearSchedule(12), qp.RandomWalk(2), chain_length=10),
    "parallel tempering": qp.ParallelTempering(8, 5, qp.RandomWalk(3), num_chains=4),
    INTEGRATION: qp.ThermodynamicIntegration(qp.SMC(200, POWERS, qp.RandomWalk(5)), num_replicates=4),
}


def main() -> None:
    num = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print("| problem | algorithm | q | mean of Z-hat / Z | z | spread of log Z-hat | CPU seconds |")
    print("|---|---|---|---|---|---|---|")
    for label in NAMES or ALGORITHMS:
        if TRACED and isinstance(getattr(ALGORITHMS[label], "schedule", None), qp.AdaptiveSchedule):
            continue
        for make in (testing.gaussian, testing.skewed, testing.truncated):
            problem = make(10)
            for q in (1.0, 0.999, 0.99):
                if label == INTEGRATION and make is testing.truncated and q == 1:
                    continue
                start = time.process_time()
                path = qp.QPath(problem.base, problem.target, q=q)
                rows = replicate(ALGORITHMS[label], path, key=jax.random.key(0), num=num, traced=TRACED)
                assert (rows["status"] == qp.Status.OK).all(), rows["status"]
                estimates = rows["log_evidence"].astype(float)
                ratio = np.exp(estimates - float(problem.log_evidence))
                error = ratio.std(ddof=1) / num**0.5
                print(
                    f"| {make.__name__} | {label} | {q} | {ratio.mean():.4f} +- {error:.4f} "
                    f"| {(ratio.mean() - 1) / error:.1f} | {estimates.std():.3f} | {time.process_time() - start:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
