"""Islands in batches until a limit is met, the file they are kept in, and what looks unreliable in them."""

import os
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from .. import maps
from ..algorithms import FEW_SURVIVE, NUM_ISLANDS, Identities, Islands, cost_of_islands, run_islands
from ..core import Cost, PRNGKey, Show, Stream, log_ess
from ..io import Checkpoint, Codec, classes_around, parts_of
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath, GeometricPath, QPath
from ..recipe import Recipe
from ..references import Component, Mode, Reference
from ..remarks import Finding, Note, Refusal, Remark
from ..results import REMARKS
from ..rows import Layout, LostWorkersError
from ..schedules import FixedSchedule
from ..stats import ErrorParts
from .limits import Ledger

_RARE_WITH_GRADIENT, _RARE = 0.4, 0.1
"""Acceptance rates below which moves are said to be rarely accepted."""
_DISAGREEMENT = 0.9999
"""Probability with which sound islands agree better, above which they are said to disagree."""
_LAG_NOISE = 2.0
"""Standard errors of the mean lag of all islands that are not held against a run."""
_MOST_ERROR, _FEWEST = 0.5, 100
"""A standard error, also of a single island, and an effective sample size beyond which no answer is called sound."""


class CallState(NamedTuple):
    """Record how far a call has come.

    Attributes:
        recipe: What the pilots found.
        islands: The islands that have run.
        num_batches: In how many batches they ran.
    """

    recipe: Recipe
    islands: Islands | None
    num_batches: int

    def cost_of_island(self, num_particles: int) -> Cost:
        """Return what one island takes."""
        return cost_of_islands(self.recipe, num_particles, 1)


CLASSES = (
    *(CallState, Recipe, Islands, Identities, Mode, Cost, FixedSchedule, FrozenKernel, *REMARKS),
    *(GeometricPath, QPath, Reference, Component),
    *(value for value in vars(maps).values() if isinstance(value, type)),
)
"""Classes that a file may hold, besides the user's own kernel and points."""


def file_of(
    name: str | os.PathLike[str] | None,
    path: AbstractPath[Any],
    kernel: AbstractKernel[Any],
    layout: Layout,
    key: PRNGKey,
) -> Checkpoint:
    """Return the file of a call with this path, kernel and key."""
    moved = parts_of(kernel=kernel, point=layout.points(np.zeros(layout.dimension)))
    classes = (*classes_around(*moved.values()), type(path), *CLASSES)
    given = parts_of(path=path, layout=layout) | moved
    return Checkpoint(name, "evidence", {"kernel": kernel, "path": path, "key": key}, Codec(classes, given))


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


def findings(islands: Islands, recipe: Recipe, parts: ErrorParts) -> list[Remark]:
    """Return what looks unreliable about a run with a recipe and its error, that of its pilots included."""
    found = [*recipe.findings, *_of_islands(islands), *_of_answer(islands, parts)]
    betas = islands.stats["beta"][0]
    acceptance = np.mean(islands.stats["acceptance"], axis=0)
    worst = int(np.argmin(np.nan_to_num(acceptance, nan=1.0)))  # nothing moves at the last beta
    if acceptance[worst] < (_RARE_WITH_GRADIENT if recipe.kernel.with_slopes else _RARE):
        found.append(Finding.ACCEPTANCE(acceptance=float(acceptance[worst]), beta=float(betas[worst])))
    num, total = int(np.sum(islands.stats["num_ancestors"], axis=0)[-1]), int(islands.log_weights.size)
    if num < 0.01 * total:
        found.append(Finding.ANCESTORS(num=num, total=total))
    lengths = np.mean(islands.stats["length"], axis=0)
    worst = int(np.argmax(lengths))
    if lengths[worst] > FEW_SURVIVE:
        found.append(Finding.LONG_STEP(beta=float(betas[worst])))
    if found and any(note.kind is Note.REFUSED and note.refusal is Refusal.AT_INFINITY for note in recipe.notes):
        found.append(Finding.RISES())
    return found


def _of_islands(islands: Islands) -> list[Remark]:
    lost = int(np.sum(~np.isfinite(islands.log_evidence)))
    if lost:
        return [Finding.LOST_ISLANDS(num=lost, total=int(islands.log_evidence.size))]
    found = [Finding.DISAGREEMENT()] if islands.disagreement > _DISAGREEMENT else []
    return found + ([Finding.SPREAD(spread=islands.deviation)] if islands.deviation > _MOST_ERROR else [])


def _of_answer(islands: Islands, parts: ErrorParts) -> list[Remark]:
    """Return what no answer can be sound with, however the islands look."""
    found = []
    lag, noise = islands.lag
    if abs(lag) - _LAG_NOISE * noise > parts.without_lag:
        found.append(Finding.LAG(lag=lag, error=parts.without_lag))
    if not parts.total <= _MOST_ERROR:
        found.append(Finding.LARGE_ERROR(error=parts.total, most=_MOST_ERROR))
    if islands.is_heavy:
        found.append(Finding.HEAVY_WEIGHTS(tail_index=islands.tail_index))
    ess = float(np.exp(log_ess(islands.log_weights.ravel())))
    if not ess >= _FEWEST:
        found.append(Finding.FEW_EFFECTIVE(ess=ess, total=islands.log_weights.size, fewest=_FEWEST))
    return found
