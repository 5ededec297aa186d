"""Stored rows of the experiments on decoder models as one number per image and cell."""

import numpy as np

from ..harness.experiment import Claim, Row, group
from ..harness.judging import all_of, judge
from ..harness.statistics import Estimate, choose_on_other_half, in_words, mean
from .decoders import BASES, LABELS

Key = tuple[str, str, float, int]
"""Base, column, q, number of distributions."""


class Cells:
    """One number per image for each cell, such as the gap between its bounds.

    A cell is a base, a column, a q and a number of distributions. Its images are those of all seeds, one seed after the
    other. All cells of a seed have the same images, so that differences can be taken image by image.
    """

    def __init__(self, rows: list[Row], name: str):
        grouped = group(sorted(rows, key=lambda row: row.seed), "base", "column", "q", "num_distributions")
        self.rows: dict[Key, list[Row]] = dict(grouped.items())
        self.values = {key: np.concatenate([row[name] for row in found]) for key, found in self.rows.items()}
        self.bases = [base for base in BASES if any(key[0] == base for key in self.rows)]
        self.columns = [column for column in LABELS if any(key[1] == column for key in self.rows)]
        self.orders = sorted({key[2] for key in self.rows}, reverse=True)
        self.nums = sorted({key[3] for key in self.rows})

    @property
    def lines(self) -> list[tuple[str, str, float]]:
        """Base, column and q, each once."""
        return list(dict.fromkeys(key[:3] for key in self.rows))

    def mean(self, base: str, column: str, q: float, num: int) -> Estimate:
        """The mean over the images."""
        return mean(self.values[base, column, q, num])

    def difference(self, first: Key, second: Key) -> Estimate | None:
        """The mean of the first minus the second, image by image; None unless both have the same images."""
        a, b = self.values.get(first), self.values.get(second)
        return mean(a - b) if a is not None and b is not None and a.size == b.size else None

    def best_q(self, base: str, column: str, num: int) -> float | None:
        """The q with the smallest mean over the images."""
        known = [q for q in self.orders if (base, column, q, num) in self.values]
        return min(known, key=lambda q: np.mean(self.values[base, column, q, num])) if known else None

    def best_difference(self, base: str, column: str, num: int) -> Estimate | None:
        """The best q minus the geometric path, with q chosen on the other half of the images.

        None if there is no geometric path, no other q, or fewer than four images.
        """
        geometric = self.values.get((base, column, 1.0, num))
        if geometric is None or geometric.size < 4:
            return None
        found = {key[2]: values for key, values in self.values.items() if (*key[:2], key[3]) == (base, column, num)}
        others = (q for q in self.orders if q != 1 and q in found and found[q].size == geometric.size)
        values = {q: dict(enumerate(found[q])) for q in others}
        if not values:
            return None
        return mean([values[q][image] - geometric[image] for q, image in choose_on_other_half(values, np.mean)])

    def of_rows(self, key: Key, name: str) -> float:
        """The mean of a value over the seeds."""
        return float(np.mean([row[name] for row in self.rows[key]]))


def below_zero(statement: str, paper: str, differences: list[Estimate]) -> Claim:
    """The claim that all differences are below zero; our number is the largest of them."""
    least = max(differences, key=lambda difference: difference.value)
    verdict = all_of(judge(*difference, -np.inf, 0.0) for difference in differences)
    return Claim(statement, paper, f"least: {in_words(least, 'nats')}", verdict)
