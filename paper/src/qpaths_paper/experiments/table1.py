"""Table 1: error of the log evidence on Pima and Sonar, by path, schedule and number of moves.

The paper compares three columns: the geometric path, the q-path with q by the ESS heuristic, and the best q-path of a
grid. The last two are run in two protocols, as the text says and as the released code does (`PROTOCOLS` in
`parts/table1_columns.py`). The last column is ours: what `qpaths.tune` chooses. Its pilots and its run together make as
many likelihood evaluations as the geometric path of the line. The paper shows the best of 20 values of q, by the error
itself. The tables do the same, but the verdicts choose q on one half of the seeds and judge it by the other half.

In `parts/`, `table1_columns.py` has the columns, `table1_errors.py` the errors, and `table1_figures.py` the picture and
the sheets.

Settings:
    datasets, schedules, moves: The lines of the table.
    columns: Which columns to run: geometric, ess, ess_code, grid, grid_code, tuned.
    num_q: Values of 1 - q on the grid, from 1e-5 to 0.1 with equal distances in the logarithm.
    num_particles, num_distributions: Of the paper's columns, the latter for the linear schedule.

Rows: as in `fig4`, and `spent`, the likelihood evaluations of the choice.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..harness.experiment import Claim, Experiment, Judgment, Row, Run, Settings
from ..harness.judging import all_of, judge
from ..harness.settings import check_numbers, check_words
from ..harness.statistics import Estimate, in_words, median, median_difference
from ..parts.published import TRUTHS
from ..parts.regression import SCHEDULES, run_smc
from ..parts.table1_columns import COLUMNS, PROTOCOLS, Column
from ..parts.table1_errors import Errors, Line, name_of
from ..parts.table1_figures import pictures, sheets


def _check(settings: Settings) -> None:
    """Raise if a setting names something unknown, or is too small to run."""
    check_words(settings, "datasets", TRUTHS)
    check_words(settings, "schedules", SCHEDULES)
    check_words(settings, "columns", (column.name for column in COLUMNS))
    check_numbers(settings, 1, "moves", "num_q")
    check_numbers(settings, 2, "num_particles", "num_distributions")


def _runs(settings: Settings, num_seeds: int) -> list[Run]:
    """Every line of the table with every column, every q of the column, and every seed."""
    common = {name: settings[name] for name in ("num_particles", "num_distributions")}
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
        if column.name in settings["columns"] and line["schedule"] in column.schedules
        for delta in column.deltas(settings)
        for seed in range(num_seeds)
    ]


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Let the column choose what to run, and run it. `spent` counts the evaluations of the choice."""
    column = next(column for column in COLUMNS if column.name == settings["column"])
    plan = column.plan(settings, seed)
    values = run_smc(plan.recipe, plan.num_particles, key=jax.random.key(seed), as_released=plan.as_released)
    return {**values, "spent": plan.spent}


def _claims(rows: list[Row]) -> list[Claim]:
    """Each column against the geometric path, by schedule; the caption; then the tuned column against all others."""
    table = Errors(rows)
    pairs = [
        (schedule, column)
        for schedule in ("linear", "adaptive")
        for column in table.columns
        if column.name != "geometric" and schedule in column.schedules
    ]
    claims = [claim for schedule, column in pairs if (claim := _beats_geometric(table, schedule, column))]
    captions = [claim for protocol in PROTOCOLS if (claim := _caption(table, protocol))]
    return [*claims, *captions, *_tuned_claims(table)]


