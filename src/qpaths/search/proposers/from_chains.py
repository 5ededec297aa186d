"""References fitted to the draws of Hamiltonian chains at the target."""

from typing import NamedTuple

import jax
import numpy as np

from ...core import Stream, one_thread, quiet, softmax
from ...kernels import HMC, LeapfrogParams
from ...references import HostRows, best_fit, find_frame, fit_map
from ...remarks import Refusal, Source
from .. import shares
from ..choices import can_map
from ..fits import NUM_OF_BASE
from ..state import Found, Proposal, Proposer, Search
from .refined import Refined

_MANY, _LONG = 16, 1.5
"""Dimensions from which chains are worth their cost, and length of a path from which they may find a shorter one. In
fewer dimensions a path of that length comes from a shape that their fit misses as well, and then hides."""
_CHAINS, _LEAPFROG, _FEWEST_MOVES = 32, 10, 40
"""Chains, their leapfrog steps, and the fewest moves of each that are worth a fit."""
_WARM = 0.5
"""Share of the moves in which step size and scales are adapted."""
_WINDOWS = 4
"""Number of times that scales are fitted to the moves before."""
_ACCEPTED = 0.8
_NEAR = 0.3
"""Distance of starts from the middle of the base, in deviations of its draws."""
_LOW = 4.0
"""Median deviations of the log density below the others, from which a chain has not arrived."""


class Moved(NamedTuple):
    """Draws of chains, and the scores of the target there."""

    rows: HostRows
    scores: HostRows


class Chains(Proposer):
    """A fit to draws of chains that run at the target.

    Chains need no path, only a start: optima that ascents met, draws of the base, and those of a pilot if there is one.
    In many dimensions they arrive where annealing from the base would take all that pilots may cost. A short run from
    the base must not find more mass.
    """

    source = Source.CHAINS

    def suits(self, search: Search) -> bool:
        if not search.kernel.with_slopes or not can_map(search.kernel) or search.chains is not None:
            return False
        is_long = search.best is None or not search.best[1].reached or search.best[1].barrier > _LONG
        return search.evaluator.dimension >= _MANY and is_long and _num_moves(search) >= _FEWEST_MOVES

    def propose(self, search: Search) -> Proposal | Refusal | None:
        search.chains = rows, scores = moved_chains(search, _num_moves(search))
        blocks = search.blocks_at(rows)
        frame = None if blocks is None else find_frame(blocks, rows)
        if search.base_component is None:
            fit = fit_map(rows, scores, frame)
        else:
            fit = best_fit(rows, scores, search.base_component.map, frame)
        return fit.refusal if fit.fitted is None else Proposal.of(fit.fitted, judged_alone=search.best is None)

    def confirmed(self, search: Search, found: Found) -> Found | None:
        if search.best is not None:
            search.best = found
            search.ask(Refined())
            return search.found
        return search.confirmed_by_base(found)


def _num_moves(search: Search) -> int:
    """Return how many moves of each chain can be afforded."""
    most = min(shares.CHAINS * search.max_cost, search.left)
    return int(most / (2 * _CHAINS * (1 + _LEAPFROG)))


@quiet()
def moved_chains(search: Search, num_moves: int) -> Moved:
    """Run chains at the target, with a step size and a scale for each coordinate that are adapted in the first half."""
    evaluator, stream = search.evaluator, search.stream.fold(800 + search.num_pilots)
    starts = _starts(search, stream.fold(0))
    kernel = HMC(num_leapfrog=_LEAPFROG)
    scale = np.maximum(np.std(starts, axis=0), 1e-12)
    log_step = np.log(0.5 * evaluator.dimension**-0.25)
    num_warm = int(_WARM * num_moves)
    windows = {num_warm * (k + 1) // (_WINDOWS + 1) for k in range(_WINDOWS)} | {num_warm}
    positions: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    heights: list[np.ndarray] = []
    since = 0
    with one_thread():
        particles = evaluator.particles(starts, with_slopes=True)
        for number in range(num_moves):
            if number in windows and len(positions) > since:
                recent = np.concatenate(positions[since:])
                scale, since = np.maximum(_spread(recent), 1e-12), len(positions)
            params = LeapfrogParams(scale[None], np.exp(log_step)[None])
            numbers = kernel.randomness(stream.fold(1 + number).rows(len(starts)), particles.position, 1)
            numbers = jax.tree.map(lambda leaf: leaf[0], numbers)
            particles, info = kernel.transition(evaluator, 1.0, particles, numbers, params)
            if number < num_warm:
                error = float(np.mean(np.nan_to_num(info.acceptance))) - _ACCEPTED
                gain = 1 / (1 + number - max((w for w in windows if w <= number), default=0)) ** 0.5
                log_step = log_step + gain * error / (1 - _ACCEPTED if error > 0 else _ACCEPTED)
            positions.append(np.asarray(particles.position, float))
            scores.append(np.asarray(evaluator.score(1.0, particles), float))
            heights.append(np.asarray(particles.features.log_target, float))
    search.spend_gradients(len(starts) * (1 + num_moves * _LEAPFROG))
    arrived = _arrived(np.array(heights[num_warm:]))
    kept = [np.array(part[num_warm:])[:, arrived].reshape(-1, evaluator.dimension) for part in (positions, scores)]
    finite = np.isfinite(kept[1]).all(axis=1)
    return Moved(kept[0][finite], kept[1][finite])


def _starts(search: Search, stream: Stream) -> HostRows:
    """Return draws of the best pilot, optima, and draws of the base."""
    optima = [mode.position for mode in sorted(search.known, key=lambda mode: -mode.log_mass)][: _CHAINS // 2]
    found = [np.array(optima).reshape(-1, search.evaluator.dimension)]
    if search.best is not None:
        pilot = search.best[1]
        rows, weights = np.asarray(pilot.draws[0], float), np.asarray(softmax(pilot.state.log_weights), float)
        cumulative = np.cumsum(np.nan_to_num(weights))
        uniform = np.asarray(stream.fold(0).uniform(((_CHAINS - len(optima)) // 2,)))
        found.append(rows[np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1]), len(rows) - 1)])
    num = _CHAINS - sum(map(len, found))
    # Near the middle of the base: draws far out in its tails may never arrive.
    draws = np.asarray(search.evaluator.draw(stream.fold(1), NUM_OF_BASE), float)
    middle = np.median(draws, axis=0)
    near = middle + _NEAR * _spread(draws) * np.asarray(stream.fold(2).normal((num, search.evaluator.dimension)))
    return np.concatenate([*found, near])


def _spread(rows: HostRows) -> np.ndarray:
    """Return a deviation of each coordinate that chains which have not arrived hardly change."""
    low, high = np.quantile(rows, [0.16, 0.84], axis=0)
    return 0.5 * (high - low)


def _arrived(heights: np.ndarray) -> np.ndarray:
    """Return which chains are where the others are: their mean log density is not far below."""
    means = np.mean(np.where(np.isfinite(heights), heights, -1e300), axis=0)
    middle = np.median(means)
    deviation = max(np.median(np.abs(means - middle)), float(np.median(np.std(heights, axis=0))), 1e-6)
    return means > middle - _LOW * deviation
