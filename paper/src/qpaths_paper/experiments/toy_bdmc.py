"""Figure 10: gaps of bidirectional Monte Carlo with exact transitions on two toy problems, path against path.

With independent exact draws at each beta (`parts/exact.py`) there is no error of the transitions, and only the path
matters. For an exponential family the gap between upper and lower bound is the symmetric Kullback-Leibler divergence of
the endpoints over the number of steps. So the geometric path and moment averaging have the same gap between normals,
and a q-path can have a smaller one.

Settings:
    endpoints: `gaussian`, from N(-4, 3) to N(4, 1), and `student_t`, the same with one degree of freedom.
    num_distributions: Numbers of equally spaced betas, both endpoints included.
    num_q: Values of 1 - q on the grid, from 1e-5 to 0.1 with equal distances in the logarithm.
    num_samples: Independent draws at each beta.

Rows:
    lower, upper, gap: The bounds on the log evidence, which is 0, and their difference.
    gap_se: The standard error of the gap.
    exact_gap: The expected gap by quadrature.
"""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator

from qpaths.families import Normal, StudentT
from qpaths.paths import AbstractPath, EscortMomentPath, MomentPath, QPath

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, Sheet, group, product
from ..harness.judging import all_of, judge, smaller, yes_or_no
from ..harness.statistics import Estimate, in_words, mean
from ..parts.exact import exact_bounds
from ..parts.published import delta_grid, figures

SYMMETRIC_KL = 43 + 1 / 3
"""KL(base : target) + KL(target : base) between N(-4, 3) and N(4, 1); over the number of steps it is the gap."""

LOWER = {"half": 0.5, "mixture": 1.0}
"""Orders below those of the grid, as 1 - q: curves of their own, so that the best q is that of the paper's grid."""

FAMILY = {"gaussian": ("moment", None), "student_t": ("escort_moment", -1.0)}
"""The path through the family of the endpoints, and the order of that family as 1 - q where it is not geometric."""