def _caption(table: Errors, protocol: str) -> Claim | None:
    """The last sentence of the caption: the order of the three columns, line by line."""
    suffix = "_code" if protocol == "code" else ""
    found = {line: order for line in table.lines if (order := _order(table, line, suffix))}
    if not found:
        return None
    ordered = sum(all(difference.value < 0 for difference in order) for order in found.values())
    verdicts = [all_of(judge(*difference, -np.inf, 0.0) for difference in order) for order in found.values()]
    return Claim(
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


def _tuned_claims(table: Errors) -> list[Claim]:
    """Whether the tuned column is below every other column, and below every number of the paper, line by line."""
    others = [found for line in table.lines if (found := _against_columns(table, line))]
    paper = [found for line in table.lines if (found := _against_paper(table, line))]
    every = "every other column, at the same likelihood evaluations with the pilots, in at least 10 lines of 12"
    claims = [_below(every, others, 10 / 12)] if others else []
    return [*claims, _below("the best figure of the paper in every line", paper, 1.0)] if paper else claims


def _below(what: str, found: list[tuple[Judgment, float]], share: float) -> Claim:
    """The claim that the tuned column is below something in a share of the lines.

    `found` has a verdict for each line, and how many times smaller the error is.
    """
    verdicts, times = [verdict for verdict, _ in found], [ratio for _, ratio in found]
    words = f"in {verdicts.count(Judgment.HOLDS)} of {len(verdicts)} beyond noise; "
    words += f"{_rounded(min(times))} to {_rounded(max(times))} times smaller"
    return Claim(f"the tuned column is below {what}", "ours", words, _most_of(verdicts, share))


def _rounded(factor: float) -> str:
    """A factor without digits that mean nothing."""
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}"


def _against_columns(table: Errors, line: Line) -> tuple[Judgment, float] | None:
    """Whether the tuned error is below that of all other columns, and how many times below the next."""
    tuned = table.fair(line, "tuned")
    others = [errors for c in table.columns if c.name != "tuned" and (errors := table.fair(line, c.name))]
    if not tuned or not others:
        return None
    truth = TRUTHS[line[0]].standard_error
    lower = [_judge_lower(median_difference(tuned, errors), truth, 0.0) for errors in others]
    return all_of(lower), min(median(errors).value for errors in others) / median(tuned).value


def _against_paper(table: Errors, line: Line) -> tuple[Judgment, float] | None:
    """Whether the tuned error is below the paper's best, and how many times below."""
    tuned = table.fair(line, "tuned")
    paper = [float(one["median_abs_error"]) for c in table.columns if (one := table.printed(line, c))]
    if not tuned or not paper:
        return None
    ours = median(tuned)
    return _judge_lower(ours, TRUTHS[line[0]].standard_error, min(paper)), min(paper) / ours.value


def _judge_lower(estimate: Estimate, truth_error: float, bound: float) -> Judgment:
    """Whether an estimate is below a bound, with the uncertainty of the truth added to its own."""
    return judge(estimate.value, float(np.hypot(estimate.standard_error, truth_error)), -np.inf, bound)


def _most_of(verdicts: Sequence[Judgment], share: float) -> Judgment:
    """Whether a share of the verdicts hold; open if the open ones decide."""
    enough = math.ceil(share * len(verdicts) - 1e-9)
    if verdicts.count(Judgment.HOLDS) >= enough:
        return Judgment.HOLDS
    return Judgment.FAILS if len(verdicts) - verdicts.count(Judgment.FAILS) < enough else Judgment.OPEN


def _beats_geometric(table: Errors, schedule: str, column: Column) -> Claim | None:
    """Whether a column's median error is below that of the geometric path in every line with a schedule."""
    differences = {
        line: difference
        for line in table.lines
        if line[1] == schedule and (difference := _over_geometric(table, line, column))
    }
    if not differences:
        return None
    paper = [(table.printed(line, column), table.printed(line, table.columns[0])) for line in differences]
    known = [float(a["median_abs_error"]) < float(b["median_abs_error"]) for a, b in paper if a and b]
    least = max(differences, key=lambda line: differences[line].value)
    lower = sum(difference.value < 0 for difference in differences.values())
    chosen = ", q chosen on other seeds" if column.paper == "q_grid" else ""
    return Claim(
        f"{schedule} schedule: {_in_words(column)} has a smaller median error than the geometric path in every line",
        f"in {sum(known)} of {len(known)}" if known else "not given",
        f"in {lower} of {len(differences)}{chosen}; least in {name_of(least)}: {in_words(differences[least], 'nats')}",
        all_of(judge(*difference, -np.inf, 0.0) for difference in differences.values()),
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
    runs=_runs,
    run_one=_run_one,
    check=_check,
    pictures=pictures,
    sheets=sheets,
    claims=_claims,
    num_seeds=10,
    smoke_seeds=2,
    version=5,
)
