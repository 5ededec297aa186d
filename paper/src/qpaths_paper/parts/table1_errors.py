"""The errors of Table 1 by line and column, from stored rows.

A line of the table is a data set, a schedule and a number of moves. A column is a way to choose the path (see
`table1_columns.py`); one that tries several q has errors for each of them.
"""

import numpy as np

from ..harness.experiment import Row, group
from ..harness.statistics import choose_on_other_half
from .published import TRUTHS, figures
from .table1_columns import COLUMNS, Column

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
        """What the paper prints for a line and column; None where it has nothing."""
        return self.paper.get((*line, column.paper or ""))

    def rows_of(self, line: Line, column: Column) -> list[Row]:
        """All rows of a line and column."""
        name = _rows_from(line, column.name)
        return [row for key, rows in self.rows.items() if key[:4] == (*line, name) for row in rows]


def _rows_from(line: Line, column: str) -> str:
    """The column whose rows a line shows: where the released code does what the text says, that of the text."""
    known = next(one for one in COLUMNS if one.name == column)
    return column if line[1] in known.schedules else column.removesuffix("_code")


def name_of(line: Line) -> str:
    """A line as text, such as `pima, linear, 3 moves`."""
    return f"{line[0]}, {line[1]}, {line[2]} move{'s' if line[2] > 1 else ''}"
