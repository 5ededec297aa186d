"""References by climbing: ascents from draws of the base, curvature where they end, one component for each mode.

Curvature is the difference of gradients at `2 d` points around an optimum, all of them evaluated in one batch. The next
ascents take their steps in its coordinates, so that badly scaled targets need a few rounds and not thousands
(Newton's method for a normal target). The share of a mode follows from Laplace's approximation to its mass.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import maps
from ..core import Stream, one_thread, quiet, softmax
from ..remarks import Refusal
from .climb import Climbable, Climbed, End, Scale, Starts, climb, joined, minus_hessians
from .components import Component

NUM_STARTS = (16, 64, 256, 1024)
"""Ascents of the first attempt, and of those that follow where many of them found modes of their own."""
_MOST_NUMBERS = 60_000
"""Starts times dimensions, beyond the first attempt."""
_MAX_ROUNDS, _MAX_CURVATURES, _GAIN = 80, 4, 1e-5
_SAME = 0.3
"""Distance of two ends of ascents, in the scale of the target, below which they are the same mode."""
_NEAR = 0.03
"""Distance of two points, in the same scale, between which curvature does not change."""
_STARTS_PER_MODE = 6
"""Ascents for each mode that they find, from which on another one as large as these is hardly unseen (exp(-6))."""
_UNSEEN = 0.1
"""Share of the ascents whose modes no other found (of all starts, it estimates the share that leads to unseen ones)."""
_MOST_KEPT, _KEPT_SHARE = 16, 0.25
"""Optima of which the mass is found if there are too many for a reference, and the share of the gradients for this."""
_LOST = 0.25
"""Share of the ascents from draws of the target that may lead to no optimum."""
_FLATTEST = 1e-4
"""Curvature, in units of the base's spread, below which a target is flat."""
_EQUAL = 1e-5
"""Difference of two estimates of a diagonal, in units of its largest entry, up to which they are the same."""
_SMALLEST_SHARE, _LIGHTEST = 1e-3, 30.0


class Mode(NamedTuple):
    """An optimum of the target, its log density there, and minus the Hessian, or its diagonal where that is all."""

    position: Float[np.ndarray, " d"]
    value: float
    precision: Scale

    @property
    def log_mass(self) -> float:
        """By Laplace's approximation."""
        if self.precision.ndim == 1:
            log_determinant = np.sum(np.log(self.precision))
        else:
            log_determinant = 2 * np.sum(np.log(np.diag(np.linalg.cholesky(self.precision))))
        return float(self.value + 0.5 * len(self.position) * math.log(2 * math.pi) - 0.5 * log_determinant)

    def distance(self, rows: Starts) -> Float[np.ndarray, " s"]:
        """Of some points, in the scale of the curvature."""
        away = rows - self.position
        return np.sqrt(np.abs(np.mean(_times(away, self.precision) * away, axis=1)))


class Ascents(NamedTuple):
    """The modes that ascents found, or why there is none to use; and how many gradients they took."""

    modes: tuple[Mode, ...]
    refusal: Refusal | None
    num_gradients: int
    dropped: tuple[Mode, ...] = ()
    """Optima that are not used as modes. Their mass is known all the same, and an answer without it is wrong."""

    @property
    def known(self) -> tuple[Mode, ...]:
        """All optima, used or not."""
        return (*self.modes, *self.dropped)

    @property
    def components(self) -> tuple[tuple[Component, ...], Float[np.ndarray, " k"]]:
        """Student-t distributions with the curvature of the modes, the largest first, and their shares."""
        masses = np.array([mode.log_mass for mode in self.modes])
        order = np.argsort(-masses)
        order = order[softmax(masses)[order] > _SMALLEST_SHARE]
        components = [component_at(self.modes[i]) for i in order]
        return tuple(components), softmax(masses[order])


