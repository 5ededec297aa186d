"""Table 1: error of the log evidence on Pima and Sonar, by path, schedule and number of moves."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from ..experiment import Claim, Experiment, Picture, Row, Run, Settings, Sheet, Verdict, group
from ..judging import all_of, judge
from ..settings import check_numbers, check_words
from ..statistics import Estimate, choose_on_other_half, in_words, median, median_deviation, median_difference
from .shared.published import TRUTHS, figures
from .shared.regression import SCHEDULES, run_smc
from .shared.table1_columns import COLUMNS, Column


def _check(settings: Settings) -> None:
    check_words(settings, "datasets", TRUTHS)
    check_words(settings, "schedules", SCHEDULES)
    check_words(settings, "columns", (column.name for column in COLUMNS))
    check_numbers(settings, 1, "moves", "num_q", "tuning_budget")
    check_numbers(settings, 2, "num_particles", "num_distributions")


def _runs(settings: Settings, num_seeds: int) -> list[Run]:
    common = {name: settings[name] for name in ("num_particles", "num_distributions", "tuning_budget")}
    lines = [
        {"dataset": dataset, "schedule": schedule, "moves": moves}
        for dataset in settings["datasets"]
        for schedule in settings["schedules"]
        for moves in settings["moves"]
    ]
    # Runs of one shape come one after the other: each shape is compiled once.
    return [
        Run({**line, "column": column.name, "delta": delta, **common}, seed)
        for line in lines
        for column in COLUMNS
        if column.name in settings["columns"]
        for delta in column.deltas(settings)
        for seed in range(num_seeds)
    ]


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    column = next(column for column in COLUMNS if column.name == settings["column"])
    path, schedule, kernel, num_particles, spent = column.plan(settings, seed)
    values = run_smc(path, schedule, kernel, num_particles, key=jax.random.key(seed))
    return {**values, "spent": spent}


class _Table:
    """Absolute errors, line by line and column by column."""

    def __init__(self, rows: list[Row], of_the_paper: bool = False):
        self.of_the_paper = of_the_paper
        self.rows = group(rows, "dataset", "schedule", "moves", "column", "delta")
        order = {"pima": 0, "sonar": 1, "linear": 0, "adaptive": 1}
        lines = {(row["dataset"], row["schedule"], row["moves"]) for row in rows}
        self.lines = sorted(lines, key=lambda line: (order[line[0]], order[line[1]], line[2]))
        self.columns = [column for column in COLUMNS if any(row["column"] == column.name for row in rows)]
        self.paper = {
            (line["dataset"], line["schedule"], int(line["move_steps"]), line["path"]): line
            for line in figures("table1")
        }

    def errors(self, line: tuple[str, str, int], column: str) -> dict[float, dict[int, float]]:
        """By 1 - q and seed."""
        truth = TRUTHS[line[0]]
        value = truth.of_the_paper if self.of_the_paper else truth.log_evidence
        return {
            key[4]: {row.seed: abs(row["log_evidence"] - value) for row in rows}
            for key, rows in self.rows.items()
            if key[:4] == (*line, column)
        }

    def best(self, line: tuple[str, str, int], column: str) -> tuple[float, list[float]] | None:
        """The errors of the column's best q by median, as in the paper; and 1 - q as it was used."""
        by_delta = self.errors(line, column)
        if not by_delta:
            return None
        delta = min(by_delta, key=lambda delta: np.median(list(by_delta[delta].values())))
        used = float(np.median([row["delta_used"] for row in self.rows[(*line, column, delta)]]))
        return used, list(by_delta[delta].values())

    def fair(self, line: tuple[str, str, int], column: str) -> list[float]:
        """Errors with q chosen on the other half of the seeds.

        The best of 20 noisy medians is below the others even where all q are alike; a choice that has not seen the
        errors it is judged by is not.
        """
        by_delta = self.errors(line, column)
        if len(by_delta) < 2:
            return [error for errors in by_delta.values() for error in errors.values()]
        return [by_delta[delta][seed] for delta, seed in choose_on_other_half(by_delta, np.median)]

    def of_paper(self, line: tuple[str, str, int], column: Column) -> dict[str, str] | None:
        return self.paper.get((*line, column.paper or ""))


def _name(line: tuple[str, str, int]) -> str:
    return f"{line[0]}, {line[1]}, {line[2]} move{'s' if line[2] > 1 else ''}"


def _claims(rows: list[Row]) -> list[Claim]:
    table = _Table(rows)
    claims = []
    for schedule in ("linear", "adaptive"):
        for column in table.columns[1:]:
            if claim := _beats_geometric(table, schedule, column):
                claims.append(claim)
    return [*claims, *_tuned_claims(table)]


