"""Coordinates that drive all others: the hyperparameters of a hierarchical model.

Given its hyperparameters, the rest of such a model is often close to normal, with a mean and scales that follow them in
a curved way.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ..core import Rows, quiet

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
