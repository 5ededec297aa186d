"""Draws of the target that are moved on: draws from all of it stay as they are, and others drift.

Moves leave the target as it is. So the share of moved draws in any set must stay the share of the draws. The sets that
matter are those in which the target is high compared with where the path began: mass that a run has missed lies there.
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from .._types import Rows
from ..arrays import one_thread, quiet
from ..cost import Cost
from ..evaluation import AbstractEvaluator
from ..kernels import FrozenKernel
from ..kernels.factors import LeapfrogParams

NUM_DRAWS = 1024
"""Draws that tell the shares before any move."""
_CHAINS, _MOVES = (64, 512), (8, 64)
"""The fewest and the most."""
_LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Shares of the draws in the sets."""
_CERTAIN = 1e-3
"""Probability of noise, of all sets together, below which moved draws are said to have drifted."""
_SHORTER = (1.0, 0.3)
"""Factors of the step size, in turns: where scales differ from place to place a single one does not serve."""
_SLOWEST = 0.8
"""The largest share of a deviation that moves are assumed to leave; what has moved so far tells the rest."""


class Drift(NamedTuple):
    """A set in which moved draws end up more often than they should."""

    before: float = 0.0
    """Share of the draws in it."""
    after: float = 0.0
    """Share of moved draws, less what noise of their starts makes of it; of what they move towards."""

    @property
    def error(self) -> float:
        """Nats by which the log evidence is too small if the mass outside of the set is right."""
        return math.log1p(-self.before) - math.log1p(-min(self.after, 0.999))


def size_for(evaluations: float, kernel: FrozenKernel) -> tuple[int, int] | None:
    """Chains and moves for at most so many evaluations; long chains come first, and None is too few."""
    rest, start, move = evaluations - NUM_DRAWS, kernel.start_cost(1).total, kernel.cost.total
    num_moves = int(min((rest / _CHAINS[0] - start) / move, _MOVES[1]))
    return None if num_moves < _MOVES[0] else (int(min(rest / (start + num_moves * move), _CHAINS[1])), num_moves)


@quiet()
def continued(
    evaluator: AbstractEvaluator,
    kernel: FrozenKernel,
    draws: Rows,
    effective: float,
    size: tuple[int, int],
    stream: Any,
) -> tuple[Drift, Cost]:
    """Move some of equally weighted `draws` on, with step sizes in turns, and compare where they end; also the cost.

    `draws` are `NUM_DRAWS` rows in the coordinates of the run, worth `effective` independent ones. `size` is the number
    of chains and that of their moves.
    """
    num_chains, num_moves = size
    chosen = np.arange(num_chains) * len(draws) // num_chains
    with one_thread():
        values = evaluator.particles(draws, with_slopes=False)
        particles = evaluator.particles(draws[chosen], with_slopes=kernel.with_slopes)
        particles = kernel.equip(particles, stream)
        params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], kernel.params_at(1.0))
        late = []
        for move in range(num_moves):
            own = _shortened(params, _SHORTER[move % len(_SHORTER)])
            numbers = kernel.randomness(stream.fold(move).rows(num_chains), particles.position, 1)
            numbers = jax.tree.map(lambda leaf: leaf[0], numbers)
            particles, _ = kernel.transition(evaluator, 1.0, particles, numbers, own)
            if move >= num_moves // 2:
                late.append(np.asarray(evaluator.derivative(1.0, particles.features), float))
    before = np.asarray(evaluator.derivative(1.0, values.features), float)
    num_starts = len(np.unique(draws[chosen], axis=0))
    drift = drift_of(before, chosen, np.array(late), min(effective, float(NUM_DRAWS)), num_starts)
    cost = Cost.values(len(draws)) + kernel.start_cost(num_chains) + num_chains * num_moves * kernel.cost
    return drift, cost


def _shortened(params: Any, factor: float) -> Any:
    return params._replace(step_size=factor * params.step_size) if isinstance(params, LeapfrogParams) else params


def drift_of(
    before: Float[np.ndarray, " n"],
    chosen: Int[np.ndarray, " chains"],
    late: Float[np.ndarray, "moves chains"],
    effective: float,
    num_starts: int,
) -> Drift:
    """The set with the largest drift beyond noise.

    Args:
        before: A number for each draw, of which the sets are the largest.
        chosen: The draws at which chains start.
        late: The same number for the later states of each chain, one row for each state.
        effective: How many independent draws they are worth.
        num_starts: Starts that differ.
    """
    from scipy.special import bdtrc

    worst = Drift()
    for share in _LEVELS:
        level = np.quantile(before, 1 - share)
        expected = float(np.mean(before > level))
        start, end = before[chosen] > level, np.mean(late > level, axis=0)
        if not 0 < expected < 1 or not np.any(end):
            continue
        found = float(np.mean(end))
        kept = float(np.clip(np.mean(end[start]) - np.mean(end[~start]), 0.0, 1.0)) if 0 < start.mean() < 1 else 0.0
        moved = found - kept * (float(np.mean(start)) - expected)
        # A chain that comes and goes is worth several draws.
        spread = min(float(np.var(end)) / max(found * (1 - found), 1e-12), 1.0)
        worth = num_starts / max(spread, 1 / len(late))
        likely = expected + (expected * (1 - expected) / effective) ** 0.5
        tail = bdtrc(math.ceil(worth * moved) - 1, math.ceil(worth), min(likely, 1.0)) if moved > likely else 1.0
        if tail * len(_LEVELS) < _CERTAIN:
            drift = Drift(expected, min(expected + (moved - expected) / (1 - min(kept, _SLOWEST)), 1.0))
            worst = max(worst, drift, key=lambda one: one.error)
    return worst
