"""What choosing automatically gives: the front door on two data sets and on hard targets, and the rows of Table 1.

    python benchmarks/choice.py [evidence] [hard] [linear] [tuned] [--seeds N]

`evidence`: defaults, pilots included; a long run gives -391.495 for Pima and -124.13 +- 0.02 for Sonar. `hard`: targets
for which no reference can be fitted. `linear`: the linear schedule of 10 distributions with 10,000 particles, q by the
best bound of pilots beside the best of the paper's grid. `tuned`: reference and schedule from `tune`, random-walk moves
fitted along that path and frozen, as many evaluations of the likelihood as the row of Table 1, pilots not counted.
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")

import qpaths as qp  # noqa: E402
from qpaths.experiments.datasets import load, logistic_regression  # noqa: E402
from qpaths.experiments.paper import TRUTHS, figures  # noqa: E402
from qpaths.tuning.choose import GRID, _judge  # noqa: E402
from qpaths.tuning.pilot import run_pilot  # noqa: E402

NUM, MOVES = 10_000, (1, 3, 5)


def show(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    print()
    show(*cells)
    show(*("---" for _ in cells))


def summarise(name, problem, truth, num_seeds, budget):
    errors, bars, costs, seconds = [], [], [], []
    for seed in range(num_seeds):
        start = time.perf_counter()
        result = qp.evidence(*problem, key=jax.random.key(seed), **({} if budget is None else {"budget": budget}))
        seconds.append(time.perf_counter() - start)
        errors.append(float(result.log_evidence) - truth)
        bars.append(float(result.log_evidence_se))
        costs.append(result.num_evaluations.cost)
    errors, bars = np.array(errors), np.array(bars)
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
        f"{np.max(costs):,}",
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
    "most evaluations",
    "seconds",
)


def run_evidence(num_seeds):
    header(*COLUMNS)
    for name in ("pima", "sonar"):
        summarise(name, logistic_regression(load(name)), TRUTHS[name].log_evidence, num_seeds, None)


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
    summarise("two modes", (wide, qp.Density(two_modes)), 0.0, num_seeds, 300_000)
    summarise("funnel", (around, qp.Density(funnel)), 0.0, num_seeds, 300_000)
    summarise(
        "half-space",
        (qp.MultivariateNormal(jnp.zeros(3), 9 * jnp.eye(3)), qp.Density(half_space)),
        float(np.log(0.5)),
        num_seeds,
        300_000,
    )
    far = qp.Density(lambda x: -0.5 * jnp.sum((x - 40 / 2**0.5) ** 2))
    normal = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    for budget in (300_000, 2_000_000):
        summarise(f"40 sd apart, {budget:,}", (normal, far), float(np.log(2 * np.pi)), num_seeds, budget)


def run_linear(num_seeds):
    header(
        "data",
        "moves",
        "geometric",
        "grid's best",
        "delta",
        "best bound",
        "delta",
        "times grid",
        "seconds of the choice",
    )
    schedule = qp.LinearSchedule(10)
    for name in ("pima", "sonar"):
        path = qp.GeometricPath(*logistic_regression(load(name)))
        for moves in MOVES:
            deltas = np.concatenate([[0.0], GRID])
            errors = _errors(path, qp.RandomWalk(moves), deltas, name, num_seeds)
            start = time.perf_counter()
            chosen = qp.choose_q(
                path, key=jax.random.key(5), schedule=schedule, kernel=qp.RandomWalk(moves), num_particles=4000
            )
            seconds = time.perf_counter() - start
            best, index = int(np.argmin(errors)), int(np.argmin(np.abs(deltas - float(chosen.delta))))
            show(
                name,
                moves,
                f"{errors[0]:.1f}",
                f"{errors[best]:.2f}",
                f"{deltas[best]:.2g}",
                f"{errors[index]:.2f}",
                f"{deltas[index]:.2g}",
                f"{errors[index] / errors[best]:.2f}",
                f"{seconds:.0f}",
            )


def _errors(path, kernel, deltas, name, num_seeds):
    """Median error of each delta over the seeds."""
    repeated = np.repeat(deltas, num_seeds)
    betas = np.tile(np.linspace(0.0, 1.0, 10), (repeated.size, 1))
    values = _judge(path, kernel, NUM, repeated, betas, jax.random.key(0)).reshape(-1, num_seeds)
    return np.median(np.abs(values - TRUTHS[name].log_evidence), axis=1)


def run_tuned(num_seeds):
    header(
        "data",
        "schedule",
        "moves",
        "paper's best",
        "tuned, median abs error",
        "particles",
        "distributions",
        "reported se",
    )
    rows = figures("table1")
    steps = {("pima", "adaptive"): 14, ("sonar", "adaptive"): 24}
    for name in ("pima", "sonar"):
        tuned = qp.tune(qp.GeometricPath(*logistic_regression(load(name))), key=jax.random.key(0))
        for kind in ("linear", "adaptive"):
            for moves in MOVES:
                paper = min(
                    float(row["median_abs_error"])
                    for row in rows
                    if (row["dataset"], row["schedule"], row["move_steps"]) == (name, kind, str(moves))
                )
                evaluations = NUM * (1 + steps.get((name, kind), 9) * moves)
                kernel = run_pilot(tuned.path, tuned.schedule, qp.RandomWalk(moves), 2000, key=jax.random.key(1)).kernel
                errors, bars, num = _tuned_errors(tuned, kernel, evaluations, TRUTHS[name].log_evidence, num_seeds)
                show(
                    name,
                    kind,
                    moves,
                    paper,
                    f"{np.median(np.abs(errors)):.4f}",
                    num,
                    tuned.schedule.betas.size,
                    f"{np.median(bars):.4f}",
                )


def _tuned_errors(tuned, kernel, evaluations, truth, num_seeds):
    num = evaluations // (1 + (tuned.schedule.betas.size - 1) * kernel.num_steps)
    algorithm = qp.SMC(num, tuned.schedule, kernel)
    run = jax.jit(lambda path, key: algorithm.run(path, key=key))
    results = [run(tuned.path, jax.random.key(100 + seed)) for seed in range(num_seeds)]
    errors = np.array([float(result.log_evidence) for result in results]) - truth
    return errors, np.array([float(result.log_evidence_se) for result in results]), num


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["evidence", "hard", "linear", "tuned"])
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    for part in arguments.parts:
        globals()[f"run_{part}"](arguments.seeds)


if __name__ == "__main__":
    main()
