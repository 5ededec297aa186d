"""References for many coordinates that are close to normal given a few: effects given their scales.

For given values of the few (the drivers) the optimum of the rest and the Hessian there make a normal approximation to
the rest, and its mass says how far the drivers reach (as in INLA; Rue, Martino and Chopin, 2009). Draws of a short run
seldom reach the end of a neck; curvature knows how narrow it becomes. A map is fitted to a few hundred optima, so that
it serves any number of draws. The Hessian is sparse as a rule. So it takes gradients in few directions, and the rest
gets an order in which each coordinate depends on few others.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import Stream, one_thread, quiet
from ..maps import Chain, Conditional, Drivers, Mixture, Permute, Rotate, Scale, features_of, least_squares
from ..rows import Evaluator
from .climb import climb
from .components import Component
from .fitting import HostRows, Matrix
from .sparsity import Slopes, Sparsity

Values = Float[np.ndarray, "n k"]
Rest = Float[np.ndarray, "n r"]

_MOST_DRIVERS, _MOST_OF_ALL, _STRONG = 5, 0.34, 0.4
"""Drivers at most, also as a share of all coordinates, and the sum of squared changes of log precisions of others with
one deviation that makes one."""
_NUM_PROBED = 6
"""Points at which drivers, and the zeros of the Hessian, are looked for."""
_EXPLAINED, _PER_DIMENSION = 0.2, 5
"""Share of the variance of the log size of scores that a direction must explain, and draws for each dimension."""
_FIRST, _EACH_ROUND, _MOST_ROUNDS, _FEWEST_ROUNDS = 8, 12, 20, 8
"""Values of the drivers in the first round and in each other one, for each driver; rounds at most, and those that must
be affordable."""
_EXPLORING, _LONGEST, _JITTER = 0.2, 2.5, 0.3
"""Power of the mass by which values far out are chosen, how far beyond them the search goes, and noise added to it."""
_FARTHEST = 5.0
"""Deviations of the values from their mean up to which the top of a parabola through their masses is trusted."""
_CROWDED, _LEAST_POWER = 0.3, 1e-9
"""Distance, in deviations of the values, at which others are nearby, and a power that is none."""
_FLAT, _DEEPEST = 0.5, 9.0
"""Power of the mass by which optima are weighted in a fit, because one that is good far out is worth more than one that
is best in the middle; and nats below the largest mass at which they do not matter."""
_MAX_ROUNDS, _MAX_CHORD, _MAX_NEWTON, _PATIENCE, _EXPECTED_NEWTON = 120, 20, 40, 6, 2.0
"""Steps of the first ascents without curvature, with the curvature of a neighbor, and with that of their own; steps
after which those that are slower than most are left behind, and how many are expected."""
_SETTLED, _EXACT = 1e-2, 1e-3
"""Gain in nats below which there is no other step, and share of the gain before below which a step was exact."""
_DF, _HEAVY, _LIGHTEST = 4.0, 8.0, 30.0
"""Degrees of freedom of the first values of drivers, of the parts of their mixture, and of few others: twice as many as
they are, if they are more."""
_KNOTS, _PER_FEATURE = (16, 8), 4
"""Knots for a single driver and for each of several, at most, and optima for each function of the drivers."""
_MOST_TURNS, _TURNS = 12, 0.02
"""Earlier coordinates of which the slopes of one may depend on drivers, and the least change in deviations for that."""
_PARTS, _NUM_EM, _RIDGE, _DEFENSE, _WIDER = 5, 60, 0.01, 0.05, 2.0
"""Parts of the mixture of drivers at most, steps of its fit, the least scale matrix of a part in units of the
covariance of all, and a share that is wider than the values are, by a factor."""
_NUM_CAPPED = 20
"""Largest weights that are made equal."""
ROTATED = (-1,)
"""Stands for a combination of coordinates that drives the others."""


@quiet()
def find_drivers(
    slopes_at: Slopes, points: HostRows, steps: Float[np.ndarray, " d"], spread: Float[np.ndarray, " d"]
) -> tuple[int, ...]:
    """Return the coordinates with which the conditional scales of many others change, the strongest first.

    Second differences of the gradient along coordinate j show how its precision changes with every other coordinate:
    `d/dx_k H_jj = d^2/dx_j^2 g_k`. `steps` are conditional deviations, and `spread` those of all draws.
    """
    num, width = points.shape
    offsets = np.concatenate([np.zeros((1, width)), np.diag(steps), -np.diag(steps)])
    slopes = slopes_at((points[:, None] + offsets).reshape(-1, width)).reshape(num, -1, width)
    ahead, behind = slopes[:, 1 : width + 1], slopes[:, width + 1 :]
    diagonal = np.diagonal(behind - ahead, axis1=1, axis2=2) / (2 * steps)
    change = (ahead + behind - 2 * slopes[:, :1]) / (np.maximum(diagonal, 1e-300) * steps**2)[:, :, None]
    change = np.where((diagonal > 0)[:, :, None], np.minimum(np.abs(change) * spread, 1.0), 0.0)
    change[:, np.arange(width), np.arange(width)] = 0.0
    # Without the largest: what changes with a driven coordinate is the driver's own precision alone.
    strength = np.mean(np.sum(np.sort(np.nan_to_num(change) ** 2, axis=1)[:, :-1], axis=1), axis=0)
    if np.sum(strength > _STRONG) > max(2, _MOST_OF_ALL * width):
        return ()  # a combination of coordinates drives them, or nothing is normal
    order = np.argsort(-strength)[: min(_MOST_DRIVERS, width - 1)]
    return tuple(int(k) for k in order if strength[k] > _STRONG)


@quiet()
def find_direction(positions: HostRows, scores: HostRows) -> Matrix | None:
    """Return a rotation of which the first axis goes with the size of all scores together; None where none does.

    For hyperparameters that are combinations of the coordinates, where Hessians do not show them (`find_blocks`).
    """
    x, slopes = np.asarray(positions, float), np.asarray(scores, float)
    num, dimension = x.shape
    if num < _PER_DIMENSION * dimension or not np.isfinite(slopes).all():
        return None
    try:
        factor = np.linalg.cholesky(np.cov(x.T))
    except np.linalg.LinAlgError:
        return None
    white = np.linalg.solve(factor, (x - x.mean(axis=0)).T).T
    log_size = np.log(np.sum((slopes @ factor) ** 2, axis=1) + 1e-300)
    log_size -= log_size.mean()
    coefficients = np.linalg.lstsq(white, log_size, rcond=None)[0]
    left = np.sum((log_size - white @ coefficients) ** 2) / np.sum(log_size**2) * (num / (num - dimension))
    return rotation_to(np.linalg.solve(factor.T, coefficients)) if left < 1 - _EXPLAINED else None


def rotation_to(axis: Float[np.ndarray, " d"]) -> Matrix:
    """Return an orthogonal matrix of which the first column is an axis, or its opposite: a reflection."""
    first = np.eye(len(axis))[0]
    mirror = axis / np.linalg.norm(axis) + (1 if axis[0] > 0 else -1) * first
    return np.eye(len(axis)) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)


class _Optima(NamedTuple):
    """For some values of the drivers: where the rest is most likely, minus the Hessian there, and its log mass."""

    values: Values
    rest: Rest
    precisions: Float[np.ndarray, "n r r"]
    log_mass: Float[np.ndarray, " n"]

    def joined(self, other: "_Optima") -> "_Optima":
        return _Optima(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))

    def weights(self, power: float) -> Float[np.ndarray, " n"]:
        """The mass to a power, over the number of other values nearby.

        The power is less where only few values have mass, as in the first rounds from a wide prior.
        """
        factor = _moments(self.values, None)[1]
        white = np.linalg.solve(factor, self.values.T).T / _CROWDED
        crowd = np.sum(np.exp(-0.5 * np.sum((white[:, None] - white) ** 2, axis=-1)), axis=1)
        fewest = min(3 * (1 + self.values.shape[1]), len(self.values) / 2)
        while True:
            weights = np.exp(power * (self.log_mass - self.log_mass.max())) / crowd
            if np.sum(weights) ** 2 >= fewest * np.sum(weights**2) or power < _LEAST_POWER:
                return weights / weights.max()
            power *= 0.7


class Hierarchy(NamedTuple):
    """A component fitted to optima, and the values of its drivers by which their mixture is fitted again."""

    component: Component
    values: Values
    """In the coordinates of the component's noise."""
    weights: Float[np.ndarray, " n"]

    def refitted(self, rows: HostRows, log_weights: Float[np.ndarray, " n"]) -> "Hierarchy":
        """Return the component with drivers that have the distribution of weighted draws, which count like optima.

        No single draw counts for too much.
        """
        assert self.component.drivers is not None
        log_weights = np.minimum(log_weights, np.sort(log_weights)[-_NUM_CAPPED])
        weights = np.exp(log_weights - np.max(log_weights))
        values = self.component.map.inverse(rows).noise[:, : self.component.drivers.dimension]
        values = np.concatenate([self.values, values])
        share = np.sum(weights) ** 2 / np.sum(weights**2)
        weights = np.concatenate([self.weights / np.sum(self.weights), share * weights / np.sum(weights) / _PARTS])
        mixture = fit_mixture(values, weights)
        return Hierarchy(Component(self.component.df, self.component.map, drivers=mixture), values, weights)


