"""Toy problems of the appendix: gaps of bidirectional Monte Carlo with exact transitions, path against path."""

from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator

from ...families import Normal, StudentT
from ...paths import AbstractPath, EscortMomentPath, MomentPath, QPath
from ..experiment import Claim, Experiment, Picture, Row, Run, Settings, Sheet, group
from ..judging import all_of, judge, yes_or_no
from ..statistics import Estimate, in_words, mean
from .shared.exact import exact_bounds
from .shared.published import delta_grid, figures

_SYMMETRIC_KL = 43 + 1 / 3
"""KL(base : target) + KL(target : base) between N(-4, 3) and N(4, 1); over the number of steps it is the gap."""

_FAMILY = {"gaussian": ("moment", None), "student_t": ("escort_moment", -1.0)}
"""The path through the family of the endpoints, and the order of that family as 1 - q where it is not geometric."""

_LABELS = {
    "geometric": "geometric",
    "grid": "best q of the grid",
    "moment": "moment averaging",
    "escort_moment": "escort moments",
    "family": "q = 2, in the family",
}
_TITLES = {"gaussian": "N(-4, 3) to N(4, 1)", "student_t": "Student-t, one degree of freedom, (-4, 3) to (4, 1)"}
_SHORT = {"gaussian": "normal endpoints", "student_t": "Student-t endpoints"}


def _runs(settings: Settings, num_seeds: int) -> list[Run]:
    runs = []
    for endpoints in settings["endpoints"]:
        parametric, order = _FAMILY.get(endpoints, ("", None))
        paths = [
            ("geometric", 0.0),
            *(("grid", delta) for delta in delta_grid(settings["num_q"])),
            (parametric, 0.0),
        ]
        if order is not None:
            paths.append(("family", order))
        for kind, delta in paths:
            for num in settings["num_distributions"]:
                run = {"endpoints": endpoints, "path": kind, "delta": delta, "num_distributions": num}
                run["num_samples"] = settings["num_samples"]
                runs += [Run(run, seed) for seed in range(num_seeds)]
    return runs


def path_of(endpoints: str, kind: str, delta: float) -> AbstractPath[Any]:
    """The path of one run. Arrays, so that one program serves all q."""
    base: Normal | StudentT
    target: Normal | StudentT
    if endpoints == "gaussian":
        base, target = Normal(-4.0, 3.0**0.5), Normal(4.0, 1.0)
    elif endpoints == "student_t":
        base, target = StudentT(1.0, -4.0, 3.0**0.5), StudentT(1.0, 4.0, 1.0)
    else:
        raise ValueError(f"`endpoints` must be among {', '.join(_FAMILY)}, got {endpoints!r}.")
    if kind == "moment":
        return MomentPath(base, target)
    if kind == "escort_moment":
        return EscortMomentPath(base, target)
    return QPath(base, target, delta=jnp.asarray(delta))


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    if settings["num_distributions"] < 2:
        raise ValueError(f"`num_distributions` must be at least 2, got {settings['num_distributions']}.")
    path = path_of(settings["endpoints"], settings["path"], settings["delta"])
    # All paths of a seed draw with the same uniform numbers, which makes their differences more exact.
    bounds = exact_bounds(path, settings["num_distributions"], settings["num_samples"], key=jax.random.key(seed))
    values = {name: float(value) for name, value in bounds._asdict().items()}
    return {**values, "gap": values["upper"] - values["lower"]}


class _Gaps:
    """Mean gaps by endpoints, path and number of distributions; the grid's best q has the lowest mean gap."""

    def __init__(self, rows: list[Row]):
        self.rows = group(rows, "endpoints", "path", "num_distributions", "delta")
        self.nums = sorted({row["num_distributions"] for row in rows})
        self.endpoints = [name for name in _FAMILY if any(row["endpoints"] == name for row in rows)]

    def best(self, endpoints: str, path: str, num: int) -> tuple[float, list[Row]] | None:
        """The rows of a path, for the grid those of its best q; and 1 - q."""
        found = [(key[3], rows) for key, rows in self.rows.items() if key[:3] == (endpoints, path, num)]
        return min(found, key=lambda one: _gap(one[1]).value) if found else None

    def paths(self, endpoints: str) -> list[str]:
        return [path for path in _LABELS if any(key[:2] == (endpoints, path) for key in self.rows)]

    def relative(self, endpoints: str, path: str, num: int) -> Estimate | None:
        """The gap over that of an exponential family."""
        found = self.best(endpoints, path, num)
        if found is None:
            return None
        scale = (num - 1) / _SYMMETRIC_KL
        return Estimate(*(scale * number for number in _gap(found[1])))

    def difference(self, endpoints: str, path: str, other: str, num: int) -> Estimate | None:
        """The mean difference of two paths, seed by seed, over the gap of the other."""
        first, second = self.best(endpoints, path, num), self.best(endpoints, other, num)
        if first is None or second is None:
            return None
        gaps = {row.seed: row["gap"] for row in second[1]}
        pairs = [row["gap"] - gaps[row.seed] for row in first[1] if row.seed in gaps]
        scale = _gap(second[1]).value
        return mean([pair / scale for pair in pairs]) if pairs else None


