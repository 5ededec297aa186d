"""The picture and the sheets of Table 1, from stored rows."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ..harness.experiment import Picture, Row, Sheet
from ..harness.statistics import mean_deviation, median_deviation
from .published import TRUTHS
from .table1_columns import PROTOCOLS, Column
from .table1_errors import Errors, Line, name_of


def pictures(rows: list[Row]) -> list[Picture]:
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


def sheets(rows: list[Row]) -> list[Sheet]:
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
    """What a run of each column costs."""
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
