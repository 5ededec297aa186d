"""Figure 3: q-paths between two normals that are far apart.

Between N(-10, 1) and N(10, 1) a q close to 1 changes the path. At q = 0.999 it resembles the geometric path, at
q = 0.99 it covers the space between the endpoints, and at q = 0.98 it already resembles the mixture, which local moves
cannot cross. The geometric path is drawn behind each panel, in gray.

Settings:
    q: Values of q, a panel each; q = 1 is always added.

`parts/densities.py` describes the other settings, and the rows.
"""

from typing import Any

import numpy as np

from qpaths.families import Normal
from qpaths.paths import QPath
from qpaths.plotting import plot_panels

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, product
from ..harness.judging import yes_or_no
from ..parts.densities import densities_row, quantile_width, row_where


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Densities between N(-10, 1) and N(10, 1)."""
    path = QPath(Normal(-10.0, 1.0), Normal(10.0, 1.0), q=settings["q"])
    return densities_row(path, -15.0, 15.0, settings["num_points"], settings["num_betas"])


def _pictures(rows: list[Row]) -> list[Picture]:
    """A panel for each q below 1, one above the other."""
    geometric = row_where(rows, q=1.0)
    rows = sorted((row for row in rows if row["q"] != 1), key=lambda row: row["q"])
    panels = {f"$q = {row['q']:g}$": row["densities"] for row in rows}
    if not rows:
        return []
    behind = geometric["densities"] if geometric else None
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"], columns=1, behind=behind)
    return [Picture("densities", "Densities from N(-10, 1), dark, to N(10, 1), light; geometric path in gray.", figure)]


def _middle(row: Row) -> tuple[float, float]:
    """Two numbers that describe the density at beta = 1/2.

    The first is the mass that lies more than three standard deviations from both means. The second is the width of the
    central interval that holds 90 % of the mass.
    """
    grid, density = np.asarray(row["grid"]), np.asarray(row["densities"][len(row["densities"]) // 2])
    between = np.abs(grid) < 7
    return float(density[between].sum() / density.sum()), quantile_width(grid, density, 0.9)


def _claims(rows: list[Row]) -> list[Claim]:
    """Judge what the three panels show at beta = 1/2. A claim needs the row of its q, and perhaps that of q = 1."""
    claims = []
    geometric = row_where(rows, q=1.0)
    if row := row_where(rows, q=0.98):
        mass, _ = _middle(row)
        statement = "q = 0.98 resembles the mixture: halfway there is little mass between the endpoints"
        claims.append(Claim(statement, "fig. 3, left", f"{mass:.1%} of the mass", yes_or_no(mass < 0.05)))
    if (row := row_where(rows, q=0.99)) and geometric:
        mass, width = _middle(row)
        ratio = width / _middle(geometric)[1]
        statement = "q = 0.99 covers the space between the endpoints halfway"
        ours = f"{mass:.0%} of the mass, {ratio:.1f} times as wide as the geometric path"
        claims.append(Claim(statement, "fig. 3, center", ours, yes_or_no(mass > 0.5 and ratio > 2)))
    if (row := row_where(rows, q=0.999)) and geometric:
        ratio = _middle(row)[1] / _middle(geometric)[1]
        statement = "q = 0.999 resembles the geometric path: halfway it is hardly wider"
        claims.append(Claim(statement, "fig. 3, right", f"{ratio:.2f} times as wide", yes_or_no(0.9 < ratio < 1.1)))
    return claims


EXPERIMENT = Experiment(
    name="fig3",
    title="densities between N(-10, 1) and N(10, 1) for q = 0.98, 0.99, 0.999 against geometric",
    paper="Figure 3",
    duration="5 s",
    about="When the endpoints are far apart, a small step away from the geometric path is enough to cover the space "
    "between them, and a slightly larger one already gives a mixture, which local moves cannot cross.",
    settings={"q": [0.98, 0.99, 0.999], "num_betas": 15, "num_points": 481},
    smoke={"num_points": 241},
    runs=product(q=lambda settings, run: [*settings["q"], 1.0]),
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
)