def _gap(rows: list[Row]) -> Estimate:
    """The mean gap; each run knows its own standard error, which a few seeds would tell less well."""
    error = float(np.sqrt(np.sum([row["gap_se"] ** 2 for row in rows]))) / len(rows)
    return Estimate(float(np.mean([row["gap"] for row in rows])), error)


def _paper() -> dict[tuple[str, str, int], tuple[float, str]]:
    """The paper's mean gap and q by endpoints, path and number of distributions."""
    found = {}
    for line in figures("toy_bdmc"):
        path = line["path"]
        if path == "q":
            path = "family" if float(line["q"]) == 2 else "grid"
        found[line["endpoints"], path, int(line["num_distributions"])] = float(line["gap_mean"]), line["q"]
    return found


def _claims(rows: list[Row]) -> list[Claim]:
    gaps = _Gaps(rows)
    claims = [_agreement(rows)]
    for path in ("geometric", "moment"):
        ratios = [ratio for num in gaps.nums if (ratio := gaps.relative("gaussian", path, num))]
        if ratios:
            worst = max(ratios, key=lambda ratio: abs(ratio.value - 1))
            claims.append(
                Claim(
                    f"normal endpoints, {_LABELS[path]}: the gap is 43.33 / (number of distributions - 1) within 2 % "
                    f"at every number",
                    "exact for exponential families",
                    f"furthest: {worst} times it",
                    all_of(judge(*ratio, 0.98, 1.02) for ratio in ratios),
                )
            )
    claims += _order(gaps)
    return claims


def _agreement(rows: list[Row]) -> Claim:
    groups = list(group(rows, "endpoints", "path", "num_distributions", "delta").values())
    gaps = [(_gap(found), found[0]["exact_gap"]) for found in groups]
    worst = max(abs(gap.value - exact) / gap.standard_error for gap, exact in gaps)
    return Claim(
        "measured gaps agree with the exact ones (quadrature)",
        "not given",
        f"furthest of {len(groups)} means: {worst:.1f} standard errors",
        yes_or_no(worst < 5),
    )


def _order(gaps: _Gaps) -> list[Claim]:
    """Who beats whom."""
    claims = []
    if (ratio := gaps.relative("gaussian", "grid", 101)) and (best := gaps.best("gaussian", "grid", 101)):
        claims.append(
            Claim(
                f"normal endpoints, 101 distributions: the best q ({1 - best[0]:.4g}) has 0.545 ± 0.03 of the "
                f"geometric gap",
                "q = 0.9: 0.544",
                str(ratio),
                judge(*ratio, 0.515, 0.575),
            )
        )
    for endpoints in gaps.endpoints:
        for other in (path for path in gaps.paths(endpoints) if path != "grid"):
            differences = [d for num in gaps.nums if (d := gaps.difference(endpoints, "grid", other, num))]
            if differences:
                least = max(differences, key=lambda difference: difference.value)
                verdict = all_of(judge(*difference, -np.inf, 0.0) for difference in differences)
                claims.append(
                    Claim(
                        f"{_SHORT[endpoints]}: the best q beats {_LABELS[other]} at every number of distributions",
                        _paper_order(endpoints, other, gaps.nums),
                        f"least: {in_words(Estimate(100 * least.value, 100 * least.standard_error), '%')}",
                        verdict,
                    )
                )
    return claims


def _paper_order(endpoints: str, other: str, nums: list[int]) -> str:
    paper = _paper()
    smaller = [
        1 - paper[endpoints, "grid", num][0] / paper[endpoints, other, num][0]
        for num in nums
        if (endpoints, "grid", num) in paper and (endpoints, other, num) in paper
    ]
    return f"least: {100 * min(smaller):.1f} % smaller" if smaller else "not given"


