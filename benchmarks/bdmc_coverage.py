"""How often the mean of BDMC's upper bound lies within two of its reported standard errors.

    python benchmarks/bdmc_coverage.py [number of runs]

All reverse chains of a run start at one exact draw of the target. The mean is that over all runs. `without` leaves out
the variance of the draw, as the standard error once did. A normal error with the right size gives 95 %.
"""

import sys

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import qpaths as qp  # noqa: E402
from qpaths import testing  # noqa: E402

NUM, DIMENSION = 50, 10
CASES = {
    "step 0.02, 20 betas": (20, 0.02),
    "step 0.005, 20 betas": (20, 0.005),
    "step 0.1, 4 betas": (4, 0.1),
    "well mixed: step 0.25, 20 betas": (20, 0.25),
}


def problems():
    """Targets that are narrower than the base, as wide, and wider."""
    base = qp.MultivariateNormal(jnp.zeros(DIMENSION), jnp.eye(DIMENSION))
    for name, mean, sd in (("shifted by 1", 1.0, 1.0), ("sd 0.7, shifted by 0.5", 0.5, 0.7), ("sd 1.3", 0.3, 1.3)):
        target = qp.MultivariateNormal(mean * jnp.ones(DIMENSION), sd**2 * jnp.eye(DIMENSION))
        yield name, base, target, target.sample
    problem = testing.gaussian(DIMENSION)
    yield "sd 0.4 to 0.8, correlated", problem.base, problem.target, problem.target.log_prob.args[0].sample


def run(path, sample, num_betas, step_size, num_runs):
    algorithm = qp.BDMC(NUM, qp.LinearSchedule(num_betas), qp.HMC(1, 5, step_size=step_size, preconditioner="none"))

    @jax.jit
    def one(key):
        draw, chains = jax.random.split(key)
        bounds = algorithm.run(path, sample(draw), key=chains)
        return bounds.upper, bounds.upper_se, bounds.reverse.log_weights.std(ddof=1) / NUM**0.5

    return map(np.asarray, jax.lax.map(one, jax.random.split(jax.random.key(1), num_runs)))


def main(num_runs):
    print(f"{num_runs} runs of {NUM} chains in {DIMENSION} dimensions, HMC with 5 leapfrog steps.\n")
    print("| target | case | spread of upper | reported | coverage | without |\n|---|---|---|---|---|---|")
    for name, base, target, sample in problems():
        for case, (num_betas, step_size) in CASES.items():
            upper, error, without = run(qp.GeometricPath(base, target), sample, num_betas, step_size, num_runs)
            off = np.abs(upper - upper.mean())
            reported = np.sqrt(np.mean(error**2))
            print(
                f"| {name} | {case} | {upper.std():.3f} | {reported:.3f} | {np.mean(off < 2 * error):.0%} "
                f"| {np.mean(off < 2 * without):.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
