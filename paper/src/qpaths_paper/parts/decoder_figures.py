"""Pictures and sheets of the experiments on decoder models.

Colors are values of q, or columns where each is shown at its best q. Solid lines start from the prior, dashed lines
from the encoder. `panels`, `curves`, `legend` and the axes serve both experiments; `pictures` and `sheets` are those of
`omniglot_bdmc`.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ..harness.experiment import Picture, Row, Sheet, group
from ..harness.statistics import Estimate, choose_on_other_half, mean
from .decoders import BASES, LABELS
from .published import figures

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

    def best_differences(self, base: str, column: str) -> dict[int, Estimate]:
        """`best_difference` at each number of distributions that has one."""
        return {num: d for num in self.nums if (d := self.best_difference(base, column, num))}

    def of_rows(self, key: Key, name: str) -> float:
        """The mean of a value over the seeds."""
        return float(np.mean([row[name] for row in self.rows[key]]))


# Colors of columns, and lines and fills of bases.
_COLORS = {"released": "C3", "kernel": "C1", "tuned": "C0", "split": "C2"}
_STYLES = {"prior": "-", "encoder": "--"}
_FILLS = {"prior": None, "encoder": "white"}


def pictures(rows: list[Row]) -> list[Picture]:
    """Gaps, bounds, and bounds against time."""
    cells = Cells(rows, "gaps")
    return [_gaps(cells, rows[0]["model"]), _bounds(cells), _seconds(cells)]


def _color(cells: Cells, q: float) -> Any:
    """The color of a q: black for the geometric path, and a color map for the others."""
    others = [one for one in cells.orders if one != 1]
    return "black" if q == 1 else plt.cm.viridis(0.15 + 0.75 * others.index(q) / max(len(others) - 1, 1))


def panels(cells: Cells, height: float, sharey: bool = True) -> tuple[Any, list[Any]]:
    """A figure with a panel for each column, titled with its label."""
    num = len(cells.columns)
    width = 2.5 * num + 1.2 if num > 1 else 5.5
    figure, axes = plt.subplots(1, num, figsize=(width, height), sharey=sharey, layout="constrained", squeeze=False)
    for ax, column in zip(axes[0], cells.columns, strict=True):
        ax.set_title(LABELS[column].replace(", ", ",\n", 1), fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        ax.ticklabel_format(axis="y", useOffset=False)
    return figure, list(axes[0])


def number_axis(ax: Any, nums: Sequence[int]) -> None:
    """A logarithmic axis with a tick at each number of distributions."""
    ax.set_xscale("log")
    ax.set_xticks(nums, [str(num) for num in nums], fontsize=8)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("distributions")


def curves(ax: Any, cells: Cells, column: str, value_of: Any, style: str | None = None, label: bool = True) -> None:
    """Draw a line for each base and q of a column; `value_of(key)` gives the estimate of a cell."""
    for base in cells.bases:
        for q in cells.orders:
            keys = [key for num in cells.nums if (key := (base, column, q, num)) in cells.values]
            found = [value_of(key) for key in keys]
            ax.errorbar(
                [key[3] for key in keys],
                [one.value for one in found],
                [one.standard_error if np.isfinite(one.standard_error) else 0.0 for one in found],
                color=_color(cells, q),
                linestyle=style or _STYLES[base],
                linewidth=1.6 if q == 1 else 1.1,
                marker="o",
                markersize=3.5,
                markerfacecolor=_FILLS[base],
                label=f"q = {q:g}" if label and base == cells.bases[0] else None,
            )


def legend(figure: Any, ax: Any, cells: Cells) -> None:
    """A legend below the panels: values of q, and the bases if there are several."""
    if len(cells.bases) > 1:
        for base in cells.bases:
            style = {"linestyle": _STYLES[base], "marker": "o", "markersize": 3.5, "markerfacecolor": _FILLS[base]}
            ax.plot([], [], color="0.4", label=f"from the {base}", **style)
    num = max(3, int(figure.get_figwidth() / 1.35))
    figure.legend(*ax.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=num, fontsize=9)


def seconds_axis(ax: Any, what: str) -> None:
    """A logarithmic axis of seconds; `what` says what they were spent on."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel(f"seconds, {what}")
    ax.spines[["top", "right"]].set_visible(False)


def label_of(cells: Cells, base: str, column: str) -> str:
    """The label of a column, with the base if there are several."""
    return f"{LABELS[column]}, {base}" if len(cells.bases) > 1 else LABELS[column]


def _gaps(cells: Cells, model: str) -> Picture:
    """Gaps against the number of distributions; with the paper's weights also those of the released example."""
    figure, axes = panels(cells, 4.0)
    for ax, column in zip(axes, cells.columns, strict=True):
        curves(ax, cells, column, lambda key: cells.mean(*key))
        number_axis(ax, cells.nums)
        ax.set_yscale("log")
        ax.grid(axis="y", color="0.9", linewidth=0.6)
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        if column == "released" and model == "paper":
            known = np.array([(int(line["num_distributions"]), float(line["gap"])) for line in figures("omniglot")])
            ax.plot(*known.T, "o", color="C3", markerfacecolor="none", markersize=9, label="paper's example")
    axes[0].set_ylabel("gap in nats")
    legend(figure, axes[0], cells)
    caption = "Gap between upper and lower bound, mean over the images with its standard error."
    if "split" in cells.columns:
        caption += " The best split has the gradients of that many distributions with the others' leapfrog steps."
    if model == "paper" and "released" in cells.columns:
        caption += " Circles: the released example, 100 images, q = 1 and 0.997."
    return Picture("gaps", caption, figure)