def _tuned_claims(table: _Table) -> list[Claim]:
    """Whether the tuned column is below every other, and below all that the paper has, line by line."""
    below: list[tuple[Verdict, float]] = []
    below_paper: list[tuple[Verdict, float]] = []
    for line in table.lines:
        tuned = table.fair(line, "tuned")
        others = [errors for c in table.columns if c.name != "tuned" and (errors := table.fair(line, c.name))]
        paper = [float(one["median_abs_error"]) for c in table.columns if (one := table.of_paper(line, c))]
        truth = TRUTHS[line[0]].standard_error
        if not tuned:
            continue
        ours = median(tuned)
        if others:
            lower = [_judge_lower(median_difference(tuned, errors), truth, 0.0) for errors in others]
            below.append((all_of(lower), min(median(errors).value for errors in others) / ours.value))
        if paper:
            below_paper.append((_judge_lower(ours, truth, min(paper)), min(paper) / ours.value))
    statements = {
        "every other column, at the same number of likelihood evaluations, in at least 10 lines of 12": (
            below,
            10 / 12,
        ),
        "the best figure of the paper in every line": (below_paper, 1.0),
    }
    claims = []
    for statement, (found, share) in statements.items():
        if found:
            verdicts, times = zip(*found, strict=True)
            words = f"in {verdicts.count(Verdict.HOLDS)} of {len(verdicts)} beyond noise; "
            words += f"{min(times):,.1f} to {max(times):,.1f} times smaller"
            claims.append(Claim(f"the tuned column is below {statement}", "ours", words, _most_of(verdicts, share)))
    return claims


def _judge_lower(estimate: Estimate, truth_error: float, bound: float) -> Verdict:
    return judge(estimate.value, float(np.hypot(estimate.standard_error, truth_error)), -np.inf, bound)


def _most_of(verdicts: Sequence[Verdict], share: float) -> Verdict:
    """Whether a share of them hold; open where those that cannot be told decide."""
    enough = math.ceil(share * len(verdicts) - 1e-9)
    if verdicts.count(Verdict.HOLDS) >= enough:
        return Verdict.HOLDS
    return Verdict.FAILS if len(verdicts) - verdicts.count(Verdict.FAILS) < enough else Verdict.OPEN


def _beats_geometric(table: _Table, schedule: str, column: Column) -> Claim | None:
    """Whether a column's median error is below that of the geometric path in every line with a schedule."""
    lines = [line for line in table.lines if line[1] == schedule]
    differences: dict[tuple[str, str, int], Estimate] = {}
    for line in lines:
        ours, geometric = table.fair(line, column.name), table.fair(line, "geometric")
        if ours and geometric:
            difference = median_difference(ours, geometric)
            error = float(np.hypot(difference.standard_error, TRUTHS[line[0]].standard_error))
            differences[line] = Estimate(difference.value, error)
    if not differences:
        return None
    paper = [(table.of_paper(line, column), table.of_paper(line, table.columns[0])) for line in differences]
    known = [float(a["median_abs_error"]) < float(b["median_abs_error"]) for a, b in paper if a and b]
    least = max(differences, key=lambda line: differences[line].value)
    lower = sum(difference.value < 0 for difference in differences.values())
    return Claim(
        f"{schedule} schedule: {column.label} has a smaller median error than the geometric path in every line",
        f"in {sum(known)} of {len(known)}" if known else "not given",
        f"in {lower} of {len(differences)}, q chosen on other seeds; least in {_name(least)}: "
        f"{in_words(differences[least], 'nats')}",
        all_of(judge(*difference, -np.inf, 0.0) for difference in differences.values()),
    )


def _pictures(rows: list[Row]) -> list[Picture]:
    table = _Table(rows)
    figure, ax = plt.subplots(figsize=(7.2, 0.42 * len(table.lines) + 1.4), layout="constrained")
    places = np.arange(len(table.lines))[::-1]
    for index, column in enumerate(table.columns):
        shift = 0.12 - 0.24 * index / max(len(table.columns) - 1, 1)
        found = [
            (place, best[1])
            for place, line in zip(places, table.lines, strict=True)
            if (best := table.best(line, column.name))
        ]
        medians = np.array([np.median(errors) for _, errors in found])
        reach = np.array([median_deviation(errors) for _, errors in found])
        at = np.array([place for place, _ in found]) + shift
        colour = f"C{index}"
        low = np.minimum(reach, 0.9 * medians)  # a logarithmic axis has no room for less than nothing
        ax.errorbar(medians, at, xerr=[low, reach], fmt="o", color=colour, label=column.label, capsize=2)
        paper = [
            (float(line_["median_abs_error"]), place + shift)
            for place, line in zip(places, table.lines, strict=True)
            if (line_ := table.of_paper(line, column))
        ]
        ax.plot(*np.reshape(paper, (-1, 2)).T, "o", color=colour, markerfacecolor="none", markersize=9)
    ax.plot([], [], "o", color="0.3", markerfacecolor="none", markersize=9, label="paper")
    ax.set(xscale="log", xlabel="median |error| in nats")
    ax.set_yticks(places, [_name(line) for line in table.lines])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    caption = "Median error and median absolute deviation over seeds. Dots: ours; large circles: the paper's."
    return [Picture("errors", caption, figure)]