@quiet()
def fit_hierarchy(
    evaluator: Evaluator,
    draws: HostRows,
    drivers: tuple[int, ...],
    max_gradients: int,
    stream: Stream,
    rotation: Matrix | None = None,
    is_exact: bool = True,
) -> tuple[Hierarchy | None, int]:
    """Fit a component to optima of the rest, for values of the drivers all over their range.

    The search starts from `draws`, the first of which is the best point known. After a `rotation`, the first coordinate
    is the driver; where it is not exact, the optima themselves show it. None where there are too few optima, or not
    enough gradients for them. Also the number of gradients that it took.
    """
    with one_thread():
        search = _Search(evaluator, np.asarray(draws, float), drivers, rotation, max_gradients)
        optima = search.run(stream)
        if optima is not None and rotation is not None and not is_exact:
            turned = _Search(evaluator, search.draws, (0,), rotation_to(search.axis(optima)), max_gradients)
            turned.rotation, turned.num_gradients = rotation @ turned.rotation, search.num_gradients
            search, optima = turned, turned.run(stream)
        return None if optima is None else search.fit(optima), search.num_gradients


class _Search:
    def __init__(
        self,
        evaluator: Evaluator,
        draws: HostRows,
        drivers: tuple[int, ...],
        rotation: Matrix | None,
        max_gradients: int,
    ):
        self.evaluator, self.max_gradients, self.rotation = evaluator, max_gradients, rotation
        self.draws = draws if rotation is None else draws @ rotation
        self.drivers = np.array(drivers, int)
        self.others = np.setdiff1d(np.arange(draws.shape[1]), self.drivers)
        self.values, self.rest = self.draws[:, self.drivers], self.draws[:, self.others]
        low, high = np.quantile(self.rest, [0.16, 0.84], axis=0)
        self.spread = np.maximum(0.5 * (high - low), 1e-12)
        self.steps = float(np.finfo(evaluator.layout.dtype).eps) ** 0.25 * self.spread
        self.num_gradients = 0
        self.sparsity = Sparsity.of(np.ones((len(self.others), len(self.others)), bool))

    def axis(self, optima: _Optima) -> Float[np.ndarray, " d"]:
        """The direction in which optima differ most; only of those where the rest is narrow and cannot lead astray."""
        volume = -np.linalg.slogdet(optima.precisions)[1]
        narrow = volume <= np.median(volume)
        rows = np.empty((int(np.sum(narrow)), self.draws.shape[1]))
        rows[:, self.drivers], rows[:, self.others] = optima.values[narrow], optima.rest[narrow]
        weights = optima.weights(_FLAT)[narrow, None]
        away = rows - np.sum(weights * rows, axis=0) / np.sum(weights)
        return np.linalg.svd(np.sqrt(weights) * away, full_matrices=False)[2][0]

    def run(self, stream: Stream) -> _Optima | None:
        """Optima for values of the drivers all over their range, as far as they have mass."""
        num, width = len(self.drivers), len(self.others)
        if 2 * width * _NUM_PROBED < self.max_gradients:
            self._look_for_zeros()
        each = _EXPECTED_NEWTON * 2 * self.sparsity.num_directions
        first = _FIRST * num * (_MAX_ROUNDS + _PATIENCE * 2 * self.sparsity.num_directions)
        if first + _FEWEST_ROUNDS * _EACH_ROUND * num * each > self.max_gradients:
            return None
        mean, factor = _moments(self.values, None)
        optima = self._optima(mean + 2 * _heavy(stream.fold(0), _FIRST * num, num) @ factor.T, None)
        for number in range(1, _MOST_ROUNDS):
            if len(optima.values) < 2 * num:
                return None
            if self.num_gradients * (number + 1) / number > self.max_gradients:
                break
            optima = optima.joined(self._optima(_stretched(optima, stream.fold(number)), optima))
        near = optima.log_mass > optima.log_mass.max() - _DEEPEST
        optima = _Optima(*(part[near] for part in optima))
        return optima if _num_knots(num, len(optima.values)) > 1 else None

    def _look_for_zeros(self) -> None:
        """Find which entries of the Hessian are zero at all of a few points."""
        points = self.draws[np.linspace(0, len(self.draws) - 1, _NUM_PROBED).astype(int)]
        hessians = np.abs(self._precision(points[:, self.drivers], points[:, self.others]))
        hessians = hessians[np.isfinite(hessians).all(axis=(1, 2))]
        if not len(hessians):
            return
        sizes = np.sqrt(np.diagonal(hessians, axis1=1, axis2=2)) + 1e-300
        relative = np.max(hessians / (sizes[:, :, None] * sizes[:, None]), axis=0)
        rounding = float(np.finfo(self.evaluator.layout.dtype).eps) ** (1 / 3)
        self.sparsity = Sparsity.of((relative > rounding) | np.eye(len(relative), dtype=bool))

    def _optima(self, values: Values, known: _Optima | None) -> _Optima:
        """Newton's method for the rest at all values at once.

        It starts where a linear regression on the drivers expects the optimum, at the best point known or, better, from
        the nearest known optimum, whose curvature serves until the steps become small.
        """
        if known is None:
            mean = np.mean(self.values, axis=0)
            slope = np.linalg.lstsq(self.values - mean, self.rest - np.mean(self.rest, axis=0), rcond=None)[0]
            rest = np.mean(self.rest, axis=0) + (values - mean) @ slope
            best = np.tile(self.rest[0], (len(values), 1))
            better = ~(self._evaluate(values, rest)[0] >= self._evaluate(values, best)[0])
            rest[better] = best[better]
            rest = self._climbed(values, rest)
            height, gradient = self._evaluate(values, rest)
        else:
            white = np.linalg.solve(_moments(known.values, None)[1], np.concatenate([known.values, values]).T).T
            old, new = np.split(white, [len(known.values)])
            nearest = np.argmin(np.sum((new[:, None] - old) ** 2, axis=-1), axis=1)
            rest, covariances = known.rest[nearest].copy(), np.linalg.inv(known.precisions[nearest])
            height, gradient = self._evaluate(values, rest)
            for _ in range(_MAX_CHORD):
                step = np.einsum("nij,nj->ni", covariances, gradient)
                gain = 0.5 * np.sum(step * gradient, axis=1)
                at = np.flatnonzero(np.isfinite(height) & (gain > 0.1 * _SETTLED))
                if not at.size:
                    break
                self._advance(values, rest, height, gradient, at, step[at])
        precision = np.tile(np.eye(rest.shape[1]), (len(rest), 1, 1))
        going = np.isfinite(height) & np.isfinite(gradient).all(axis=1)
        good = np.zeros(len(rest), bool)
        for number in range(_MAX_NEWTON):
            at = np.flatnonzero(going)
            is_enough = number > _PATIENCE and np.sum(good) > max(2 * len(self.drivers), 0.4 * len(good))
            if not at.size or is_enough or self.num_gradients > self.max_gradients:
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
        volume = np.linalg.slogdet(precision[good] / (2 * np.pi))[1]
        return _Optima(values[good], rest[good], precision[good], height[good] - 0.5 * volume)

    def _climbed(self, values: Values, rest: Rest) -> Rest:
        """Go most of the way without curvature, in which the drivers stay where they are."""
        num = len(self.drivers)

        def gradient(rows: HostRows) -> tuple[Any, Any]:
            height, slopes = self._evaluate(rows[:, :num], rows[:, num:])
            return height, np.concatenate([np.zeros((len(rows), num)), slopes], axis=1)

        scale = np.concatenate([np.ones(num), self.spread])
        return climb(gradient, np.concatenate([values, rest], axis=1), scale, _MAX_ROUNDS, _SETTLED).position[:, num:]

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
        repeats = 2 * self.sparsity.num_directions
        repeated = np.repeat(values, repeats, axis=0)
        return self.sparsity.minus_hessians(lambda rows: self._evaluate(repeated, rows)[1], rest, self.steps)

    def _evaluate(self, values: Values, rest: Rest) -> tuple[Any, Any]:
        rows = np.empty((len(rest), len(self.drivers) + len(self.others)))
        rows[:, self.drivers], rows[:, self.others] = values, rest
        found = self.evaluator.waypoints(rows if self.rotation is None else rows @ self.rotation.T)
        self.num_gradients += len(rows)
        slopes = np.array(found.slopes.target, float)
        slopes = slopes if self.rotation is None else slopes @ self.rotation
        return np.array(found.features.log_target, float), slopes[:, self.others]

    def fit(self, optima: _Optima) -> Hierarchy:
        """Fit means, slopes and scales of the normal approximations as functions of the drivers."""
        inner = self.sparsity.order()
        order = np.concatenate([self.drivers, self.others[inner]])
        num, weights = len(self.drivers), optima.weights(_FLAT)
        weights = weights * (len(weights) / np.sum(weights))
        modes = np.concatenate([optima.values, optima.rest[:, inner]], axis=1)
        precisions = optima.precisions[:, inner][:, :, inner]
        covariances = np.linalg.inv(precisions)
        center = weights @ modes / len(weights)
        variances = weights @ (modes - center) ** 2 / len(weights)
        variances[num:] += weights @ np.diagonal(covariances, axis1=1, axis2=2) / len(weights)
        scale = np.sqrt(variances)
        v, sizes = (modes - center) / scale, scale[num:]
        levels = np.linspace(0.01, 0.99, _num_knots(num, len(v)))
        knots = np.quantile(v[:, :num], levels, axis=0).T
        features = features_of(v, knots)
        first = _conditional(
            v, num, precisions * np.outer(sizes, sizes), covariances / np.outer(sizes, sizes), features, knots, weights
        )
        layers: list[Any] = [first, Scale(center, scale), Permute(order)]
        fitted = Chain.of(*layers, *([] if self.rotation is None else [Rotate(self.rotation)]))
        mass, df = optima.weights(1.0), max(_LIGHTEST, 2.0 * len(inner))
        return Hierarchy(Component(df, fitted, drivers=fit_mixture(v[:, :num], mass)), v[:, :num], mass)


