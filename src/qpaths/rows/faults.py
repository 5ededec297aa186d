"""Points at which a density is no number: errors as a rule, points without mass where a call rejects them."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core import Rows, quiet

_current: contextvars.ContextVar["Faults | None"] = contextvars.ContextVar("faults", default=None)


class Faults:
    """The points that a call has rejected.

    Attributes:
        num: How many, of the density that failed most often.
        first: The row of the first one, the name of its density, and what was found there; None if there is none.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.first: tuple[Rows, str, str] | None = None

    @property
    def num(self) -> int:
        return max(self.counts.values(), default=0)

    def add(self, other: "Faults") -> None:
        """Count what was found elsewhere."""
        for name, num in other.counts.items():
            self.counts[name] = self.counts.get(name, 0) + num
        self.first = self.first or other.first

    @quiet()
    def without(self, name: str, positions: Rows, values: Any, raised: dict[int, str]) -> Any:
        """Return log densities with no mass where they are NaN or `+inf`, and count such points.

        Points that are not finite themselves are not counted: trajectories may end there, and no function is to blame.

        Args:
            name: That of the density, for messages.
            positions: Its points.
            values: Its log densities.
            raised: What it raised, by the number of the row.
        """
        values = np.asarray(values)
        wrong = ~(values < np.inf)
        if not wrong.any():
            return values
        counted = np.flatnonzero(wrong & np.isfinite(positions).all(axis=1))
        self.counts[name] = self.counts.get(name, 0) + len(counted)
        if self.first is None and len(counted):
            number = int(counted[0])
            self.first = positions[number].copy(), name, raised.get(number, str(values[number]))
        return np.where(wrong, -np.inf, values)


@contextlib.contextmanager
def rejecting(faults: Faults | None) -> Iterator[Any]:
    """Reject points at which densities fail, inside this context; None leaves them errors."""
    token = _current.set(faults)
    try:
        yield faults
    finally:
        _current.reset(token)


def faults_of_call() -> Faults | None:
    """Return where the current call counts the points that it rejects; None where they are errors."""
    return _current.get()
