"""The paper's numbers, the truths they are compared with, and the grids of 1 - q.

The numbers are in files that ship with the package; `data/PROVENANCE.md` says where each comes from.
"""

import csv
import io
import json
from importlib import resources
from typing import NamedTuple

import numpy as np


class Truth(NamedTuple):
    """A log evidence, its standard error, and the value that the paper took for it."""

    log_evidence: float
    standard_error: float
    of_the_paper: float


def _truths() -> dict[str, Truth]:
    """The truths, from the long runs that `benchmarks/suites/truths.py` made.

    The paper took SMC with 50,000 samples and 20 moves for true, which is 0.45 nats off on Sonar.
    """
    text = resources.files(__package__).joinpath("data", "truths.json").read_text(encoding="utf-8")
    of_the_paper = {"pima": -391.4944, "sonar": -123.6673}
    return {
        name: Truth(one["log_evidence"], one["standard_error"], of_the_paper[name])
        for name, one in json.loads(text).items()
    }


TRUTHS = _truths()
"""The log evidence of each data set."""

PILOT_DELTAS = [0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
"""A coarse grid of 1 - q for a choice by pilots, with the geometric path."""


def delta_grid(num: int, low: float = 1e-5, high: float = 1e-1) -> list[float]:
    """Values of 1 - q with equal distances in the logarithm; the paper's grid has 20 from 1e-5 to 1e-1."""
    return [float(delta) for delta in np.geomspace(low, high, num)]


def figures(name: str) -> list[dict[str, str]]:
    """The lines of `data/paper_<name>.csv`, each as a dictionary by the names of the columns."""
    text = resources.files(__package__).joinpath("data", f"paper_{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))
