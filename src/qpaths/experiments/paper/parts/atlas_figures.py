"""Stored rows of the atlas as errors, choices of q, a picture, a table and claims."""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from ...experiment import Claim, Judgment, Picture, Row, Sheet, group
from ...judging import judge
from ...statistics import Estimate, mean
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


class Gain(NamedTuple):
    """What the bound chose, and log2 of the error before over the error after, on held-out seeds."""

    chosen: str
    log_ratio: Estimate

    @property
    def ratio(self) -> float:
        """How many times smaller the error is."""
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

    def gain(self, candidates: list[int], against: list[int]) -> Gain | None:
        """What the best candidate gains over the best of others, both chosen by the bound on other seeds.

        None with fewer than four seeds. The standard error is that of a jackknife over the held-out seeds.
        """
        if self.seeds.size < 4:
            return None
        new, old, names = [], [], []
        for half in (0, 1):
            here = self.seeds % 2 == half
            best, other = (self._choice(~here, among) for among in (candidates, against))
            new.append(self.errors[here, best])
            old.append(self.errors[here, other])
            names.append(self.names[best])
        first, second = np.concatenate(old), np.concatenate(new)
        return Gain(" / ".join(dict.fromkeys(names)), _log_ratio(first, second))

    def _choice(self, seeds: np.ndarray, among: list[int]) -> int:
        return max(among, key=lambda i: np.mean(self.bounds[seeds, i]))

    @property
    def constant(self) -> list[int]:
        """Candidates whose q stays the same."""
        return list(range(self.num_constant))

    def of_q(self) -> Gain | None:
        """A constant q against the geometric path."""
        return self.gain(self.constant, [self.geometric])

    def of_varying(self) -> Gain | None:
        """A q that may change along the path against one that stays the same."""
        return self.gain(list(range(len(self.names))), self.constant)


def _log_ratio(first: np.ndarray, second: np.ndarray) -> Estimate:
    """log2 of the ratio of two root mean squares over the same seeds, with a jackknife standard error."""

    def value(keep: np.ndarray) -> float:
        return 0.5 * float(np.log2(np.mean(first[keep] ** 2) / np.mean(second[keep] ** 2)))

    num = first.size
    left_out = np.array([value(np.arange(num) != i) for i in range(num)])
    return Estimate(
        value(np.full(num, True)), float(np.sqrt((num - 1) / num * np.sum((left_out - np.mean(left_out)) ** 2)))
    )


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
        figsize=(1.6 + 0.26 * len(names) * len(tuned), 1.5 + 0.34 * len(problems)),
        sharey=True,
        squeeze=False,
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
    figure.tight_layout()
    bar = figure.colorbar(image, ax=axes[0].tolist(), shrink=0.8, pad=0.01, ticks=[-3, -2, -1, 0, 1, 2, 3])
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
        "Errors in nats, root mean square over the seeds. q is chosen by the best mean estimate on half of the seeds, "
        "and the gain, the error before over the error after, is that of the other half; two choices where the halves "
        "disagree."
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
    verdict = Judgment.OPEN if np.isnan(whole.standard_error) else judge(*whole, 0.0, np.inf)
    return Claim(f"{statement}, in the mean over the problems", "ours", ours, verdict)


def winners(gains: dict[str, Gain]) -> list[str]:
    """Problems in which the error is a quarter smaller, beyond two standard errors."""
    return [
        problem
        for problem, gain in gains.items()
        if gain.ratio > _WORTH and gain.log_ratio.value > 2 * gain.log_ratio.standard_error
    ]
