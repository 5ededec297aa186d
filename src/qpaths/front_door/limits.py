"""Count what a call of `evidence` has spent, decide when it stops, and split its budget."""

import math
import numbers
import time
from typing import Any, NamedTuple

from ..algorithms import NUM_ISLANDS, Islands, cost_of_islands
from ..core import Cost
from ..recipe import Recipe
from ..remarks import Remark, Stop
from ..rows import calls_of_target

BUDGET, STANDARD_ERROR = 1_000_000, 0.005
"""The limits where none are given."""
_SUCH_AS = {"budget": "100_000", "seconds": "60", "standard_error": "0.01"}
SMALLEST_BUDGET = 3_000
_CEILING = 100 * BUDGET
"""Evaluations that a wanted standard error may cost where nothing else limits the run."""
_PARTICLES, _FEWEST = 512, 200
"""Particles of an island: the most, and the fewest for which two batches are better than one."""
_WEIGHTED = 2048
"""The most particles of an island where a single step gives them weights."""
_CHECKS_SHARE, _SCANS_SHARE, _MANY = 0.13, 0.05, 80_000
"""Shares of the budget that are kept for checks: draws that are moved on and scans that look for missed modes, or scans
alone where the budget is too small to move draws on."""
NUM_PROBES, NUM_JUMPS = 256, 64
"""Points at which hard bounds of the target are looked for, and draws near which jumps of it are."""
SCORES_COST = Cost(target=NUM_PROBES) + Cost.gradients(3 * NUM_JUMPS)
"""The most that the check of scores takes."""
_ENOUGH_BATCHES = 4
"""Batches after which the cost of a wanted standard error is known well enough."""


