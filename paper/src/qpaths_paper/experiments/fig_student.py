"""Figure 8: q-paths between two Student-t densities with one degree of freedom.

These densities are the q-exponential family of order q = 2: their reciprocals are parabolas, and so is the mean of two
such reciprocals. So the path of order 2 stays in the family. Heavy tails change how a path of any order looks: here
q = 1 still has two modes, as q = 0.5 has between normals, and large q approaches the minimum of the endpoints.

Settings:
    q: Values of q, a panel each.

`parts/densities.py` describes the other settings, and the rows.
"""

from typing import Any

import numpy as np

from qpaths.families import StudentT
from qpaths.paths import QPath
from qpaths.plotting import plot_panels

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, product
from ..harness.judging import yes_or_no
from ..parts.densities import densities_row, num_modes, power_mean_claim, row_where


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Densities from -4 with scale matrix 3 to 4 with scale matrix 1."""
    path = QPath(StudentT(1.0, -4.0, 3.0**0.5), StudentT(1.0, 4.0, 1.0), q=settings["q"])
    return densities_row(path, -15.0, 15.0, settings["num_points"], settings["num_betas"], heavy_tails=True)


def _pictures(rows: list[Row]) -> list[Picture]:
    """A panel for each q; the title says which one stays in the family."""
    rows = sorted(rows, key=lambda row: row["q"])
    panels = {f"$q = {row['q']:g}$" + (" (in the family)" if row["q"] == 2 else ""): row["densities"] for row in rows}
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"])
    caption = "Densities from Student-t at -4 with scale matrix 3, dark, to Student-t at 4 with 1, light; nu = 1."
    return [Picture("densities", caption, figure)]


def _distance_from_family(row: Row) -> float:
    """The largest relative difference between the reciprocal of a density and the parabola fitted to it.

    It is zero for densities of the family, up to rounding.
    """
    grid = np.asarray(row["grid"]) / 10
    worst = 0.0
    for density in row["densities"]:
        reciprocal = 1 / np.asarray(density)
        fit = np.polynomial.polynomial.polyval(grid, np.polynomial.polynomial.polyfit(grid, reciprocal, 2))
        worst = max(worst, float(np.max(np.abs(fit - reciprocal)) / reciprocal.max()))
    return worst


def _between(density: Any, grid: Any) -> float:
    """The mass of a density in [-3, 3], where both endpoints are low."""
    density, grid = np.asarray(density), np.asarray(grid)
    return float(density[np.abs(grid) <= 3].sum() * (grid[1] - grid[0]))


def _claims(rows: list[Row]) -> list[Claim]:
    """All densities are power means; then what the panels of q = 2, 1, 1.5 and 10 show."""
    claims = [power_mean_claim(rows)]
    if row := row_where(rows, q=2.0):
        distance = _distance_from_family(row)
        statement = "q = 2 stays in the Student-t family of one degree of freedom"
        claims.append(Claim(statement, "proved", f"largest difference {distance:.1e}", yes_or_no(distance < 1e-9)))
    for q, wanted, words in (
        (1.0, 2, "q = 1 still has two modes halfway, as a mixture"),
        (1.5, 1, "q = 1.5 has one mode"),
    ):
        if row := row_where(rows, q=q):
            modes = num_modes(row["densities"][len(row["betas"]) // 2])
            claims.append(Claim(words, "fig. 8", f"{modes}", yes_or_no(modes == wanted)))
    if row := row_where(rows, q=10.0):
        claims.append(_minimum_claim(row))
    return claims


def _minimum_claim(row: Row) -> Claim:
    """Judge whether the path of a large q has its mass where both endpoints are low."""
    masses = [_between(density, row["grid"]) for density in row["densities"]]
    least, ends = min(masses[1:-1]), max(masses[0], masses[-1])
    return Claim(
        "q = 10 concentrates where both endpoints are low, as the minimum of the two does",
        "fig. 8",
        f"at least {least:.0%} of the mass within 3 of zero, at the endpoints at most {ends:.0%}",
        yes_or_no(least > ends),
    )


EXPERIMENT = Experiment(
    name="fig_student",
    title="Student-t paths, nu = 1, q = 0, 1, 1.5, 2, 10",
    paper="Figure 8 (appendix)",
    duration="10 s",
    about="One degree of freedom is the family of order q = 2, so the path of that order runs through Student-t "
    "densities. Heavy tails move everything: q = 1 here looks like q = 0.5 between normals.",
    settings={"q": [0.0, 1.0, 1.5, 2.0, 10.0], "num_betas": 10, "num_points": 481},
    smoke={"num_points": 241},
    runs=product(q="q"),
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
)
