"""Gaps of the toy problems by path and number of distributions, from stored rows, with those of the paper."""

import numpy as np

from ..harness.experiment import Row, group
from ..harness.statistics import Estimate, mean
from .published import figures

SYMMETRIC_KL = 43 + 1 / 3
"""KL(base : target) + KL(target : base) between N(-4, 3) and N(4, 1); over the number of steps it is the gap."""

FAMILY = {"gaussian": ("moment", None), "student_t": ("escort_moment", -1.0)}
"""The path through the family of the endpoints, and the order of that family as 1 - q where it is not geometric."""

LABELS = {
    "geometric": "geometric",
    "grid": "best q of the grid",
    "moment": "moment averaging",
    "escort_moment": "escort moments",
    "family": "q = 2, in the family",
}
"""The paths, in the order of tables and legends."""

Printed = dict[tuple[str, str, int], tuple[float, str]]
"""The paper's mean gap and q by endpoints, path and number of distributions."""


class Gaps:
    """Mean gaps by endpoints, path and number of distributions. The grid's best q has the lowest mean gap."""

    def __init__(self, rows: list[Row]):
        self.rows = group(rows, "endpoints", "path", "num_distributions", "delta")
        self.nums = sorted({row["num_distributions"] for row in rows})
        self.endpoints = [name for name in FAMILY if any(row["endpoints"] == name for row in rows)]
        self._best: dict[tuple[str, str, int], tuple[float, list[Row]] | None] = {}

    def best(self, endpoints: str, path: str, num: int) -> tuple[float, list[Row]] | None:
        """1 - q and the rows of a path; for the grid those of its best q. None if it has no rows."""
        wanted = endpoints, path, num
        if wanted not in self._best:
            found = [(key[3], rows) for key, rows in self.rows.items() if key[:3] == wanted]
            self._best[wanted] = min(found, key=lambda one: gap_of(one[1]).value) if found else None
        return self._best[wanted]

    def paths(self, endpoints: str) -> list[str]:
        """The paths that have rows."""
        return [path for path in LABELS if any(key[:2] == (endpoints, path) for key in self.rows)]

    def relative(self, endpoints: str, path: str, num: int) -> Estimate | None:
        """The gap divided by that of an exponential family, `SYMMETRIC_KL / (num - 1)`."""
        found = self.best(endpoints, path, num)
        if found is None:
            return None
        scale = (num - 1) / SYMMETRIC_KL
        return Estimate(*(scale * number for number in gap_of(found[1])))

    def difference(self, endpoints: str, path: str, other: str, num: int) -> Estimate | None:
        """The mean difference of two paths, seed by seed, divided by the gap of the other."""
        first, second = self.best(endpoints, path, num), self.best(endpoints, other, num)
        if first is None or second is None:
            return None
        gaps = {row.seed: row["gap"] for row in second[1]}
        pairs = [row["gap"] - gaps[row.seed] for row in first[1] if row.seed in gaps]
        scale = gap_of(second[1]).value
        return mean([pair / scale for pair in pairs]) if pairs else None


def gap_of(rows: list[Row]) -> Estimate:
    """The mean gap of some rows.

    The standard error comes from those of the runs, which is more accurate than the spread over a few seeds.
    """
    error = float(np.sqrt(np.sum([row["gap_se"] ** 2 for row in rows]))) / len(rows)
    return Estimate(float(np.mean([row["gap"] for row in rows])), error)


def printed() -> Printed:
    """The paper's gaps, under our names of the paths."""
    found = {}
    for line in figures("toy_bdmc"):
        path = line["path"]
        if path == "q":
            path = "family" if float(line["q"]) == 2 else "grid"
        found[line["endpoints"], path, int(line["num_distributions"])] = float(line["gap_mean"]), line["q"]
    return found
