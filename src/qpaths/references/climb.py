"""Many ascents of one log density at once: L-BFGS on arrays of starts.

Every start has its own history and its own step, and each round evaluates all that are still under way in one call
(Liu and Nocedal, 1989, with a line search that only goes back). Nothing is compiled but the density.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from ..core import Cost, Stream, quiet
from ..paths import EndpointSlopes
from ..rows import Evaluator, Layout, Particles

Starts = Float[np.ndarray, "s d"]
Values = Float[np.ndarray, " s"]
Scale = Float[np.ndarray, "d d"] | Float[np.ndarray, " d"]
Gradient = Callable[[Starts], tuple[Values, Starts]]
"""Log density and gradient of rows."""

_MEMORY = 10
_ENOUGH = 1e-4
"""Share of the expected gain that a step must make (Armijo)."""
_MOST_HALVINGS = 25
_MOST_OUTSIDE = 20
"""Trial steps into `-inf` after which an ascent is at a hard bound."""
_NUM_FOR_STEPS = 128
"""Draws of the base that say how long the steps of differences are."""
TYPICAL_GRADIENTS = 30
"""Gradients that one ascent takes."""
FEWEST_DIFFERENCES = 16 * TYPICAL_GRADIENTS
"""Gradients by differences without which ascents do not arrive."""
_FARTHEST = 1e5
"""Units of scale from the start at which an ascent is on its way to infinity."""


@runtime_checkable
class Climbable(Protocol):
    """The part of an evaluator that ascents use."""

    @property
    def layout(self) -> Layout: ...

    def draw(self, stream: Stream, num: int) -> Any: ...

    def waypoints(self, positions: Any) -> Any: ...


class ByDifferences:
    """An evaluator of a target without gradients: they are central differences, for `2 d + 1` values each.

    They suit smooth densities. Where a density has steps or noise, ascents end nowhere, and say so.
    """

    def __init__(self, evaluator: Evaluator, stream: Stream):
        self.evaluator, self.layout, self.draw = evaluator, evaluator.layout, evaluator.draw
        drawn = np.asarray(evaluator.draw(stream, _NUM_FOR_STEPS), float)
        low, high = np.quantile(drawn, [0.25, 0.75], axis=0)
        relative = float(np.finfo(evaluator.layout.dtype).eps) ** (1 / 3)
        self.steps = relative * np.maximum(high - low, 1e-8 * np.maximum(1.0, np.abs(low) + np.abs(high)))

    @property
    def values_each(self) -> int:
        """Return the number of values that one gradient takes."""
        return 2 * len(self.steps) + 1

    @quiet()
    def waypoints(self, positions: Starts) -> Particles:
        """Return the target and its differences at some rows."""
        num, dimension = positions.shape
        offsets = np.concatenate([np.zeros((1, dimension)), np.diag(self.steps), -np.diag(self.steps)])
        around = (np.asarray(positions, float)[:, None] + offsets).reshape(-1, dimension)
        found = self.evaluator.values(around)
        values = np.asarray(found.log_target, float).reshape(num, -1)
        ahead, behind = np.split(values[:, 1:], 2, axis=1)
        features = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(num, -1)[:, 0], found)
        return Particles(positions, features, EndpointSlopes(None, (ahead - behind) / (2 * self.steps), None))


def climbable(evaluator: Evaluator, with_slopes: bool, stream: Stream) -> tuple[Climbable, Cost]:
    """Return an evaluator for ascents, by differences without gradients, and the cost of a gradient."""
    if with_slopes:
        return evaluator, Cost.gradients(1)
    differences = ByDifferences(evaluator, stream)
    return differences, Cost(target=differences.values_each)


class End(enum.IntEnum):
    """Name how an ascent ended."""

    UNDER_WAY = 0
    CONVERGED = 1
    AT_INFINITY = 2
    HARD_BOUND = 3
    FAILED = 4


class Climbed(NamedTuple):
    """Hold where ascents ended; the first axis is the start."""

    position: Starts
    value: Values
    gradient: Starts
    end: Int[np.ndarray, " s"]
    num_evaluations: int
    """Evaluations of the gradient."""


class _History:
    """Steps and differences of the gradient, the latest first, in the scaled coordinates."""

    def __init__(self, num: int, dimension: int):
        self.steps = np.zeros((_MEMORY, num, dimension))
        self.changes = np.zeros((_MEMORY, num, dimension))
        self.inverse = np.zeros((_MEMORY, num))
        """1 / (step . change), and 0 where there is none."""

    def forget(self, rows: Bool[np.ndarray, " s"]) -> None:
        self.inverse[:, rows] = 0.0

    def add(self, rows: Int[np.ndarray, " k"], step: Starts, change: Starts) -> None:
        """Return where the density curves down along the step; elsewhere the pair would say nothing."""
        product = np.sum(step * change, axis=1)
        size = np.sqrt(np.sum(step**2, axis=1) * np.sum(change**2, axis=1))
        good = product > 1e-8 * size
        rows, step, change, product = rows[good], step[good], change[good], product[good]
        for array, new in ((self.steps, step), (self.changes, change), (self.inverse, 1 / product)):
            array[1:, rows] = array[:-1, rows]
            array[0, rows] = new

    def direction(self, rows: Int[np.ndarray, " k"], gradient: Starts) -> Starts:
        """The inverse of the curvature times the gradient: the two loops of L-BFGS for all rows."""
        steps, changes, inverse = self.steps[:, rows], self.changes[:, rows], self.inverse[:, rows]
        shares = np.zeros_like(inverse)
        found = gradient.copy()
        for i in range(_MEMORY):
            shares[i] = inverse[i] * np.sum(steps[i] * found, axis=1)
            found -= shares[i][:, None] * changes[i]
        known = inverse[0] > 0
        norm = np.sum(changes[0] ** 2, axis=1) * np.where(known, inverse[0], 1.0)
        found *= np.where(known, 1 / np.where(known, norm, 1.0), 1.0)[:, None]
        for i in reversed(range(_MEMORY)):
            back = inverse[i] * np.sum(changes[i] * found, axis=1)
            found += (shares[i] - back)[:, None] * steps[i]
        return found


@quiet()
def climb(function: Gradient, starts: Starts, scale: Scale, max_rounds: int, gain: float) -> Climbed:
    """Ascents from all starts until the next step would gain less than `gain` nats, in at most `max_rounds` rounds.

    `scale`, a vector or a square root of the inverse curvature, makes the coordinates in which steps are taken. A start
    whose value or gradient is not finite fails. An ascent that keeps meeting `-inf` ends at a hard bound.
    """
    ascent = _Ascent(function, starts, scale, gain)
    for _ in range(max_rounds):
        rows = np.flatnonzero(ascent.end == End.UNDER_WAY)
        if not rows.size:
            break
        ascent.round(rows)
    return Climbed(ascent.position, ascent.value, ascent.gradient, ascent.end, ascent.num_evaluations)


class _Ascent:
    def __init__(self, function: Gradient, starts: Starts, scale: Scale, gain: float):
        self.function, self.scale, self.gain = function, scale, gain
        self.start, self.position = starts.copy(), starts.copy()
        self.value, self.gradient = function(starts)
        self.num_evaluations = len(starts)
        finite = np.isfinite(self.value) & np.isfinite(self.gradient).all(axis=1)
        self.end = np.where(finite, End.UNDER_WAY, End.FAILED)
        self.history = _History(*starts.shape)
        self.num_halvings = np.zeros(len(starts), int)
        self.num_outside = np.zeros(len(starts), int)
        self.step, self.slope = np.zeros_like(starts), np.zeros(len(starts))
        self.size, self.reach = np.ones(len(starts)), np.ones(len(starts))
        self._aim(np.flatnonzero(finite))

    def round(self, rows: Int[np.ndarray, " k"]) -> None:
        """One trial step of each start that is under way."""
        move = self.size[rows, None] * self.step[rows]
        ahead = self.position[rows] + _forward(self.scale, move)
        value, gradient = self.function(ahead)
        self.num_evaluations += len(rows)
        expected = self.size[rows] * self.slope[rows]
        finite = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
        rounding = self._rounding(rows, value)
        good = finite & (value >= self.value[rows] + _ENOUGH * expected - rounding)
        self._shrink(rows[~good], value[~good], expected[~good])
        self.end[rows[value == np.inf]] = End.AT_INFINITY
        rows, move = rows[good], move[good]
        risen = value[good] - self.value[rows]
        change = _backward(self.scale, self.gradient[rows] - gradient[good])
        self.position[rows], self.value[rows], self.gradient[rows] = ahead[good], value[good], gradient[good]
        self.num_halvings[rows] = 0
        self.history.add(rows, move, change)
        self._aim(rows)
        self._finish(rows, risen, rounding[good])

    def _rounding(self, rows: Int[np.ndarray, " k"], value: Values) -> Values:
        """By how much values may differ that should be equal; the numbers have 32 or 64 bits."""
        finite = value[np.isfinite(value)]
        is_coarse = bool(finite.size) and bool((finite == finite.astype(np.float32)).all())
        return 10 * np.finfo(np.float32 if is_coarse else float).eps * np.maximum(np.abs(self.value[rows]), 1.0)

    def _aim(self, rows: Int[np.ndarray, " k"]) -> None:
        """New directions; along the gradient, a unit of the scale at first, where nothing is known of the curvature."""
        slope = _backward(self.scale, self.gradient[rows])
        step = self.history.direction(rows, slope)
        expected = np.sum(step * slope, axis=1)
        blind = ~(expected > 0) | (self.history.inverse[0, rows] == 0)
        self.history.forget(np.isin(np.arange(len(self.end)), rows[blind]))
        length = np.sqrt(np.sum(slope**2, axis=1))
        step[blind] = (self.reach[rows] / np.maximum(length, 1.0))[blind, None] * slope[blind]
        # On a slope that does not curve down steps double, so that infinity is seen in a few rounds.
        self.reach[rows] = np.where(blind, 2 * self.reach[rows], 1.0)
        self.step[rows], self.size[rows] = step, 1.0
        self.slope[rows] = np.sum(step * slope, axis=1)

    def _shrink(self, rows: Int[np.ndarray, " k"], value: Values, expected: Values) -> None:
        """A shorter step: to the top of a parabola where the value is finite."""
        top = 0.5 * expected / np.maximum(self.value[rows] + expected - value, 1e-300)
        self.size[rows] *= np.where(np.isfinite(top) & np.isfinite(value), np.clip(top, 0.1, 0.5), 0.2)
        self.num_outside[rows] += value == -np.inf
        self.num_halvings[rows] += 1
        stuck = rows[self.num_halvings[rows] > _MOST_HALVINGS]
        again = stuck[self.history.inverse[0, stuck] > 0]
        self.history.forget(np.isin(np.arange(len(self.end)), again))
        self.num_halvings[again] = 0
        self._aim(again)
        over = np.setdiff1d(stuck, again)
        flat = 0.5 * self.slope[over] < 10 * self.gain
        self.end[over] = np.where(flat, End.CONVERGED, End.FAILED)
        self.end[rows[self.num_outside[rows] > _MOST_OUTSIDE]] = End.HARD_BOUND

    def _finish(self, rows: Int[np.ndarray, " k"], risen: Values, rounding: Values) -> None:
        """Return what is at the top, and what is too far away to come back.

        An ascent that starts at the top learns no curvature there: its steps are rounding errors.
        """
        known = self.history.inverse[0, rows] > 0
        at_top = known & (0.5 * self.slope[rows] < self.gain) & (risen < 10 * self.gain)
        at_top |= ~known & (np.abs(risen) <= rounding) & (self.slope[rows] < rounding)
        at_top |= ~self.gradient[rows].any(axis=1)
        away = _scaled_length(self.scale, self.position[rows] - self.start[rows]) > _FARTHEST
        self.end[rows[away]] = End.AT_INFINITY
        self.end[rows[at_top & ~away]] = End.CONVERGED


def _forward(scale: Scale, vectors: Starts) -> Starts:
    return vectors @ scale.T if scale.ndim == 2 else vectors * scale


def _backward(scale: Scale, vectors: Starts) -> Starts:
    return vectors @ scale if scale.ndim == 2 else vectors * scale


def _scaled_length(scale: Scale, vectors: Starts) -> Values:
    size = scale if scale.ndim == 1 else np.sqrt(np.sum(scale**2, axis=1))
    return np.max(np.abs(vectors) / size, axis=1)


def minus_hessians(
    slopes_at: Callable[[Starts], Starts], points: Starts, steps: Float[np.ndarray, " d"] | Starts
) -> Float[np.ndarray, "s d d"]:
    """Return Hessians of a log density by differences of its gradient at `2 d` points around each, all in one call.

    The steps are the same for all points, or one row for each.
    """
    num, width = points.shape
    steps = np.broadcast_to(steps, points.shape)
    offsets = steps[:, None] * np.eye(width)
    around = np.concatenate([points[:, None] + offsets, points[:, None] - offsets], axis=1)
    slopes = slopes_at(around.reshape(-1, width)).reshape(num, 2 * width, width)
    ahead, behind = np.split(slopes, 2, axis=1)
    found = (behind - ahead) / (2 * steps[:, :, None])
    return 0.5 * (found + np.swapaxes(found, 1, 2))
