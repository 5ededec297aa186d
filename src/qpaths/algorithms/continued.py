"""Draws of the target that are moved on: draws from all of it stay as they are, and others drift.

Moves leave the target as it is. So the share of moved draws in any set must stay the share of the draws. The sets that
matter are those in which the target is high compared with where the path began: mass that a run has missed lies there.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import Cost, Rows, Stream, one_thread, quiet
from ..kernels import FrozenKernel, LeapfrogParams
from ..rows import Evaluator, Particles

_CHAINS, _MOVES = (64, 512), (8, 64)
"""The fewest and the most."""
_LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Shares of the draws in the sets."""
_TOP, _PARTS = 0.05, (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
"""Share of the draws in the set at which half of the chains start, and parts of that share beyond which they escape."""
_CERTAIN = 1e-3
"""Probability of noise, of all sets together, below which moved draws are said to have drifted."""
_MOST_AFTER, _NUM_PLACES = 1 - 1e-12, 8
"""The largest share from which what is missing can be told, and ends of chains that are kept."""
_SHORTER = (1.0, 0.3)
"""Factors of the step size, in turns: where scales differ from place to place a single one does not serve."""
_SLOWEST = 0.8
"""The largest share of a deviation that moves are assumed to leave; what has moved so far tells the rest."""

Line = Float[np.ndarray, " _"]
Chains = Float[np.ndarray, "moves chains"]


class Draws(NamedTuple):
    """Weighted draws of the target."""

    rows: Callable[[Any], Rows]
    """Those of some numbers, in the coordinates of the run."""
    ratios: Line
    """Log of the target over where the path began, up to a constant."""
    weights: Line
    """They add up to one."""
    effective: float
    """Number of independent draws that they are worth."""

    def share(self, level: float) -> float:
        """Return the share of the draws with larger ratios."""
        return float(np.sum(self.weights[self.ratios > level]))

    def level(self, share: float) -> float:
        """The ratio that this share of the draws exceed, at most."""
        order = np.argsort(-self.ratios)
        return float(self.ratios[order[np.searchsorted(np.cumsum(self.weights[order]), share)]])

    def chosen(self, num: int, offset: float, least: float = -np.inf) -> np.ndarray:
        """Numbers of draws by their weights, of those with ratios of at least `least`."""
        cumulative = np.cumsum(np.where(self.ratios >= least, self.weights, 0.0))
        return np.minimum(
            np.searchsorted(cumulative, (np.arange(num) + offset) / num * cumulative[-1]), self.weights.size - 1
        )


class Drift(NamedTuple):
    """A set in which moved draws end up more often than they should."""

    before: float = 0.0
    """Share of the draws in it."""
    after: float = 0.0
    """Share of moved draws, as far as can be told."""
    places: Float[np.ndarray, "n d"] | None = None
    """Points at which moved draws ended with the largest ratios."""

    @property
    def error(self) -> float:
        """Nats by which the log evidence is too small if the mass outside of the set is right."""
        return math.log1p(-self.before) - math.log1p(-min(self.after, _MOST_AFTER))


def size_for(evaluations: float, kernel: FrozenKernel) -> tuple[int, int] | None:
    """Chains and moves for at most so many evaluations; long chains come first, and None is too few."""
    start, move = kernel.start_cost(1).total, kernel.cost.total
    num_moves = int(min((evaluations / _CHAINS[0] - start) / move, _MOVES[1]))
    if num_moves < _MOVES[0]:
        return None
    return int(min(evaluations / (start + num_moves * move), _CHAINS[1])), num_moves


@quiet()
def continued(
    evaluator: Evaluator, kernel: FrozenKernel, draws: Draws, size: tuple[int, int], stream: Stream
) -> tuple[Drift, Cost]:
    """Move some of the draws on, with step sizes in turns, and compare where they end; also the cost.

    Half of the chains start anywhere and half where the ratios are largest, next to what may be missing. `size` is the
    number of chains and that of their moves.
    """
    num_chains, num_moves = size
    offset = float(np.asarray(stream.uniform((1,)))[0])
    top = draws.level(_TOP)
    num_top = num_chains // 2
    chosen = np.concatenate([draws.chosen(num_top, offset, top), draws.chosen(num_chains - num_top, offset)])
    with one_thread():
        particles = evaluator.particles(draws.rows(chosen), with_slopes=kernel.with_slopes)
        particles = particles._replace(memory=kernel.first_memory(particles.position, stream))
        params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], kernel.params_at(1.0))
        ratios = [_ratios(evaluator, particles)]
        for move in range(num_moves):
            own = params
            if isinstance(params, LeapfrogParams):
                own = params._replace(step_size=_SHORTER[move % len(_SHORTER)] * params.step_size)
            numbers = kernel.randomness(stream.fold(move).rows(num_chains), particles.position, 1)
            numbers = jax.tree.map(lambda leaf: leaf[0], numbers)
            particles, _ = kernel.transition(evaluator, 1.0, particles, numbers, own)
            ratios.append(_ratios(evaluator, particles))
    chains = np.array(ratios) - np.median(ratios[0] - draws.ratios[chosen])
    escape = escape_of(draws, chosen[:num_top], chains[:, :num_top])
    drift = drift_of(draws, chosen[num_top:], chains[:, num_top:])
    cost = kernel.start_cost(num_chains) + num_chains * num_moves * kernel.cost
    worst = max(drift, escape, key=lambda one: one.error)
    if worst.error > 0:
        highest = np.argsort(-chains[-1])[:_NUM_PLACES]
        worst = worst._replace(places=np.asarray(evaluator.in_points(particles.position[highest], None)[0]))
    return worst, cost