def _conditional(
    v: Any, num: int, precisions: Any, covariances: Any, features: Any, knots: Any, weights: Any
) -> Conditional:
    """Fit each coordinate given those before it, from the Cholesky factors of precisions.

    Slopes that hardly change with the drivers are constant. What the fit of a coordinate misses widens it.
    """
    total, width = v.shape[1], features.shape[1]
    factors = np.linalg.cholesky(precisions[:, ::-1, ::-1])[:, ::-1, ::-1]
    diagonal = np.diagonal(factors, axis1=1, axis2=2)
    slopes = -np.swapaxes(factors, 1, 2) / diagonal[:, :, None]
    linear, turns = np.zeros((total, total)), np.zeros((total, _MOST_TURNS, width))
    before, shifts, widths = np.zeros((total, _MOST_TURNS), int), np.zeros((total, width)), np.zeros((total, width))
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    used = 0
    for i in range(total - num):
        before_i, own = v[:, num : num + i], diagonal[:, i]
        # Errors count in deviations of the coordinate, which are tiny in a neck. By their squares, as in a likelihood,
        # the neck alone would count, in which there is little mass.
        precise = weights * own
        constant = np.sum(precise[:, None] * deviations[:, :i] ** 2 * slopes[:, i, :i], axis=0)
        constant = constant / np.sum(precise[:, None] * deviations[:, :i] ** 2, axis=0)
        errors = (slopes[:, i, :i] - constant) * deviations[:, :i] * own[:, None]
        importance = np.sqrt(weights @ errors**2 / len(v))
        turned = np.argsort(-importance)[:_MOST_TURNS]
        turned = turned[importance[turned] > _TURNS]
        used = max(used, len(turned))
        linear[num + i, num : num + i] = constant
        linear[num + i, num + turned] = 0.0
        before[num + i, : len(turned)] = num + turned
        fitted = np.tile(constant, (len(v), 1))
        for number, k in enumerate(turned):
            turns[num + i, number] = least_squares(features, precise * deviations[:, k] ** 2, slopes[:, i, k])
            fitted[:, k] = features @ turns[num + i, number]
        intercepts = v[:, num + i] - np.sum(fitted * before_i, axis=1)
        shifts[num + i] = least_squares(features, precise, intercepts)
        off = slopes[:, i, :i] - fitted
        missed = np.einsum("na,nab,nb->n", off, covariances[:, :i, :i], off)
        missed += (intercepts - features @ shifts[num + i]) ** 2
        widths[num + i] = least_squares(features, weights, 0.5 * np.log(own**-2 + missed))
    used = max(used, 1)
    log_scales = np.zeros(total)
    terms = Drivers(knots, shifts, widths, before[:, :used], turns[:, :used])
    return Conditional.of(linear if linear.any() else None, log_scales, terms)


