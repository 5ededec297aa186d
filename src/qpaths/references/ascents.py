"""References by climbing: ascents from draws of the base, curvature where they end, one component for each mode.

Curvature is the difference of gradients at `2 d` points around an optimum, all of them evaluated in one batch. The next
ascents take their steps in its coordinates, so that badly scaled targets need a few rounds and not thousands
(Newton's method for a normal target). The share of a mode follows from Laplace's approximation to its mass.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import maps
from ..core import Stream, one_thread, quiet, softmax
from ..remarks import Refusal
from .climb import Climbable, Climbed, End, Scale, Starts, climb, minus_hessians
from .components import Component
from .looking import look_around
from .pool import MOST_NEW, SAME, Mode, Pool, times
from .structure import Images, Structure, find_images

NUM_STARTS = (16, 64, 256, 1024)
"""Ascents of the first attempt, and of those that follow where many of them found modes of their own."""
_MOST_NUMBERS = 60_000
"""Starts times dimensions, beyond the first attempt."""
_MAX_ROUNDS, _MAX_CURVATURES, _GAIN = 80, 4, 1e-5
_NEAR = 0.03
"""Distance of two points, in the same scale, between which curvature does not change."""
_FEWEST_HITS = 16
"""Ascents that must come to each mode: another, half as easy to reach as the rarest, is missed once in exp(8) times.
Of 40 keys with eight equal wells 5 lost one with 3 ascents to each, 2 with 8, and none with 16."""
_UNSEEN = 0.5
"""Share of mass in modes that no ascent came to, by estimate, from which these modes are no reference."""
_ALONE = 0.1
"""Share of draws of the target of which each may lead to another unknown mode."""
_MOST_DRAWS = 96
"""Draws of the target from which ascents start where there are several modes."""
_LADDER, _LOOKING, _CURVATURES = 0.25, 2.0, 0.1
"""Shares of the gradients where there are several modes: for ascents from the base, with those around good modes, and
for the curvature of each batch."""
_HOPELESS = 64
"""Modes of a relevant mass from which on, if most of them were met once, looking for more is of no use."""
_MOST_DROPPED = 16
"""Modes that are known and not used."""
_LOST = 0.25
"""Share of the ascents from draws of the target that may lead to no optimum."""
_FLATTEST = 1e-4
"""Curvature, in units of the base's spread, below which a target is flat."""
_EQUAL = 1e-5
"""Difference of two estimates of a diagonal, in units of its largest entry, up to which they are the same."""
_SMALLEST_SHARE, _LIGHTEST = 1e-3, 30.0


class Ascents(NamedTuple):
    """The modes that ascents found, or why there is none to use; and how many gradients they took."""

    modes: tuple[Mode, ...]
    refusal: Refusal | None
    num_gradients: int
    dropped: tuple[Mode, ...] = ()
    """Optima that are not used as modes. Their mass is known all the same, and an answer without it is wrong."""
    unseen: float = 0.0
    """Estimate of the share of mass in modes that no ascent came to, and in those that are not used."""

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
        pool = search.pool(spread)
        pool.add(search.climb(starts, spread))
        return Ascents(pool.used[0], None, search.num_gradients)


def component_at(mode: Mode) -> Component:
    """Return the Student-t distribution with the curvature of a mode."""
    df = max(_LIGHTEST, float(len(mode.position)))
    if mode.precision.ndim == 1:
        return Component(df, maps.Chain.of(maps.Scale(mode.position, np.sqrt((df - 2) / df / mode.precision))))
    return Component.linear(df, mode.position, _inverse(mode.precision) * (df - 2) / df)


def find_modes(evaluator: Climbable, stream: Stream, max_gradients: int, structure: Structure | None = None) -> Ascents:
    """Climb the target from draws of the base, look around the modes, and look at the curvature there.

    Where the first ascents reach several ends, more follow as long as they find modes with a relevant mass: from the
    base, and from good modes with one group of coordinates redrawn (`look_around`). The `structure` has the groups.
    """
    search = _Search(evaluator, max_gradients)
    drawn = np.asarray(evaluator.draw(stream, NUM_STARTS[-1]), float)
    with one_thread(), quiet():
        low, high = np.quantile(drawn, [0.25, 0.75], axis=0)
        spread = np.maximum((high - low) / 1.35, 1e-8 * np.maximum(1.0, np.abs(low) + np.abs(high)))
        return search.run(drawn, spread, structure or Structure.of(evaluator.layout), stream)


