"""Runs that sleep, and rows as large as those of the paper's table: what is left is the cost of sweep and store."""

import hashlib
import time

from qpaths_paper.harness.experiment import Claim, Experiment, Run, Sheet, group
from qpaths_paper.harness.judging import yes_or_no


def _runs(settings, num_seeds):
    cells = [
        {"dataset": "pima", "column": "tuned", "schedule": "linear", "moves": 5, "cell": cell}
        for cell in range(settings["num_cells"])
    ]
    return [Run({**cell, "pause": settings["pause"]}, seed) for cell in cells for seed in range(num_seeds)]


def _run_one(settings, seed):
    if settings["pause"]:
        time.sleep(settings["pause"])
    digest = hashlib.sha256(f"{settings['cell']} {seed}".encode()).digest()
    log_evidence, error = (int.from_bytes(digest[i : i + 7]) / 2**56 for i in (0, 7))
    numbers = {"delta_used": 0.001, "num_steps": 9, "acceptance": 0.25, "likelihoods": 100_000, "spent": 0}
    return {"log_evidence": log_evidence - 392, "log_evidence_se": error, **numbers}


def _sheets(rows):
    lines = [
        [str(cell), str(len(found)), f"{sum(row['log_evidence'] for row in found) / len(found):.4f}"]
        for (cell,), found in group(rows, "cell").items()
    ]
    return [Sheet("Mean log evidence", ["cell", "runs", "mean"], lines)]


EXPERIMENT = Experiment(
    name="naps",
    title="runs that sleep",
    paper=None,
    duration="as long as wanted",
    about="What a sweep and its store cost.",
    settings={"num_cells": 100, "pause": 0.0},
    smoke={"num_cells": 2},
    runs=_runs,
    run_one=_run_one,
    claims=lambda rows: [
        Claim("all are negative", "none", "all", yes_or_no(all(row["log_evidence"] < 0 for row in rows)))
    ],
    sheets=_sheets,
    num_seeds=10,
)
