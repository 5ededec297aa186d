"""Figure 5: the moment-averaging path against the mixture path.

Both minimize the mixed reverse Kullback-Leibler divergence to the endpoints, over two sets: the moment-averaging path
over the family of normals, and the mixture (q = 0) over all densities. So both have the same mean and variance at every
beta (eq. moments_path), and yet the first has one mode and the second has two.

`parts/densities.py` describes the settings and the rows.
"""

from typing import Any

import numpy as np

from qpaths.families import Normal
from qpaths.paths import ArithmeticPath, MomentPath
from qpaths.plotting import plot_panels

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, product
from ..harness.judging import yes_or_no
from ..parts.densities import densities_row, num_modes, row_where

_TITLES = {"moment": "moment averaging", "mixture": "mixture, $q = 0$"}


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Densities between N(-4, 3) and N(4, 1), on a grid that is wide enough for their variances."""
    base, target = Normal(-4.0, 3.0**0.5), Normal(4.0, 1.0)
    path = MomentPath(base, target) if settings["path"] == "moment" else ArithmeticPath(base, target)
    return densities_row(path, -22.0, 20.0, settings["num_points"], settings["num_betas"])


def _pictures(rows: list[Row]) -> list[Picture]:
    """A panel for each path."""
    panels = {title: row["densities"] for path, title in _TITLES.items() if (row := row_where(rows, path=path))}
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"], limits=(-13.0, 11.0))
    return [Picture("densities", "Densities from N(-4, 3), dark, to N(4, 1), light.", figure)]


def _moments(row: Row) -> np.ndarray:
    """The mean and the variance of each density, by the grid: one row per beta."""
    grid, densities = np.asarray(row["grid"]), np.asarray(row["densities"])
    weights = densities / densities.sum(axis=1, keepdims=True)
    mean = weights @ grid
    return np.stack([mean, weights @ grid**2 - mean**2], axis=1)


def _claims(rows: list[Row]) -> list[Claim]:
    """Equal moments, and one mode against two."""
    moment, mixture = (row_where(rows, path=path) for path in _TITLES)
    claims = []
    if moment and mixture:
        worst = float(np.max(np.abs(_moments(moment) - _moments(mixture))))
        statement = "both paths have the same mean and variance at every beta (eq. moments_path)"
        claims.append(Claim(statement, "by definition", f"largest difference {worst:.1e}", yes_or_no(worst < 1e-3)))
    for row, wanted, words in ((moment, 1, "one mode"), (mixture, 2, "two modes")):
        if row:
            share = sum(num_modes(density) == wanted for density in row["densities"][1:-1])
            statement = f"{row['path']}: {words} at every beta between"
            num = len(row["densities"]) - 2
            claims.append(Claim(statement, "fig. 5", f"at {share} of {num}", yes_or_no(share == num)))
    return claims


EXPERIMENT = Experiment(
    name="fig_moments",
    title="moment-averaging path against the mixture path",
    paper="Figure 5",
    duration="5 s",
    about="Both minimize the mixed reverse Kullback-Leibler divergence to the endpoints: the moment-averaging path "
    "within the family of normals, the mixture (q = 0) among all densities.",
    settings={"num_betas": 10, "num_points": 631},
    smoke={"num_points": 211},
    runs=product(path=list(_TITLES)),
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
)
