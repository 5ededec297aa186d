"""What a call has spent, and what its limits leave."""

import time

from ..core import Cost
from .limits import Limits


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

    def spend(self, cost: Cost) -> None:
        """Book a cost."""
        self.spent += cost

    def pace(self, evaluations: int, seconds: float) -> None:
        """Expect that evaluations go on to take as long as these did."""
        self.limits = self.limits.paced(evaluations, seconds, self.elapsed, self.spent.total)
