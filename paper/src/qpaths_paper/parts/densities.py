"""Densities along a path on a grid of the line, and what can be read off them.

The experiments that draw densities store them as rows. Their claims are statements about these curves, such as the
number of modes, and need no samples.

Settings of all of them:
    num_betas: Densities to draw, at equally spaced betas from 0 to 1.
    num_points: Points of the grid on which each density is computed.

Rows:
    grid, betas: The points and the betas.
    densities: A normalized density for each beta, at the points of the grid.
"""

from typing import Any

import numpy as np
from scipy.integrate import cumulative_trapezoid

from qpaths.paths import AbstractPath
from qpaths.plotting import path_densities

from ..harness.experiment import Claim, Row
from ..harness.judging import yes_or_no


def densities_row(
    path: AbstractPath[Any], low: float, high: float, num_points: int, num_betas: int, *, heavy_tails: bool = False
) -> dict[str, Any]:
    """The densities along a path on a grid from `low` to `high`, as the values of a row.

    With `heavy_tails` the densities are normalized over the whole line, and not over the grid alone.
    """
    if num_betas < 3 or num_points < 10:
        raise ValueError(f"`num_betas` must be at least 3 and `num_points` 10, got {num_betas} and {num_points}.")
    grid, betas = np.linspace(low, high, num_points), np.linspace(0.0, 1.0, num_betas)
    densities = path_densities(path, grid, betas, heavy_tails=heavy_tails)
    return {"grid": grid.tolist(), "betas": betas.tolist(), "densities": densities.tolist()}


def num_modes(density: Any) -> int:
    """The number of local maxima that reach a hundredth of the highest one."""
    density = np.asarray(density)
    inner = density[1:-1]
    peaks = (inner > density[:-2]) & (inner >= density[2:]) & (inner > 0.01 * density.max())
    return int(peaks.sum())


def quantile_width(grid: Any, density: Any, share: float = 0.5) -> float:
    """The width of the central interval that holds a share of the mass on the grid."""
    mass = cumulative_trapezoid(density, grid, initial=0.0)
    low, high = np.interp([(1 - share) / 2 * mass[-1], (1 + share) / 2 * mass[-1]], mass, grid)
    return float(high - low)


def power_mean_discrepancy(row: Row, q: float) -> float:
    """The largest difference between the densities of a row and the power mean of its endpoints, over the peak.

    The power mean is computed by the formula of the paper as it is written (eq. qpath_mix_form), on the grid of the
    row, and normalized on that grid.
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


def power_mean_claim(rows: list[Row]) -> Claim:
    """Judge whether all densities are power means of their endpoints."""
    worst = max(power_mean_discrepancy(row, row["q"]) for row in rows)
    statement = "every density is the power mean of the endpoints (eq. qpath_mix_form)"
    return Claim(statement, "by definition", f"largest difference {worst:.1e} of the peak", yes_or_no(worst < 1e-6))


def row_where(rows: list[Row], **settings: Any) -> Row | None:
    """The row with these settings, None if there is none."""
    return next((row for row in rows if all(row[name] == value for name, value in settings.items())), None)
