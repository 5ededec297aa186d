"""Coordinates that drive all others: the hyperparameters of a hierarchical model.

Given its hyperparameters, the rest of such a model is often close to normal, with a mean and scales that follow them in
a curved way. A `Modulation` is the part of a triangular map that says how.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._modules import Module
from .._types import AnyArray, Rows
from ..arrays import namespace, quiet

_CLIP = 12.0
"""Standard deviations beyond which a driver changes the others no further."""
_FEWEST = 50
"""Draws among which drivers are looked for."""
_STEP, _STRONG = 2.0, 0.12
"""Standard deviations by which a driver is moved, and the mean change of the log precisions of the
others, each at most 1, that counts."""
_MOST_TRIED, _MOST = 16, 4
_EXPLAINED, _PER_DIMENSION = 0.2, 5
"""Share of the variance of the log size of scores that a direction must explain, and draws for each dimension."""

Curvatures = Callable[[Rows], Rows]
"""The diagonal of minus the Hessian at some points."""


@quiet()
def find_drivers(positions: Rows, scores: Rows, curvatures: Curvatures) -> tuple[int, ...]:
    """The coordinates with which the conditional scales of many others change, the strongest first.

    Given all others, the score of a coordinate has the variance of its conditional precision. So the coordinates that
    go with the log sizes of many scores may be drivers, and the diagonal of the Hessian on both sides of a typical
    point tells whether they are.
    """
    x, sizes = np.asarray(positions, float), np.abs(np.asarray(scores, float))
    spread = np.subtract(*np.quantile(x, [0.84, 0.16], axis=0)) / 2
    if len(x) < _FEWEST or x.shape[1] < 3 or not np.isfinite(sizes).all() or not (spread > 0).all():
        return ()
    correlations = _ranks(sizes).T @ _ranks(x) / len(x)
    np.fill_diagonal(correlations, 0.0)
    total = np.sum(correlations**2, axis=0)
    tried = np.argsort(-total)[:_MOST_TRIED]
    steps = np.zeros((len(tried), x.shape[1]))
    steps[np.arange(len(tried)), tried] = _STEP * spread[tried]
    middle = np.median(x, axis=0)
    diagonal = curvatures(np.concatenate([middle[None], middle + steps, middle - steps]))
    log_precision = np.log(np.maximum(diagonal, 1e-300))
    change = np.abs(log_precision[1:] - log_precision[:1]).reshape(2, *steps.shape)
    change[:, np.arange(len(tried)), tried] = 0.0
    # Without the largest: what changes with a driven coordinate is the driver's own precision alone.
    strength = np.mean(np.sort(np.minimum(change, 1.0), axis=-1)[..., :-1], axis=-1).max(axis=0)
    order = np.argsort(-np.nan_to_num(strength))[:_MOST]
    return tuple(int(tried[k]) for k in order if strength[k] > _STRONG)


@quiet()
def find_direction(positions: Rows, scores: Rows) -> Float[np.ndarray, "d d"] | None:
    """A rotation of which the first axis goes with the size of all scores together; None where none does.

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
    if not left < 1 - _EXPLAINED:
        return None
    return rotation_to(np.linalg.solve(factor.T, coefficients))


def rotation_to(axis: Float[np.ndarray, " d"]) -> Float[np.ndarray, "d d"]:
    """An orthogonal matrix of which the first column is an axis, or its opposite: a reflection."""
    first = np.eye(len(axis))[0]
    mirror = axis / np.linalg.norm(axis) + (1 if axis[0] > 0 else -1) * first
    return np.eye(len(axis)) - 2 * np.outer(mirror, mirror) / (mirror @ mirror)


def _ranks(x: Rows) -> Rows:
    """Ranks in each column, standardized."""
    ranks = np.argsort(np.argsort(x, axis=0), axis=0)
    return (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)


class Back(NamedTuple):
    """What does not change on the way back through a map, for all blocks of it."""

    positions: Rows
    coefficients: list[Rows]
    """Of the earlier coordinates, one array for each of the `num_before`."""


class Modulation(Module):
    """How the first coordinates of a map, its drivers, change the means and log scales of the others.

    Features are functions of the drivers: a constant, the drivers, parabolas between `knots` that go on as straight
    lines, and products. A mean has them as they are (`shifts`), and times a few earlier coordinates (`turns`, and
    which ones in `before`); a log scale is linear in them (`widths`). Rows of the drivers themselves are zero.
    """

    knots: Float[AnyArray, "k n"]
    shifts: Float[AnyArray, "d m"]
    widths: Float[AnyArray, "d m"]
    before: Int[AnyArray, "d s"]
    turns: Float[AnyArray, "d s m"]

    @property
    def num_drivers(self) -> int:
        return self.knots.shape[0]

    def features(self, v: Any) -> Any:
        """At rows of which the first columns are the drivers."""
        return features_of(v, self.knots)

    def means(self, v: Any, features: Any, own: slice) -> Any:
        """What is added to the means of some coordinates."""
        total = features @ self.shifts[own].T
        for s in range(self.before.shape[1]):
            total = total + v[:, self.before[own, s]] * (features @ self.turns[own, s].T)
        return total

    def back(self, v: Rows, features: Any) -> Back:
        return Back(v, [features @ self.turns[:, s].T for s in range(self.before.shape[1])])

    def to_others(self, at: Back, pulled: Any, own: slice, late: slice) -> Any:
        """`sum_j pulled_j d mean_j / d v_i` over late coordinates j for own ones i, drivers as features aside."""
        xp = namespace(pulled)
        rows = xp.arange(self.before.shape[0])[own]
        total = 0.0
        for s, coefficients in enumerate(at.coefficients):
            places = xp.asarray(self.before[late, s][:, None] == rows, pulled.dtype)
            total = total + (pulled * coefficients[:, late]) @ places
        return total

    def to_drivers(self, at: Back, pulled: Rows, of_scales: Rows) -> Any:
        """`sum_j pulled_j d mean_j / d u_k + of_scales_j d log scale_j / d u_k` through the features of the drivers."""
        xp = namespace(pulled)
        total = pulled @ self.shifts + of_scales @ self.widths
        for s in range(self.before.shape[1]):
            total = total + (pulled * at.positions[:, self.before[:, s]]) @ self.turns[:, s]
        u, num = at.positions[:, : self.num_drivers], self.num_drivers
        inside = xp.abs(u) < _CLIP
        slopes = [total[:, 1 + k] for k in range(num)]
        for i, (k, ends) in enumerate(_intervals(xp, self.knots)):
            slopes[k] = slopes[k] + total[:, 1 + num + i] * _parabola(xp, u[:, k], *ends)[1]
        pairs = _pairs(num)
        first = total.shape[1] - len(pairs)
        for i, (k, other) in enumerate(pairs):
            slopes[k] = slopes[k] + total[:, first + i] * u[:, other]
            slopes[other] = slopes[other] + total[:, first + i] * u[:, k]
        return xp.where(inside, xp.stack(slopes, axis=-1), 0.0)


def features_of(v: Any, knots: Float[AnyArray, "k n"]) -> Any:
    """The features of drivers, which are the first columns of some rows."""
    xp, num = namespace(v), knots.shape[0]
    u = xp.clip(v[:, :num], -_CLIP, _CLIP)
    bent = [_parabola(xp, u[:, k], *ends)[0] for k, ends in _intervals(xp, knots)]
    products = [u[:, i] * u[:, j] for i, j in _pairs(num)]
    return xp.stack([xp.ones_like(u[:, 0]), *xp.moveaxis(u, 1, 0), *bent, *products], axis=-1)


def _pairs(num: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(num) for j in range(i)]


def _intervals(xp: Any, knots: Any) -> list[tuple[int, tuple[Any, Any]]]:
    knots = xp.asarray(knots)
    return [(k, (knots[k, i], knots[k, i + 1])) for k in range(knots.shape[0]) for i in range(knots.shape[1] - 1)]


def _parabola(xp: Any, u: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """A parabola over an interval that goes on as straight lines of slope -1 and 1; and its derivative."""
    half = 0.5 * (high - low)
    away = u - low - half
    inner = xp.clip(away, -half, half)
    return inner * (away - 0.5 * inner) / half, inner / half
