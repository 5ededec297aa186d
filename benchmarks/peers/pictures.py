"""Pictures of the comparison: error against CPU seconds, error against evaluations, coverage of the error bars."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from benchmarks.peers.summary import EFFORTS, OURS, interval

MARKERS = "osD^v<>PX*h"
STYLE = {"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 8, "axes.grid": True, "grid.alpha": 0.25}


def looks(peers):
    """Color, marker and size of each peer; ours stands out."""
    colors = plt.get_cmap("tab10").colors
    others = [peer for peer in peers if peer != OURS]
    found = {peer: {"color": colors[k % 10], "marker": MARKERS[k], "s": 34} for k, peer in enumerate(others)}
    return found | {OURS: {"color": "black", "marker": "*", "s": 130}}


def errors_against(name, label, cells, problems, titles, file):
    """A panel for each problem. Filled marks are documented defaults, hollow ones more effort.

    In the picture of CPU seconds a package that was stopped has its mark on the upper edge.
    """
    with mpl.rc_context(STYLE):
        num_columns = min(5, len(problems))
        num_rows = -(-len(problems) // num_columns)
        size = (2.4 * num_columns, 2.3 * num_rows + 1)
        figure, axes = plt.subplots(num_rows, num_columns, figsize=size, squeeze=False, sharex=True, sharey=True)
        look, handles = looks(titles), {}
        for axis, problem in zip(axes.flat, problems, strict=False):
            for (peer, where, effort), cell in cells.items():
                if where != problem:
                    continue
                if not cell.answers and cell.stopped is not None and name == "cpu_seconds":
                    handles.setdefault(peer, at_the_edge(axis, cell.stopped, look[peer]))
                if not cell.answers or cell.median(name) is None:
                    continue
                fill = {"facecolors": look[peer]["color"] if effort == EFFORTS[0] else "none"}
                shape = {"edgecolors": look[peer]["color"], "marker": look[peer]["marker"], "s": look[peer]["s"]}
                mark = axis.scatter(cell.median(name), max(cell.rms, 1e-4), zorder=3, **shape, **fill)
                if effort == EFFORTS[0] or peer not in handles:
                    handles[peer] = mark
            axis.set(title=problem, xscale="log", yscale="log", xlim=limits_of(name, cells))
            axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.xaxis.set_minor_formatter(NullFormatter())
        for axis in axes.flat[len(problems) :]:
            axis.set_visible(False)
        for axis in axes[:, 0]:
            axis.set_ylabel("RMS error, nats")
        for axis in axes[-1]:
            axis.set_xlabel(label)
        order = [peer for peer in titles if peer in handles]
        figure.legend(
            [handles[peer] for peer in order],
            [titles[peer] for peer in order],
            loc="lower center",
            ncols=max(3, num_columns + 1),
            frameon=False,
        )
        figure.tight_layout(rect=(0, 0.35 / size[1] + 0.04, 1, 1))
        save(figure, file)


def limits_of(name, cells):
    """From the smallest cost to the largest, the limits of stopped runs included."""
    costs = [cell.median(name) for cell in cells.values() if cell.answers and cell.median(name) is not None]
    costs += [cell.stopped for cell in cells.values() if name == "cpu_seconds" and cell.stopped is not None]
    return 0.8 * min(costs), 1.3 * max(costs)


def at_the_edge(axis, limit, look):
    """A mark on the upper edge of the panel for a package that was stopped."""
    shape = {"marker": look["marker"], "s": look["s"], "facecolors": look["color"], "edgecolors": look["color"]}
    return axis.scatter(limit, 1.0, transform=axis.get_xaxis_transform(), clip_on=False, zorder=4, **shape)


def coverage(cells, titles, file):
    """The share of answers within two of their own error bars, with 95 % intervals, for both efforts together."""
    shares = {}
    for peer in titles:
        covered = [hit for (name, *_), cell in cells.items() if name == peer for hit in cell.covered]
        if covered:
            shares[peer] = sum(covered), len(covered)
    order = sorted(shares, key=lambda peer: shares[peer][0] / shares[peer][1])
    with mpl.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(6, 0.34 * len(order) + 1.2))
        for place, peer in enumerate(order):
            num, total = shares[peer]
            color = "black" if peer == OURS else "tab:blue"
            axis.plot(interval(num, total), [place, place], color=color, linewidth=2, alpha=0.5)
            axis.plot(num / total, place, "o", color=color)
        axis.axvline(0.954, color="gray", linestyle="--", linewidth=1)
        axis.set_yticks(range(len(order)), [f"{titles[peer]} ({shares[peer][1]} answers)" for peer in order])
        axis.set(xlim=(-0.02, 1.02), xlabel="share of answers within two of their own error bars (dashed: 95 %)")
        axis.set_xticks(np.linspace(0, 1, 6), [f"{share:.0%}" for share in np.linspace(0, 1, 6)])
        axis.grid(axis="y", visible=False)
        figure.tight_layout()
        save(figure, file)


def save(figure, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)