def _sheets(rows: list[Row]) -> list[Sheet]:
    truth = "; ".join(f"{name} {value.log_evidence} ± {value.standard_error}" for name, value in TRUTHS.items())
    theirs = "; ".join(f"{name} {value.of_the_paper}" for name, value in TRUTHS.items())
    return [
        _sheet(
            _Table(rows),
            "Error against our truths",
            f"Median |error| in nats (median absolute deviation). Truths: {truth}. The grid's q is the one with the "
            f"lowest median error, as in the paper.",
        ),
        _sheet(
            _Table(rows, of_the_paper=True),
            "Error against the paper's truths",
            f"The same with the values that the paper took for true: {theirs}. The second is 0.45 nats off.",
        ),
        _costs(_Table(rows)),
    ]


def _sheet(table: _Table, title: str, note: str) -> Sheet:
    columns = ["line"]
    for column in table.columns:
        short = column.label.removeprefix("q-path, ")
        columns += [f"{short}: paper", "ours"] if column.paper else [short]
    columns.append("best 1 - q")
    lines = []
    for line in table.lines:
        cells = [_name(line)]
        for column in table.columns:
            if column.paper:
                paper = table.of_paper(line, column)
                cells.append(f"{float(paper['median_abs_error']):.2f} ({float(paper['mad']):.2f})" if paper else "")
            best = table.best(line, column.name)
            cells.append(
                f"{np.median(best[1]):{_digits(column)}} ({median_deviation(best[1]):{_digits(column)}})"
                if best
                else ""
            )
        grid = table.best(line, "grid")
        cells.append(f"{grid[0]:.2g}" if grid else "")
        lines.append(cells)
    return Sheet(title, columns, lines, note)


def _digits(column: Column) -> str:
    return ".2f" if column.paper else ".4f"


def _costs(table: _Table) -> Sheet:
    """What a run of each column costs."""
    lines = []
    for line in table.lines:
        cells = [_name(line)]
        for column in table.columns:
            rows = [row for key, rows in table.rows.items() if key[:4] == (*line, column.name) for row in rows]
            run, choice = (
                np.mean([row[name] for row in rows]) / 1000 if rows else 0 for name in ("likelihoods", "spent")
            )
            cells.append((f"{run:,.0f}" + (f" + {choice:,.0f}" if choice else "")) if rows else "")
        lines.append(cells)
    note = (
        "Thousands of likelihood evaluations per run, a gradient counted as two; behind a plus those of the choice. "
        "The grid chooses by all its runs, and by a truth to compare them with."
    )
    return Sheet("Cost of a run", ["line", *(column.label for column in table.columns)], lines, note)


EXPERIMENT = Experiment(
    name="table1",
    title="Pima and Sonar: error of the log evidence by path, schedule and moves",
    paper="Table 1",
    duration="40 min",
    about="Sequential Monte Carlo on logistic regression: 10,000 particles, systematic resampling at every step, "
    "random-walk moves with the particles' covariance; a linear schedule of 10 distributions, or an adaptive one that "
    "steps to half the effective sample size. The grid is the best of 20 values of 1 - q, log-spaced from 1e-5 to 0.1. "
    "The tuned column takes path, reference, schedule and kernel from qpaths.tune, and as many particles as the "
    "likelihood evaluations of the line allow.",
    settings={
        "datasets": ["pima", "sonar"],
        "schedules": ["linear", "adaptive"],
        "moves": [1, 3, 5],
        "columns": [column.name for column in COLUMNS],
        "num_q": 20,
        "num_particles": 10_000,
        "num_distributions": 10,
        "tuning_budget": 1_000_000,
    },
    smoke={"datasets": ["pima"], "moves": [1], "num_q": 2, "num_particles": 200, "tuning_budget": 200_000},
    runs=_runs,
    run_one=_run_one,
    check=_check,
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=10,
    smoke_seeds=2,
    version=3,
)
