"""Table 1: error of the log evidence on Pima and Sonar, by path, schedule and number of moves.

The paper compares three columns: the geometric path, the q-path with q by the ESS heuristic, and the best q-path of a
grid. The last two are run in two protocols, as the text says and as the released code does (`PROTOCOLS` in
`parts/table1_columns.py`). The last column is ours: what `qpaths.tune` chooses. Its pilots and its run together make as
many likelihood evaluations as the geometric path of the line. The paper shows the best of 20 values of q, by the error
itself. The tables do the same, but the verdicts choose q on one half of the seeds and judge it by the other half.

`parts/table1_columns.py` has the columns.

Settings:
    datasets, schedules, moves: The lines of the table.
    columns: Which columns to run: geometric, ess, ess_code, grid, grid_code, tuned.
    num_q: Values of 1 - q on the grid, from 1e-5 to 0.1 with equal distances in the logarithm.
    num_particles, num_distributions: Of the paper's columns, the latter for the linear schedule.

Rows: as in `fig4`, and `spent`, the likelihood evaluations of the choice.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from ..harness.experiment import Claim, Experiment, Judgment, Picture, Row, Settings, Sheet, group, product
from ..harness.judging import all_of, below, judge, smaller
from ..harness.settings import checks
from ..harness.statistics import (
    Estimate,
    choose_on_other_half,
    mean_deviation,
    median,
    median_deviation,
    median_difference,
)
from ..parts.published import TRUTHS, figures
from ..parts.regression import SCHEDULES, run_smc
from ..parts.table1_columns import COLUMNS, PROTOCOLS, Column, column_of

Line = tuple[str, str, int]
"""Data set, schedule, number of moves."""

_ORDER = {"pima": 0, "sonar": 1, "linear": 0, "adaptive": 1}


class Errors:
    """Absolute errors of the log evidence, by line and column.

    They are errors against our truths, or with `of_the_paper` against the values that the paper took for true.
    """

    def __init__(self, rows: list[Row], of_the_paper: bool = False):
        self.of_the_paper = of_the_paper
        self.rows = group(rows, "dataset", "schedule", "moves", "column", "delta")
        lines = {(row["dataset"], row["schedule"], row["moves"]) for row in rows}
        self.lines: list[Line] = sorted(lines, key=lambda line: (_ORDER[line[0]], _ORDER[line[1]], line[2]))
        self.columns = [column for column in COLUMNS if any(row["column"] == column.name for row in rows)]
        self.paper = {
            (line["dataset"], line["schedule"], int(line["move_steps"]), line["path"]): line
            for line in figures("table1")
        }

    def by_delta(self, line: Line, column: str) -> dict[float, dict[int, float]]:
        """The error of each run, by 1 - q and seed."""
        column = _rows_from(line, column)
        truth = TRUTHS[line[0]]
        value = truth.of_the_paper if self.of_the_paper else truth.log_evidence
        return {
            key[4]: {row.seed: abs(row["log_evidence"] - value) for row in rows}
            for key, rows in self.rows.items()
            if key[:4] == (*line, column)
        }

    def best(self, line: Line, column: str) -> tuple[float, list[float]] | None:
        """1 - q and the errors of the column's best q by median, as in the paper; None without rows.

        A column that chooses q for itself reports the 1 - q that it used, in the median over the seeds.
        """
        by_delta = self.by_delta(line, column)
        if not by_delta:
            return None
        delta = min(by_delta, key=lambda delta: np.median(list(by_delta[delta].values())))
        key = (*line, _rows_from(line, column), delta)
        used = float(np.median([row["delta_used"] for row in self.rows[key]]))
        return used, list(by_delta[delta].values())

    def fair(self, line: Line, column: str) -> list[float]:
        """Errors with q chosen on the other half of the seeds.

        The best of 20 noisy medians is below the others even if all q are alike. A choice that has not seen the errors
        by which it is judged is not.
        """
        by_delta = self.by_delta(line, column)
        if len(by_delta) < 2:
            return [error for errors in by_delta.values() for error in errors.values()]
        return [by_delta[delta][seed] for delta, seed in choose_on_other_half(by_delta, np.median)]

    def printed(self, line: Line, column: Column) -> dict[str, str] | None:
        """Return the paper's line of numbers for a line and column, None if it has nothing."""
        return self.paper.get((*line, column.paper or ""))

    def rows_of(self, line: Line, column: Column) -> list[Row]:
        """All rows of a line and column."""
        name = _rows_from(line, column.name)
        return [row for key, rows in self.rows.items() if key[:4] == (*line, name) for row in rows]