def with_more_modes(evaluator: Climbable, known: Ascents, draws: Starts, *, by_mass: bool) -> Ascents:
    """The known modes, and those with a relevant mass to which ascents from further points lead.

    Draws of the target fall into the modes `by_mass`. So if none of n leads to an unknown mode, unknown ones have about
    `1 / n` of the mass. Such draws are refused where many ascents lead to no optimum, or nearly each to another one.
    """
    search = _Search(evaluator, 0)
    spread = np.maximum(np.std(draws, axis=0), 1e-12)
    with one_thread(), quiet():
        is_alone = len(known.modes) == 1
        scale = _root_of_inverse(known.modes[0].precision, spread) if is_alone else known.modes[0].deviation()
        draws = np.asarray(draws, float)[:: 1 if is_alone else math.ceil(len(draws) / _MOST_DRAWS)]
        climbed = search.climb(draws, scale)
        at_top = climbed.end == End.CONVERGED
        if by_mass and is_alone and np.mean(at_top) < 1 - _LOST:
            return Ascents((), Refusal.NECK, search.num_gradients)
        pool = search.pool(spread)
        for mode in known.modes:
            pool.put(mode, _FEWEST_HITS)
        new = pool.add(climbed)
        if pool.flattest > pool.highest:
            return Ascents((), Refusal.FLAT, search.num_gradients)
        alone = [k for k in new if pool.hits[k] == 1 and k in pool.relevant]
        if by_mass and len(alone) > _ALONE * len(draws):
            dropped = tuple(pool.modes[k] for k in alone[:_MOST_DROPPED])
            return Ascents((), Refusal.MANY_MODES, search.num_gradients, dropped)
        # Where a share of the draws ends at a mode it matters, however small its curvature says that it is.
        kept = [k for k in new if k in pool.relevant or (by_mass and pool.hits[k] > _ALONE * len(draws))]
        return known._replace(
            modes=known.modes + tuple(pool.modes[k] for k in kept), num_gradients=search.num_gradients
        )


