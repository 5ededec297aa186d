"""Densities that are computed from another one."""

import abc
from collections.abc import Callable
from typing import Any

from ..core import Rows, Stream, Vector
from ..densities import DensityLike


class DerivedDensity(abc.ABC):
    """A normalized density that is built on another one, and evaluates that one alone by the user's function.

    A fitted reference is one: it mixes Student-t distributions with the user's base. A run from it compiles nothing,
    because evaluators know the program of the base.
    """

    inner: DensityLike

    @abc.abstractmethod
    def given_inner(
        self, positions: Rows, log_inner: Vector, inner_slope: Rows | Callable[[], Rows] | None
    ) -> tuple[Vector, Rows | None]:
        """Return the log density at rows and its gradient, from those of `inner`.

        The gradient of `inner` may be a function, which need not be called where that gradient does not count.
        """

    @abc.abstractmethod
    def draw_rows(self, stream: Stream, num: int, draw_inner: Callable[[Any, int], Rows]) -> Rows:
        """Return rows of draws; `draw_inner(stream, num)` makes those of `inner`."""

    @abc.abstractmethod
    def is_far(self, positions: Rows) -> Any:
        """Return which rows lie beyond all draws that anyone expects: NaN there is not the fault of a density."""

    def in_coordinates(self, densities: Any) -> Any:
        """Return the densities in the coordinates in which runs from this one are made."""
        return densities

    @property
    def in_own_coordinates(self) -> "DerivedDensity":
        """Return the same density in the coordinates that `in_coordinates` chooses."""
        return self


def inner_of(density: Any) -> Any:
    """Return the density that the user gave: `density` itself, or the one that it is built on."""
    return density.inner if isinstance(density, DerivedDensity) else density
