"""Pictures of results: how a run went, its islands, the posterior by name, and models side by side.

Each function returns its axes and takes `ax`. Without it a new figure is made, and no other one is touched.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ..comparison import Comparison
from ..core import softmax
from ..remarks import Note
from ..results import Result, number_columns, weighted_quantiles
from ..stats import ErrorParts, pareto_shape

_COLOR, _DARK, _SECOND = "#7aa6d1", "#2f6ca8", "#c8641b"
_MOST_PAIRS, _MOST_PANELS = 6, 12
"""Numbers of the posterior up to which pairs are drawn, and those that have a panel."""
_NUM_DRAWN = 1500
"""Draws in a scatter plot."""
_OUTSIDE, _REGIONS = 0.0005, (0.9, 0.5)
"""Share of the mass that lies beyond an axis on either side, and that inside the lines around the points of a pair."""
_PARTS = {
    "within": "noise of each island",
    "between": "islands differ",
    "collapse": "a long step",
    "tail": "beyond largest weight",
    "lag": "lag of particles",
    "drift": "drift of draws",
    "scans": "scans for modes",
    "uncovered": "known modes",
}
"""Names for parts of a standard error whose own names say too little."""
_BEYOND = 6.0
"""Median deviations from the middle beyond which an island is drawn at the edge."""


def plot_run(result: Result, *, ax: Any = None) -> np.ndarray:
    """Plot how a run went in three panels.

    A run along a path shows the log evidence so far, ESS and acceptance at each step, and beta. A run of `evidence`
    that ends with weights alone has a single step: it shows the islands, the largest weights with their Pareto index,
    and what the standard error is made of.

    Args:
        result: The result of a run.
        ax: Three axes, for instance those of `plt.subplots(3)`; a new figure by default.

    Returns:
        The three axes.

    See [Pictures](gallery.md).

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run(path, key=jax.random.key(0))
        >>> len(plot_run(result))  # three panels
        3
    """
    if len(result.betas) == 2 and result.islands is not None:
        return _plot_weights(result, ax)
    axes = _axes(ax, 3, 1, (6.4, 6.8), sharex=True)
    evidence, quality, schedule = axes.ravel()
    betas, so_far = (np.asarray(result.stats[name]) for name in ("beta", "log_evidence"))
    steps = np.arange(1, len(betas) + 1)
    evidence.plot(steps, so_far, marker=".", color=_DARK, label="log evidence so far")
    lag = np.asarray(result.stats.get("log_evidence_lag", np.zeros(len(steps))))
    if np.nan_to_num(lag).any() and len(steps) > 1:
        evidence.fill_between(steps, so_far, so_far - lag, color=_SECOND, alpha=0.4, label="lag of the particles")
    _band(evidence, result)
    evidence.set_ylabel("log evidence")
    shares = {"ESS / particles": np.asarray(result.stats["ess"]) / result.log_weights.shape[0]}
    shares["acceptance"] = np.asarray(result.stats["acceptance"])
    for color, (name, values) in zip((_DARK, _SECOND), shares.items(), strict=True):
        if np.isfinite(values).any():
            quality.plot(steps, values, marker=".", color=color, label=name)
    quality.set_ylim(0, 1.05)
    quality.set_ylabel("share")
    schedule.plot([0, *steps], [0.0, *betas], marker=".", color=_DARK)
    schedule.set_ylabel(r"$\beta$")
    schedule.set_xlabel("step")
    schedule.xaxis.get_major_locator().set_params(integer=True)
    return _finished(axes, result, ax)


def _plot_weights(result: Result, ax: Any) -> np.ndarray:
    """Plot islands, largest weights and error parts of a run that ends with weights alone."""
    axes = _axes(ax, 3, 1, (6.4, 7.6))
    islands, tail, parts = axes.ravel()
    _draw_islands(islands, result)
    log_weights = np.sort(np.asarray(result.log_weights, float))[::-1]
    finite = log_weights[np.isfinite(log_weights)]
    relative = np.exp(finite - float(result.log_evidence))
    share, worth = np.arange(1, len(finite) + 1) / len(log_weights), float(result.ess) / len(log_weights)
    words = f"draws worth {worth:.0%}, Pareto k = {pareto_shape(log_weights):.2f}"
    tail.loglog(share, relative, color=_DARK, label=words)
    tail.axhline(1.0, color="0.6", linewidth=0.8)
    tail.set_xlabel("share of the draws, largest weights first")
    tail.set_ylabel("weight / mean")
    tail.set_ylim(1e-2, 3 * relative[0])
    tail.legend(fontsize="small", frameon=False, loc="lower left")
    known, error = ErrorParts(**(result.error_parts or {})), float(result.log_evidence_se)
    hidden = "between" if known.within > known.between else "within"  # the larger of the two counts
    sizes = {name: abs(float(size)) for name, size in known._asdict().items() if name != hidden}
    sizes = {_PARTS.get(name, name): size for name, size in sizes.items() if size > 0.01 * error}
    parts.barh(list(sizes)[::-1], list(sizes.values())[::-1], color=_COLOR, height=0.5)
    parts.set_ylim(-1.2, max(len(sizes), 2) - 0.4)
    parts.axvline(error, color=_SECOND, label="standard error")
    parts.set_xlim(0, 1.3 * max([error, *sizes.values()]))
    parts.set_xlabel("parts of the standard error (nats)")
    parts.legend(fontsize="small", frameon=False, loc="lower right")
    starts = [note for note in (result.verdict.chosen if result.verdict else ()) if note.kind is Note.FROM_REFERENCE]
    _finished(axes, result, ax)
    if starts and ax is None:
        words = f"one step from {starts[0].shape}, mixed with {starts[0].share:.0%} of the base"
        islands.set_title(words, fontsize="small")
    return axes


def plot_islands(result: Result, *, ax: Axes | None = None) -> Axes:
    """Plot the estimate of each island with its standard error, and the pooled answer.

    Args:
        result: A result of `qpaths.evidence`; others have no islands, which is an error.
        ax: Where to draw; a new figure by default.

    Returns:
        The axes.

    See [Pictures](gallery.md). The axis holds nearly all islands; triangles are those beyond it.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.evidence(path=path, budget=20_000, key=jax.random.key(0))
        >>> plot_islands(result).get_xlabel()
        'island'
    """
    if result.islands is None:
        raise ValueError(f"a result of {result.algorithm} has no islands: `qpaths.evidence` makes them.")
    axes = _axes(ax, 1, 1, (6.4, 4.0))
    _draw_islands(axes[0, 0], result)
    return _finished(axes, result, ax)[0, 0]


def _draw_islands(ax: Axes, result: Result) -> None:
    """Draw the estimate of each island; those far from the others are triangles at the edge."""
    assert result.islands is not None
    values, errors = (np.asarray(result.islands[name], float) for name in ("log_evidence", "log_evidence_se"))
    number = np.arange(1, len(values) + 1)
    ax.errorbar(number, values, errors, fmt=".", color="0.35", elinewidth=0.8, label="islands +- their standard errors")
    _band(ax, result)
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    found = values[np.isfinite(values)]
    if found.size and np.isfinite([value, error]).all():
        middle, wide = np.median(found), np.median(np.abs(found - np.median(found))) + np.median(errors)
        low, high = min(middle - _BEYOND * wide, value - 2 * error), max(middle + _BEYOND * wide, value + 2 * error)
        for marker, edge, beyond in (("v", low, values < low), ("^", high, values > high)):
            if beyond.any():
                words = f"{beyond.sum()} beyond the axis, to {values.min() if marker == 'v' else values.max():.2f}"
                ax.plot(number[beyond], np.full(beyond.sum(), edge), marker, color=_SECOND, clip_on=False, label=words)
                ax.set_ylim(low, high)
    ax.margins(y=0.35)
    ax.legend(fontsize="small", frameon=False, loc="upper left", ncols=3)
    ax.set_xlabel("island")
    ax.set_ylabel("log evidence")
    ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]


def plot_posterior(result: Result, *, names: list[str] | None = None, ax: Any = None) -> np.ndarray:
    """Plot the posterior by name: histograms, and pairs with credible regions for up to six numbers.

    Args:
        result: What to draw.
        names: The variables, all by default.
        ax: As many axes as there are panels: n by n for n numbers up to six, otherwise one for each of the first twelve
            numbers.

    Returns:
        The axes.

    Bars are weighted draws, and the dark ones lie in the central interval with 90 % of the mass, which the title gives
    with the median. Lines around the points of a pair hold 50 and 90 % of the mass. The axes leave out the outermost
    0.1 %. See [Pictures](gallery.md). A result with a small effective sample size has ragged panels.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run(path, key=jax.random.key(0))
        >>> plot_posterior(result).shape  # pairs of two coordinates
        (2, 2)
    """
    columns = number_columns(result.samples, names)
    weights = np.asarray(softmax(np.asarray(result.log_weights, float)))
    if 1 < len(columns) <= _MOST_PAIRS:
        return _finished(_pairs(columns, weights, ax), result, ax)
    panels = dict(list(columns.items())[:_MOST_PANELS])
    wide = min(3, len(panels))
    high = -(-len(panels) // wide)
    axes = _axes(ax, high, wide, (max(2.4 * wide, 4.0), max(1.8 * high, 3.0)))
    for one in axes.ravel()[len(panels) :]:
        one.set_visible(False)
    for one, (name, values) in zip(axes.ravel(), panels.items(), strict=False):
        _histogram(one, values, weights, f"{name} = ")
    rest = f"{len(panels)} of {len(columns)} numbers; `names` picks others" if len(columns) > len(panels) else ""
    return _finished(axes, result, ax, rest)


def plot_compare(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Plot log evidences of models relative to the best, with two standard errors.

    Args:
        comparison: What `qpaths.compare` returned.
        ax: Where to draw; a new figure by default.

    Returns:
        The axes.

    See [Compare models](tutorials/compare_models.md). Bars show what the runs know: a `doubtful` evidence may be off by
    more. Above each point is the probability of the model.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> run = qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run
        >>> table = qp.compare({"first": run(path, key=jax.random.key(0)), "second": run(path, key=jax.random.key(1))})
        >>> len(plot_compare(table).get_yticklabels())
        2
    """
    ax = _axes(ax, 1, 1, (6.4, 1.4 + 0.5 * len(comparison.names)))[0, 0]
    rows = np.arange(len(comparison.names))[::-1]
    relative = comparison.log_evidence - comparison.log_evidence[0]
    ax.errorbar(relative, rows, xerr=2 * comparison.log_evidence_se, fmt="o", color=_DARK, capsize=3)
    for row, where, share in zip(rows, relative, comparison.probabilities, strict=True):
        words = f"{share:.0%}" if 0.005 < share < 0.995 or share == 1 else ("< 1%" if share < 0.5 else "> 99%")
        ax.annotate(words, (where, row), xytext=(0, 7), textcoords="offset points", fontsize="small", ha="center")
    ax.set_yticks(rows, comparison.names, parse_math=False)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.margins(x=0.12)
    ax.axvline(0.0, color="0.8", linewidth=1, zorder=0)
    ax.set_xlabel("log evidence relative to the best, +- 2 standard errors")
    ax.set_title("models by evidence, with their probabilities", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _pairs(columns: dict[str, np.ndarray], weights: np.ndarray, ax: Any) -> np.ndarray:
    """Plot histograms on the diagonal, and draws with credible regions below it."""
    num = len(columns)
    size = max(7.0 if num > 3 else 2.1 * num, 4.6)
    axes = _axes(ax, num, num, (size, size))
    drawn = np.random.default_rng(0).choice(len(weights), _NUM_DRAWN, p=weights)
    ranges = [_range_of(values, weights) for values in columns.values()]
    for i, (name, values) in enumerate(columns.items()):
        for j, (other, others) in enumerate(columns.items()):
            one = axes[i, j]
            one.tick_params(labelsize="small", labelbottom=i == num - 1, labelleft=0 < i != j == 0)
            one.locator_params(nbins=3)
            if j > i:
                one.set_visible(False)
            elif j == i:
                _histogram(one, values, weights)
                one.locator_params(nbins=3, axis="x")
                one.tick_params(labelbottom=i == num - 1)
            else:
                one.plot(others[drawn], values[drawn], ".", color=_COLOR, markersize=2, alpha=0.4, rasterized=True)
                _regions(one, (others, values), weights, (ranges[j], ranges[i]))
                one.set_ylim(*ranges[i])
            one.set_xlim(*ranges[j])
            if i == num - 1:
                one.set_xlabel(other, parse_math=False)
            if j == 0 and i > 0:
                one.set_ylabel(name, parse_math=False)
    return axes


def _regions(ax: Axes, pair: tuple[np.ndarray, np.ndarray], weights: np.ndarray, ranges: Any) -> None:
    """Draw lines around the smallest regions that hold some shares of the mass, from a smoothed histogram."""
    from scipy.ndimage import gaussian_filter

    counts, *edges = np.histogram2d(*pair, bins=40, range=ranges, weights=weights)
    counts = gaussian_filter(counts, 1.5, mode="nearest")
    order = np.sort(counts.ravel())[::-1]
    cumulative = np.cumsum(order) / np.sum(order)
    levels = np.unique([order[np.searchsorted(cumulative, share)] for share in _REGIONS])
    middles = [0.5 * (edge[1:] + edge[:-1]) for edge in edges]
    if levels[0] > 0:
        ax.contour(*middles, counts.T, levels=levels, colors=_DARK, linewidths=0.9)


def _histogram(ax: Axes, values: np.ndarray, weights: np.ndarray, name: str = "") -> None:
    """Plot a weighted histogram, with the median and the central interval of 90 % in its title."""
    low, high = _range_of(values, weights)
    counts, edges = np.histogram(values, bins=40, range=(low, high), weights=weights)
    interval = weighted_quantiles(values, weights, (0.05, 0.5, 0.95))
    middles = 0.5 * (edges[1:] + edges[:-1])
    colors = [_DARK if interval[0] <= middle <= interval[2] else _COLOR for middle in middles]
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=colors)
    ax.set_title("{}{:.3g} ({:.3g}, {:.3g})".format(name, *interval[[1, 0, 2]]), fontsize="small", parse_math=False)
    ax.set_xlim(low, high)
    ax.set_yticks([])
    ax.tick_params(labelsize="small")
    ax.locator_params(nbins=4, axis="x")
    ax.spines[["top", "right", "left"]].set_visible(False)


