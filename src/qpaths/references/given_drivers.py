"""Draws from optima and curvature at given values of the coordinates that drive all others.

Draws of a short run seldom reach the end of a neck, and a fit to them does not know how narrow it becomes. Curvature
does: for given drivers the mode of the rest and the Hessian there make a normal approximation to the rest, and its mass
says how far the drivers reach (as in INLA; Rue, Martino and Chopin, 2009). A map is fitted to draws from these normals,
so that it serves any number of points for the price of a few hundred optima.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import Stream, one_thread, quiet
from ..rows import Evaluator
from .climb import minus_hessians
from .drivers import find_direction, find_drivers, rotation_to
from .fitting import HostRows, Matrix
from .modulated import Design

Values = Float[np.ndarray, "n k"]
Rest = Float[np.ndarray, "n r"]

_FIRST, _DESIGN, _DESIGN_ROUNDS = 8, 20, 13
"""Values of the drivers in the first round and in each other one, for each of them; and rounds."""
_EXPLORING, _LONGEST, _JITTER = 0.2, 2.5, 0.3
"""Power of the mass by which values far out are chosen, how far beyond them the search goes, and noise added to it."""
_CROWDED = 0.3
"""Distance, in standard deviations of the values, at which others are nearby."""
_FLAT = 0.5
"""Power of the mass by which draws are weighted in a fit."""
_PLAUSIBLE = (1, 2)
"""Numbers of drivers among the coordinates as they are."""
_FEWEST_ROUNDS, _EXPECTED_NEWTON = 2, 2.5
"""Rounds that must be affordable, and Newton steps that they are expected to take."""
_MAX_CHORD, _MAX_NEWTON = 8, 6
"""Steps with the curvature of a neighbor, and with curvature of their own."""
_SETTLED, _EXACT = 1e-2, 1e-3
"""Gain in nats below which there is no other step, and share of the gain before below which a step was exact."""
_FEWEST, _DEEPEST = 10, 9.0
"""Optima for each driver that are enough, and nats below the largest mass at which they do not matter."""
_NUM_DRAWS, _DF = 5000, 4.0

Drivers = tuple[int, ...]
ROTATED: Drivers = (-1,)
"""Stands for a combination of coordinates that drives the others."""


def conditional_design(
    evaluator: Evaluator,
    draws: HostRows,
    scores: HostRows,
    max_gradients: int,
    stream: Stream,
    known: Drivers = (),
    given: Drivers = (),
    direction: Float[np.ndarray, " d"] | None = None,
) -> tuple[Design | None, Drivers, int]:
    """Draws around the optima of the rest, for values of the drivers all over their range.

    `draws` and their scores are those of a pilot, from which the search starts. None where there is no driver, none but
    those that are `known`, no optimum, or not enough gradients for them. Also the drivers, and the number of gradients
    that it took. Where drivers are `given`, or a `direction` that drives all others, no other ones are looked for.
    """
    most = int(max_gradients / (_DESIGN * _FEWEST_ROUNDS * _EXPECTED_NEWTON * 2 * draws.shape[1]))
    if most == 0:
        return None, (), 0
    with one_thread(), quiet():
        search = _Search(evaluator, np.asarray(draws, float), max_gradients)
        drivers, rotation = given, None if direction is None else rotation_to(direction)
        if not given and rotation is None:
            drivers = find_drivers(draws, scores, search.diagonal)
            rotation = find_direction(draws, scores) if len(drivers) not in _PLAUSIBLE else None
        if rotation is not None:
            # Where many coordinates drive others, or none does, it may be one combination of them.
            search.rotate(rotation)
            drivers = find_drivers(search.draws, np.asarray(scores, float) @ rotation, search.diagonal)
            drivers = tuple(driver for driver in drivers if driver == 0)
        drivers = drivers[:most]
        found = drivers if rotation is None else ROTATED
        if not 0 < len(drivers) < draws.shape[1] or set(found) <= set(known):
            return None, found, search.num_gradients
        optima = search.run(drivers, stream)
        if optima is not None and rotation is not None and direction is None:
            # The optima themselves lie along the direction, and show it more exactly.
            search.rotate(rotation_to(search.axis(optima)))
            optima = search.run((0,), stream)
        design = None if optima is None else search.design(optima, stream.fold(_DESIGN_ROUNDS))
        return design, found, search.num_gradients


class _Optima(NamedTuple):
    """For some values of the drivers: where the rest is most likely, a root of its covariance, and its log mass."""

    values: Values
    rest: Rest
    factors: Float[np.ndarray, "n r r"]
    log_mass: Float[np.ndarray, " n"]

    def joined(self, other: "_Optima") -> "_Optima":
        return _Optima(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))

    def weights(self, power: float) -> Float[np.ndarray, " n"]:
        """The mass to a power, over the number of other values nearby."""
        factor = _moments(self.values, None)[1]
        white = np.linalg.solve(factor, self.values.T).T / _CROWDED
        apart = np.sum((white[:, None] - white) ** 2, axis=-1)
        weights = np.exp(power * (self.log_mass - self.log_mass.max())) / np.sum(np.exp(-0.5 * apart), axis=1)
        return weights / weights.max()


class _Search:
    def __init__(self, evaluator: Evaluator, draws: HostRows, max_gradients: int):
        self.evaluator, self.draws, self.max_gradients = evaluator, draws, max_gradients
        self.num_gradients = 0
        self.rotation: Matrix | None = None
        self._choose(())

    def rotate(self, rotation: Matrix) -> None:
        """Work in other coordinates from now on."""
        self.draws = self.draws @ rotation
        self.rotation = rotation if self.rotation is None else self.rotation @ rotation
        self._choose(())

    def axis(self, optima: _Optima) -> Float[np.ndarray, " d"]:
        """The direction in which optima differ most; only of those where the rest is narrow and cannot lead astray."""
        volume = np.linalg.slogdet(optima.factors)[1]
        narrow = volume <= np.median(volume)
        rows = np.empty((int(np.sum(narrow)), self.draws.shape[1]))
        rows[:, self.drivers], rows[:, self.others] = optima.values[narrow], optima.rest[narrow]
        weights = optima.weights(_FLAT)[narrow, None]
        away = rows - np.sum(weights * rows, axis=0) / np.sum(weights)
        return np.linalg.svd(np.sqrt(weights) * away, full_matrices=False)[2][0]

    def _choose(self, drivers: tuple[int, ...]) -> None:
        self.drivers = np.array(drivers, int)
        self.others = np.setdiff1d(np.arange(self.draws.shape[1]), self.drivers)
        self.values, self.rest = self.draws[:, self.drivers], self.draws[:, self.others]
        self.spread = np.maximum(np.std(self.rest, axis=0), 1e-12)

    def diagonal(self, points: HostRows) -> HostRows:
        """The diagonal of minus the Hessian in all coordinates."""
        return np.diagonal(self._precision(points[:, :0], points), axis1=1, axis2=2)

    def run(self, drivers: tuple[int, ...], stream: Stream) -> _Optima | None:
        """Optima for values of the drivers all over their range, as far as they have mass."""
        self._choose(drivers)
        mean, factor = _moments(self.values, None)
        first = _FIRST * len(drivers)
        optima = self._optima(mean + 2 * _heavy(stream.fold(0), first, len(drivers)) @ factor.T, None)
        for number in range(1, _DESIGN_ROUNDS):
            if len(optima.values) < 2 * len(drivers):
                return None
            if self.num_gradients * (number + 1) / number > self.max_gradients:
                break
            optima = optima.joined(self._optima(_stretched(optima, stream.fold(number)), optima))
        return optima

    def design(self, optima: _Optima, stream: Stream) -> Design | None:
        """Draws from the normals of all optima that matter.

        Weights are flat, because a fit that is good far out is worth more than one that is best in the middle.
        """
        width = optima.rest.shape[1]
        near = optima.log_mass > optima.log_mass.max() - _DEEPEST
        optima = _Optima(*(part[near] for part in optima))
        if len(optima.values) < _FEWEST * len(self.drivers):
            return None
        weights = optima.weights(_FLAT)
        repeats = -(-_NUM_DRAWS // len(weights))
        noise = stream.normal((repeats, *optima.rest.shape))
        rows = np.empty((repeats, len(weights), len(self.drivers) + len(self.others)))
        rows[:, :, self.drivers] = optima.values
        rows[:, :, self.others] = optima.rest + np.einsum("nij,rnj->rni", optima.factors, noise)
        volume = np.linalg.slogdet(optima.factors)[1]
        log_target = optima.log_mass - volume - 0.5 * (np.sum(noise**2, axis=2) + width * np.log(2 * np.pi))
        return Design(
            tuple(self.drivers.tolist()),
            self.rotation,
            rows.reshape(-1, rows.shape[-1]),
            np.tile(weights, repeats),
            log_target.ravel(),
            np.tile(optima.weights(1.0), repeats),
        )

    def _optima(self, values: Values, known: _Optima | None) -> _Optima:
        """Newton's method for the rest at all values at once.

        It starts where a linear regression on the drivers expects the optimum or, better, from the nearest known one,
        whose curvature serves until the steps become small.
        """
        if known is None:
            mean = np.mean(self.values, axis=0)
            slope = np.linalg.lstsq(self.values - mean, self.rest - np.mean(self.rest, axis=0), rcond=None)[0]
            rest = np.mean(self.rest, axis=0) + (values - mean) @ slope
            height, gradient = self._evaluate(values, rest)
        else:
            white = np.linalg.solve(_moments(known.values, None)[1], np.concatenate([known.values, values]).T).T
            old, new = np.split(white, [len(known.values)])
            nearest = np.argmin(np.sum((new[:, None] - old) ** 2, axis=-1), axis=1)
            rest, factors = known.rest[nearest].copy(), known.factors[nearest]
            height, gradient = self._evaluate(values, rest)
            for _ in range(_MAX_CHORD):
                slopes = np.einsum("nji,nj->ni", factors, gradient)
                at = np.flatnonzero(np.isfinite(height) & (0.5 * np.sum(slopes**2, axis=1) > 0.1 * _SETTLED))
                if not at.size:
                    break
                step = np.einsum("nij,nj->ni", factors[at], slopes[at])
                self._advance(values, rest, height, gradient, at, step)
        precision = np.tile(np.eye(rest.shape[1]), (len(rest), 1, 1))
        going = np.isfinite(height) & np.isfinite(gradient).all(axis=1)
        good = np.zeros(len(rest), bool)
        for _ in range(_MAX_NEWTON):
            at = np.flatnonzero(going)
            if not at.size:
                break
            precision[at] = self._precision(values[at], rest[at])
            going[at] = np.isfinite(precision[at]).all(axis=(1, 2))
            at = np.flatnonzero(going)
            eigenvalues, vectors = np.linalg.eigh(precision[at])
            sizes = np.maximum(np.abs(eigenvalues), 1e-8 * np.abs(eigenvalues).max(axis=1, keepdims=True))
            step = np.einsum("nij,nkj,nk->ni", vectors / sizes[:, None], vectors, gradient[at])
            gain = 0.5 * np.sum(step * gradient[at], axis=1)
            self._advance(values, rest, height, gradient, at, step)
            left = 0.5 * np.sum(np.einsum("nji,nj->ni", vectors, gradient[at]) ** 2 / sizes, axis=1)
            # Where a step led to the top as the parabola said, the curvature has not changed on the way.
            done = (gain < _SETTLED) | (left < np.minimum(_SETTLED, _EXACT * gain))
            good[at[done & (eigenvalues.min(axis=1) > 1e-12 * eigenvalues.max(axis=1))]] = True
            going[at[done]] = False
        eigenvalues, vectors = np.linalg.eigh(precision[good])
        log_mass = height[good] + 0.5 * np.sum(np.log(2 * np.pi / eigenvalues), axis=1)
        return _Optima(values[good], rest[good], vectors / np.sqrt(eigenvalues)[:, None], log_mass)

    def _advance(self, values: Any, rest: Any, height: Any, gradient: Any, at: Any, step: Any) -> None:
        """Take the steps in place, a quarter of each where the density falls, a few times."""
        size = np.ones(len(at))
        left = np.arange(len(at))
        for _ in range(5):
            ahead = rest[at[left]] + size[left, None] * step[left]
            new_height, new_gradient = self._evaluate(values[at[left]], ahead)
            risen = (new_height > height[at[left]] - 1e-6) & np.isfinite(new_gradient).all(axis=1)
            moved = at[left[risen]]
            rest[moved], height[moved], gradient[moved] = ahead[risen], new_height[risen], new_gradient[risen]
            left = left[~risen]
            size[left] *= 0.25
            if not left.size:
                break

    def _precision(self, values: Values, rest: Rest) -> Float[np.ndarray, "n r r"]:
        """Minus the Hessian of the rest, by differences of gradients."""
        steps = float(np.finfo(self.evaluator.layout.dtype).eps) ** 0.25 * self.spread
        repeated = np.repeat(values, 2 * rest.shape[1], axis=0)
        return minus_hessians(lambda rows: self._evaluate(repeated, rows)[1], rest, steps)

    def _evaluate(self, values: Values, rest: Rest) -> tuple[Any, Any]:
        rows = np.empty((len(rest), len(self.drivers) + len(self.others)))
        rows[:, self.drivers], rows[:, self.others] = values, rest
        found = self.evaluator.waypoints(rows if self.rotation is None else rows @ self.rotation.T)
        self.num_gradients += len(rows)
        slopes = np.array(found.slopes.target, float)
        slopes = slopes if self.rotation is None else slopes @ self.rotation
        return np.array(found.features.log_target, float), slopes[:, self.others]


def _moments(values: Values, weights: Any) -> tuple[Any, Any]:
    """Weighted mean, and a root of the covariance."""
    covariance = np.atleast_2d(np.cov(values.T, aweights=weights))
    ridge = 1e-9 * np.trace(covariance) * np.eye(len(covariance))
    return np.average(values, axis=0, weights=weights), np.linalg.cholesky(covariance + ridge)


def _heavy(stream: Any, num: int, num_drivers: int) -> Values:
    """Heavy-tailed noise."""
    normals, gammas = stream.split(2)
    return normals.normal((num, num_drivers)) / (gammas.gamma(0.5 * _DF, (num, 1)) / (0.5 * _DF)) ** 0.5


def _stretched(optima: _Optima, stream: Stream) -> Values:
    """New values on lines through two old ones, on the side of the one with few others nearby.

    So the search follows ridges, and reaches the end of a long one in a few rounds (the moves of Goodman and Weare,
    2010).
    """
    first, second, lengths, jitter = stream.split(4)
    num_drivers = optima.values.shape[1]
    num = _DESIGN * num_drivers
    far, near = (
        optima.values[_chosen(optima.weights(power), one.uniform((num,)))]
        for power, one in ((_EXPLORING, first), (1.0, second))
    )
    factor = _moments(optima.values, optima.weights(_FLAT))[1]
    noise = _JITTER * jitter.normal((num, num_drivers)) @ factor.T
    return near + lengths.uniform((num, 1)) * _LONGEST * (far - near) + noise


def _chosen(weights: Any, uniform: Any) -> Any:
    cumulative = np.cumsum(weights)
    return np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1]), len(weights) - 1)