def _pictures(rows: list[Row]) -> list[Picture]:
    gaps, paper = _Gaps(rows), _paper()
    figure, axes = plt.subplots(len(gaps.endpoints), 1, figsize=(7.2, 3.7 * len(gaps.endpoints)), layout="constrained")
    for ax, endpoints in zip(np.atleast_1d(axes), gaps.endpoints, strict=True):
        for index, path in enumerate(gaps.paths(endpoints)):
            points = [(num, found) for num in gaps.nums if (found := gaps.best(endpoints, path, num))]
            nums, means = [num for num, _ in points], [_gap(found[1]) for _, found in points]
            errors = [0.0 if one.standard_error != one.standard_error else one.standard_error for one in means]
            colour = f"C{index}"
            width = 3.5 if path == "geometric" else 1.5  # between normals moment averaging lies on top of it
            ax.errorbar(
                nums,
                [one.value for one in means],
                errors,
                color=colour,
                linewidth=width,
                label=_LABELS[path],
                capsize=2,
            )
            theirs = [(num, paper[endpoints, path, num][0]) for num in nums if (endpoints, path, num) in paper]
            ax.plot(*np.reshape(theirs, (-1, 2)).T, "o", color=colour, markerfacecolor="none")
        ax.plot([], [], "o", color="0.3", markerfacecolor="none", label="paper")
        ax.set(xscale="log", yscale="log", title=_TITLES[endpoints], ylabel="gap in nats")
        ax.set_xticks(gaps.nums, [str(num) for num in gaps.nums])
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    np.atleast_1d(axes)[-1].set_xlabel("number of distributions")
    return [Picture("gaps", "Gap between upper and lower bound. Lines: ours; circles: the paper's.", figure)]


def _sheets(rows: list[Row]) -> list[Sheet]:
    gaps, paper = _Gaps(rows), _paper()
    sheets = []
    for endpoints in gaps.endpoints:
        lines = []
        for path in gaps.paths(endpoints):
            for num in gaps.nums:
                if found := gaps.best(endpoints, path, num):
                    theirs = paper.get((endpoints, path, num))
                    name = f"q = {1 - found[0]:.4g}, best of the grid" if path == "grid" else _LABELS[path]
                    numbers = f"{theirs[0]:.4f}" if theirs else "", str(_gap(found[1]))
                    lines.append([name, str(num), *numbers, f"{found[1][0]['exact_gap']:.4f}"])
        columns = ["path", "distributions", "paper", "ours", "exact"]
        note = "" if endpoints == "gaussian" else _student_note(gaps, paper)
        sheets.append(Sheet(f"{_TITLES[endpoints]}: gaps in nats", columns, lines, note))
    return sheets


def _student_note(gaps: _Gaps, paper: dict[tuple[str, str, int], tuple[float, str]]) -> str:
    ratios = [
        paper["student_t", "geometric", num][0] / found[1][0]["exact_gap"]
        for num in gaps.nums
        if (found := gaps.best("student_t", "geometric", num)) and ("student_t", "geometric", num) in paper
    ]
    if not ratios:
        return ""
    return (
        f"The paper's gaps of the geometric path are {min(ratios):.2f} to {max(ratios):.2f} times the exact ones. Its "
        f"q-path wins by much less against the exact geometric gap than in the paper."
    )


EXPERIMENT = Experiment(
    name="toy_bdmc",
    title="gaps of bidirectional Monte Carlo on two toys, path against path",
    paper="Figure 10 (appendix)",
    duration="5 min",
    about="Independent exact draws at each of the linearly spaced betas, so that only the path matters. The best q of "
    "20, 1 - q log-spaced from 1e-5 to 0.1, is the one with the lowest mean gap. 40 seeds, where the paper has 10 and "
    "5, so that 2 % can be told from noise.",
    settings={
        "endpoints": ["gaussian", "student_t"],
        "num_distributions": [3, 5, 7, 9, 11, 21, 41, 61, 101],
        "num_q": 20,
        "num_samples": 2500,
    },
    smoke={"num_distributions": [3, 11], "num_q": 3, "num_samples": 500},
    runs=_runs,
    run_one=_run_one,
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=40,
    smoke_seeds=4,
)