def _rows_from(line: Line, column: str) -> str:
    """The column whose rows a line shows: where the released code does what the text says, that of the text."""
    return column if line[1] in column_of(column).schedules else column.removesuffix("_code")


def name_of(line: Line) -> str:
    """A line as text, such as `pima, linear, 3 moves`."""
    return f"{line[0]}, {line[1]}, {line[2]} move{'s' if line[2] > 1 else ''}"


def _pictures(rows: list[Row]) -> list[Picture]:
    """Median errors by line: a color for each column, dots for ours and large circles for the paper's."""
    table = Errors(rows)
    figure, ax = plt.subplots(figsize=(7.2, 0.5 * len(table.lines) + 1.8), layout="constrained")
    places = np.arange(len(table.lines))[::-1]
    for index in range(len(table.columns)):
        _draw_column(ax, table, index, places)
    ax.plot([], [], "o", color="0.3", markerfacecolor="none", markersize=9, label="paper")
    ax.set(xscale="log", xlabel="median |error| in nats")
    ax.set_yticks(places, [name_of(line) for line in table.lines])
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    caption = "Median error and median absolute deviation over seeds. Dots: ours; large circles: the paper's."
    return [Picture("errors", caption, figure)]


def _draw_column(ax: Any, table: Errors, index: int, places: np.ndarray) -> None:
    """Draw one column of the table, ours and the paper's, at the height of each line."""
    column, color = table.columns[index], f"C{index}"
    shift = 0.3 - 0.6 * index / max(len(table.columns) - 1, 1)
    lines = list(zip(places, table.lines, strict=True))
    found = [(place, best[1]) for place, line in lines if (best := table.best(line, column.name))]
    medians = np.array([np.median(errors) for _, errors in found])
    reach = np.array([median_deviation(errors) for _, errors in found])
    at = np.array([place for place, _ in found]) + shift
    low = np.minimum(reach, 0.9 * medians)  # a logarithmic axis has no room for zero and below
    label = f"{column.label}, {PROTOCOLS['code']}" if column.protocol == "code" else column.label
    ax.errorbar(medians, at, xerr=[low, reach], fmt="o", color=color, label=label, capsize=2)
    if column.protocol == "code":
        return  # the paper's number is drawn once, with the column of the text
    printed = [(place, one) for place, line in lines if (one := table.printed(line, column))]
    paper = [(float(one["median_abs_error"]), place + shift) for place, one in printed]
    ax.plot(*np.reshape(paper, (-1, 2)).T, "o", color=color, markerfacecolor="none", markersize=9)


def _sheets(rows: list[Row]) -> list[Sheet]:
    """Errors against our truths, errors against the paper's, and costs."""
    truth = "; ".join(f"{name} {value.log_evidence} ± {value.standard_error}" for name, value in TRUTHS.items())
    theirs = "; ".join(f"{name} {value.of_the_paper}" for name, value in TRUTHS.items())
    return [
        _sheet(
            Errors(rows),
            "Error against our truths",
            f"Median |error| in nats. In brackets ours have the median and the mean absolute deviation. The paper's "
            f"spread is called a median one, but is probably the mean (see the page on the paper). Truths: {truth}. "
            f"The grid's q is the one with the lowest median error, as in the paper. Text: {PROTOCOLS['text']}; code: "
            f"{PROTOCOLS['code']}, which on the linear schedule is the same for the grid. On the adaptive one its grid "
            f"ends at 1 - q = 3e-3: beyond, its schedule takes up to 801 steps.",
        ),
        _sheet(
            Errors(rows, of_the_paper=True),
            "Error against the paper's truths",
            f"The same with the values that the paper took for true: {theirs}. The second is 0.45 nats off.",
        ),
        _costs(Errors(rows)),
    ]


