"""Figure 2: intermediate densities between two normals, from the mixture to the geometric path.

The path of order q is the power mean of the endpoints (eq. qpath_mix_form). At q = 0 it is their mixture, with a mode
at each endpoint. At q = 1 it is the geometric path, along which one normal moves from end to end. The figure shows
q = 0, 0.5, 0.9 and 1 at ten betas.

Settings:
    q: Values of q, a panel each.

`parts/densities.py` describes the other settings, and the rows.
"""

from typing import Any

from qpaths.families import Normal
from qpaths.paths import QPath
from qpaths.plotting import plot_panels

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, product
from ..harness.judging import yes_or_no
from ..parts.densities import densities_row, num_modes, power_mean_claim


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Densities between N(-4, 3) and N(4, 1)."""
    path = QPath(Normal(-4.0, 3.0**0.5), Normal(4.0, 1.0), q=settings["q"])
    return densities_row(path, -13.0, 9.0, settings["num_points"], settings["num_betas"])


def _pictures(rows: list[Row]) -> list[Picture]:
    """A panel for each q."""
    rows = sorted(rows, key=lambda row: row["q"])
    panels = {f"$q = {row['q']:g}$": row["densities"] for row in rows}
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"])
    return [Picture("densities", "Normalized densities from N(-4, 3), dark, to N(4, 1), light.", figure)]


def _claims(rows: list[Row]) -> list[Claim]:
    """Every density is a power mean; q = 0 has two modes, and q = 1 has one."""
    claims = [power_mean_claim(rows)]
    for q, wanted, words in ((0.0, 2, "a mixture: two modes at"), (1.0, 1, "geometric: one mode at")):
        claims += [_modes_claim(row, wanted, words) for row in rows if row["q"] == q]
    return claims


def _modes_claim(row: Row, wanted: int, words: str) -> Claim:
    """Judge whether the densities between the endpoints have the wanted number of modes.

    Near the endpoints the second bump of a mixture is lower than what counts as a mode, so one beta may differ there.
    """
    modes = [num_modes(density) for density in row["densities"][1:-1]]
    share = sum(num == wanted for num in modes)
    holds = share == len(modes) if wanted == 1 else share >= len(modes) - 1
    ours = f"at {share} of {len(modes)}"
    return Claim(f"q = {row['q']:g} is {words} every beta between", "fig. 2", ours, yes_or_no(holds))


EXPERIMENT = Experiment(
    name="fig2",
    title="densities between N(-4, 3) and N(4, 1) for q = 0, 0.5, 0.9, 1",
    paper="Figure 2",
    duration="5 s",
    about="Power means of the endpoints at ten betas. Low q is near the mixture of the endpoints, q = 1 is the "
    "geometric path, which moves one normal from end to end.",
    settings={"q": [0.0, 0.5, 0.9, 1.0], "num_betas": 10, "num_points": 361},
    smoke={"num_points": 121},
    runs=product(q="q"),
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
)
