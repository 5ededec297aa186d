"""Densities and samplers that are not JAX, and points at which a density fails.

Failures are errors that name the point as a rule, and points without mass where a call rejects them.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import AnyArray, Identity, PyTree, QpathsError, Rows, quiet
from ..densities import PointError, called, check_real
from .executors import BATCH, spread_of_call
from .layout import Layout
from .pieces import in_pieces, joined

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
    def without(self, name: str, positions: Rows, values: AnyArray, raised: dict[int, str]) -> AnyArray:
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


def spread_rows(
    density: Any, name: str, layout: Layout, positions: np.ndarray, with_slopes: bool
) -> tuple[np.ndarray, Any]:
    """Evaluate a NumPy density, over the executor of the call if there is one. Rejected points have no mass."""
    faults, spread = faults_of_call(), spread_of_call()
    function = _NumpyRows(density, name, layout, with_slopes, faults is not None)
    if spread is None or not len(positions):
        values, slopes, raised = function(positions)
    else:
        model = spread.model(Identity((density,), name, layout, with_slopes, faults is not None), lambda: function)
        size = BATCH if density.batched else spread.rows_at_once(model, len(positions))
        values, slopes, raised = in_pieces(model, positions, size, spread.each, join=_join)
    if faults is not None:
        values = faults.without(called(density, name), positions, values, raised)
    return values, slopes


def _join(parts: list[Any]) -> tuple[Any, ...]:
    """Join what pieces returned, with the numbers of failed rows as those of all rows."""
    values, slopes = joined([part[:2] for part in parts])
    starts = np.cumsum([0] + [len(part[0]) for part in parts[:-1]])
    errors = zip(starts, (part[2] for part in parts), strict=True)
    return values, slopes, {start + row: text for start, raised in errors for row, text in raised.items()}


class _NumpyRows(NamedTuple):
    """A NumPy density at some rows, as a function that can be sent to a worker."""

    density: Any
    name: str
    layout: Layout
    with_slopes: bool
    rejects: bool

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, Any, dict[int, str]]:
        """Return values, slopes, and what was raised by the number of the row, where that is no error."""
        raised: dict[int, str] | None = {} if self.rejects else None
        values, slopes = numpy_rows(self.density, self.name, self.layout, rows, self.with_slopes, raised)
        return values, slopes, raised or {}


class _Calls:
    """Number of calls of NumPy targets in this process since a call of the library began, to show while it goes on."""

    def __init__(self) -> None:
        self.num = 0

    def __call__(self) -> int:
        return self.num

    def of(self, function: Any, size: int) -> Any:
        """Return a function that counts as `size` calls."""

        def counted(*arguments: Any) -> Any:
            self.num += size
            return function(*arguments)

        return counted


calls_of_target = _Calls()


def numpy_rows(
    density: Any,
    name: str,
    layout: Layout,
    positions: np.ndarray,
    with_slopes: bool,
    raised: dict[int, str] | None = None,
) -> tuple[np.ndarray, Any]:
    """Return log densities of a NumPy density at all positions, with gradients or None.

    A batched density gets all rows in one call, any other is called row by row. Shapes are checked, since a wrong one
    would broadcast silently. What is raised at a row is an error, or goes into `raised`; the value is NaN then.
    """
    function = called(density, name)
    size = len(positions) if density.batched else 1
    log_prob = calls_of_target.of(density.log_prob, size) if name == "target" else density.log_prob
    values = _numpy_calls(log_prob, function, density.batched, layout, positions, raised)
    if values.shape != positions.shape[:1]:
        one = "each of the points of a batch" if density.batched else "one point"
        raise QpathsError(
            f"`{function}` must return one number for {one}, got shape {values.shape} for {positions.shape[0]} "
            f"points: sum over the coordinates of a point."
        )
    if not with_slopes:
        return values, None
    if density.gradient is None:
        raise QpathsError(
            f"`{name}` is a NumPy density without a gradient, and the kernel needs one: give "
            f"`Density(..., gradient=...)`, or a kernel such as `RandomWalk()`."
        )
    slope = f"{name}.gradient"
    slopes = _numpy_calls(density.gradient, slope, density.batched, layout, positions, raised, is_point=True)
    if slopes.shape != positions.shape:
        raise QpathsError(
            f"`{name}.gradient` must return one number for each coordinate, got shape {slopes.shape[1:]}."
        )
    if raised:
        values[list(raised)] = np.nan
    return values, slopes


def _numpy_calls(
    function: Callable[..., Any],
    name: str,
    batched: bool,
    layout: Layout,
    positions: np.ndarray,
    raised: dict[int, str] | None,
    is_point: bool = False,
) -> np.ndarray:
    """Return the values of a user's function at all rows.

    An exception of the user's function is raised again with the point at which it happened, or noted in `raised`.
    """

    def call(points: PyTree, at: str) -> np.ndarray:
        try:
            value = function(points)
        except QpathsError:  # names what is wrong
            raise
        except Exception as error:
            first = jax.tree.map(lambda leaf: leaf[0], points) if batched else points
            raise PointError(f"`{name}` raised {type(error).__name__} at {at} {first}: {error}.") from error
        return np.asarray(check_real(name, layout.rows(value) if is_point else value), float)

    def call_row(number: int, points: PyTree) -> np.ndarray:
        try:
            return call(points, "the point")
        except PointError as error:
            if raised is None:
                raise
            raised[number] = str(error)
            return np.full(layout.dimension, np.nan) if is_point else np.full((1,) if batched else (), np.nan)

    if batched:
        try:
            return call(layout.points(positions), "a batch that begins with")
        except PointError:
            if raised is None:
                raise
        found = [call_row(i, layout.points(positions[i : i + 1])) for i in range(len(positions))]
        return np.reshape(found, positions.shape if is_point else -1)
    leaves, structure = jax.tree.flatten(layout.points(positions))
    rows = (jax.tree.unflatten(structure, [leaf[i, ...] for leaf in leaves]) for i in range(len(positions)))
    values = [call_row(number, row) for number, row in enumerate(rows)]
    if not is_point and any(value.size != 1 for value in values):
        wrong = next(value for value in values if value.size != 1)
        raise QpathsError(f"`{name}` must return one number for one point, got shape {wrong.shape}.")
    return np.array([value if is_point else value.reshape(()) for value in values])


def numpy_row(point: PyTree, layout: Layout) -> np.ndarray:
    """One draw of a NumPy sampler as a row, checked to have the size of the others."""
    row = np.asarray(layout.rows(point), float)
    if row.shape != (layout.dimension,):
        raise ValueError(
            f"`base.sample` must return points of one shape, got {row.size} numbers after {layout.dimension}."
        )
    return row


def check_draws(positions: np.ndarray, layout: Layout) -> None:
    """Raise where a sampler returns the same point for every key."""
    if positions.shape[0] > 1 and (positions == positions[0]).all():
        raise ValueError(
            f"`base.sample` (the sampler of the prior) returned the same point {layout.points(positions[0])} for each "
            f"of {positions.shape[0]} keys: it probably calls NumPy's random numbers, which are drawn only once when "
            f"JAX traces it. Draw with `jax.random` and the key, or give `backend='numpy'` and draw with the generator."
        )