def _ratios(evaluator: Evaluator, particles: Particles) -> Line:
    return np.asarray(evaluator.log_ratio(0.0, 1.0, particles.features), float)


def drift_of(draws: Draws, chosen: np.ndarray, chains: Chains) -> Drift:
    """The set with the largest drift beyond noise, of chains that start anywhere."""
    worst, late = Drift(), chains[len(chains) // 2 :]
    num_starts = len(np.unique(chosen))
    for share in _LEVELS:
        level = draws.level(share)
        expected = draws.share(level)
        start, end = draws.ratios[chosen] > level, np.mean(late > level, axis=0)
        if not 0 < expected < 1 or not np.any(end):
            continue
        found = float(np.mean(end))
        kept = float(np.clip(np.mean(end[start]) - np.mean(end[~start]), 0.0, 1.0)) if 0 < start.mean() < 1 else 0.0
        moved = found - kept * (float(np.mean(start)) - expected)
        # A chain that comes and goes is worth several draws.
        spread = min(float(np.var(end)) / max(found * (1 - found), 1e-12), 1.0)
        likely = expected + (expected * (1 - expected) / draws.effective) ** 0.5
        if _tail(num_starts / max(spread, 1 / len(late)), moved, likely) * len(_LEVELS) < _CERTAIN:
            drift = Drift(expected, min(expected + (moved - expected) / (1 - min(kept, _SLOWEST)), 1.0))
            worst = max(worst, drift, key=lambda one: one.error)
    return worst


def escape_of(draws: Draws, chosen: np.ndarray, chains: Chains) -> Drift:
    """The set into which chains from next to it escape more often than its share allows.

    Part of all mass in a set A comes from the set S at which the chains start, whatever the number of moves. So the
    chance that a chain from S is in A is at most the share of A over that of S. The share that belongs there is what
    enters A in a move times the moves that it stays.
    """
    worst, num_starts = Drift(), float(len(np.unique(chosen)))
    top = draws.level(_TOP)
    share_top = draws.share(top) + float(np.sum(draws.weights[draws.ratios == top]))
    times = sorted({len(chains) // 4, len(chains) // 2, len(chains) - 1})
    for part in _PARTS:
        level = draws.level(part * _TOP)
        expected = draws.share(level)
        likely = (expected + 2 * (max(expected, 1 / draws.effective) / draws.effective) ** 0.5) / share_top
        inside = chains > level
        tail = min(_tail(num_starts, float(np.mean(inside[time])), likely) for time in times)
        if tail * len(_PARTS) * len(times) < _CERTAIN:
            near = (chains[:-1] >= top) & ~inside[:-1]
            entered, left = near & inside[1:], inside[:-1] & ~inside[1:]
            rate = (share_top - expected) * float(np.sum(entered)) / max(float(np.sum(near)), 1.0)
            after = rate * float(np.sum(inside)) / max(float(np.sum(left)), 1.0)
            after = max(after, share_top * float(np.mean(inside[times[-1]])))
            worst = max(worst, Drift(expected, min(after, 1.0)), key=lambda one: one.error)
    return worst


def _tail(worth: float, found: float, likely: float) -> float:
    """Probability that a share of at least `found` of so many draws are where each is with the probability `likely`."""
    from scipy.special import bdtrc

    if not found > likely:
        return 1.0
    return float(bdtrc(math.ceil(worth * found) - 1, math.ceil(worth), likely))