def modes_at(evaluator: Climbable, starts: Starts, spread: Float[np.ndarray, " d"], max_gradients: int) -> Ascents:
    """Climb from some points and return the optima that are reached, with their curvature."""
    search = _Search(evaluator, max_gradients)
    with one_thread(), quiet():
        climbed = search.climb(starts, spread)
        chosen, counts = _distinct(climbed, spread)
        return Ascents(search.optima(climbed, chosen, counts, spread), None, search.num_gradients)


def component_at(mode: Mode) -> Component:
    """Return the Student-t distribution with the curvature of a mode."""
    df = max(_LIGHTEST, float(len(mode.position)))
    if mode.precision.ndim == 1:
        return Component(df, maps.Chain.of(maps.Scale(mode.position, np.sqrt((df - 2) / df / mode.precision))))
    return Component.linear(df, mode.position, _inverse(mode.precision) * (df - 2) / df)


def find_modes(evaluator: Climbable, stream: Stream, max_gradients: int) -> Ascents:
    """Climb the target from draws of the base, and look at the curvature where the ascents end."""
    search = _Search(evaluator, max_gradients)
    drawn = np.asarray(evaluator.draw(stream, NUM_STARTS[-1]), float)
    with one_thread(), quiet():
        low, high = np.quantile(drawn, [0.25, 0.75], axis=0)
        spread = np.maximum((high - low) / 1.35, 1e-8 * np.maximum(1.0, np.abs(low) + np.abs(high)))
        return search.run(drawn, spread)


def with_more_modes(evaluator: Climbable, known: Ascents, draws: Starts, *, by_mass: bool) -> Ascents:
    """The known modes, and those to which ascents from further points lead.

    Draws of the target fall into the modes `by_mass`. So if none of n leads to an unknown mode, unknown ones have about
    `1 / n` of the mass. Such draws are refused where many ascents lead to no optimum, or nearly each to another one.
    """
    search = _Search(evaluator, 0)
    spread = np.maximum(np.std(draws, axis=0), 1e-12)
    with one_thread(), quiet():
        scale = _root_of_inverse(known.modes[0].precision, spread)
        climbed = search.climb(np.asarray(draws, float), scale)
        at_top = climbed.end == End.CONVERGED
        away = [climbed.position - mode.position for mode in known.modes]
        apart = [
            np.mean(_times(one, mode.precision) * one, axis=1) for one, mode in zip(away, known.modes, strict=True)
        ]
        new = at_top & (np.sqrt(np.min(apart, axis=0)) > _SAME)
        if by_mass and np.mean(at_top) < 1 - _LOST:
            return Ascents((), Refusal.NECK, search.num_gradients)
        found, counts = _distinct(climbed._replace(end=np.where(new, End.CONVERGED, End.FAILED)), scale)
        if by_mass and np.sum(counts == 1) > _UNSEEN * len(draws):
            dropped = search.optima(climbed, found, counts, spread)
            return Ascents((), Refusal.MANY_MODES, search.num_gradients, dropped)
        more = search._with_curvature(climbed, found, spread, max(mode.value for mode in known.modes))
    if more.refusal is not None:
        return more
    return Ascents(known.modes + more.modes, None, more.num_gradients)


