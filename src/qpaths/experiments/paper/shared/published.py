"""The paper's own figures, from the files that ship with the package, and the truths they are compared with."""

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
    """From the long runs that `benchmarks/truths.py` made."""
    text = resources.files(__package__).joinpath("data", "truths.json").read_text(encoding="utf-8")
    # The paper took SMC with 50,000 samples and 20 moves for true, which is 0.45 nats off on Sonar.
    of_the_paper = {"pima": -391.4944, "sonar": -123.6673}
    return {
        name: Truth(one["log_evidence"], one["standard_error"], of_the_paper[name])
        for name, one in json.loads(text).items()
    }


TRUTHS = _truths()


def delta_grid(num: int, low: float = 1e-5, high: float = 1e-1) -> list[float]:
    """Values of 1 - q that are log-spaced, from 1e-5 to 1e-1 as in the paper."""
    return [float(delta) for delta in np.geomspace(low, high, num)]


def figures(name: str) -> list[dict[str, str]]:
    """The lines of `data/paper_<name>.csv`, each by the names of its columns."""
    text = resources.files(__package__).joinpath("data", f"paper_{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))
