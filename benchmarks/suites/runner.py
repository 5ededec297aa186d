"""Runs `qpaths.evidence` on problems with a known truth: one row for each run, as JSON can hold it.

Shared by `benchmarks/suites/reach.py` and `benchmarks/suites/run.py`.
"""

import datetime
import json
import subprocess
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import qpaths as qp


def commit():
    """The short name of the commit, with a plus sign where files have been changed since."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def run(name, problem, seed, budget, made_by):
    """One run and what it took; a run that raises is a row too. Without a budget the library's defaults hold."""
    row = {"target": name, "seed": seed, "budget": budget, "truth": problem.truth, "truth_se": problem.truth_se}
    row |= {"version": qp.__version__, "commit": made_by}
    row["date"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    cpu, wall = time.process_time(), time.perf_counter()
    result = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = qp.evidence(**problem.arguments, key=jax.random.key(seed), budget=budget)
    except Exception as error:
        row["raised"] = f"{type(error).__name__}: {error}"
    row |= {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    return row if result is None else row | record(result)


def record(result):
    """What a result says, and its verdict in words."""
    verdict = result.verdict
    chosen = verdict.chosen[0] if verdict.chosen else None
    return {
        "log_evidence": float(result.log_evidence),
        "se": float(result.log_evidence_se),
        "evaluations": int(result.num_evaluations.total),
        "pilots": getattr(verdict.stopped, "pilots", None),
        "stopped": verdict.stopped.kind.name,
        "source": str(getattr(chosen, "source", "the base")),
        "verdict": str(verdict.level),
        "findings": [finding.kind.name for finding in verdict.findings],
        "text": str(verdict),
    }


class Summary:
    """Figures of the runs on one target. Runs that raised, or found nothing at all, have no error and do not cover."""

    def __init__(self, rows):
        self.rows = rows
        self.answers = [row for row in rows if np.isfinite(row.get("se", np.inf))]
        self.errors = np.array([row["log_evidence"] - row["truth"] for row in self.answers])
        self.bars = np.array([row["se"] for row in self.answers])
        # The truth has a standard error of its own.
        self.ratios = np.abs(self.errors) / np.array([np.hypot(row["se"], row["truth_se"]) for row in self.answers])

    @property
    def num_covered(self):
        return int(np.sum(self.ratios <= 2))

    @property
    def confidently_wrong(self):
        """Runs more than four standard errors off whose verdict is "sound"."""
        return [
            row for row, ratio in zip(self.answers, self.ratios, strict=True) if ratio > 4 and row["verdict"] == "sound"
        ]

    def median(self, name):
        return np.median([row[name] for row in self.answers]) if self.answers else np.nan

    def count(self, name):
        """How often each value of a field occurs, in words; fields that are lists are counted by their members."""
        values = [value for row in self.rows for value in _listed(row.get(name, "raised"))]
        return ", ".join(f"{value} ({values.count(value)})" for value in dict.fromkeys(values)) or "none"


def _listed(value):
    return value if isinstance(value, list) else [value]


def read(file):
    """The rows of a file, as far as they are whole: an interrupted run may leave half a row."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def append(file, row):
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(("" if text.endswith("\n") or not text else "\n") + json.dumps(row) + "\n")


def key_of(row):
    """Rows with the same key are the same run, of one version or another."""
    return row["target"], row["seed"], row["budget"]


def show(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
