"""Figures: paths and results in, matplotlib axes out. One function per picture; nothing here computes a result."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from scipy.integrate import trapezoid

from ..families import Nodes
from ..paths import AbstractPath

COLORMAP = "viridis"


def path_densities(
    path: AbstractPath[Any], grid: Any, betas: Any, *, normalize: bool = True, heavy_tails: bool = False
) -> np.ndarray:
    """Return densities of a one-dimensional path on a grid, one row per beta.

    Args:
        path: A path whose points are numbers.
        grid: Where to evaluate.
        betas: One row for each.
        normalize: Whether to divide by the integral over the grid.
        heavy_tails: Normalize over the whole line instead: a Cauchy density has mass beyond any grid.

    Returns:
        An array with one row for each beta.

    See [What is an annealing path?](tutorials/what_is_a_path.md) for pictures. The grid must cover the densities,
    unless `heavy_tails` is set.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> grid, betas = np.linspace(-4.0, 4.0, 50), [0.0, 0.5, 1.0]
        >>> path_densities(path, grid, betas).shape
        (3, 50)
    """
    grid, betas = jnp.asarray(grid), jnp.asarray(betas)
    log_densities = jax.jit(jax.vmap(jax.vmap(path.log_density, in_axes=(None, 0)), in_axes=(0, None)))
    log_density = log_densities(betas, grid)
    if not normalize:
        return np.asarray(jnp.exp(log_density))
    if heavy_tails:
        line = Nodes.line(num=1601, scale=float(jnp.ptp(grid)) / 8)
        center = (grid[0] + grid[-1]) / 2
        log_mass = jax.nn.logsumexp(log_densities(betas, center + line.points) + line.log_weights, axis=1)
        return np.asarray(jnp.exp(log_density - log_mass[:, None]))
    density = np.asarray(jnp.exp(log_density - jnp.max(log_density, axis=1, keepdims=True)))
    return density / trapezoid(density, np.asarray(grid), axis=1)[:, None]


def plot_path(
    path: AbstractPath[Any],
    grid: Any,
    betas: Any,
    *,
    ax: Axes | None = None,
    colormap: str = COLORMAP,
    title: str | None = None,
    heavy_tails: bool = False,
) -> Axes:
    """Plot the normalized densities along a one-dimensional path, one line per beta, base dark and target light.

    Args:
        path: A path whose points are numbers.
        grid: Points at which to evaluate, in increasing order.
        betas: One line for each.
        ax: Where to draw; a new figure by default.
        colormap: A colormap of Matplotlib.
        title: A title.
        heavy_tails: As in `path_densities`.

    Returns:
        The axes.

    See [What is an annealing path?](tutorials/what_is_a_path.md) for pictures. It needs points that are numbers.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> grid, betas = np.linspace(-4.0, 4.0, 50), [0.0, 0.5, 1.0]
        >>> len(plot_path(path, grid, betas).lines)
        3
    """
    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    return plot_curves(
        grid, path_densities(path, grid, betas, heavy_tails=heavy_tails), betas, ax=ax, colormap=colormap, title=title
    )


def plot_curves(
    grid: Any, densities: Any, betas: Any, *, ax: Axes, colormap: str = COLORMAP, title: str | None = None
) -> Axes:
    """Plot densities that were computed before, one row per beta, in the colors of `plot_path`.

    Args:
        grid: Points of the horizontal axis.
        densities: An array with one row for each beta, as `path_densities` returns.
        betas: The betas.
        ax: Where to draw.
        colormap: A colormap of Matplotlib.
        title: A title.

    Returns:
        The axes.

    See [What is an annealing path?](tutorials/what_is_a_path.md) for pictures. Nothing is normalized here.

    Examples:
        >>> import matplotlib.pyplot as plt
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> grid, betas = np.linspace(-4.0, 4.0, 50), [0.0, 0.5, 1.0]

        >>> ax = plot_curves(grid, path_densities(path, grid, betas), betas, ax=plt.subplots()[1])
        >>> len(ax.lines)
        3
    """
    colors: Colormap = plt.get_cmap(colormap)
    for beta, density in zip(betas, densities, strict=True):
        ax.plot(grid, density, color=colors(0.92 * float(beta)), linewidth=1.4)
    _quiet(ax)
    if title is not None:
        ax.set_title(title)
    return ax


def plot_panels(
    panels: Mapping[str, Any],
    grid: Any,
    betas: Any,
    *,
    columns: int = 2,
    behind: Any = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Plot stored densities, one panel for each name.

    Args:
        panels: Arrays with one row for each beta, by name.
        grid: Points of the horizontal axis.
        betas: The betas.
        columns: Panels in a row.
        behind: Densities to draw in gray in every panel.
        limits: Of the horizontal axis, where the grid reaches further than the eye needs.

    Returns:
        The figure. See [What is an annealing path?](tutorials/what_is_a_path.md) for pictures. All panels share the
        grid.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> grid, betas = np.linspace(-4.0, 4.0, 50), [0.0, 0.5, 1.0]
        >>> figure = plot_panels({"geometric": path_densities(path, grid, betas)}, grid, betas)
        >>> figure.axes[0].get_title()
        'geometric'
    """
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(7.2, 2.1 * rows + 0.6), sharex=True, sharey="row", layout="constrained", squeeze=False
    )
    for ax, (name, densities) in zip(axes.flat, panels.items(), strict=False):
        if behind is not None:
            ax.plot(grid, np.asarray(behind).T, color="0.75", linewidth=1.0)
        plot_curves(grid, densities, betas, ax=ax, title=name)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes.flat[max(len(panels) - columns, 0) : len(panels)]:
        ax.tick_params(labelbottom=True)  # a column that ends early has its numbers there
    axes.flat[0].set_xlim(*(limits or (grid[0], grid[-1])))
    _beta_bar(figure, axes, COLORMAP, aspect=20 * rows)
    return figure