def fit_mixture(values: Values, weights: Float[np.ndarray, " n"]) -> Mixture:
    """Fit a mixture to weighted values by maximum likelihood, with a small share that is wider than all of them."""
    weights = weights / np.sum(weights)
    mean, root = _moments(values, weights)
    whole = root @ root.T
    dimension = len(mean)
    num = int(np.clip(1 / np.sum(weights**2) / (10 * (1 + dimension)), 1, _PARTS))
    # Parts begin at quantiles along the longest axis.
    order = np.argsort(values @ np.linalg.svd(root)[0][:, 0])
    part = np.empty(len(values), int)
    part[order] = np.minimum((np.cumsum(weights[order]) * num).astype(int), num - 1)
    belongs, near = np.eye(num)[part], np.ones((len(values), num))
    for _ in range(_NUM_EM):
        shares = weights @ belongs + 1e-6
        pulls = weights[:, None] * belongs * near
        centers = (pulls.T @ values) / (np.sum(pulls, axis=0)[:, None] + 1e-300)
        away = values[:, None] - centers
        matrices = np.einsum("np,npi,npj->pij", pulls, away, away) / shares[:, None, None] + _RIDGE * whole
        mixture = Mixture.of(_HEAVY, shares / np.sum(shares), centers, matrices)
        belongs = mixture.shares_at(values)
        squared = np.einsum("npi,pij,npj->np", away, np.linalg.inv(matrices), away)
        near = (_HEAVY + dimension) / (_HEAVY + squared)
    shares = np.append((1 - _DEFENSE) * mixture.shares, _DEFENSE)
    factors = np.concatenate([mixture.factors, _WIDER * root[None]])
    return Mixture(_HEAVY, shares, np.concatenate([mixture.centers, mean[None]]), factors)


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
    num = _EACH_ROUND * num_drivers
    far, near = (
        optima.values[_chosen(optima.weights(power), one.uniform((num,)))]
        for power, one in ((_EXPLORING, first), (1.0, second))
    )
    mean, factor = _moments(optima.values, optima.weights(_FLAT))
    noise = jitter.normal((num, num_drivers))
    values = near + lengths.uniform((num, 1)) * _LONGEST * (far - near) + _JITTER * noise @ factor.T
    top = _top(optima, mean, factor)
    if top is not None:
        values[::3] = top[0] + 1.5 * noise[::3] @ top[1].T
    return values