def _range_of(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return a range that holds nearly all of the posterior, with a little room, and none beyond the last draw."""
    low, high = map(float, weighted_quantiles(values, weights, (_OUTSIDE, 1 - _OUTSIDE)))
    room, seen = 0.04 * (high - low) or 0.5 * abs(low) + 1e-12, values[weights > 0]
    if low == high:
        return low - room, low + room
    return max(low - room, float(seen.min())), min(high + room, float(seen.max()))


def _band(ax: Axes, result: Result) -> None:
    """Draw the answer and its standard error."""
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    if np.isfinite([value, error]).all():
        ax.axhspan(value - error, value + error, color=_COLOR, alpha=0.35, label="answer +- standard error")
        ax.axhline(value, color=_DARK, linewidth=0.8)


def _finished(axes: np.ndarray, result: Result, given: Any, more: str = "") -> np.ndarray:
    """Take away frames, add legends, and give a new figure a title with the answer."""
    for one in axes.ravel():
        one.spines[["top", "right"]].set_visible(False)
        if one.get_legend_handles_labels()[1] and one.get_legend() is None:
            one.legend(fontsize="small", frameon=False)
    if given is None:
        level = "" if result.verdict is None else f", {result.verdict.level}"
        answer = f"log evidence {float(result.log_evidence):.3f} +- {float(result.log_evidence_se):.3f}{level}"
        axes.ravel()[0].figure.suptitle("\n".join(filter(None, (answer, more))), fontsize="medium", parse_math=False)
    return axes


def plot_sensitivity(curve: Any, *, ax: Any = None) -> np.ndarray:
    """Draw the log evidence and the posterior means over a hyperparameter, with bands of two standard errors.

    Args:
        curve: A result of `qpaths.sensitivity`.
        ax: Two axes; a new figure by default.

    Returns:
        The two axes. Crosses mark values at which the numbers are doubtful.

    Examples:
        >>> import jax, qpaths as qp
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p: -0.5 * p["mu"] ** 2}
        >>> result = qp.evidence(**model, budget=20_000, key=jax.random.key(0))
        >>> curve = qp.sensitivity(result, {"mu": [0.5, 1.0, 2.0]}, key=jax.random.key(1))
        >>> [axis.get_ylabel() for axis in plot_sensitivity(curve)]
        ['log evidence', 'posterior mean']
    """
    axes = _axes(ax, 2, 1, (6.4, 6.4), sharex=True).ravel()
    is_number = isinstance(curve.values, np.ndarray)
    x = curve.values if is_number else np.arange(len(curve.values))
    order = np.argsort(x)
    columns = list(curve.mean)[:_MOST_PAIRS]
    lines = [(axes[0], None, curve.log_evidence, curve.log_evidence_se)]
    lines += [(axes[1], name, curve.mean[name], curve.mean_se[name]) for name in columns]
    for axis, label, value, error in lines:
        low, high = (value - 2 * error)[order], (value + 2 * error)[order]
        (line,) = axis.plot(x[order], value[order], marker=".", label=label)
        axis.fill_between(x[order], low, high, color=line.get_color(), alpha=0.25, linewidth=0)
    bad = curve.doubtful
    axes[0].plot(x[bad], curve.log_evidence[bad], "x", color=_SECOND, markersize=9)
    axes[0].set_ylabel("log evidence")
    axes[1].set(xlabel=curve.name, ylabel="posterior mean")
    axes[1].legend(fontsize="small", frameon=False)
    if is_number and (x > 0).all() and x.max() > 20 * x.min():
        axes[1].set_xscale("log")
    elif not is_number:
        axes[1].set_xticks(x, [str(i) for i in x])
    return axes


def _axes(ax: Any, rows: int, columns: int, size: tuple[float, float], **options: Any) -> np.ndarray:
    """Return the given axes as an array of the wanted shape, or those of a new figure."""
    if ax is None:
        return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)[1]
    given = np.atleast_1d(np.asarray(ax, dtype=object))
    if given.size != rows * columns:
        raise ValueError(f"`ax` must hold {rows * columns} axes ({rows} x {columns}), got {given.size}.")
    return given.reshape(rows, columns)
