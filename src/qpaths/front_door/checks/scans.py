"""Modes and ends of single coordinates that the draws of a run have missed."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ...algorithms import Islands
from ...core import Cost, Stream, log_ess, logsumexp, softmax
from ...references import grid, is_resolved, masses, modes, normalized, scan, scanned_values
from ...remarks import Finding
from ...rows import Evaluator
from ..inputs import coordinate_names
from .base import Check, Run, Seen

_SIZES = ((3, 64), (2, 48))
"""Scans of each coordinate and points of each; the larger one that costs little is used."""
_LITTLE, _LITTLE_MORE = 0.03, 0.1
"""Share of the evaluations of a run that a first look may cost, and a closer one."""
_NUM_CLOSER, _MOST_COORDINATES = 48, 8
"""Numbers of scans and of coordinates of the closer look."""
_LEAST, _END, _SUSPICIOUS = 0.001, 0.002, 3.0
"""Mass of a mode that is of interest, share of the draws at each end of a coordinate, and how many times that share a
first look may find there."""
_NUM_BASE, _NUM_TYPICAL, _BEYOND_NOISE = 128, 1024, 4.0
"""Draws of the base and of the target that say how far scans go, and standard errors beyond which a mode is missed."""
_NARROW, _COARSE = 0.5, 0.05
"""Nats by which a draw is above its scan where the points do not resolve a peak, and the share of a mass that they are
off by at most where they do."""

_MOST_EXPECTED, _NUM_STARTS = 1 - 1e-12, 8
"""Largest share from which what is missing can be told, and points of a missed mode from which ascents start."""

Matrix = Float[np.ndarray, "_ d"]
Line = Float[np.ndarray, " _"]
Scans = Float[np.ndarray, "_ g"]


class Missed(NamedTuple):
    """A coordinate with a mode that the draws have missed: the mass that belongs there, and that of the draws."""

    coordinate: str = ""
    expected: float = 0.0
    found: float = 0.0
    error: float = 0.0
    """Nats by which the log evidence is too small, of all such modes."""
    starts: Matrix | None = None
    """Points in the mode, from which an ascent leads to its optimum."""


def missed_modes(
    evaluator: Evaluator, islands: Islands, num_spent: int, num_left: float, stream: Stream
) -> tuple[Missed, int]:
    """Test that draws stay as they are if one coordinate is drawn again, given the others (a Gibbs step).

    Such a step leaves the target as it is. So the mean over draws of the probability with which it ends in some mode
    is the mass of that mode, and a mode that hardly any draw is in shows. So does the end of a coordinate that draws do
    not reach. What no single coordinate leads to does not.
    Also returned: how many values of the target were computed, a small share of those spent and at most those left.
    """
    rows, weights = _draws(evaluator, islands)
    dimension = rows.shape[1]
    most = min(_LITTLE * num_spent, num_left)
    sizes = [size for size in _SIZES if size[0] * size[1] * dimension <= most]
    if not sizes or not np.isfinite(weights).all():  # no draw of any island has weight
        return Missed(), 0
    num_scans, num_points = sizes[0]
    of_base, of_range, first, second = stream.split(4)
    base_draws = np.asarray(evaluator.draw(of_base, _NUM_BASE), float)
    ends = np.array([_quantiles(own, weights) for own in rows.T])
    typical = _chosen(rows, weights, of_range, _NUM_TYPICAL)
    points = np.sort(np.hstack([grid(typical, part, num_points // 2) for part in (typical, base_draws)]), axis=1)
    each = scan(evaluator, _chosen(rows, weights, first, num_scans), points)
    suspects = [j for j in range(dimension) if _is_suspect(each[:, j], points[j], ends[j])][:_MOST_COORDINATES]
    num = each.size + _NUM_CLOSER * (num_points * len(suspects) + 1)
    if not suspects or num > min(_LITTLE_MORE * num_spent, num_left):
        return Missed(), each.size
    through = _chosen(rows, weights, second, _NUM_CLOSER)
    values = scanned_values(evaluator, through, points, np.array(suspects))
    own = np.asarray(evaluator.values(through).log_target, float)
    closer = normalized(values, points[suspects])
    ancestors = float(np.sum(islands.stats["num_ancestors"], axis=0)[-1])
    effective = min(float(np.exp(log_ess(islands.log_weights.ravel()))), ancestors)
    names = coordinate_names(evaluator.layout)
    found = [
        _missed(
            names[j],
            closer[:, k],
            points[j],
            ends[j],
            rows[:, j],
            weights,
            effective,
            _unseen(values[:, k], points[j], through[:, j], own),
        )
        for k, j in enumerate(suspects)
    ]
    worst = max(range(len(found)), key=lambda k: found[k][0].error)
    missed, stretch = found[worst]
    if stretch is not None:
        starts = through[:_NUM_STARTS].copy()
        inside = slice(stretch.start, stretch.stop + 1)
        highest = np.argmax(values[:_NUM_STARTS, worst, inside], axis=1)
        starts[:, suspects[worst]] = points[suspects[worst]][inside][highest]
        missed = missed._replace(starts=starts)
    return missed._replace(error=sum(one.error for one, _ in found)), num


def _is_suspect(scans: Scans, points: Line, ends: Line) -> bool:
    """Return whether some scan has several modes, or their mean has too much mass beyond nearly all draws."""
    each = masses(scans, points)
    beyond = np.mean(sum(np.sum(each[:, end], axis=1) for end in _beyond(points, ends)))
    return float(beyond) > _SUSPICIOUS * _END or any(len(modes(one, points, _LEAST)) > 1 for one in scans)


def _beyond(points: Line, ends: Line) -> tuple[slice, slice]:
    """Stretches between points that lie beyond nearly all draws, on either side."""
    below = max(int(np.searchsorted(points, ends[0], "right")) - 1, 0)
    return slice(0, below), slice(min(int(np.searchsorted(points, ends[1])), len(points) - 1), len(points) - 1)


def _unseen(values: Scans, points: Line, places: Line, own: Line) -> Line:
    """The places of draws that lie on peaks too narrow for the points of their scans; NaN for the others.

    In the neck of a funnel a scan misses the peak it goes through, and would find all mass elsewhere.
    """
    at = np.array([np.interp(place, points, line) for place, line in zip(places, values, strict=True)])
    return np.where(own - at > _NARROW, places, np.nan)


def _missed(
    coordinate: str, scans: Scans, points: Line, ends: Line, own: Line, weights: Line, effective: float, stuck: Line
) -> tuple[Missed, slice | None]:
    """Return the mode or end of one coordinate of which most is missing beyond noise, and the stretch that it is.

    Draws that are `stuck` at some place, where this is a number, count as staying there. If the draws outside of the
    stretch have their mass, the evidence is too small by `(1 - found) / (1 - expected)`.
    """
    worst, where, each = Missed(), None, masses(scans, points)
    borders = np.concatenate([[-np.inf], points[1:-1], [np.inf]])
    stretches = modes(logsumexp(scans, axis=0), points, _LEAST)
    for stretch in (*stretches, *_beyond(points, ends)):
        mass = each[:, stretch]
        first, last = borders[stretch.start], borders[stretch.stop]
        shares = np.where(np.isnan(stuck), np.sum(mass, axis=1), (stuck >= first) & (stuck < last))
        expected = min(float(np.mean(shares)), 1.0)
        found = float(np.sum(weights[(own >= first) & (own < last)]))
        share = max(expected * (1 - expected), 1 / effective)
        noise = np.hypot(np.std(shares, ddof=1) / len(shares) ** 0.5, (share / effective) ** 0.5)
        beyond = max(_BEYOND_NOISE * noise, _LEAST, _COARSE * expected, worst.expected - worst.found)
        if is_resolved(np.sum(mass, axis=0)) and expected - found > beyond:
            error = float(np.log1p(-found) - np.log1p(-min(expected, _MOST_EXPECTED)))
            worst, where = Missed(coordinate, expected, found, error), stretch
    return worst, where


def _quantiles(own: Line, weights: Line) -> Line:
    """Values beyond which there is hardly a draw."""
    order = np.argsort(own)
    return own[order][np.searchsorted(np.cumsum(weights[order]), [_END, 1 - _END])]


def _draws(evaluator: Evaluator, islands: Islands) -> tuple[Matrix, Line]:
    """All draws, and their weights."""
    rows = np.asarray(evaluator.layout.rows(islands.samples), float)
    return rows.reshape(-1, rows.shape[-1]), np.asarray(softmax(islands.log_weights.ravel()), float)


def _chosen(rows: Matrix, weights: Line, stream: Stream, num: int) -> Matrix:
    cumulative = np.cumsum(weights)
    return rows[np.searchsorted(cumulative, np.asarray(stream.uniform((num,))) * cumulative[-1])]


class Scanned(Check):
    """Scans of each coordinate through draws."""

    def look(self, run: Run) -> Seen:
        missed, num = missed_modes(run.evaluator, run.islands, run.spent.total, run.left, run.stream.fold(1))
        if not missed.error > 0:
            return Seen(cost=Cost(target=num))
        numbers = {"expected": missed.expected, "found": missed.found, "error": missed.error}
        finding = Finding.MISSED_MODE(coordinate=missed.coordinate, **numbers)
        return Seen((finding,), {"scans": missed.error}, Cost(target=num), missed.starts)