class Limits(NamedTuple):
    """Evaluations in all, seconds from the call on, and the standard error that is good enough."""

    budget: float
    seconds: float
    standard_error: float
    affordable: float = math.inf
    """Evaluations that the seconds are expected to be enough for."""

    @staticmethod
    def of(budget: int | None, seconds: float | int | None, standard_error: float | int | None) -> "Limits":
        """Check what a user gives, and make the limits."""
        for name, value in (("budget", budget), ("seconds", seconds), ("standard_error", standard_error)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, numbers.Real)):
                raise TypeError(f"`{name}` must be a number, got {value!r}: give one, such as {_SUCH_AS[name]}.")
            if value is not None and not value > 0:
                raise ValueError(f"`{name}` must be positive, got {value}.")
        if budget is not None and budget < SMALLEST_BUDGET:
            raise ValueError(
                f"`budget` must be at least {SMALLEST_BUDGET:,} evaluations, got {budget}: the pilots alone need some."
            )
        if standard_error is None and all(value in (None, math.inf) for value in (budget, seconds)):
            return Limits(float(budget or BUDGET), math.inf, STANDARD_ERROR)  # also with an infinite budget it ends
        return Limits(float(budget or math.inf), float(seconds or math.inf), float(standard_error or 0.0))

    def paced(self, evaluations: int, seconds: float, elapsed: float, spent: int = 0) -> "Limits":
        """The same limits, with what the time that is left allows at the pace of some evaluations."""
        if math.isinf(self.seconds):
            return self
        left = max(0.0, self.seconds - elapsed)
        return self._replace(affordable=spent + left * evaluations / max(seconds, 1e-9))

    @property
    def finite_budget(self) -> int:
        """Return what pilots take as the budget where there is none in evaluations, or less time than it takes."""
        budget = BUDGET if math.isinf(self.budget) else int(self.budget)
        return int(min(budget, max(self.affordable, SMALLEST_BUDGET)))

    @property
    def _checks_share(self) -> float:
        return _CHECKS_SHARE if self.finite_budget >= _MANY else _SCANS_SHARE

    def num_particles(self, recipe: Recipe) -> int:
        """Particles of an island: a whole number of batches, at least two unless islands would become too small."""
        left = (1 - self._checks_share) * self.finite_budget - recipe.num_evaluations.total - SCORES_COST.total
        total = left / (cost_of_islands(recipe, _PARTICLES).total / _PARTICLES)
        # Draws that only get weights do not depend on each other, and large islands have less to do for each of them.
        most = _PARTICLES if recipe.num_steps > 1 else _WEIGHTED
        num_batches = max(math.ceil(total / most), 2 if total >= 2 * _FEWEST else 1)
        return max(4, int(total / num_batches))

    def num_islands(self, spent: Cost, island: Cost, elapsed: float, seconds: float) -> int:
        """Islands of the next batch: as many as the rest of the budget and of the time is enough for, at most a batch.

        `seconds` is what one island takes.
        """
        num = ((1 - self._checks_share) * self.budget - spent.total - SCORES_COST.total) / island.total
        if seconds > 0:
            num = min(num, ((1 - self._checks_share) * self.seconds - elapsed) / seconds)
        return max(0, math.floor(min(num, NUM_ISLANDS)))

    def left(self, spent: Cost, elapsed: float) -> float:
        """Evaluations that may still be spent after some seconds, at the pace of those that were."""
        in_time = max(self.seconds - elapsed, 0.0) * spent.total / max(elapsed, 1e-9)
        return min(self.budget - spent.total, in_time)

    def stop(
        self, islands: Islands, spent: Cost, island: Cost, pilots: Cost, seconds: float, num: int = NUM_ISLANDS
    ) -> Remark | None:
        """Which limit is met after some seconds, where there is room for `num` islands; None if none is met."""
        error = islands.pooled[1]
        needed = self._needed(error, spent.total)
        numbers = {**self._numbers(spent, pilots), "wanted": self.standard_error}
        if error <= self.standard_error:
            return Stop.STANDARD_ERROR(**numbers)
        if self.num_islands(spent, island, 0.0, 0.0) == 0:
            return Stop.BUDGET(**numbers, needed=needed)
        if num == 0 or seconds > self.seconds:
            return Stop.SECONDS(**numbers, needed=needed, seconds=seconds, limit=self.seconds)
        endless = math.isinf(self.budget) and math.isinf(self.seconds)
        enough = islands.log_evidence.size >= _ENOUGH_BATCHES * NUM_ISLANDS
        if endless and enough and needed is not None and needed > _CEILING:
            return Stop.OUT_OF_REACH(**numbers, needed=needed)
        return None

    def interrupted(self, spent: Cost, pilots: Cost) -> Remark:
        """Return the remark on a call that was interrupted."""
        return Stop.INTERRUPTED(**self._numbers(spent, pilots))

    def _numbers(self, spent: Cost, pilots: Cost) -> dict[str, Any]:
        budget = None if math.isinf(self.budget) else int(self.budget)
        return {"spent": spent.total, "budget": budget, "pilots": pilots.total}

    def _needed(self, error: float, spent: int) -> float | None:
        """Return the evaluations for the wanted error, which falls with their square root; None if none is wanted."""
        if not self.standard_error > 0 or not math.isfinite(error):
            return None
        return spent * (error / self.standard_error) ** 2


class Ledger:
    """Cost, time and limits of a call; every step of it books what it spends.

    Attributes:
        limits: What the user allows.
        spent: Evaluations so far.
        outside: Evaluations that the budget does not count, those for bounds on simulated data.
    """

    def __init__(self, limits: Limits):
        self.limits, self.started = limits, time.monotonic()
        self.spent, self.outside = Cost(), Cost()
        calls_of_target.num = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the call."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Evaluations that may still be spent."""
        return self.limits.left(self.spent, self.elapsed)

    @property
    def total(self) -> Cost:
        """All evaluations, counted by the budget or not."""
        return self.spent + self.outside

    def words(self) -> str:
        """Return how far the call is, for a person who waits."""
        calls = f", {calls_of_target():,} calls, {calls_of_target() / self.elapsed:,.0f}/s" if calls_of_target() else ""
        limit = self.limits.seconds
        left = "" if math.isinf(limit) else f", {max(limit - self.elapsed, 0.0):,.0f} s left"
        return f"{self.elapsed:,.0f} s{calls}{left}"

    def spend(self, cost: Cost) -> None:
        """Book a cost."""
        self.spent += cost

    def pace(self, evaluations: int, seconds: float) -> None:
        """Expect that evaluations go on to take as long as these did."""
        self.limits = self.limits.paced(evaluations, seconds, self.elapsed, self.spent.total)
