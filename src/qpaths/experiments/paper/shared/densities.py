"""What the experiments that draw densities along paths have in common."""

from typing import Any

import numpy as np
from scipy.integrate import cumulative_trapezoid

from ....paths import AbstractPath
from ....plotting import path_densities
from ...experiment import Row


def densities_row(
    path: AbstractPath[Any], low: float, high: float, num_points: int, num_betas: int, *, heavy_tails: bool = False
) -> dict[str, Any]:
    """The densities along a path on a grid, as a row."""
    if num_betas < 3 or num_points < 10:
        raise ValueError(f"`num_betas` must be at least 3 and `num_points` 10, got {num_betas} and {num_points}.")
    grid, betas = np.linspace(low, high, num_points), np.linspace(0.0, 1.0, num_betas)
    densities = path_densities(path, grid, betas, heavy_tails=heavy_tails)
    return {"grid": grid.tolist(), "betas": betas.tolist(), "densities": densities.tolist()}


def num_modes(density: Any) -> int:
    """Local maxima that reach a hundredth of the highest."""
    density = np.asarray(density)
    inner = density[1:-1]
    peaks = (inner > density[:-2]) & (inner >= density[2:]) & (inner > 0.01 * density.max())
    return int(peaks.sum())


def quantile_width(grid: Any, density: Any, share: float = 0.5) -> float:
    """Width of the central interval that holds a share of the mass on the grid."""
    mass = cumulative_trapezoid(density, grid, initial=0.0)
    low, high = np.interp([(1 - share) / 2 * mass[-1], (1 + share) / 2 * mass[-1]], mass, grid)
    return float(high - low)


def power_mean_discrepancy(row: Row, q: float) -> float:
    """Largest difference, relative to the peak, between the densities of a row and the power mean of its endpoints.

    Computed by the formula of the paper (eq. qpath_mix_form) as it is written, on the grid of the row, up to the
    normalisation on that grid.
    """
    densities = np.asarray(row["densities"])
    base, target = densities[0], densities[-1]
    worst = 0.0
    for beta, density in zip(row["betas"], densities, strict=True):
        with np.errstate(divide="ignore", over="ignore"):
            if q == 1:
                mean = np.exp((1 - beta) * np.log(base) + beta * np.log(target))
            else:
                mean = ((1 - beta) * base ** (1 - q) + beta * target ** (1 - q)) ** (1 / (1 - q))
        scaled = mean / mean.sum() * density.sum()
        worst = max(worst, float(np.max(np.abs(scaled - density)) / density.max()))
    return worst


def row_where(rows: list[Row], **settings: Any) -> Row | None:
    """The row with these settings, None where it is not there."""
    return next((row for row in rows if all(row[name] == value for name, value in settings.items())), None)
