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

from .paths import AbstractPath

COLORMAP = "viridis"


def path_densities(path: AbstractPath[Any], grid: Any, betas: Any, *, normalize: bool = True) -> np.ndarray:
    """Densities of a one-dimensional path on a grid, one row per beta; normalised on the grid unless told otherwise."""
    grid, betas = jnp.asarray(grid), jnp.asarray(betas)
    log_density = jax.jit(jax.vmap(jax.vmap(path.log_density, in_axes=(None, 0)), in_axes=(0, None)))(betas, grid)
    if not normalize:
        return np.asarray(jnp.exp(log_density))
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
) -> Axes:
    """The normalised densities along a one-dimensional path, one line per beta, base dark and target light."""
    ax = plt.gca() if ax is None else ax
    colors: Colormap = plt.get_cmap(colormap)
    for beta, density in zip(betas, path_densities(path, grid, betas), strict=True):
        ax.plot(grid, density, color=colors(0.92 * float(beta)), linewidth=1.4)
    _quiet(ax)
    if title is not None:
        ax.set_title(title)
    return ax


def plot_paths(
    paths: Mapping[str, AbstractPath[Any]],
    grid: Any,
    betas: Any,
    *,
    colormap: str = COLORMAP,
    title: str | None = None,
) -> Figure:
    """Several paths side by side on common axes, each under its name; the bar at the right reads the colours."""
    figure, axes = plt.subplots(
        1, len(paths), figsize=(3.0 * len(paths) + 0.8, 2.7), sharex=True, sharey=True, layout="constrained"
    )
    row = np.atleast_1d(axes)
    for ax, (name, path) in zip(row, paths.items(), strict=True):
        plot_path(path, grid, betas, ax=ax, colormap=colormap, title=name)
    mappable = plt.cm.ScalarMappable(cmap=_truncated(colormap))
    figure.colorbar(mappable, ax=row, label=r"$\beta$", ticks=[0, 0.5, 1], aspect=25, pad=0.01)
    if title is not None:
        figure.suptitle(title)
    return figure


def _truncated(colormap: str) -> Colormap:
    """The part of the map that `plot_path` uses: the last yellow is too pale for a line on white paper."""
    return ListedColormap(plt.get_cmap(colormap)(np.linspace(0, 0.92, 256)))


def _quiet(ax: Axes) -> None:
    """No frame and no density axis: the shapes are what is compared."""
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_yticks([])
    ax.set_ylim(bottom=0)