def plot_paths(
    paths: Mapping[str, AbstractPath[Any]],
    grid: Any,
    betas: Any,
    *,
    colormap: str = COLORMAP,
    title: str | None = None,
    heavy_tails: bool = False,
) -> Figure:
    """Plot several paths side by side on common axes, each under its name; the bar at the right reads the colors.

    Args:
        paths: Paths whose points are numbers, by name.
        grid: Points at which to evaluate, in increasing order.
        betas: One line for each.
        colormap: A colormap of Matplotlib.
        title: A title.
        heavy_tails: As in `path_densities`.

    Returns:
        The figure.

    See [What is an annealing path?](tutorials/what_is_a_path.md) for pictures. It needs points that are numbers.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> grid, betas = np.linspace(-4.0, 4.0, 50), [0.0, 0.5, 1.0]
        >>> figure = plot_paths({"geometric": path, "mixture": qp.QPath(path.base, path.target, q=0.0)}, grid, betas)
        >>> len(figure.axes)  # two panels and the color bar
        3
    """
    figure, axes = plt.subplots(
        1, len(paths), figsize=(3.0 * len(paths) + 0.8, 2.7), sharex=True, sharey=True, layout="constrained"
    )
    row = np.atleast_1d(axes)
    for ax, (name, path) in zip(row, paths.items(), strict=True):
        plot_path(path, grid, betas, ax=ax, colormap=colormap, title=name, heavy_tails=heavy_tails)
    _beta_bar(figure, row, colormap)
    if title is not None:
        figure.suptitle(title)
    return figure


def plot_ridges(
    path: AbstractPath[Any], grid: Any, betas: Any, *, ax: Axes | None = None, colormap: str = COLORMAP
) -> Axes:
    """Plot the normalized densities along a one-dimensional path as ridges, base at the bottom and target at the top.

    One unit of height for all; neighbors overlap by at most a ridge and a half.

    Args:
        path: A path whose points are numbers.
        grid: Points at which to evaluate, in increasing order.
        betas: One line for each.
        ax: Where to draw; a new figure by default.
        colormap: A colormap of Matplotlib.

    Returns:
        The axes.

    See [What is an annealing path?](tutorials/what_is_a_path.md) for pictures.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
        >>> grid, betas = np.linspace(-4.0, 4.0, 50), [0.0, 0.5, 1.0]
        >>> len(plot_ridges(path, grid, betas).lines)
        3
    """
    ax = plt.subplots(layout="constrained")[1] if ax is None else ax
    colors: Colormap = plt.get_cmap(colormap)
    betas = np.asarray(betas)
    densities = path_densities(path, grid, betas)
    step = densities.max() / 2.5
    offsets = step * np.arange(len(betas))
    for beta, offset, density in reversed(list(zip(betas, offsets, densities, strict=True))):
        ax.fill_between(grid, offset, offset + density, color=colors(0.92 * float(beta)), linewidth=0)
        ax.plot(grid, offset + density, color="white", linewidth=0.8)
    _quiet(ax)
    ax.set_yticks(offsets[[0, -1]], [f"{betas[0]:g}", f"{betas[-1]:g}"])
    ax.tick_params(axis="y", length=0)
    ax.set_ylabel(r"$\beta$", rotation=0)
    return ax


def _beta_bar(figure: Figure, axes: Any, colormap: str, aspect: int = 25) -> None:
    """Add the bar that reads the colors."""
    mappable = plt.cm.ScalarMappable(cmap=_truncated(colormap))
    figure.colorbar(mappable, ax=axes, label=r"$\beta$", ticks=[0, 0.5, 1], aspect=aspect, pad=0.01)


def _truncated(colormap: str) -> Colormap:
    """Return the part of the map that `plot_path` uses: the last yellow is too pale for a line on white paper."""
    return ListedColormap(plt.get_cmap(colormap)(np.linspace(0, 0.92, 256)))


def _quiet(ax: Axes) -> None:
    """Remove the frame and the density axis: the shapes are what is compared."""
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_yticks([])
    ax.set_ylim(bottom=0)
