"""The demonstration: the evidence of one model by a geometric, the paper's and a tuned path, at equal cost.

The model is the logistic regression of the paper on the Pima data. The first two paths run SMC with the paper's linear
schedule of ten distributions and five random-walk moves. The third is what `qpaths.evidence` does by itself within the
same number of likelihood evaluations, pilots included.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from qpaths.algorithms import SMC, drive
from qpaths.front_door import evidence
from qpaths.kernels import RandomWalk
from qpaths.paths import GeometricPath, QPath
from qpaths.results import Result
from qpaths.schedules import FixedSchedule

from .parts.datasets import load, logistic_regression
from .parts.published import TRUTHS

_PAPER_Q = 0.9979308619188852
"""Best of the paper's grid for Pima with a linear schedule (Table 1)."""


class Entry(NamedTuple):
    """A row of the table: a path, its result, and the seconds it took."""

    label: str
    result: Result
    seconds: float


def run_demo(folder: Path, num_particles: int, progress: bool) -> None:
    """Run the three, print a table, and draw a picture.

    Args:
        folder: Where the picture goes; made if it is missing.
        num_particles: Particles of the first two runs. Their cost is the budget of the third.
        progress: Show the progress of each run on standard error.
    """
    truth = TRUTHS["pima"].log_evidence
    base, target = logistic_regression(load("pima"))
    algorithm = SMC(num_particles, FixedSchedule(np.linspace(0.0, 1.0, 10)), RandomWalk(5))
    budget = algorithm.count(9).total
    key = jax.random.key(0)
    console = Console()
    console.print(
        f"Log evidence of logistic regression on the Pima data (768 rows, 9 weights), {budget:,} evaluations of the "
        f"likelihood each. A long run gives {truth}."
    )
    entries = []
    for label, path in (
        ("geometric", GeometricPath(base, target)),
        (f"q = {_PAPER_Q:.4f} (paper)", QPath(base, target, delta=1 - _PAPER_Q)),
    ):
        start = time.perf_counter()
        result = drive(algorithm, path, key=key, progress=progress)
        entries.append(Entry(label, result, time.perf_counter() - start))
    start = time.perf_counter()
    tuned = evidence(base, target, key=key, budget=budget, progress=progress)
    entries.append(Entry("tuned", tuned, time.perf_counter() - start))
    console.print(_table(entries, truth))
    console.print(str(tuned.verdict), highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "demo.png"
    _draw(entries, truth).savefig(picture, dpi=160)
    console.print(f"Picture: {picture.resolve()}", soft_wrap=True)


def _table(entries: list[Entry], truth: float) -> Table:
    """A row for each path: the estimate with its standard error, the true error, and the cost."""
    table = Table("path", "log evidence", "+-", "error", "evaluations", "seconds")
    for column in table.columns[1:]:
        column.justify = "right"
    for label, result, seconds in entries:
        value, error = float(result.log_evidence), float(result.log_evidence_se)
        cost = f"{result.num_evaluations.total:,}"
        table.add_row(label, f"{value:.3f}", f"{error:.3g}", f"{value - truth:+.3g}", cost, f"{seconds:.1f}")
    return table


def _draw(entries: list[Entry], truth: float) -> Any:
    """Two panels.

    The left one has the true error of each path, with a mark at two reported standard errors. The right one has the
    effective share of the particles after each step.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", width_ratios=[1, 1.2])
    colors = ["tab:gray", "tab:orange", "tab:blue"]
    for i, (label, result, _) in enumerate(entries):
        left.barh(i, abs(float(result.log_evidence) - truth), color=colors[i], height=0.5)
        left.plot(2 * float(result.log_evidence_se), i, "k|", markersize=22)
        ess = np.asarray(result.stats["ess"]) / result.log_weights.shape[0]
        betas = np.asarray(result.betas)
        right.plot(betas, [1.0, *ess], "o-", color=colors[i], label=label, markersize=5 + 2 * (i == 2))
    left.set_yticks(range(len(entries)), [entry.label for entry in entries])
    left.invert_yaxis()
    left.set_xscale("log")
    left.set_xlabel("distance from the truth in nats; the mark is two standard errors")
    right.set_yscale("log")
    right.set_xlabel("beta")
    right.set_ylabel("effective share of the particles")
    right.set_title("what each step leaves", fontsize="medium")
    right.legend(frameon=False)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure
