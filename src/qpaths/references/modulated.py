"""Maps in which a few coordinates drive all others, fitted to draws; and draws for them from curvature alone.

Draws of a short run seldom reach the end of a neck, and a fit to them does not know how narrow it becomes. Curvature
does: for given drivers the mode of the rest and the Hessian there make a normal approximation to the rest, and its mass
says how far the drivers reach (as in INLA; Rue, Martino and Chopin, 2009). The map is fitted to draws from these
normals, so that it serves any number of points for the price of a few dozen optima.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..arrays import one_thread, quiet
from ..evaluation import AbstractEvaluator
from .curves import MEAN_LOG_NORMAL
from .drivers import Modulation, find_drivers
from .fitting import HostRows
from .maps import Component, TriangularMap

_KNOTS = (6, 4)
"""Knots for a single driver, and for each of several."""
_NUM_EARLIER, _NUM_BEFORE = 24, 2
"""Earlier coordinates on which the mean of a coordinate depends, and those of them whose slopes depend on drivers."""
_LIGHTEST = 30.0
_RIDGE = 1e-6
_NUM_ROUNDS = 6
_DESIGN, _DESIGN_ROUNDS = 20, 12
"""Values of the drivers in each round, for each of them; and rounds."""
_EXPLORING, _LONGEST, _JITTER = 0.2, 2.5, 0.3
"""Power of the mass by which values far out are chosen, how far beyond them the search goes, and noise added to it."""
_CROWDED = 0.3
"""Distance, in standard deviations of the values, at which others are nearby."""
_FLAT = 0.5
"""Power of the mass by which draws are weighted in a fit."""
_NUM_FITS, _BOOST = 3, 1.0
"""Fits, and by how many nats the weight of draws that are far above the fit may grow from one to the next."""
_MISSED, _MOST_MISSED = 3.0, 1e-3
"""Nats above a fit at which the target is missed there, and the mass that may be missed."""
_FEWEST_ROUNDS, _EXPECTED_NEWTON = 2, 2.5
"""Rounds that must be affordable, and Newton steps that they are expected to take."""
_MAX_NEWTON, _SETTLED, _EXACT = 8, 1e-2, 1e-3
"""Newton steps, the gain in nats below which there is no other, and the share of the gain before below which a step was
exact."""
_FEWEST = 6
"""Effective number of values for each driver, below which weights are flattened."""
_DEEPEST = 9.0
"""Nats below the largest mass at which values of the drivers do not matter."""
_NUM_DRAWS = 5000
_NUM_CAPPED = 20
"""Largest weights that are made equal."""
_DF = 4.0


class Design(NamedTuple):
    """Draws of all coordinates, to which a map with these drivers is fitted.

    `log_target` is the log density of the target at the draws, by the normal approximation to the rest; NaN where that
    is not known. `mass` are the shares of the target that draws stand for, as far as they stand for any.
    """

    drivers: tuple[int, ...]
    rows: HostRows
    weights: Float[np.ndarray, " n"]
    log_target: Float[np.ndarray, " n"]
    mass: Float[np.ndarray, " n"]

    def and_draws(self, rows: HostRows, log_weights: Any) -> "Design":
        """These draws and some weighted ones, which count for as much; no single one counts for too much."""
        log_weights = np.minimum(log_weights, np.sort(log_weights)[-_NUM_CAPPED])
        weights = np.exp(log_weights - np.max(log_weights))
        weights *= np.sum(self.weights) / np.sum(weights)
        new = rows, weights, np.full(len(rows), np.nan), np.zeros(len(rows))
        return Design(self.drivers, *(np.concatenate(parts) for parts in zip(self[1:], new, strict=True)))

    def fit(self) -> Component:
        """Student-t noise through a map that is modulated by the drivers.

        Where the target is far above the fit, draws from it would have huge weights or, more likely, never appear. The
        fit is repeated with more weight on such places, until they have hardly any mass.
        """
        weights, least = self.weights, np.inf
        with one_thread(), quiet():
            for _ in range(_NUM_FITS):
                fitted = Component(_LIGHTEST, _fit_map(self._replace(weights=weights)))
                excess = self.log_target - fitted.log_prob_and_slope(self.rows)[0]
                excess = np.nan_to_num(excess - _median(excess, self.mass))
                missed = float(np.sum(self.mass[excess > _MISSED]) / np.sum(self.mass))
                if missed < least:
                    best, least = fitted, missed  # in the first round, too
                if missed < _MOST_MISSED:
                    break
                weights = weights * np.exp(np.clip(excess, 0.0, _BOOST))
        return best


def _fit_map(design: Design) -> TriangularMap:
    drivers, x = design.drivers, design.rows
    num_drivers = len(drivers)
    num, dimension = x.shape
    weights = design.weights * (num / design.weights.sum())
    order = np.array([*drivers, *(i for i in range(dimension) if i not in drivers)])
    center = weights @ x / num
    scale = np.sqrt(weights @ (x - center) ** 2 / num)
    v = ((x - center) / scale)[:, order]
    knots = np.quantile(v[:, :num_drivers], np.linspace(0.01, 0.99, _KNOTS[num_drivers > 1]), axis=0).T
    none = np.zeros((dimension, 0))
    features = Modulation(knots, none, none, none, none[:, :, None]).features(v)
    width = features.shape[1]
    means, log_scales = np.zeros((dimension, dimension)), np.zeros(dimension)
    shifts, widths = np.zeros((dimension, width)), np.zeros((dimension, width))
    before, turns = np.zeros((dimension, _NUM_BEFORE), int), np.zeros((dimension, _NUM_BEFORE, width))
    for j in range(num_drivers):
        slope = _solve(v[:, :j], weights, v[:, j])
        means[j, :j] = slope
        log_scales[j] = 0.5 * np.log(weights @ (v[:, j] - v[:, :j] @ slope) ** 2 / num)
    everything = np.column_stack([features, v[:, num_drivers:]])
    gram = everything.T @ (everything * weights[:, None])
    for j in range(num_drivers, dimension):
        own = width + j - num_drivers
        slopes = _solved(gram[:own, :own], gram[:own, own])[width:]
        strongest = num_drivers + np.argsort(-np.abs(slopes))[:_NUM_EARLIER]
        plain = np.column_stack([features, v[:, strongest]])
        turned = strongest[:_NUM_BEFORE]
        of_mean = np.column_stack([plain, *(features[:, 1:] * v[:, [i]] for i in turned)])
        found, widths[j] = _regression(of_mean, features, v[:, j], weights)
        shifts[j], means[j, strongest] = found[:width], found[width : plain.shape[1]]
        before[j, : len(turned)] = turned
        turns[j, : len(turned), 1:] = found[plain.shape[1] :].reshape(len(turned), width - 1)
    modulation = Modulation(knots, shifts, widths, before, turns)
    return TriangularMap.of(center, scale, order, means, log_scales, modulation=modulation)


def _regression(of_mean: Any, of_scale: Any, own: Any, weights: Any) -> tuple[Any, Any]:
    """Coefficients of the mean and of the log scale by maximum likelihood, as in `curves`, with a small ridge."""
    mean = _solve(of_mean, weights, own)
    log_size = np.log(np.abs(own - of_mean @ mean) + 1e-12) - MEAN_LOG_NORMAL
    width = _solve(of_scale, weights, log_size)
    for _ in range(_NUM_ROUNDS):
        precision = np.exp(np.clip(-2 * of_scale @ width, -60.0, 60.0))
        mean = _solve(of_mean, weights * precision, own)
        excess = np.clip((own - of_mean @ mean) ** 2 * precision, 0.0, 30.0) - 1
        width = width + np.clip(0.5 * _solve(of_scale, weights, excess), -0.5, 0.5)
    return mean, width


def _solve(features: Any, weights: Any, values: Any) -> Any:
    """Weighted least squares with a ridge in proportion to the size of each feature."""
    weighted = features * weights[:, None]
    return _solved(features.T @ weighted, weighted.T @ values)


def _solved(gram: Any, right: Any) -> Any:
    return np.linalg.solve(gram + np.diag(_RIDGE * np.diag(gram) + 1e-300), right)


# Draws from curvature.


def conditional_design(
    evaluator: AbstractEvaluator, draws: HostRows, scores: HostRows, max_gradients: int, stream: Any
) -> tuple[Design | None, int]:
    """Draws around the optima of the rest, for values of the drivers all over their range.

    `draws` and their scores are those of a pilot, from which the search starts. None where there is no driver, no
    optimum, or not enough gradients for them. Also the number of gradients that it took.
    """
    num_others = draws.shape[1] - 1
    if max_gradients < _DESIGN * _FEWEST_ROUNDS * _EXPECTED_NEWTON * 2 * num_others:
        return None, 0
    with one_thread(), quiet():
        search = _Search(evaluator, np.asarray(draws, float), max_gradients)
        drivers = find_drivers(draws, scores, search.diagonal)
        most = int(max_gradients / (_DESIGN * _FEWEST_ROUNDS * _EXPECTED_NEWTON * 2 * num_others))
        if not drivers:
            return None, search.num_gradients
        return search.run(drivers[:most], stream), search.num_gradients


class _Optima(NamedTuple):
    """For some values of the drivers: where the rest is most likely, a root of its covariance, and its log mass."""

    values: HostRows
    rest: HostRows
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
    def __init__(self, evaluator: AbstractEvaluator, draws: HostRows, max_gradients: int):
        self.evaluator, self.draws, self.max_gradients = evaluator, draws, max_gradients
        self.num_gradients = 0
        self._choose(())

    def _choose(self, drivers: tuple[int, ...]) -> None:
        self.drivers = np.array(drivers, int)
        self.others = np.setdiff1d(np.arange(self.draws.shape[1]), self.drivers)
        self.values, self.rest = self.draws[:, self.drivers], self.draws[:, self.others]
        self.spread = np.maximum(np.std(self.rest, axis=0), 1e-12)

    def diagonal(self, points: HostRows) -> HostRows:
        """The diagonal of minus the Hessian in all coordinates."""
        return np.diagonal(self._precision(points[:, :0], points), axis1=1, axis2=2)

    def run(self, drivers: tuple[int, ...], stream: Any) -> Design | None:
        self._choose(drivers)
        mean, factor = _moments(self.values, None)
        optima = self._optima(mean + 2 * _heavy(stream.fold(0), len(drivers)) @ factor.T)
        for number in range(1, _DESIGN_ROUNDS):
            if len(optima.values) < _FEWEST * len(drivers):
                return None
            if self.num_gradients * (number + 1) / number > self.max_gradients:
                break
            optima = optima.joined(self._optima(_stretched(optima, stream.fold(number))))
        return self._design(optima, stream.fold(_DESIGN_ROUNDS))

    def _design(self, optima: _Optima, stream: Any) -> Design | None:
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
            rows.reshape(-1, rows.shape[-1]),
            np.tile(weights, repeats),
            log_target.ravel(),
            np.tile(optima.weights(1.0), repeats),
        )

    def _optima(self, values: HostRows) -> _Optima:
        """Newton's method for the rest at all values at once, from what a linear regression on the drivers expects."""
        mean = np.mean(self.values, axis=0)
        slope = np.linalg.lstsq(self.values - mean, self.rest - np.mean(self.rest, axis=0), rcond=None)[0]
        rest = np.mean(self.rest, axis=0) + (values - mean) @ slope
        height, gradient = self._evaluate(values, rest)
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

    def _precision(self, values: HostRows, rest: HostRows) -> Float[np.ndarray, "n r r"]:
        """Minus the Hessian of the rest, by differences of gradients."""
        num, width = rest.shape
        offsets = np.diag(float(np.finfo(self.evaluator.layout.dtype).eps) ** 0.25 * self.spread)
        around = np.concatenate([rest[:, None] + offsets, rest[:, None] - offsets], axis=1)
        _, slopes = self._evaluate(np.repeat(values, 2 * width, axis=0), around.reshape(-1, width))
        ahead, behind = np.split(slopes.reshape(num, 2 * width, width), 2, axis=1)
        precision = (behind - ahead) / (2 * np.diag(offsets)[:, None])
        return 0.5 * (precision + np.swapaxes(precision, 1, 2))

    def _evaluate(self, values: HostRows, rest: HostRows) -> tuple[Any, Any]:
        rows = np.empty((len(rest), len(self.drivers) + len(self.others)))
        rows[:, self.drivers], rows[:, self.others] = values, rest
        found = self.evaluator.waypoints(rows)
        self.num_gradients += len(rows)
        return np.array(found.features.log_target, float), np.array(found.slopes.target, float)[:, self.others]


def _moments(values: HostRows, weights: Any) -> tuple[Any, Any]:
    """Weighted mean, and a root of the covariance."""
    covariance = np.atleast_2d(np.cov(values.T, aweights=weights))
    ridge = 1e-9 * np.trace(covariance) * np.eye(len(covariance))
    return np.average(values, axis=0, weights=weights), np.linalg.cholesky(covariance + ridge)


def _heavy(stream: Any, num_drivers: int) -> HostRows:
    """Heavy-tailed noise."""
    normals, gammas = stream.split(2)
    num = _DESIGN * num_drivers
    return normals.normal((num, num_drivers)) / (gammas.gamma(0.5 * _DF, (num, 1)) / (0.5 * _DF)) ** 0.5


def _stretched(optima: _Optima, stream: Any) -> HostRows:
    """New values on lines through two old ones, beyond the one that has few others nearby.

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


def _median(values: Any, weights: Any) -> Any:
    known = np.isfinite(values)
    order = np.argsort(values[known])
    cumulative = np.cumsum(weights[known][order])
    return values[known][order][np.searchsorted(cumulative, 0.5 * cumulative[-1])]
