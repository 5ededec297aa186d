"""Stored rows of the atlas as errors, choices of q, a picture, a table and claims."""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from ..harness.experiment import Claim, Judgment, Picture, Row, Sheet, group
from ..harness.judging import judge
from ..harness.statistics import Estimate, mean
from .atlas_problems import PROBLEMS

TUNED = {
    "nothing": frozenset[str](),
    "schedule": frozenset({"schedule"}),
    "kernel": frozenset({"kernel"}),
    "both": frozenset({"kernel", "schedule"}),
    "reference": frozenset({"kernel", "schedule", "reference"}),
}
"""The parts that are tuned, by the name of the setting."""

LABELS = {
    "nothing": "nothing tuned",
    "schedule": "schedule tuned",
    "kernel": "kernel tuned",
    "both": "kernel and schedule",
    "reference": "kernel, schedule, reference",
}
_WORST = 1e3
"""Nats that an estimate without a number counts as."""
_WORTH = 1.25
"""A ratio of errors that is worth a choice."""
_NOTHING = 1.01
"""A ratio of errors that is no gain."""


class Gain(NamedTuple):
    """The choice by the bound, and log2 of the error before over the error after, on held-out seeds."""

    chosen: str
    log_ratio: Estimate

    @property
    def ratio(self) -> float:
        """Return how many times smaller the error is."""
        return float(2.0**self.log_ratio.value)


class Cell:
    """The runs of one problem with some parts tuned: seeds by candidates."""

    def __init__(self, rows: list[Row]):
        rows = sorted(rows, key=lambda row: row.seed)
        first = rows[0]
        self.names = [f"{q:g}" for q in first["q"]] + list(first["varying"])
        self.num_constant = len(first["q"])
        self.geometric = list(first["q"]).index(1.0)
        estimates = np.array([[np.nan if v is None else v for v in row["log_evidence"]] for row in rows], float)
        truth = np.array([row["truth"] for row in rows])[:, None]
        self.bounds = np.where(np.isnan(estimates), -np.inf, estimates)
        self.errors = np.where(np.isnan(estimates), _WORST, np.minimum(np.abs(estimates - truth), _WORST))
        self.seeds = np.array([row.seed for row in rows])

    def rms(self, candidates: slice | int = slice(None)) -> np.ndarray:
        """The root mean square error over the seeds."""
        return np.sqrt(np.mean(self.errors[:, candidates] ** 2, axis=0))

    def _gain(self, varying: bool) -> Gain | None:
        """Measure what a choice by the bound gains: of a constant q over q = 1, or of any over a constant one.

        For each seed the bound chooses on the other seeds. None with fewer than four seeds. The standard error is that
        of a jackknife over the seeds.
        """
        if self.seeds.size < 4:
            return None
        new, old, names = [], [], []
        for held_out in range(self.seeds.size):
            others = np.arange(self.seeds.size) != held_out
            before, after = self.geometric, self._choice(others, self.constant, self.geometric)
            if varying:
                before, after = after, self._choice(others, list(range(len(self.names))), after)
            new.append(self.errors[held_out, after])
            old.append(self.errors[held_out, before])
            names.append(self.names[after])
        chosen = sorted(set(names), key=lambda name: (-names.count(name), names.index(name)))
        return Gain(" / ".join(chosen), _log_ratio(np.array(old), np.array(new)))

    def _choice(self, seeds: np.ndarray, among: list[int], default: int) -> int:
        """The best mean estimate, if it is better than the default by more than two standard errors."""
        best = max(among, key=lambda i: np.mean(self.bounds[seeds, i]))
        if not np.isfinite(self.bounds[seeds, default]).all():
            return best
        better = mean(self.bounds[seeds, best] - self.bounds[seeds, default])
        return best if better.value > 2 * better.standard_error else default

    @property
    def constant(self) -> list[int]:
        """Candidates whose q stays the same."""
        return list(range(self.num_constant))

    def of_q(self) -> Gain | None:
        """A constant q against the geometric path."""
        return self._gain(varying=False)

    def of_varying(self) -> Gain | None:
        """A q that may change along the path against one that stays the same."""
        return self._gain(varying=True)


def _log_ratio(first: np.ndarray, second: np.ndarray) -> Estimate:
    """log2 of the ratio of two root mean squares over the same seeds, with a jackknife standard error."""

    def value(keep: np.ndarray) -> float:
        return 0.5 * float(np.log2(np.mean(first[keep] ** 2) / np.mean(second[keep] ** 2)))

    num = first.size
    left_out = np.array([value(np.arange(num) != i) for i in range(num)])
    spread = np.sum((left_out - np.mean(left_out)) ** 2)
    return Estimate(value(np.full(num, True)), float(np.sqrt((num - 1) / num * spread)))


def cells_of(rows: list[Row]) -> dict[tuple[str, str], Cell]:
    """The cells by problem and what is tuned, in the order of the lists."""
    grouped = group(rows, "problem", "tuned")
    return {(p, t): Cell(grouped[p, t]) for p in PROBLEMS for t in TUNED if (p, t) in grouped}