class _Search:
    def __init__(self, evaluator: Climbable, max_gradients: int):
        self.evaluator, self.max_gradients = evaluator, max_gradients
        self.num_gradients = 0
        self.known: tuple[Any, Any] | None = None
        """The last point at which curvature was computed, and that curvature."""

    def run(self, drawn: Starts, spread: Float[np.ndarray, " d"]) -> Ascents:
        most = [num for num in NUM_STARTS if num == NUM_STARTS[0] or num * drawn.shape[1] < _MOST_NUMBERS]
        scale: Scale = spread
        done = 0
        tops: list[Climbed] = []
        for num in most:
            climbed, scale, refusal = self._converge(drawn[done:num], scale, spread)
            if refusal is not None and not tops:
                return Ascents((), refusal, self.num_gradients)
            tops.append(climbed)
            done = num
            chosen, counts = _distinct(joined(tops), scale)
            num_alone = int(np.sum(counts == 1))
            is_enough = len(chosen) == 1 or (num_alone == 0 and counts.sum() >= _STARTS_PER_MODE * len(chosen))
            if is_enough or self.num_gradients * 4 > self.max_gradients:
                break
        if len(chosen) > 1 and num_alone > _UNSEEN * counts.sum():
            dropped = self.optima(joined(tops), chosen, counts, spread)
            return Ascents((), Refusal.MANY_MODES, self.num_gradients, dropped)
        return self._with_curvature(joined(tops), chosen, spread)

    def optima(self, tops: Climbed, chosen: list[int], counts: Any, spread: Any) -> tuple[Mode, ...]:
        """Return the highest ends of ascents, and those that most ascents came to, with their curvature."""
        affordable = int(_KEPT_SHARE * self.max_gradients / (2 * len(spread)))
        most = min(len(chosen), max(affordable, 2), _MOST_KEPT)
        by_count = np.argsort(-counts, kind="stable")[: most // 4]
        kept = sorted({*range(most), *map(int, by_count)})
        modes = []
        for i in (chosen[number] for number in kept):
            precision = self._precision(tops.position[i], spread)
            if np.isfinite(precision).all() and _is_curved(precision, spread):
                modes.append(Mode(tops.position[i], float(tops.value[i]), precision))
        return tuple(modes)

    def _converge(self, starts: Starts, scale: Scale, spread: Any) -> tuple[Climbed, Scale, Refusal | None]:
        """Climb, look at the curvature of the best, and climb on in its coordinates until nothing more is gained."""
        climbed = self.climb(starts, scale)
        for number in range(_MAX_CURVATURES):
            refusal = _refusal(climbed)
            if refusal is not None:
                return climbed, scale, refusal
            if number > 0 and (climbed.end != End.UNDER_WAY).all():
                return climbed, scale, None
            best = int(np.argmax(np.where(climbed.end <= End.CONVERGED, climbed.value, -np.inf)))
            precision = self._precision(climbed.position[best], spread)
            if number == 0 and not np.isfinite(precision).all():
                return climbed, scale, Refusal.HARD_BOUND
            scale = _root_of_inverse(precision, spread)
            usable = climbed.end <= End.CONVERGED
            climbed = self.climb(climbed.position[usable], scale)
            if self.num_gradients > self.max_gradients:
                break
        return (
            climbed,
            scale,
            _refusal(climbed) or (None if (climbed.end == End.CONVERGED).any() else Refusal.NO_OPTIMUM),
        )

    def climb(self, starts: Starts, scale: Scale) -> Climbed:
        climbed = climb(self._gradient, starts, scale, _MAX_ROUNDS, _GAIN)
        self.num_gradients += climbed.num_evaluations
        return climbed

    def _gradient(self, positions: Starts) -> tuple[Any, Any]:
        found = self.evaluator.waypoints(positions)
        return np.asarray(found.features.log_target, float), np.asarray(found.slopes.target, float)

    def _precision(self, position: Any, spread: Any) -> Scale:
        """Minus the Hessian, with steps that are short for the base and, where that is not enough, for the target.

        The curvature at the point before serves for a point that is hardly away from it.
        """
        if self.known is not None:
            away = position - self.known[0]
            if np.abs(_times(away, self.known[1]) @ away) < _NEAR**2 * len(position):
                return self.known[1]
        relative = float(np.finfo(self.evaluator.layout.dtype).eps) ** 0.25
        step = relative * spread
        diagonal = self._diagonal(position, step)
        if diagonal is not None:
            self.known = position, diagonal
            return diagonal
        precision = self._differences(position, step)
        deviation = np.abs(np.diag(precision)) ** -0.5
        if (step > 0.1 * deviation).any():
            precision = self._differences(position, np.minimum(step, relative * deviation))
        self.known = position, precision
        return precision

    def _diagonal(self, position: Any, step: Any) -> Float[np.ndarray, " d"] | None:
        """The diagonal of minus the Hessian where coordinates do not depend on each other; None where they do.

        Two random directions tell: a diagonal that follows from the first predicts the second.
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (2, len(position)))
        offsets = step * signs
        _, slopes = self._gradient(np.concatenate([position + offsets, position - offsets]))
        self.num_gradients += len(slopes)
        ahead, behind = np.split(slopes, 2)
        found = (behind - ahead) / (2 * offsets)
        is_same = np.abs(found[0] - found[1]).max() <= _EQUAL * np.abs(found).max()
        is_short = (step <= 0.1 * np.abs(found[0]) ** -0.5).all()
        return np.mean(found, axis=0) if is_same and is_short else None

    def _differences(self, position: Any, step: Any) -> Float[np.ndarray, "d d"]:
        self.num_gradients += 2 * len(position)
        return minus_hessians(lambda rows: self._gradient(rows)[1], position[None], step)[0]

    def _with_curvature(self, tops: Climbed, chosen: list[int], spread: Any, highest: float = -np.inf) -> Ascents:
        """The chosen ends with their curvature. Flat ones are left out, unless they are above all others."""
        modes, flattest = [], -np.inf
        for i in chosen:
            precision = self._precision(tops.position[i], spread)
            if not np.isfinite(precision).all():
                return Ascents((), Refusal.HARD_BOUND, self.num_gradients)
            if _is_curved(precision, spread):
                modes.append(Mode(tops.position[i], float(tops.value[i]), precision))
            else:
                flattest = max(flattest, float(tops.value[i]))
        if flattest > max([highest, *(mode.value for mode in modes)]):
            return Ascents((), Refusal.FLAT, self.num_gradients)
        return Ascents(tuple(modes), None, self.num_gradients)


def _refusal(climbed: Climbed) -> Refusal | None:
    """Why ascents led nowhere: what ended the highest of them."""
    if not (climbed.end != End.FAILED).any():
        return Refusal.NO_OPTIMUM
    best = int(np.argmax(np.where(climbed.end == End.FAILED, -np.inf, climbed.value)))
    return {End.AT_INFINITY: Refusal.AT_INFINITY, End.HARD_BOUND: Refusal.HARD_BOUND}.get(End(climbed.end[best]))


def _distinct(tops: Climbed, scale: Scale) -> tuple[list[int], Float[np.ndarray, " k"]]:
    """The ends of ascents that differ, the highest first, and how many ascents came to each."""
    order = np.argsort(-tops.value)
    order = order[tops.end[order] == End.CONVERGED]
    white = np.linalg.solve(scale, tops.position.T).T if scale.ndim == 2 else tops.position / scale
    chosen: list[int] = []
    counts: list[float] = []
    for i in order:
        apart = [np.sqrt(np.mean((white[i] - white[j]) ** 2)) for j in chosen]
        if apart and min(apart) < _SAME:
            counts[int(np.argmin(apart))] += 1
        else:
            chosen.append(int(i))
            counts.append(1)
    return chosen, np.array(counts, float)


def _times(rows: Any, precision: Scale) -> Any:
    return rows * precision if precision.ndim == 1 else rows @ precision


def _is_curved(precision: Scale, spread: Float[np.ndarray, " d"]) -> bool:
    """Whether the target falls off in every direction, not too slowly for the base's spread."""
    if precision.ndim == 1:
        return bool((precision * spread**2 > _FLATTEST).all())
    scaled = precision * spread * spread[:, None] - _FLATTEST * np.eye(len(spread))
    try:
        np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return False
    return True


def _inverse(precision: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    root = np.linalg.inv(np.linalg.cholesky(precision))
    return root.T @ root


def _root_of_inverse(precision: Scale, spread: Float[np.ndarray, " d"]) -> Scale:
    """A square root of the inverse of minus the Hessian; of its absolute value where it is not positive definite."""
    if precision.ndim == 1:
        return spread / np.sqrt(np.where(precision > 0, precision * spread**2, np.maximum(-precision * spread**2, 1.0)))
    scaled = precision * spread * spread[:, None]
    try:
        return spread[:, None] * np.linalg.inv(np.linalg.cholesky(scaled)).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        return spread[:, None] * (vectors / np.sqrt(np.maximum(np.abs(values), 1.0)))
