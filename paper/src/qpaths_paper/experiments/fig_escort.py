"""Figure 9: the escort-moment path against the q-path between Student-t densities, for several orders.

Escort moments are to a q-exponential family what moments are to an exponential family. The escort-moment path averages
them, as the moment-averaging path averages moments. It stays in the family, as the q-path of the same order does. Each
q fixes the degrees of freedom of the endpoints. Near q = 1 they are nearly normal, and the path is nearly the
moment-averaging path. The published formula of the path has a slip, so the path is drawn twice: as published, and with
the escort moments as defined. That the first spreads the mass more widely than the q-path is an effect of the slip at
q = 2.

Settings:
    q: Values of q between 1 and 3, two panels each.

`parts/densities.py` describes the other settings, and the rows, which also have
    scales: The scale of each density, a member of one family.
"""

from collections.abc import Iterator
from typing import Any

from qpaths.families import StudentT
from qpaths.families.q_family import df_from_q
from qpaths.paths import AbstractPath, EscortMomentPath, QPath
from qpaths.plotting import plot_panels

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, product
from ..harness.judging import yes_or_no
from ..parts.densities import densities_row, row_where

_PATHS = {"q-path": "q-path", "escort": "escort, published", "exact escort": "escort, exact"}


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Densities from -4 with scale matrix 3 to 4 with scale matrix 1, in the family of order q."""
    q = settings["q"]
    if not 1 < q < 3:
        raise ValueError(f"`q` must lie between 1 and 3, where Student-t densities are, got {q}.")
    df = df_from_q(q)
    base, target = StudentT(df, -4.0, 3.0**0.5), StudentT(df, 4.0, 1.0)
    path: AbstractPath[Any] = QPath(base, target, q=q)
    if settings["path"] != "q-path":
        path = EscortMomentPath(base, target, exact=settings["path"] == "exact escort")
    row = densities_row(path, -16.0, 14.0, settings["num_points"], settings["num_betas"], heavy_tails=True)
    members: list[Any] = [path.at(beta) for beta in row["betas"]]
    return {**row, "scales": [float(getattr(member, "member", member).scale) for member in members]}


def _orders(rows: list[Row]) -> list[float]:
    """The values of q in the rows."""
    return sorted({row["q"] for row in rows})


def _pictures(rows: list[Row]) -> list[Picture]:
    """A row of three panels for each q: the q-path, and escort moments as published and as defined."""
    panels = {
        rf"$q = {q:g}$, $\nu = {df_from_q(q):.3g}$: {name}": row["densities"]
        for q in _orders(rows)
        for path, name in _PATHS.items()
        if (row := row_where(rows, q=q, path=path))
    }
    figure = plot_panels(panels, rows[0]["grid"], rows[0]["betas"])
    caption = (
        "Student-t from -4 with scale matrix 3, dark, to 4 with 1, light. The q-path, escort moments as published, "
    )
    caption += "and as defined."
    return [Picture("densities", caption, figure)]


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """Two claims for each q: escort moments as published, and as defined."""
    for path in ("escort", "exact escort"):
        for q in _orders(rows):
            first, second = row_where(rows, q=q, path="q-path"), row_where(rows, q=q, path=path)
            if first and second:
                yield _width_claim(q, first, second)


def _width_claim(q: float, pointwise: Row, escort: Row) -> Claim:
    """Judge whether the members of the escort-moment path are wider at every beta between. All are of one family."""
    ratios = [b / a for a, b in zip(pointwise["scales"][1:-1], escort["scales"][1:-1], strict=True)]
    published = escort["path"] == "escort"
    kind = "escort moments by the published formula" if published else "escort moments as defined"
    return Claim(
        f"q = {q:g}: {kind} spread the mass more widely than the q-path at every beta between",
        "fig. 9" if published else "fig. 9, whose formula has a slip",
        f"{min(ratios):.2f} to {max(ratios):.2f} times the scale",
        yes_or_no(min(ratios) > 1),
    )


EXPERIMENT = Experiment(
    name="fig_escort",
    title="escort-moment path against the q-path, q = 1.01, 1.5, 2",
    paper="Figure 9 (appendix)",
    duration="10 s",
    about="Escort moments are to a q-exponential family what moments are to an exponential one. The path is drawn as "
    "published and as defined; at q = 1.01 it is nearly the moment-averaging path between normals.",
    settings={"q": [1.01, 1.5, 2.0], "num_betas": 10, "num_points": 481},
    smoke={"num_points": 241},
    runs=product(q="q", path=list(_PATHS)),
    run_one=_run_one,
    pictures=_pictures,
    claims=_claims,
    version=2,
)
