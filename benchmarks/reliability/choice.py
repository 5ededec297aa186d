"""What choosing automatically gives: the front door on two data sets and on hard targets, and the rows of Table 1.

    python -m benchmarks.reliability.choice [evidence] [hard] [linear --table DIR] [--seeds N]

`evidence`: defaults, pilots included. Runs stop at a standard error of 0.005, so that "se^2 x evaluations", the price
of a standard error of 1, says more than the errors. `hard`: targets for which no reference can be fitted. `linear`: the
linear schedule of 10 distributions with 10,000 particles, q by the best bound of pilots (4,000 particles) beside the
best of the paper's grid, whose runs are taken from a folder of `qpaths run table1`. What the tuned path gives in the
rows of Table 1 is a column of that experiment.
"""

import argparse
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")

import qpaths as qp  # noqa: E402
from qpaths_paper.harness.store import Store  # noqa: E402
from qpaths_paper.parts.datasets import load, logistic_regression  # noqa: E402
from qpaths_paper.parts.published import TRUTHS  # noqa: E402


def show(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    print()
    show(*cells)
    show(*("---" for _ in cells))


def summarize(name, problem, truth, num_seeds, budget):
    errors, bars, costs, seconds = [], [], [], []
    for seed in range(num_seeds):
        start = time.process_time()
        result = qp.evidence(*problem, key=jax.random.key(seed), **({} if budget is None else {"budget": budget}))
        seconds.append(time.process_time() - start)
        errors.append(float(result.log_evidence) - truth)
        bars.append(float(result.log_evidence_se))
        costs.append(result.num_evaluations.total)
    errors, bars, costs = np.array(errors), np.array(bars), np.array(costs)
    inside = np.mean(np.abs(errors) <= 2 * bars)
    show(
        name,
        num_seeds,
        f"{np.median(bars):.4f}",
        f"{bars.max():.4f}",
        f"{np.median(np.abs(errors)):.4f}",
        f"{errors.mean():+.4f} +- {errors.std(ddof=1) / num_seeds**0.5:.4f}",
        f"{errors.std(ddof=1):.4f}",
        f"{inside:.0%}",
        f"{np.median(costs):,.0f}",
        f"{np.max(costs):,}",
        f"{np.median(costs * bars**2):.3g}",
        f"{np.median(seconds):.1f}",
    )


COLUMNS = (
    "problem",
    "seeds",
    "median se",
    "largest se",
    "median abs error",
    "mean error",
    "spread",
    "within 2 se",
    "median evaluations",
    "most evaluations",
    "se^2 x evaluations",
    "CPU seconds",
)


def run_evidence(num_seeds):
    header(*COLUMNS)
    for name in ("pima", "sonar"):
        summarize(name, logistic_regression(load(name)), TRUTHS[name].log_evidence, num_seeds, None)


def run_hard(num_seeds):
    header(*COLUMNS)
    wide = qp.MultivariateNormal(jnp.zeros(4), 25 * jnp.eye(4))
    apart = jnp.array([6.0, 0.0, 0.0, 0.0])

    def two_modes(x):
        near, far = jnp.sum(norm.logpdf(x - apart, scale=0.5)), jnp.sum(norm.logpdf(x + apart, scale=0.5))
        return jnp.logaddexp(jnp.log(0.3) + near, jnp.log(0.7) + far)

    def funnel(x):
        return norm.logpdf(x[0], scale=2.0) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(x[0] / 2)))

    def half_space(x):
        return jnp.where(x[0] > 1.0, jnp.sum(norm.logpdf(x - 1.0, scale=0.3)), -jnp.inf)

    around = qp.MultivariateNormal(jnp.zeros(6), jnp.diag(jnp.array([9.0] + [100.0] * 5)))
    summarize("two modes", (wide, qp.Density(two_modes)), 0.0, num_seeds, 300_000)
    summarize("funnel", (around, qp.Density(funnel)), 0.0, num_seeds, 300_000)
    summarize(
        "half-space",
        (qp.MultivariateNormal(jnp.zeros(3), 9 * jnp.eye(3)), qp.Density(half_space)),
        float(np.log(0.5)),
        num_seeds,
        300_000,
    )
    far = qp.Density(lambda x: -0.5 * jnp.sum((x - 40 / 2**0.5) ** 2))
    normal = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    for budget in (300_000, 2_000_000):
        summarize(f"40 sd apart, {budget:,}", (normal, far), float(np.log(2 * np.pi)), num_seeds, budget)


def run_linear(table):
    """The grid's errors are those of the runs that `qpaths run table1` stored."""
    header("data", "moves", "geometric", "grid's best", "1 - q", "best bound", "1 - q", "times grid", "seconds")
    for name in ("pima", "sonar"):
        path = qp.GeometricPath(*logistic_regression(load(name)))
        for moves in (1, 3, 5):
            errors = _errors(table, name, moves)
            start = time.perf_counter()
            chosen = qp.choose_q(
                path,
                key=jax.random.key(5),
                schedule=qp.LinearSchedule(10),
                kernel=qp.RandomWalk(moves),
                num_particles=4000,
            )
            seconds = time.perf_counter() - start
            best, found = min(errors, key=errors.get), min(errors, key=lambda d: abs(d - float(chosen.delta)))
            show(
                name,
                moves,
                f"{errors[0.0]:.1f}",
                f"{errors[best]:.2f}",
                f"{best:.2g}",
                f"{errors[found]:.2f}",
                f"{found:.2g}",
                f"{errors[found] / errors[best]:.2f}",
                f"{seconds:.0f}",
            )


def _errors(table, name, moves):
    """Median error of each delta over the seeds."""
    values = {}
    for row in table:
        line = row["dataset"], row["schedule"], row["moves"]
        if line == (name, "linear", moves) and row["column"] in ("geometric", "grid"):
            values.setdefault(row["delta"], []).append(abs(row["log_evidence"] - TRUTHS[name].log_evidence))
    return {delta: float(np.median(errors)) for delta, errors in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["evidence", "hard"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--table", help="the folder of `qpaths run table1`, for `linear`")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part == "linear":
            with Store.open(Path(arguments.table)) as store:
                run_linear(store.rows())
        else:
            {"evidence": run_evidence, "hard": run_hard}[part](arguments.seeds)


if __name__ == "__main__":
    main()