def _top(optima: _Optima, mean: Any, factor: Any) -> tuple[Any, Any] | None:
    """Return where a parabola through the masses is highest, and a root of its covariance; None where it has no top.

    It leads from a poor start to the bulk of the mass in a few rounds.
    """
    white = np.linalg.solve(factor, (optima.values - mean).T).T
    num = white.shape[1]
    rows, columns = np.tril_indices(num)
    features = np.column_stack([np.ones(len(white)), white, white[:, rows] * white[:, columns]])
    if len(white) < 2 * features.shape[1]:
        return None
    found = least_squares(features, optima.weights(_FLAT), optima.log_mass)
    curvature = np.zeros((num, num))
    curvature[rows, columns] -= found[1 + num :]
    curvature += curvature.T
    values, vectors = np.linalg.eigh(curvature)
    if values[0] < 1 / _FARTHEST**2:
        return None
    away = vectors @ ((found[1 : 1 + num] @ vectors) / values)
    away = away * min(1.0, _FARTHEST / np.sqrt(away @ away))
    return mean + factor @ away, factor @ (vectors / np.sqrt(values))


def _chosen(weights: Any, uniform: Any) -> Any:
    cumulative = np.cumsum(weights)
    return np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1]), len(weights) - 1)


def _num_knots(num: int, num_optima: int) -> int:
    """Return how many knots of each driver so many optima can bear; less than two if they are too few."""
    products = num * (num - 1) // 2
    return min(_KNOTS[num > 1], int((num_optima / _PER_FEATURE - 1 - products) / num))