def pictures(rows: list[Row]) -> list[Picture]:
    """Errors of every q relative to the geometric path: a panel for what is tuned, a row for each problem."""
    cells = cells_of(rows)
    problems = list(dict.fromkeys(key[0] for key in cells))
    tuned = list(dict.fromkeys(key[1] for key in cells))
    names = next(iter(cells.values())).names
    figure, axes = plt.subplots(
        1,
        len(tuned),
        figsize=(2.6 + 0.24 * len(names) * len(tuned), 1.6 + 0.34 * len(problems)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, what in zip(axes[0], tuned, strict=True):
        values = np.full((len(problems), len(names)), np.nan)
        for i, problem in enumerate(problems):
            if (problem, what) in cells:
                cell = cells[problem, what]
                rms = cell.rms()
                values[i] = np.log2(rms / rms[cell.geometric])
                best = int(np.argmax(np.mean(cell.bounds, axis=0)))
                ax.plot(best, i, "o", color="black", markersize=4)
        image = ax.imshow(values, cmap="RdBu_r", vmin=-3, vmax=3, aspect="auto")
        ax.set_title(LABELS[what], fontsize=9)
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes[0, 0].set_yticks(range(len(problems)), [PROBLEMS[problem][0] for problem in problems], fontsize=8)
    figure.supxlabel("q, or q at the base : q at the target", fontsize=9)
    bar = figure.colorbar(image, ax=axes[0].tolist(), pad=0.01, ticks=[-3, -2, -1, 0, 1, 2, 3])
    bar.ax.set_yticklabels(["1/8", "1/4", "1/2", "1", "2", "4", "8"], fontsize=8)
    bar.set_label("error over that of the geometric path", fontsize=8)
    caption = (
        "Root mean square error of the log evidence at equal cost, relative to the geometric path. Blue: smaller. "
        "Dots: the best mean estimate of the log evidence, which needs no truth."
    )
    return [Picture("map", caption, figure)]


def sheets(rows: list[Row]) -> list[Sheet]:
    """The error of the geometric path, the q of the bound, and what it gains on held-out seeds."""
    lines = []
    for (problem, tuned), cell in cells_of(rows).items():
        gain, varying = cell.of_q(), cell.of_varying()
        error = cell.rms()[cell.geometric]
        lines.append(
            [
                PROBLEMS[problem][0],
                LABELS[tuned],
                f"{error:.2g}",
                gain.chosen if gain else "",
                _in_times(gain),
                varying.chosen if varying else "",
                _in_times(varying),
            ]
        )
    columns = ["problem", "tuned", "error at q = 1", "q by the bound", "gain", "with varying q", "gain over constant q"]
    note = (
        "Errors in nats, root mean square over the seeds. q is 1 unless another one has a better mean estimate by more "
        "than two standard errors. It is chosen for each seed by the other seeds; several values where these disagree. "
        "The gain is the error before over the error after."
    )
    return [Sheet("What q gains", columns, lines, note)]


def _in_times(gain: Gain | None) -> str:
    if gain is None:
        return ""
    low, high = (2.0 ** (gain.log_ratio.value + sign * gain.log_ratio.standard_error) for sign in (-1, 1))
    return f"{gain.ratio:.2f} ({low:.2f} to {high:.2f})"


def claims(rows: list[Row]) -> list[Claim]:
    """For each thing that is tuned: whether q helps on the whole, and whether a varying q helps more."""
    found = []
    cells = cells_of(rows)
    for tuned in TUNED:
        here = {problem: cell for (problem, what), cell in cells.items() if what == tuned}
        gains = {problem: gain for problem, cell in here.items() if (gain := cell.of_q())}
        varying = {problem: gain for problem, cell in here.items() if (gain := cell.of_varying())}
        if gains:
            found.append(_claim(f"{LABELS[tuned]}: the q of the bound has a smaller error than q = 1", gains))
            found.append(
                _claim(f"{LABELS[tuned]}: a q that may change along the path has a smaller error still", varying)
            )
    return found


def _claim(statement: str, gains: dict[str, Gain]) -> Claim:
    """The mean over the problems, and the problems with a gain beyond noise that is worth a choice."""
    whole = mean([gain.log_ratio.value for gain in gains.values()])
    helped = winners(gains)
    ours = f"{2.0**whole.value:.2f} times smaller in the geometric mean over {len(gains)} problems; "
    ours += f"beyond noise in {len(helped)}" + (f": {', '.join(helped)}" if helped else "")
    verdict = Judgment.OPEN if np.isnan(whole.standard_error) else judge(*whole, np.log2(_NOTHING), np.inf)
    return Claim(f"{statement}, in the mean over the problems", "ours", ours, verdict)


def winners(gains: dict[str, Gain]) -> list[str]:
    """Problems in which the error before is a quarter larger than the error after, beyond two standard errors."""
    return [
        problem
        for problem, gain in gains.items()
        if gain.ratio > _WORTH and gain.log_ratio.value > 2 * gain.log_ratio.standard_error
    ]


def losers(gains: dict[str, Gain]) -> list[str]:
    """Problems in which the error is a quarter larger, beyond two standard errors."""
    return winners({name: gain._replace(log_ratio=_negative(gain.log_ratio)) for name, gain in gains.items()})


def _negative(estimate: Estimate) -> Estimate:
    return Estimate(-estimate.value, estimate.standard_error)