def _sheet(table: Errors, title: str, note: str) -> Sheet:
    """Median errors by line: for each column the paper's, if it has one, and ours; at last the grid's 1 - q."""
    columns = ["line"]
    for column in table.columns:
        short = _short(column)
        if column.protocol == "code":
            columns.append("code")
        elif column.paper:
            columns += [f"{short}: paper", "ours" if column.name == "geometric" else "text"]
        else:
            columns.append(short)
    return Sheet(title, [*columns, "best 1 - q"], [_cells(table, line) for line in table.lines], note)


def _short(column: Column) -> str:
    """The label of a column where space is scarce."""
    return column.label.removeprefix("q-path, ")


def _cells(table: Errors, line: Line) -> list[str]:
    """One line of a sheet of errors."""
    cells = [name_of(line)]
    for column in table.columns:
        if column.paper and column.protocol == "text":
            paper = table.printed(line, column)
            cells.append(f"{float(paper['median_abs_error']):.2f} ({float(paper['mad']):.2f})" if paper else "")
        best = table.best(line, column.name)
        digits = _digits(column)
        cells.append(_shown(best[1], digits) if best else "")
    grid = table.best(line, "grid")
    return [*cells, f"{grid[0]:.2g}" if grid else ""]


def _shown(errors: list[float], digits: str) -> str:
    """The median error with both spreads."""
    spreads = f"{median_deviation(errors):{digits}}, {mean_deviation(errors):{digits}}"
    return f"{np.median(errors):{digits}} ({spreads})"


def _digits(column: Column) -> str:
    """The format of an error: the digits of the paper, and two more for a column that the paper does not have."""
    return ".2f" if column.paper else ".4f"


def _costs(table: Errors) -> Sheet:
    """Tabulate the cost of a run of each column."""
    lines = [[name_of(line), *(_cost(table, line, column) for column in table.columns)] for line in table.lines]
    note = (
        "Thousands of likelihood evaluations per run, a gradient counted as two; behind a plus those of the choice. "
        "The grid chooses by all its runs, and by a truth to compare them with. Of the tuned column the two together "
        "are what the geometric path costs."
    )
    labels = [_short(column) + (", code" if column.protocol == "code" else "") for column in table.columns]
    return Sheet("Cost of a run", ["line", *labels], lines, note)