LABELS = {
    "geometric": "geometric",
    "grid": "best q of the grid",
    "moment": "moment averaging",
    "escort_moment": "escort moments",
    "exact_escort": "escort moments, exact",
    "family": "q = 2, in the family",
    "half": "q = 0.5",
    "mixture": "q = 0",
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


_TITLES = {"gaussian": "N(-4, 3) to N(4, 1)", "student_t": "Student-t, one degree of freedom, (-4, 3) to (4, 1)"}
_SHORT = {"gaussian": "normal endpoints", "student_t": "Student-t endpoints"}


def _kinds(endpoints: str) -> list[str]:
    """The paths between some endpoints."""
    parametric, order = FAMILY.get(endpoints, ("", None))
    return ["geometric", "grid", parametric, *(["exact_escort", "family"] if order is not None else []), *LOWER]


def _deltas(settings: Settings, endpoints: str, path: str) -> list[float]:
    """1 - q of the runs along a path."""
    if path == "grid":
        return delta_grid(settings["num_q"])
    return [FAMILY[endpoints][1] or 0.0 if path == "family" else LOWER.get(path, 0.0)]


def path_of(endpoints: str, kind: str, delta: float) -> AbstractPath[Any]:
    """The path of one run: `moment`, `escort_moment`, or else the q-path with this `delta`.

    `delta` is an array, so that one program serves all q.
    """
    base: Normal | StudentT
    target: Normal | StudentT
    if endpoints == "gaussian":
        base, target = Normal(-4.0, 3.0**0.5), Normal(4.0, 1.0)
    elif endpoints == "student_t":
        base, target = StudentT(1.0, -4.0, 3.0**0.5), StudentT(1.0, 4.0, 1.0)
    else:
        raise ValueError(f"`endpoints` must be among {', '.join(FAMILY)}, got {endpoints!r}.")
    if kind == "moment":
        return MomentPath(base, target)
    if kind in ("escort_moment", "exact_escort"):
        return EscortMomentPath(base, target, exact=kind == "exact_escort")
    return QPath(base, target, delta=jnp.asarray(delta))


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Bounds from exact draws. All paths of a seed use the same uniform numbers: their differences have less noise."""
    if settings["num_distributions"] < 2:
        raise ValueError(f"`num_distributions` must be at least 2, got {settings['num_distributions']}.")
    path = path_of(settings["endpoints"], settings["path"], settings["delta"])
    bounds = exact_bounds(path, settings["num_distributions"], settings["num_samples"], key=jax.random.key(seed))
    values = {name: float(value) for name, value in bounds._asdict().items()}
    return {**values, "gap": values["upper"] - values["lower"]}


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """Measured gaps against exact ones; exponential families; then which path has the smaller gap."""
    gaps = Gaps(rows)
    means = [(gap_of(found), found[0]["exact_gap"]) for found in gaps.rows.values()]
    worst = max(abs(gap.value - exact) / gap.standard_error for gap, exact in means)
    yield Claim(
        "measured gaps agree with the exact ones (quadrature)",
        "not given",
        f"furthest of {len(means)} means: {worst:.1f} standard errors",
        yes_or_no(worst < 5),
    )
    for path in ("geometric", "moment"):
        if ratios := [ratio for num in gaps.nums if (ratio := gaps.relative("gaussian", path, num))]:
            yield Claim(
                f"normal endpoints, {LABELS[path]}: the gap is 43.33 / (number of distributions - 1) within 2 % "
                f"at every number",
                "exact for exponential families",
                f"furthest: {max(ratios, key=lambda ratio: abs(ratio.value - 1))} times it",
                all_of(judge(*ratio, 0.98, 1.02) for ratio in ratios),
            )
    if (ratio := gaps.relative("gaussian", "grid", 101)) and (best := gaps.best("gaussian", "grid", 101)):
        statement = f"normal endpoints, 101 distributions: the best q ({1 - best[0]:.4g}) has 0.545 ± 0.03 of the "
        statement += "geometric gap"
        yield Claim(statement, "q = 0.9: 0.544", str(ratio), judge(*ratio, 0.515, 0.575))
    for endpoints in gaps.endpoints:
        for other in gaps.paths(endpoints):
            found = {num: d for num in gaps.nums if (d := gaps.difference(endpoints, "grid", other, num))}
            if other not in ("grid", "exact_escort", *LOWER):
                yield from smaller(
                    f"{_SHORT[endpoints]}: the best q beats {LABELS[other]} at every number of distributions",
                    _paper_order(endpoints, other, gaps.nums),
                    found,
                    functools.partial(_percent, found),
                )


def _percent(found: dict[int, Estimate], num: int, least: str) -> str:
    return f"least: {in_words(Estimate(*(100 * number for number in found[num])), '%')}"


def _paper_order(endpoints: str, other: str, nums: list[int]) -> str:
    """By how much the paper's best q is smaller, at the number of distributions where that is least."""
    paper = printed()
    smaller = [
        1 - paper[endpoints, "grid", num][0] / paper[endpoints, other, num][0]
        for num in nums
        if (endpoints, "grid", num) in paper and (endpoints, other, num) in paper
    ]
    return f"least: {100 * min(smaller):.1f} % smaller" if smaller else "not given"


def _pictures(rows: list[Row]) -> list[Picture]:
    """Gaps against the number of distributions, a panel for each pair of endpoints."""
    gaps, paper = Gaps(rows), printed()
    figure, axes = plt.subplots(len(gaps.endpoints), 1, figsize=(7.2, 3.7 * len(gaps.endpoints)), layout="constrained")
    for ax, endpoints in zip(np.atleast_1d(axes), gaps.endpoints, strict=True):
        for index, path in enumerate(gaps.paths(endpoints)):
            _draw_path(ax, gaps, paper, (endpoints, path), f"C{index}")
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


def _draw_path(ax: Any, gaps: Gaps, paper: Printed, of: tuple[str, str], color: str) -> None:
    """Draw the gaps of one path between some endpoints: a line for ours, circles for the paper's."""
    points = [(num, found) for num in gaps.nums if (found := gaps.best(*of, num))]
    nums, means = [num for num, _ in points], [gap_of(found[1]) for _, found in points]
    errors = [0.0 if one.standard_error != one.standard_error else one.standard_error for one in means]
    width = 3.5 if of[1] == "geometric" else 1.5  # between normals moment averaging lies on top of it
    values = [one.value for one in means]
    ax.errorbar(nums, values, errors, color=color, linewidth=width, label=LABELS[of[1]], capsize=2)
    theirs = [(num, paper[*of, num][0]) for num in nums if (*of, num) in paper]
    ax.plot(*np.reshape(theirs, (-1, 2)).T, "o", color=color, markerfacecolor="none")


def _sheets(rows: list[Row]) -> list[Sheet]:
    """A table of gaps for each pair of endpoints: the paper's, ours, and the exact ones."""
    gaps, paper = Gaps(rows), printed()
    sheets = []
    for endpoints in gaps.endpoints:
        lines = []
        for path in gaps.paths(endpoints):
            for num in gaps.nums:
                if found := gaps.best(endpoints, path, num):
                    theirs = paper.get((endpoints, path, num))
                    name = f"q = {1 - found[0]:.4g}, best of the grid" if path == "grid" else LABELS[path]
                    numbers = f"{theirs[0]:.4f}" if theirs else "", str(gap_of(found[1]))
                    lines.append([name, str(num), *numbers, f"{found[1][0]['exact_gap']:.4f}"])
        columns = ["path", "distributions", "paper", "ours", "exact"]
        note = "" if endpoints == "gaussian" else _student_note(gaps, paper)
        sheets.append(Sheet(f"{_TITLES[endpoints]}: gaps in nats", columns, lines, note))
    return sheets


def _student_note(gaps: Gaps, paper: Printed) -> str:
    """Say how far the paper's gaps of the geometric path are from the exact ones."""
    ratios = [
        paper["student_t", "geometric", num][0] / found[1][0]["exact_gap"]
        for num in gaps.nums
        if (found := gaps.best("student_t", "geometric", num)) and ("student_t", "geometric", num) in paper
    ]
    if not ratios:
        return ""
    return (
        f"The paper's gaps of the geometric path are {min(ratios):.2f} to {max(ratios):.2f} times the exact ones. Its "
        f"q-path wins by much less against the exact geometric gap than in the paper. With exact draws the gap falls "
        f"further below the grid of q, and with the escort moments as defined: that a small 1 - q is best elsewhere is "
        f"the work of kernels that move locally."
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
    runs=product(
        endpoints="endpoints",
        path=lambda settings, run: _kinds(run["endpoints"]),
        delta=lambda settings, run: _deltas(settings, **run),
        num_distributions="num_distributions",
        without=["num_q"],
    ),
    run_one=_run_one,
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=40,
    smoke_seeds=4,
)
