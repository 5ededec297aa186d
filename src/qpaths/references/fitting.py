"""A Student-t distribution fitted to draws and scores, and when it must not be."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..arrays import quiet
from ..remarks import Refusal
from .components import Component
from .maps import TriangularMap

Matrix = Float[np.ndarray, "d d"]
HostRows = Float[np.ndarray, "n d"]
Directions = Float[np.ndarray, "k d"]

_HEAVIEST, _LIGHTEST = 4.0, 30.0
"""Degrees of freedom: below the first the fit is not to be trusted, above the second its tails would be too light."""
_BIMODAL = 0.6
"""Of Sarle's coefficient, which is 1/3 for a normal, 5/9 for a uniform and an exponential, 1 for two points."""


class Fit(NamedTuple):
    """A fitted distribution, or the reason why there is none."""

    fitted: Component | None
    refusal: Refusal | None


def fit_reference(positions: Any, scores: Any = None) -> Fit:
    """A Student-t distribution fitted to draws from the target and, where there are any, the target's scores at them.

    With scores g the scale matrix S is the geometric mean of Cov(x) and the inverse of Cov(g): it solves
    `S Cov(g) S = Cov(x)`. The center is `mean(x) + S mean(g)`. Of all normal distributions this one has the scores at
    the draws that are closest to g (Seyboldt, Carlson and Carpenter, 2026, use it for mass matrices). For a normal
    target g is linear in x and both are exact whatever the draws. The sample covariance alone loses `d^2 / 4n` nats to
    noise.
    The degrees of freedom follow from the kurtosis of the Mahalanobis distances.
    """
    x = np.asarray(positions, float)
    num, dimension = x.shape
    if num < 2 * dimension + 2:
        return Fit(None, Refusal.TOO_FEW)
    mean, matrix = np.mean(x, axis=0), _covariance(x)
    if scores is not None and np.isfinite(scores).all():
        g = np.asarray(scores, float)
        try:
            matrix = _geometric_mean(matrix, np.linalg.inv(_covariance(g)))
            mean = mean + matrix @ np.mean(g, axis=0)
        except np.linalg.LinAlgError:
            pass  # scores that span no space (a linear or flat target) say nothing about its shape
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return Fit(None, Refusal.SUBSPACE)
    white = np.linalg.solve(factor, (x - mean).T).T
    if looks_bimodal(white):
        return Fit(None, Refusal.SEVERAL_GROUPS)
    df = degrees_of_freedom(white)
    if df <= _HEAVIEST:
        return Fit(None, Refusal.HEAVY_TAILS)
    return Fit(Component.linear(df, mean, matrix * (df - 2) / df), None)


def fit_in_noise(component: Component, noise: HostRows, scores: HostRows) -> Fit:
    """A linear component with another center, and another scale for each coordinate of its map.

    In the coordinates z of the map, as `fit_reference` with diagonal matrices: the squared scale is the root of
    `var(z) / var(score)`. For thousands of dimensions, in which draws are too few for more.
    """
    if not np.isfinite(scores).all():
        return Fit(None, Refusal.TOO_FEW)
    with quiet():
        squared = np.std(noise, axis=0) / np.std(scores, axis=0)
    if not (np.isfinite(squared) & (squared > 0)).all():
        return Fit(None, Refusal.SUBSPACE)
    center = np.mean(noise, axis=0) + squared * np.mean(scores, axis=0)
    mean = component.map.to_points(center[None])[0][0]
    df = max(_LIGHTEST, float(len(mean)))
    scale = np.sqrt(squared * (df - 2) / df)
    factor = component.map.factor * scale
    fitted = TriangularMap.diagonal(mean, factor) if factor.ndim == 1 else TriangularMap.linear(mean, factor)
    return Fit(Component(df, fitted), None)


def _covariance(x: HostRows) -> Matrix:
    """Sample covariance, shrunk to its diagonal when the rows are hardly more than the columns."""
    covariance = np.atleast_2d(np.cov(x.T))
    share = max(0.0, 3 * x.shape[1] / x.shape[0] - 1)
    return (1 - share) * covariance + share * np.diag(np.diag(covariance))


def _geometric_mean(a: Matrix, b: Matrix) -> Matrix:
    """The symmetric matrix S with `S inv(b) S = a`."""
    factor = np.linalg.cholesky(b)
    inner = factor.T @ np.linalg.solve(b, np.linalg.solve(b, a).T).T @ factor
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    if values.min() <= 0:
        raise np.linalg.LinAlgError("not positive definite")
    mean = factor @ (vectors * np.sqrt(values)) @ vectors.T @ factor.T
    return 0.5 * (mean + mean.T)


def degrees_of_freedom(white: HostRows) -> float:
    """From the fourth moment of the Mahalanobis distance, `(df - 2) / (df - 4)` times the normal's."""
    dimension = white.shape[1]
    squared = np.sum(np.square(white), axis=1)
    kurtosis = np.mean(np.square(squared)) / np.mean(squared) ** 2 * dimension / (dimension + 2)
    return float(np.clip(4 + 2 / max(kurtosis - 1, 1e-3), _HEAVIEST, _LIGHTEST))


def looks_bimodal(white: HostRows) -> bool:
    """Whether some projection of one half of the rows falls into two groups, and that of the other half too.

    The projections are the directions that the moments single out, and the fixed points of projection pursuit that
    start from them, `w <- E[z (w'z)^2]` for skewness and `w <- E[z (w'z)^3] - 3 w` for kurtosis. Searching on one half
    and judging on the other keeps the noise of many dimensions out.
    """
    search, judge = white[::2], white[1::2]
    starts = _conspicuous_directions(search)
    directions = np.vstack([starts, _pursue(search, starts, 2), _pursue(search, starts, 3)])
    return any(min(_bimodality(search @ w), _bimodality(judge @ w)) > _BIMODAL for w in directions)


def has_groups(rows: HostRows) -> bool:
    """Whether some coordinate falls into two groups, in both halves of the rows."""
    return any(min(_bimodality(own[::2]), _bimodality(own[1::2])) > _BIMODAL for own in np.asarray(rows, float).T)


def _pursue(white: HostRows, directions: Directions, power: int) -> Directions:
    for _ in range(20):
        moment = (white @ directions.T).T ** power @ white / len(white)
        directions = moment - (3 * directions if power == 3 else 0)
        directions = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    return directions


def _conspicuous_directions(white: HostRows) -> Directions:
    """The principal axes, `E[z |z|^2]`, and the extreme eigenvectors of `E[z z' |z|^2]`.

    Where the rows were whitened with the scores, an axis of large variance is one along which the draws spread more
    than the scores account for: between modes, above all.
    """
    centered = white - white.mean(axis=0)
    squared = np.sum(np.square(centered), axis=1)
    axes = np.linalg.eigh(centered.T @ centered)[1]
    vectors = np.linalg.eigh((centered * squared[:, None]).T @ centered)[1]
    return np.vstack([squared @ centered, axes[:, -3:].T, vectors[:, :3].T, vectors[:, -3:].T])


def _bimodality(values: Float[np.ndarray, " n"]) -> float:
    """Sarle's coefficient, (skewness^2 + 1) / kurtosis."""
    centered = values - values.mean()
    variance = np.mean(centered**2)
    if not variance > 0:
        return 0.0
    skewness = np.mean(centered**3) / variance**1.5
    return float((skewness**2 + 1) / (np.mean(centered**4) / variance**2))
