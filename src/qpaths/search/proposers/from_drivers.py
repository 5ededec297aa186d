"""References for targets that are close to normal given a few coordinates, which drive the scales of all others."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ...core import quiet
from ...references import (
    ROTATED,
    HostRows,
    Mode,
    Slopes,
    find_direction,
    find_drivers,
    fit_hierarchy,
    rotation_to,
)
from ...remarks import Refusal, Source
from .. import shares
from ..choices import can_map, is_fitted
from ..fits import NUM_OF_BASE, map_of_base
from ..state import Found, Proposal, Proposer, Search
from ..weighted import GOOD, POOREST, weighted_fit

_NUM_PROBED = 6
"""Draws at which drivers are looked for."""
_MOST_MODES = 2
_NEAR = 0.2
"""Distance of first points from the middle of the base, in units of the range of most of its draws."""


class _Candidate(NamedTuple):
    """Drivers that some draws show; with a rotation the first of its coordinates is the driver."""

    drivers: tuple[int, ...]
    draws: HostRows
    rotation: Float[np.ndarray, "d d"] | None = None
    is_exact: bool = True


class Drivers(Proposer):
    """Optima and curvature at values of the drivers.

    The prior shows those of a centered hierarchy, the curvature around an optimum others, and better draws may show
    more of them.
    """

    source = Source.DRIVERS
    rounds = 3

    def suits(self, search: Search) -> bool:
        if not search.kernel.with_slopes or not can_map(search.kernel) or search.evaluator.dimension < 3:
            return False
        if search.best is None:
            return True
        base: Any = search.best[0].base
        return search.is_worth_more() and not (is_fitted(base) and len(base.components) > 1)

    def propose(self, search: Search) -> Proposal | Refusal | None:
        best, share, refusal, is_driven = None, POOREST, None, False
        for number, candidate in enumerate(_candidates(search)):
            name = candidate.drivers if candidate.rotation is None else ROTATED
            is_driven = is_driven or (bool(name) and name is not ROTATED)
            if not name or name in search.drivers or (name is ROTATED and is_driven):
                continue
            most = int(min(shares.DRIVERS * search.max_cost - search.spent_on_drivers, search.left) / 2)
            design_stream, fit_stream = search.stream.fold(200 + 10 * search.num_pilots + number).split(2)
            drivers, draws, rotation, is_exact = candidate
            fit, num = fit_hierarchy(search.evaluator, draws, drivers, most, design_stream, rotation, is_exact)
            search.spend_gradients(num)
            search.spent_on_drivers += 2 * num
            if fit is None:
                refusal = refusal or Refusal.TOO_COSTLY
                continue
            search.drivers += (name,)
            component, ess, num = weighted_fit(fit, search.evaluator, fit_stream)
            search.spend_values(num)
            refusal = Refusal.POOR_FIT if ess < POOREST else refusal
            if ess >= share:
                best, share = component, ess
            if ess > GOOD:
                break
        if best is None:
            return refusal
        return Proposal.of(best, settles=share > GOOD, judged_alone=search.best is None)

    def is_last(self, search: Search, before: Found | None, after: Found) -> bool:
        return search.settled


def _candidates(search: Search) -> Iterator[_Candidate]:
    """Yield what the base, optima, chains and the last pilot show, as far as they are there."""
    if search.best is None:
        draws = np.asarray(search.evaluator.draw(search.stream.fold(500), NUM_OF_BASE), float)
        search.base_component = map_of_base(draws)
        yield _Candidate(_drivers_at(search, draws, "base"), _near_middle(draws))
    modes = [mode for mode in search.known if mode.precision.ndim == 2]
    for mode in sorted(modes, key=lambda mode: -mode.log_mass)[:_MOST_MODES]:
        draws = _around(mode)
        yield _Candidate(_drivers_at(search, draws, "target"), draws)
    found = [] if search.chains is None else [search.chains]
    if search.best is not None:
        found.append(search.found[1].draws)
    for rows, scores in found:
        draws = np.asarray(rows, float)
        yield _Candidate(_drivers_at(search, draws, "target"), draws)
        blocks = search.blocks_at(draws)
        if blocks is not None and blocks.direction is not None:
            yield _Candidate((0,), draws, rotation_to(blocks.direction))
        elif blocks is None:
            rotation = find_direction(draws, np.asarray(scores, float))
            if rotation is not None:
                yield _Candidate((0,), draws, rotation, is_exact=False)


@quiet()
def _drivers_at(search: Search, draws: HostRows, end: str) -> tuple[int, ...]:
    """Return the drivers that the curvature of one end of the path shows at draws."""
    points = draws[np.linspace(0, len(draws) - 1, _NUM_PROBED).astype(int)]
    low, high = np.quantile(draws, [0.16, 0.84], axis=0)

    def slopes_at(rows: HostRows) -> HostRows:
        search.spend_gradients(len(rows))
        return np.asarray(getattr(search.evaluator.waypoints(rows).slopes, end), float)

    slopes: Slopes = slopes_at
    some = draws[:: max(1, len(draws) // 64)]
    scores = slopes(some)
    sizes = np.sqrt(np.nanmean(np.where(np.isfinite(scores), scores, np.nan) ** 2, axis=0))
    spread = np.maximum(0.5 * (high - low), 1e-12)
    return find_drivers(slopes, points, np.clip(1 / sizes, 1e-6 * spread, spread), spread)


def _near_middle(draws: HostRows) -> HostRows:
    """Return points near the median of draws, which is the first of them: far out in its tails nothing may be seen."""
    low, middle, high = np.quantile(draws, [0.16, 0.5, 0.84], axis=0)
    noise = np.random.default_rng(0).standard_normal(draws.shape)
    noise[0] = 0.0
    return middle + _NEAR * (high - low) * noise


def _around(mode: Mode) -> HostRows:
    """Return draws of the normal distribution with the curvature of a mode, which is the first of them."""
    dimension = len(mode.position)
    noise = np.random.default_rng(0).standard_normal((4 * dimension + 64, dimension))
    noise[0] = 0.0
    return mode.position + np.linalg.solve(np.linalg.cholesky(mode.precision).T, noise.T).T
