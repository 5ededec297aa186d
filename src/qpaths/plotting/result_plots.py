"""Pictures of results: how a run went, its islands, the posterior by name, and models side by side.

Each function returns its axes and takes `ax`. Without it a new figure is made, and no other one is touched.
"""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ..comparison import Comparison
from ..core import named_leaves
from ..results import Result

_COLOR, _SECOND = "tab:blue", "tab:orange"
_MOST_PAIRS = 6
"""Numbers of the posterior up to which pairs are drawn."""
_MOST_PANELS = 12
_MOST_POINTS = 1000
"""Draws in a scatter plot."""


def plot_run(result: Result, *, ax: Any = None) -> np.ndarray:
    """What happened along the path: log evidence with its lag, ESS and acceptance at each step, and the steps of beta.

    Args:
        result: The result of a run.
        ax: Three axes, for instance those of `plt.subplots(3)`; a new figure by default.

    Returns:
        The three axes.

    See [Pictures](your_model.md#pictures). Results of `evidence` that only weight their draws have a single step, and
    little to show.

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
    axes = _axes(ax, 3, 1, (6.4, 6.4), sharex=True)
    steps = np.arange(1, len(result.stats["beta"]) + 1)
    betas = np.asarray(result.stats["beta"])
    evidence, quality, schedule = axes.ravel()
    so_far = np.asarray(result.stats["log_evidence"])
    evidence.plot(steps, so_far, marker=".", color=_COLOR, label="log evidence so far")
    lag = result.stats.get("log_evidence_lag")
    if lag is not None:
        evidence.fill_between(steps, so_far, so_far - np.asarray(lag), color=_SECOND, alpha=0.4, label="lag")
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    evidence.axhspan(value - error, value + error, color=_COLOR, alpha=0.15, label="answer +- standard error")
    evidence.set_ylabel("log evidence")
    evidence.legend(fontsize="small", frameon=False)
    num = result.log_weights.shape[0]
    quality.plot(steps, np.asarray(result.stats["ess"]) / num, marker=".", color=_COLOR, label="ESS / particles")
    quality.plot(steps, np.asarray(result.stats["acceptance"]), marker=".", color=_SECOND, label="acceptance")
    quality.set_ylim(0, 1.05)
    quality.legend(fontsize="small", frameon=False)
    schedule.plot([0, *steps], [0.0, *betas], marker=".", color=_COLOR)
    schedule.set_ylabel(r"$\beta$")
    schedule.set_xlabel("step")
    schedule.xaxis.get_major_locator().set_params(integer=True)
    for one in axes.ravel():
        one.spines[["top", "right"]].set_visible(False)
    return axes


def plot_islands(result: Result, *, ax: Axes | None = None) -> Axes:
    """Plot the estimate of each island with its standard error, and the pooled answer.

    Args:
        result: A result of `qpaths.evidence`; others have no islands, which is an error.
        ax: Where to draw; a new figure by default.

    Returns:
        The axes.

    See [Pictures](your_model.md#pictures).

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
    ax = _axis(ax)
    values, errors = (np.asarray(result.islands[name]) for name in ("log_evidence", "log_evidence_se"))
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    ax.axhspan(value - error, value + error, color=_COLOR, alpha=0.2, label="answer +- standard error")
    ax.axhline(value, color=_COLOR, linewidth=1)
    ax.errorbar(np.arange(1, len(values) + 1), values, errors, fmt=".", color="0.3", elinewidth=0.8, label="islands")
    ax.set_xlabel("island")
    ax.set_ylabel("log evidence")
    ax.legend(fontsize="small", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_posterior(result: Result, *, names: list[str] | None = None, ax: Any = None) -> np.ndarray:
    """Weighted histograms of the posterior draws by name, with pairs where there are at most six numbers.

    Args:
        result: What to draw.
        names: The variables, all by default.
        ax: As many axes as there are panels: n by n for n numbers up to six, otherwise one for each of the first twelve
            numbers.

    Returns:
        The axes.

    See [Pictures](your_model.md#pictures). Draws are weighted, so panels of a result with a small effective sample size
    show few of them.

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
    columns = posterior_columns(result, names)
    weights = np.exp(np.asarray(result.log_weights) - np.max(np.asarray(result.log_weights)))
    if 1 < len(columns) <= _MOST_PAIRS:
        return _pairs(columns, weights, ax)
    panels = dict(list(columns.items())[:_MOST_PANELS])
    wide = min(4, len(panels))
    high = -(-len(panels) // wide)
    axes = _axes(ax, high, wide, (2.6 * wide, 2.1 * high))
    for one in axes.ravel()[len(panels) :]:
        one.set_visible(False)
    for one, (name, values) in zip(axes.ravel(), panels.items(), strict=False):
        _histogram(one, values, weights)
        one.set_title(name, fontsize="small")
    return axes


def posterior_columns(result: Result, names: list[str] | None = None) -> dict[str, np.ndarray]:
    """Return every number of the samples under its name, `theta[2]` say."""
    leaves = named_leaves(result.samples)
    unknown = [name for name in names or [] if name not in leaves]
    if unknown:
        raise ValueError(f"there is no variable {unknown[0]!r} among the samples, only {', '.join(leaves)}.")
    columns = {}
    for name in names or leaves:
        leaf = np.asarray(leaves[name])
        for index in np.ndindex(*leaf.shape[1:]):
            values = leaf[(slice(None), *index)]
            if np.ptp(values) > 0:  # parts of a matrix may be constant
                columns[name + "".join(f"[{i}]" for i in index)] = values
    return columns


def plot_compare(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Plot log evidences of models relative to the best, with two standard errors.

    Args:
        comparison: What `qpaths.compare` returned.
        ax: Where to draw; a new figure by default.

    Returns:
        The axes.

    See [Compare models](tutorials/compare_models.md). Bars show what the runs know: a `doubtful` evidence may be off by
    more.

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
    ax = _axis(ax)
    rows = np.arange(len(comparison.names))[::-1]
    relative = comparison.log_evidence - comparison.log_evidence[0]
    ax.errorbar(relative, rows, xerr=2 * comparison.log_evidence_se, fmt="o", color=_COLOR, capsize=3)
    for row, where, probability in zip(rows, relative, comparison.probabilities, strict=True):
        ax.annotate(f"{probability:.2g}", (where, row), xytext=(0, 6), textcoords="offset points", fontsize="small")
    ax.set_yticks(rows, comparison.names)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.axvline(0.0, color="0.8", linewidth=1, zorder=0)
    ax.set_xlabel("log evidence relative to the best (two standard errors); probability above each")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _pairs(columns: dict[str, np.ndarray], weights: np.ndarray, ax: Any) -> np.ndarray:
    """Plot histograms on the diagonal, draws below it."""
    num = len(columns)
    axes = _axes(ax, num, num, (1.9 * num, 1.9 * num))
    drawn = np.random.default_rng(0).choice(len(weights), _MOST_POINTS, p=weights / weights.sum())
    for i, (name, values) in enumerate(columns.items()):
        for j, (other, others) in enumerate(columns.items()):
            one = axes[i, j]
            if j > i:
                one.set_visible(False)
            elif j == i:
                _histogram(one, values, weights)
            else:
                one.plot(others[drawn], values[drawn], ".", color=_COLOR, markersize=2, alpha=0.4)
                one.spines[["top", "right"]].set_visible(False)
            one.set_xlim(others.min(), others.max())
            if i == num - 1:
                one.set_xlabel(other)
            if j == 0 and i > 0:
                one.set_ylabel(name)
    return axes


def _histogram(ax: Axes, values: np.ndarray, weights: np.ndarray) -> None:
    ax.hist(values, bins=40, weights=weights, density=True, color=_COLOR)
    ax.set_yticks([])
    ax.spines[["top", "right", "left"]].set_visible(False)


def _axis(ax: Axes | None) -> Axes:
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _axes(ax: Any, rows: int, columns: int, size: tuple[float, float], **options: Any) -> np.ndarray:
    """Return the given axes as an array of the wanted shape, or those of a new figure."""
    if ax is None:
        return plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)[1]
    given = np.atleast_1d(np.asarray(ax, dtype=object))
    if given.size != rows * columns:
        raise ValueError(f"`ax` must hold {rows * columns} axes ({rows} x {columns}), got {given.size}.")
    return given.reshape(rows, columns)