class _Search:
    def __init__(self, evaluator: Climbable, max_gradients: int):
        self.evaluator, self.max_gradients = evaluator, max_gradients
        self.num_gradients = 0
        self.known: tuple[Any, Any] | None = None
        """The last point at which curvature was computed, and that curvature."""

    def run(self, drawn: Starts, spread: Float[np.ndarray, " d"], structure: Structure, stream: Stream) -> Ascents:
        climbed, scale, refusal = self._converge(drawn[: NUM_STARTS[0]], spread, spread)
        if refusal is not None:
            return Ascents((), refusal, self.num_gradients)
        chosen = _distinct(climbed, scale)
        if len(chosen) == 1 and not structure.is_given:
            return self._with_curvature(climbed, chosen, spread)
        images, num_values = find_images(self.evaluator, stream.fold(1))
        self.num_gradients += num_values // 2
        pool = self.pool(spread, images)
        pool.add(climbed)
        for done, num in itertools.pairwise(NUM_STARTS):
            if num * drawn.shape[1] > _MOST_NUMBERS or _is_enough(pool):
                break
            pool.add(self._converge(drawn[done:num], scale, spread)[0])
            if self.num_gradients > _LADDER * self.max_gradients:
                break
        if pool.flattest > pool.highest:
            return Ascents((), Refusal.FLAT, self.num_gradients)
        is_hopeless = len(pool.relevant) > _HOPELESS and pool.unseen > _UNSEEN
        if not is_hopeless or structure.is_given:
            self.num_gradients += look_around(
                self._gradient,
                pool,
                structure,
                drawn,
                int(_LOOKING * self.max_gradients) - self.num_gradients,
                stream.fold(2),
            )
        return self._of_pool(pool)

    def _of_pool(self, pool: Pool) -> Ascents:
        modes, uncovered = pool.used
        unseen = min(1.0, pool.unseen + uncovered)
        if len(pool.relevant) > _HOPELESS and unseen > _UNSEEN:
            return Ascents((), Refusal.MANY_MODES, self.num_gradients, modes[:_MOST_DROPPED])
        return Ascents(modes, None, self.num_gradients, unseen=unseen)

    def pool(self, spread: Float[np.ndarray, " d"], images: Images | None = None) -> Pool:
        """Return an empty pool of modes."""
        most = int(np.clip(_CURVATURES * self.max_gradients / (2 * len(spread)), 4, MOST_NEW))
        return Pool(
            lambda rows: self._precisions(rows, spread), Images.none(len(spread)) if images is None else images, most
        )

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
        """Minus the Hessian. The curvature at the point before serves for a point that is hardly away from it."""
        if self.known is not None:
            away = position - self.known[0]
            if np.abs(times(away, self.known[1]) @ away) < _NEAR**2 * len(position):
                return self.known[1]
        self.known = position, self._hessians(position[None], spread)[0]
        return self.known[1]

    def _precisions(self, positions: Starts, spread: Any) -> list[Scale | None]:
        """Minus the Hessians at some points; None where the target does not fall off on all sides."""
        found = self._hessians(positions, spread)
        return [one if np.isfinite(one).all() and _is_curved(one, spread) else None for one in found]

    def _hessians(self, positions: Starts, spread: Any) -> list[Scale]:
        """Minus the Hessians, with steps that are short for the base and, where that is not enough, for the target."""
        relative = float(np.finfo(self.evaluator.layout.dtype).eps) ** 0.25
        step = relative * spread
        found: list[Any] = self._diagonals(positions, step)
        rest = [i for i, one in enumerate(found) if one is None]
        if not rest:
            return found
        dense = self._differences(positions[rest], step)
        deviations = np.abs(np.diagonal(dense, axis1=1, axis2=2)) ** -0.5
        long = (step > 0.1 * deviations).any(axis=1)
        if long.any():
            dense[long] = self._differences(positions[rest][long], np.minimum(step, relative * deviations[long]))
        for i, one in zip(rest, dense, strict=True):
            found[i] = one
        return found

    def _diagonals(self, positions: Starts, step: Any) -> list[Float[np.ndarray, " d"] | None]:
        """The diagonals of minus the Hessians where coordinates do not depend on each other; None where they do.

        Two random directions tell: a diagonal that follows from the first predicts the second.
        """
        num, dimension = positions.shape
        offsets = step * np.random.default_rng(0).choice([-1.0, 1.0], (2, dimension))
        around = np.concatenate([positions[:, None] + offsets, positions[:, None] - offsets], axis=1)
        slopes = self._gradient(around.reshape(-1, dimension))[1].reshape(num, 4, dimension)
        self.num_gradients += 4 * num
        found = (slopes[:, 2:] - slopes[:, :2]) / (2 * offsets)
        is_same = np.abs(found[:, 0] - found[:, 1]).max(axis=1) <= _EQUAL * np.abs(found).max(axis=(1, 2))
        is_short = (step <= 0.1 * np.abs(found[:, 0]) ** -0.5).all(axis=1)
        return [np.mean(own, axis=0) if good else None for own, good in zip(found, is_same & is_short, strict=True)]

    def _differences(self, positions: Starts, step: Any) -> Float[np.ndarray, "s d d"]:
        self.num_gradients += 2 * positions.size
        return minus_hessians(lambda rows: self._gradient(rows)[1], positions, step)

    def _with_curvature(self, tops: Climbed, chosen: list[int], spread: Any) -> Ascents:
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
        if flattest > max((mode.value for mode in modes), default=-np.inf):
            return Ascents((), Refusal.FLAT, self.num_gradients)
        return Ascents(tuple(modes), None, self.num_gradients)


def _refusal(climbed: Climbed) -> Refusal | None:
    """Why ascents led nowhere: what ended the highest of them."""
    if not (climbed.end != End.FAILED).any():
        return Refusal.NO_OPTIMUM
    best = int(np.argmax(np.where(climbed.end == End.FAILED, -np.inf, climbed.value)))
    return {End.AT_INFINITY: Refusal.AT_INFINITY, End.HARD_BOUND: Refusal.HARD_BOUND}.get(End(climbed.end[best]))


def _is_enough(pool: Pool) -> bool:
    """Return whether so many ascents came to each mode of a relevant mass that another one like it is hardly unseen."""
    hits = [pool.hits[k] for k in pool.relevant]
    return bool(hits) and min(hits) >= _FEWEST_HITS


def _distinct(tops: Climbed, scale: Scale) -> list[int]:
    """The ends of ascents that differ, the highest first."""
    order = np.argsort(-tops.value)
    order = order[tops.end[order] == End.CONVERGED]
    white = np.linalg.solve(scale, tops.position.T).T if scale.ndim == 2 else tops.position / scale
    chosen: list[int] = []
    for i in order:
        apart = [np.sqrt(np.mean((white[i] - white[j]) ** 2)) for j in chosen]
        if not apart or min(apart) >= SAME:
            chosen.append(int(i))
    return chosen


def _is_curved(precision: Scale, spread: Float[np.ndarray, " d"]) -> bool:
    """Return whether the target falls off in every direction, not too slowly for the base's spread."""
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