def _bounds(cells: Cells) -> Picture:
    """Lower and upper bounds against the number of distributions."""
    figure, axes = panels(cells, 4.0, sharey=False)
    for ax, column in zip(axes, cells.columns, strict=True):
        for side, style in (("lower", "-"), ("upper", ":")):
            curves(
                ax,
                cells,
                column,
                lambda key, side=side: Estimate(cells.of_rows(key, side), 0.0),
                style if len(cells.bases) == 1 else None,
                label=side == "lower",
            )
        number_axis(ax, cells.nums)
    axes[0].set_ylabel("mean log p(x) in nats")
    legend(figure, axes[0], cells)
    how = "solid lines from below, dotted ones from above" if len(cells.bases) == 1 else "from below and from above"
    return Picture(
        "bounds", f"Lower and upper bounds on the mean log likelihood: {how}. Each panel has its scale.", figure
    )


def _seconds(cells: Cells) -> Picture:
    """Both bounds at the best q against the time they took, relative to the middle of the narrowest pair of bounds."""
    tightest = min(cells.values, key=lambda key: cells.mean(*key).value)
    middle = 0.5 * (cells.of_rows(tightest, "lower") + cells.of_rows(tightest, "upper"))
    figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for base in cells.bases:
        for column in cells.columns:
            keys = [(base, column, q, num) for num in cells.nums if (q := cells.best_q(base, column, num)) is not None]
            style: dict[str, Any] = {
                "color": _COLORS[column],
                "linestyle": _STYLES[base],
                "markerfacecolor": _FILLS[base],
            }
            seconds = [cells.of_rows(key, "seconds") for key in keys]
            lower, upper = ([cells.of_rows(key, side) - middle for key in keys] for side in ("lower", "upper"))
            ax.plot(seconds, lower, marker="^", markersize=5, label=label_of(cells, base, column), **style)
            ax.plot(seconds, upper, marker="v", markersize=5, **style)
    ax.axhline(0, color="0.6", linewidth=0.8)
    seconds_axis(ax, "both directions, all images")
    ax.set_yscale("symlog", linthresh=0.1)
    ax.margins(y=0.05)  # of this scale, not of the linear one before
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_ylabel("bound minus tightest estimate, nats")
    ax.legend(frameon=False, fontsize=9)
    caption = (
        "Both bounds at the best q of each number of distributions, against the seconds of the run without compiler "
        "and pilots: upper bounds point down, lower bounds up. Zero is the middle of the narrowest pair of bounds; the "
        "scale is linear between -0.1 and 0.1."
    )
    return Picture("seconds", caption, figure)


def sheets(rows: list[Row]) -> list[Sheet]:
    """Gaps from each base, then settings and costs."""
    cells = Cells(rows, "gaps")
    found = [gap_sheet(cells, base, "gap in nats") for base in cells.bases]
    return [*found, costs(cells)]


def gap_sheet(cells: Cells, base: str, what: str) -> Sheet:
    """Means over the images: a line for each column and q, a column for each number of distributions."""
    lines = []
    for column in cells.columns:
        for q in cells.orders:
            known = [(base, column, q, num) for num in cells.nums]
            values = [cells.mean(*key) if key in cells.values else None for key in known]
            if any(values):
                numbers = [str(one) if one else "" for one in values]
                lines.append([LABELS[column], f"{q:g}", *numbers])
    columns = ["column", "q", *(f"K = {num}" for num in cells.nums)]
    note = "Mean over the images with its standard error; the weights of an image's chains are averaged under the log."
    return Sheet(f"From the {base}: {what}", columns, lines, note)


def costs(cells: Cells) -> Sheet:
    """Tabulate what each column chose, and what it cost, as means over q."""
    cases = [(base, column, num) for base in cells.bases for column in cells.columns for num in cells.nums]
    columns = ["column", "K", "leapfrog steps", "accepted", "seconds", "pilots, seconds"]
    note = (
        "Means over q. Seconds of one run without the compiler's; those of the pilots are with it, and pilots of up to "
        "500 distributions serve all longer runs of a column."
    )
    lines = [line for case in cases if (line := _cost_line(cells, *case))]
    return Sheet("Settings and costs", columns, lines, note)


def _cost_line(cells: Cells, base: str, column: str, num: int) -> list[str]:
    """One line of the sheet of costs; empty without rows."""
    keys: list[Key] = [(base, column, q, num) for q in cells.orders if (base, column, q, num) in cells.values]
    if not keys:
        return []
    chosen = sorted({int(row["leapfrog_used"]) for key in keys for row in cells.rows[key]})
    accepted, seconds, pilots = (
        np.mean([cells.of_rows(key, name) for key in keys]) for name in ("acceptance", "seconds", "pilot_seconds")
    )
    numbers = [" or ".join(map(str, chosen)), f"{accepted:.0%}", f"{seconds:.2f}", f"{pilots:.1f}"]
    return [f"{LABELS[column]}, from the {base}", str(num), *numbers]