def _cost(table: Errors, line: Line, column: Column) -> str:
    """Thousands of evaluations of a run, and of the choice before it."""
    rows = table.rows_of(line, column)
    if not rows:
        return ""
    run, choice = (np.mean([row[name] for row in rows]) / 1000 for name in ("likelihoods", "spent"))
    return f"{run:,.0f}" + (f" + {choice:,.0f}" if choice else "")


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Let the column choose what to run, and run it. `spent` counts the evaluations of the choice."""
    plan = column_of(settings["column"]).plan(settings, seed)
    values = run_smc(plan.recipe, plan.num_particles, key=jax.random.key(seed), as_released=plan.as_released)
    return {**values, "spent": plan.spent}


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """Each column against the geometric path, by schedule; the caption; then the tuned column against all others."""
    table = Errors(rows)
    for schedule in ("linear", "adaptive"):
        for column in table.columns:
            if column.name != "geometric" and schedule in column.schedules:
                yield from _beats_geometric(table, schedule, column)
    for protocol in PROTOCOLS:
        yield from _caption(table, protocol)
    yield from _tuned_claims(table)


def _caption(table: Errors, protocol: str) -> Iterator[Claim]:
    """The last sentence of the caption: the order of the three columns, line by line."""
    suffix = "_code" if protocol == "code" else ""
    found = {line: order for line in table.lines if (order := _order(table, line, suffix))}
    if not found:
        return
    ordered = sum(all(difference.value < 0 for difference in order) for order in found.values())
    verdicts = [below(order) for order in found.values()]
    yield Claim(
        f"the error of the grid is below that of the ESS heuristic, and that below the geometric path, in 8 of 12 "
        f"lines (caption), {PROTOCOLS[protocol]}",
        "in 8 of 12",
        f"in {ordered} of {len(found)}, beyond noise in {verdicts.count(Judgment.HOLDS)}",
        _most_of(verdicts, 8 / 12),
    )


def _order(table: Errors, line: Line, suffix: str) -> list[Estimate] | None:
    """The differences grid - ESS heuristic and ESS heuristic - geometric of the median errors of a line."""
    columns = [table.fair(line, name) for name in (f"grid{suffix}", f"ess{suffix}", "geometric")]
    if not all(columns):
        return None
    return [median_difference(columns[0], columns[1]), median_difference(columns[1], columns[2])]


def _tuned_claims(table: Errors) -> Iterator[Claim]:
    """Judge whether the tuned column is below every other column, and below every number of the paper, line by line."""
    every = "every other column, at the same likelihood evaluations with the pilots, in at least 10 lines of 12"
    yield from _below(every, [found for line in table.lines if (found := _against_columns(table, line))], 10 / 12)
    paper = [found for line in table.lines if (found := _against_paper(table, line))]
    yield from _below("the best figure of the paper in every line", paper, 1.0)


def _below(what: str, found: list[tuple[Judgment, float]], share: float) -> Iterator[Claim]:
    """The claim that the tuned column is below something in a share of the lines.

    `found` has a verdict for each line, and how many times smaller the error is.
    """
    if found:
        verdicts, times = zip(*found, strict=True)
        words = f"in {verdicts.count(Judgment.HOLDS)} of {len(verdicts)} beyond noise; "
        words += f"{_rounded(min(times))} to {_rounded(max(times))} times smaller"
        yield Claim(f"the tuned column is below {what}", "ours", words, _most_of(verdicts, share))


def _rounded(factor: float) -> str:
    """A factor without digits that mean nothing."""
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}"


def _against_columns(table: Errors, line: Line) -> tuple[Judgment, float] | None:
    """Judge whether the tuned error is below that of all other columns, and how many times below the next."""
    tuned = table.fair(line, "tuned")
    others = [errors for c in table.columns if c.name != "tuned" and (errors := table.fair(line, c.name))]
    if not tuned or not others:
        return None
    truth = TRUTHS[line[0]].standard_error
    lower = [_judge_lower(median_difference(tuned, errors), truth, 0.0) for errors in others]
    return all_of(lower), min(median(errors).value for errors in others) / median(tuned).value


def _against_paper(table: Errors, line: Line) -> tuple[Judgment, float] | None:
    """Judge whether the tuned error is below the paper's best, and how many times below."""
    tuned = table.fair(line, "tuned")
    paper = [float(one["median_abs_error"]) for c in table.columns if (one := table.printed(line, c))]
    if not tuned or not paper:
        return None
    ours = median(tuned)
    return _judge_lower(ours, TRUTHS[line[0]].standard_error, min(paper)), min(paper) / ours.value


def _judge_lower(estimate: Estimate, truth_error: float, bound: float) -> Judgment:
    """Judge whether an estimate is below a bound, with the uncertainty of the truth added to its own."""
    return judge(estimate.value, float(np.hypot(estimate.standard_error, truth_error)), -np.inf, bound)


