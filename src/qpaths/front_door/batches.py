"""Islands in batches, until a limit is met."""

import time
import warnings

from ..algorithms import NUM_ISLANDS, run_islands
from ..core import Cost, Show, Stream
from ..io import Checkpoint
from ..remarks import Remark
from ..rows import LostWorkersError
from .call_state import CallState
from .ledger import Ledger


def run_batches(
    state: CallState, ledger: Ledger, stream: Stream, file: Checkpoint, show: Show
) -> tuple[CallState, Remark]:
    """Run batches of islands until a limit is met or Ctrl-C; return also which limit it was."""
    recipe, islands, num_batches = state
    pilots, limits = recipe.num_evaluations, ledger.limits
    # A call that goes on makes islands of the size that is there.
    num_particles = limits.num_particles(recipe) if islands is None else islands.log_weights.shape[1]
    island = state.cost_of_island(num_particles)
    num, each = NUM_ISLANDS, 0.0
    while True:
        ledger.spent = pilots + (0 if islands is None else islands.log_evidence.size) * island
        if islands is not None:
            num = limits.num_islands(ledger.spent, island, ledger.elapsed, each)
            stopped = limits.stop(islands, ledger.spent, island, pilots, ledger.elapsed, num)
            if stopped is not None:
                return CallState(recipe, islands, num_batches), stopped
        try:
            begun = time.monotonic()
            new = run_islands(recipe, num_particles, stream=stream.fold(num_batches), num=num)
            islands, num_batches = (new if islands is None else islands + new), num_batches + 1
            file.write(CallState(recipe, islands, num_batches))
            value, error = islands.pooled
            each = (time.monotonic() - begun) / num
            words = rate(num * island, num * each)
            show(f"{islands.log_evidence.size} islands: log evidence {value:.4f} +- {error:.4f}, {words}", None)
        except (KeyboardInterrupt, LostWorkersError) as error:
            if islands is None:
                raise
            if isinstance(error, LostWorkersError):
                warnings.warn(f"evidence: {error} This is what the finished islands say.", stacklevel=3)
            return CallState(recipe, islands, num_batches), limits.interrupted(ledger.spent, pilots)


def rate(cost: Cost, seconds: float) -> str:
    """Return how fast the target was evaluated, in a few words."""
    num = cost.target + cost.target_gradient
    return f"{num:,} evaluations, {num / max(seconds, 1e-9):,.0f}/s"
