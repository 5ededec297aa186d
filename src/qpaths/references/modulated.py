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

_KNOTS, _NUM_BEFORE = (6, 4), 2
"""Knots for a single driver, and for each of several; and earlier coordinates whose slopes depend on the drivers."""
_LIGHTEST = 30.0
_RIDGE = 1e-6
_NUM_ROUNDS = 10
_DESIGN, _DESIGN_ROUNDS = 16, 4
"""Values of the drivers in each round, for each of them; and rounds."""
_FEWEST_ROUNDS, _EXPECTED_NEWTON = 2, 2.5
"""Rounds that must be affordable, and Newton steps that they are expected to take."""
_MAX_NEWTON, _SETTLED = 8, 1e-2
"""Newton steps, and the gain in nats below which there is no other."""
_INFLATED = 1.5
"""Of the variance of the drivers, from round to round."""
_FEWEST = 6
"""Effective number of values for each driver, below which weights are flattened."""
_DEEPEST = 9.0
"""Nats below the largest mass at which values of the drivers do not matter."""
_NUM_DRAWS = 8000
_OLD = 0.25
"""Weight of such draws once there are draws of the target, which a refinement is fitted to."""
_NUM_CAPPED = 20
"""Largest weights that are made equal."""
_DF = 4.0


class Design(NamedTuple):
    """Draws of all coordinates, with weights, to which a map with these drivers is fitted."""

    drivers: tuple[int, ...]
    rows: HostRows
    weights: Float[np.ndarray, " n"]

    def and_draws(self, rows: HostRows, log_weights: Any) -> "Design":
        """These draws and some weighted ones, which count for more; no single one counts for too much."""
        log_weights = np.minimum(log_weights, np.sort(log_weights)[-_NUM_CAPPED])
        weights = np.exp(log_weights - np.max(log_weights))
        share = _OLD * np.sum(weights) / np.sum(self.weights)
        weights = np.concatenate([share * self.weights, weights])
        return Design(self.drivers, np.concatenate([self.rows, rows]), weights)

    def fit(self) -> Component:
        """Student-t noise through a map that is modulated by the drivers."""
        with one_thread(), quiet():
            return Component(_LIGHTEST, _fit_map(self))


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
    empty = Modulation(knots, *(np.zeros((dimension, 0)) for _ in range(3)), np.zeros((dimension, 0, 0)))
    features = empty.features(v)
    width = features.shape[1]
    means, log_scales = np.zeros((dimension, dimension)), np.zeros(dimension)
    shifts, widths = np.zeros((dimension, width)), np.zeros((dimension, width))
    before, turns = np.zeros((dimension, _NUM_BEFORE), int), np.zeros((dimension, _NUM_BEFORE, width))
    for j in range(num_drivers):
        slope = _solve(v[:, :j], weights, v[:, j])
        means[j, :j] = slope
        log_scales[j] = 0.5 * np.log(weights @ (v[:, j] - v[:, :j] @ slope) ** 2 / num)
    for j in range(num_drivers, dimension):
        earlier = v[:, num_drivers:j]
        plain = np.column_stack([features, earlier])
        slopes = _solve(plain, weights, v[:, j])[width:]
        strongest = np.argsort(-np.abs(slopes))[:_NUM_BEFORE]
        turned = [features[:, 1:] * earlier[:, [i]] for i in strongest]
        found, widths[j] = _regression(np.column_stack([plain, *turned]), features, v[:, j], weights)
        shifts[j], means[j, num_drivers:j] = found[:width], found[width : plain.shape[1]]
        before[j, : len(strongest)] = num_drivers + strongest
        turns[j, : len(strongest), 1:] = found[plain.shape[1] :].reshape(len(strongest), width - 1)
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
    gram = features.T @ weighted
    return np.linalg.solve(gram + np.diag(_RIDGE * np.diag(gram) + 1e-300), weighted.T @ values)


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
    log_density: Float[np.ndarray, " n"]
    """With which the values were drawn."""


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
        mean, covariance = np.mean(self.values, axis=0), 4 * np.atleast_2d(np.cov(self.values.T))
        found: list[_Optima] = []
        for number in range(_DESIGN_ROUNDS):
            values, log_density = _drivers_drawn(stream.fold(number), mean, covariance)
            found.append(self._optima(values, log_density))
            optima = _Optima(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
            if len(optima.values) < _FEWEST * len(mean):
                return None
            weights = _flattened(optima.log_mass - optima.log_density, _FEWEST * len(mean))
            mean = weights @ optima.values
            away = optima.values - mean
            covariance = _INFLATED * (away * weights[:, None]).T @ away
            used = (number + 2) / (number + 1) * self.num_gradients
            if used > self.max_gradients or not np.linalg.eigvalsh(covariance).min() > 0:
                break
        return self._design(optima, stream.fold(_DESIGN_ROUNDS))

    def _design(self, optima: _Optima, stream: Any) -> Design | None:
        """Draws from the normals of all optima that matter, with the root of the weights that they deserve.

        The root, because a fit that is good far out is worth more than one that is best in the middle.
        """
        near = optima.log_mass > optima.log_mass.max() - _DEEPEST
        optima = _Optima(*(part[near] for part in optima))
        if len(optima.values) < _FEWEST * len(self.drivers):
            return None
        log_weights = 0.5 * (optima.log_mass - optima.log_density)
        weights = np.maximum(np.exp(log_weights - log_weights.max()), 0.02)
        repeats = -(-_NUM_DRAWS // len(weights))
        noise = stream.normal((repeats, *optima.rest.shape))
        rows = np.empty((repeats, len(weights), len(self.drivers) + len(self.others)))
        rows[:, :, self.drivers] = optima.values
        rows[:, :, self.others] = optima.rest + np.einsum("nij,rnj->rni", optima.factors, noise)
        whole = rows.reshape(-1, rows.shape[-1])
        return Design(tuple(self.drivers.tolist()), whole, np.tile(weights, repeats))

    def _optima(self, values: HostRows, log_density: Any) -> _Optima:
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
            done = gain < _SETTLED
            good[at[done & (eigenvalues.min(axis=1) > 0)]] = True
            going[at[done]] = False
        factor = np.linalg.inv(np.linalg.cholesky(precision[good]))
        log_mass = height[good] + 0.5 * rest.shape[1] * np.log(2 * np.pi)
        log_mass += np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        return _Optima(values[good], rest[good], np.swapaxes(factor, 1, 2), log_mass, log_density[good])

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


def _drivers_drawn(stream: Any, mean: Any, covariance: Any) -> tuple[HostRows, Any]:
    """Heavy-tailed draws, and their log density up to a constant."""
    normals, gammas = stream.split(2)
    num = _DESIGN * len(mean)
    factor = np.linalg.cholesky(covariance)
    noise = normals.normal((num, len(mean))) / (gammas.gamma(0.5 * _DF, (num, 1)) / (0.5 * _DF)) ** 0.5
    log_density = -0.5 * (_DF + len(mean)) * np.log1p(np.sum(noise**2, axis=1) / _DF)
    return mean + noise @ factor.T, log_density - np.sum(np.log(np.diag(factor)))


def _flattened(log_weights: Any, fewest: float) -> Any:
    """Weights, to a power at which they are worth enough."""
    power = 1.0
    while True:
        weights = np.exp(power * (log_weights - log_weights.max()))
        weights = weights / weights.sum()
        if 1 / np.sum(weights**2) >= min(fewest, 0.5 * len(weights)):
            return weights
        power *= 0.7