def _most_of(verdicts: Sequence[Judgment], share: float) -> Judgment:
    """Judge whether a share of the verdicts hold; open if the open ones decide."""
    enough = math.ceil(share * len(verdicts) - 1e-9)
    if verdicts.count(Judgment.HOLDS) >= enough:
        return Judgment.HOLDS
    return Judgment.FAILS if len(verdicts) - verdicts.count(Judgment.FAILS) < enough else Judgment.OPEN


def _beats_geometric(table: Errors, schedule: str, column: Column) -> Iterator[Claim]:
    """Judge whether a column's median error is below that of the geometric path in every line with a schedule."""
    lines = [line for line in table.lines if line[1] == schedule]
    found = {line: difference for line in lines if (difference := _over_geometric(table, line, column))}
    paper = [(table.printed(line, column), table.printed(line, table.columns[0])) for line in found]
    known = [float(a["median_abs_error"]) < float(b["median_abs_error"]) for a, b in paper if a and b]
    lower = sum(difference.value < 0 for difference in found.values())
    chosen = ", q chosen on other seeds" if column.paper == "q_grid" else ""
    yield from smaller(
        f"{schedule} schedule: {_in_words(column)} has a smaller median error than the geometric path in every line",
        f"in {sum(known)} of {len(known)}" if known else "not given",
        found,
        lambda line, least: f"in {lower} of {len(found)}{chosen}; least in {name_of(line)}: {least}",
    )


def _in_words(column: Column) -> str:
    """The label of a column, with its protocol if it is that of the released code."""
    return f"{column.label} {PROTOCOLS['code']}" if column.protocol == "code" else column.label


def _over_geometric(table: Errors, line: Line, column: Column) -> Estimate | None:
    """The median error of a column minus that of the geometric path; None unless both have runs."""
    ours, geometric = table.fair(line, column.name), table.fair(line, "geometric")
    if not ours or not geometric:
        return None
    difference = median_difference(ours, geometric)
    error = float(np.hypot(difference.standard_error, TRUTHS[line[0]].standard_error))
    return Estimate(difference.value, error)


EXPERIMENT = Experiment(
    name="table1",
    title="Pima and Sonar: error of the log evidence by path, schedule and moves",
    paper="Table 1",
    duration="10 min on two cores",
    about="Sequential Monte Carlo on logistic regression: 10,000 particles, systematic resampling at every step, "
    "random-walk moves with the particles' covariance; a linear schedule of 10 distributions, or an adaptive one that "
    "steps to half the effective sample size. The grid is the best of 20 values of 1 - q, log-spaced from 1e-5 to 0.1. "
    "The q-paths are run as the text says and as the released code does: it takes the next beta from the geometric "
    "path's weights, leaves beta free in the ESS heuristic on either schedule, and weighs the heuristic's first step "
    "with q = 1. The tuned column takes path, reference, schedule and kernel from qpaths.tune, and its pilots and run "
    "together make the likelihood evaluations of the line.",
    settings={
        "datasets": ["pima", "sonar"],
        "schedules": ["linear", "adaptive"],
        "moves": [1, 3, 5],
        "columns": [column.name for column in COLUMNS],
        "num_q": 20,
        "num_particles": 10_000,
        "num_distributions": 10,
    },
    smoke={"datasets": ["pima"], "moves": [1], "num_q": 2, "num_particles": 1000},
    # Runs of one shape come one after the other: each shape is compiled once.
    runs=product(
        dataset="datasets",
        schedule="schedules",
        moves="moves",
        column=lambda settings, run: [
            one.name for one in COLUMNS if one.name in settings["columns"] and run["schedule"] in one.schedules
        ],
        delta=lambda settings, run: column_of(run["column"]).deltas(settings),
        without=["columns", "num_q"],
    ),
    run_one=_run_one,
    check=checks(
        words={"datasets": TRUTHS, "schedules": SCHEDULES, "columns": [column.name for column in COLUMNS]},
        least={"moves": 1, "num_q": 1, "num_particles": 2, "num_distributions": 2},
    ),
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=10,
    smoke_seeds=2,
    version=5,
)
