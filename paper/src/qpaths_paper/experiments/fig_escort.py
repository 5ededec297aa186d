"""Figure 9: the escort-moment path against the q-path between Student-t densities, for several orders.

Escort moments are to a q-exponential family what moments are to an exponential family. The escort-moment path averages
them, as the moment-averaging path averages moments. It stays in the family, and spreads the mass more widely than the
q-path of the same order. Each q fixes the degrees of freedom of the endpoints. Near q = 1 they are nearly normal, and
the path is nearly the moment-averaging path.

Settings:
    q: Values of q between 1 and 3, two panels each.

`parts/densities.py` describes the other settings, and the rows.
"""

from typing import Any

from qpaths.families import StudentT
from qpaths.families.q_family import df_from_q
from qpaths.paths import AbstractPath, EscortMomentPath, QPath
from qpaths.plotting import plot_panels

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, product
from ..harness.judging import yes_or_no
from ..parts.densities import densities_row, quantile_width, row_where


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Densities from -4 with scale matrix 3 to 4 with scale matrix 1, in the family of order q."""
    q = settings["q"]
    if not 1 < q < 3:
        raise ValueError(f"`q` must lie between 1 and 3, where Student-t densities are, got {q}.")
    df = df_from_q(q)
    base, target = StudentT(df, -4.0, 3.0**0.5), StudentT(df, 4.0, 1.0)
    path: AbstractPath[Any] = QPath(base, target, q=q)
    if settings["path"] == "escort":
        path = EscortMomentPath(base, target)
    return densities_row(path, -16.0, 14.0, settings["num_points"], settings["num_betas"], heavy_tails=True)


def _orders(rows: list[Row]) -> list[float]:
    """The values of q in the rows."""
    return sorted({row["q"] for row in rows})


def _pictures(rows: list[Row]) -> list[Picture]:
    """A row of two panels for each q: the q-path, and escort moments."""
    panels = {
        rf"$q = {q:g}$, $\nu = {df_from_q(q):.3g}$: {name}": row["densities"]
        for q in _orders(rows)
        for path, name in (("q-path", "q-path"), ("escort", "escort moments"))
        if (row := row_where(rows, q=q, path=path))
    }
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"])
    caption = "Student-t from -4 with scale matrix 3, dark, to 4 with 1, light. Left the q-path, right escort moments."
    return [Picture("densities", caption, figure)]


def _claims(rows: list[Row]) -> list[Claim]:
    """A claim for each q that has both paths."""
    pairs = {q: (row_where(rows, q=q, path="q-path"), row_where(rows, q=q, path="escort")) for q in _orders(rows)}
    return [_width_claim(q, first, second) for q, (first, second) in pairs.items() if first and second]


def _width_claim(q: float, pointwise: Row, escort: Row) -> Claim:
    """Judge whether the central half of the mass is wider along the escort-moment path, at every beta between."""
    ratios = [
        quantile_width(escort["grid"], second) / quantile_width(pointwise["grid"], first)
        for first, second in zip(pointwise["densities"][1:-1], escort["densities"][1:-1], strict=True)
    ]
    return Claim(
        f"q = {q:g}: escort moments spread the mass more widely than the q-path at every beta between",
        "fig. 9",
        f"half the mass within {min(ratios):.2f} to {max(ratios):.2f} times the width",
        yes_or_no(min(ratios) > 1),
    )


EXPERIMENT = Experiment(
    name="fig_escort",
    title="escort-moment path against the q-path, q = 1.01, 1.5, 2",
    paper="Figure 9 (appendix)",
    duration="10 s",
    about="Escort moments are to a q-exponential family what moments are to an exponential one. The path is drawn as "
    "published; at q = 1.01 it is nearly the moment-averaging path between normals.",
    settings={"q": [1.01, 1.5, 2.0], "num_betas": 10, "num_points": 481},
    smoke={"num_points": 241},
    runs=product(q="q", path=["q-path", "escort"]),
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
)
