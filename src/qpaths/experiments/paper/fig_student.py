"""Figure 8: q-paths between two Student-t densities with one degree of freedom."""

from typing import Any

import numpy as np

from ...families import StudentT
from ...paths import QPath
from ...plotting import plot_panels
from ..experiment import Claim, Experiment, Picture, Row, Run, Settings
from ..judging import yes_or_no
from .shared.densities import densities_row, num_modes, power_mean_discrepancy, row_where


def _runs(settings: Settings, num_seeds: int) -> list[Run]:
    common = {name: settings[name] for name in ("num_betas", "num_points")}
    return [Run({"q": q, **common}, 0) for q in settings["q"]]


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    path = QPath(StudentT(1.0, -4.0, 3.0**0.5), StudentT(1.0, 4.0, 1.0), q=settings["q"])
    return densities_row(path, -15.0, 15.0, settings["num_points"], settings["num_betas"], heavy_tails=True)


def _pictures(rows: list[Row]) -> list[Picture]:
    rows = sorted(rows, key=lambda row: row["q"])
    panels = {f"$q = {row['q']:g}$" + (" (in the family)" if row["q"] == 2 else ""): row["densities"] for row in rows}
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"])
    caption = "Densities from Student-t at -4 with scale matrix 3, dark, to Student-t at 4 with 1, light; nu = 1."
    return [Picture("densities", caption, figure)]


def _distance_from_family(row: Row) -> float:
    """How far the reciprocals of the densities are from parabolas, which those of Cauchy densities are."""
    grid = np.asarray(row["grid"]) / 10
    worst = 0.0
    for density in row["densities"]:
        reciprocal = 1 / np.asarray(density)
        fit = np.polynomial.polynomial.polyval(grid, np.polynomial.polynomial.polyfit(grid, reciprocal, 2))
        worst = max(worst, float(np.max(np.abs(fit - reciprocal)) / reciprocal.max()))
    return worst


def _between(density: Any, grid: Any) -> float:
    """Mass within three of zero, where both endpoints are low."""
    density, grid = np.asarray(density), np.asarray(grid)
    return float(density[np.abs(grid) <= 3].sum() * (grid[1] - grid[0]))


def _claims(rows: list[Row]) -> list[Claim]:
    worst = max(power_mean_discrepancy(row, row["q"]) for row in rows)
    statement = "every density is the power mean of the endpoints (eq. qpath_mix_form)"
    text = f"largest difference {worst:.1e} of the peak"
    claims = [Claim(statement, "by definition", text, yes_or_no(worst < 1e-6))]
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
        masses = [_between(density, row["grid"]) for density in row["densities"]]
        least, ends = min(masses[1:-1]), max(masses[0], masses[-1])
        claims.append(
            Claim(
                "q = 10 concentrates where both endpoints are low, as the minimum of the two does",
                "fig. 8",
                f"at least {least:.0%} of the mass within 3 of zero, at the endpoints at most {ends:.0%}",
                yes_or_no(least > ends),
            )
        )
    return claims


EXPERIMENT = Experiment(
    name="fig_student",
    title="Student-t paths, nu = 1, q = 0, 1, 1.5, 2, 10",
    paper="Figure 8 (appendix)",
    duration="10 s",
    about="One degree of freedom is the family of order q = 2, so the path of that order runs through Student-t "
    "densities. Heavy tails move everything: q = 1 here looks like q = 0.5 between normals.",
    settings={"q": [0.0, 1.0, 1.5, 2.0, 10.0], "num_betas": 10, "num_points": 481},
    smoke={"num_points": 241},
    runs=_runs,
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
)
