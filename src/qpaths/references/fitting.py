"""A Student-t distribution fitted to draws and scores, and when it must not be."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import geometric_mean, quiet
from ..maps import Chain
from ..remarks import Refusal
from .components import Component

Matrix = Float[np.ndarray, "d d"]
HostRows = Float[np.ndarray, "n d"]
Directions = Float[np.ndarray, "k d"]

_HEAVIEST, _LIGHTEST = 4.0, 30.0
"""Degrees of freedom: the fit by moments cannot be below the first; above the second its tails would be too light."""
_FEWEST_FAR = 10
"""A covariance that rests on fewer rows than these, by the participation ratio of their squared distances, is noise."""
_DEEP, _CLEAR, _ROWS_PER_DIMENSION = 0.5, 4.8, 20
"""A valley counts if its density is below half of that of both peaks, and if it is clear in standard deviations.

Between equal modes at 3 standard deviations it is two thirds, at 4 a third. The best of all directions and intervals is
above 4.8 in less than 1 of 100 clouds that are uniform, the worst case (`benchmarks/results/groups.md`)."""
_FEWEST_DISTINCT = 20
"""Rows that differ, below which copies count."""
_BINS, _WIDTHS = 24, (1, 2, 3, 5)
"""Number of bins of the histograms, and widths of peaks and valleys in bins."""


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
            shape = geometric_mean(matrix, np.linalg.inv(_covariance(g)))
            if np.isfinite(shape).all():
                mean, matrix = mean + shape @ np.mean(g, axis=0), shape
        except np.linalg.LinAlgError:
            pass  # scores that span no space (a linear or flat target) say nothing about its shape
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return Fit(None, Refusal.SUBSPACE)
    white = np.linalg.solve(factor, (x - mean).T).T
    if not np.isfinite(np.square(white)).all():
        return Fit(None, Refusal.HEAVY_TAILS)
    if looks_bimodal(white):
        return Fit(None, Refusal.SEVERAL_GROUPS)
    squared = np.sum(np.square(white), axis=1)
    if np.sum(squared) ** 2 < min(_FEWEST_FAR, num / 10) * np.sum(squared**2):
        return Fit(None, Refusal.HEAVY_TAILS)
    df = degrees_of_freedom(white)
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
    mean = component.map.forward(center[None]).points[0]
    df = max(_LIGHTEST, float(len(mean)))
    linear: Any = component.map.layers[0]
    return Fit(Component(df, Chain.of(linear.rescaled(mean, np.sqrt(squared * (df - 2) / df)))), None)


def _covariance(x: HostRows) -> Matrix:
    """Sample covariance, shrunk to its diagonal when the rows are hardly more than the columns."""
    covariance = np.atleast_2d(np.cov(x.T))
    share = max(0.0, 3 * x.shape[1] / x.shape[0] - 1)
    return (1 - share) * covariance + share * np.diag(np.diag(covariance))


def degrees_of_freedom(white: HostRows) -> float:
    """From the fourth moment of the Mahalanobis distance, `(df - 2) / (df - 4)` times the normal's."""
    dimension = white.shape[1]
    squared = np.sum(np.square(white), axis=1)
    kurtosis = np.mean(np.square(squared)) / np.mean(squared) ** 2 * dimension / (dimension + 2)
    return float(np.clip(4 + 2 / max(kurtosis - 1, 1e-3), _HEAVIEST, _LIGHTEST))


def looks_bimodal(white: HostRows) -> bool:
    """Return whether a projection of the rows has a deep valley between two peaks, which skewness and tails never make.

    The projections are the directions that the moments single out, and the fixed points of projection pursuit that
    start from them, `w <- E[z (w'z)^2]` for skewness and `w <- E[z (w'z)^3] - 3 w` for kurtosis. Where rows are few for
    the dimension, some projection of them always looks bimodal. Then one half of the rows finds the projection and the
    other half judges it. Rows that are the same count once: a particle that has not moved since it was copied many
    times would make a false peak.
    """
    firsts = np.sort(np.unique(white[:, 0], return_index=True)[1])
    white = white[firsts] if len(firsts) >= _FEWEST_DISTINCT else white
    num, dimension = white.shape
    few = num < _ROWS_PER_DIMENSION * dimension
    search = white[::2] if few else white
    starts = _conspicuous_directions(search)
    directions = np.vstack([starts, _pursue(search, starts, 2), _pursue(search, starts, 3)])
    found = _valleys(directions @ search.T)
    if few:
        found = _valleys(directions[[np.argmax(found)]] @ white[1::2].T)
    return bool(np.max(found) > _CLEAR)


def _valleys(values: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
    """Return how clear the clearest valley in the histogram of each row is, in standard deviations; 0 if none is deep.

    Of a peak, a valley and another peak, all intervals, the density in the valley is at least that in one of the peaks
    where there is a single mode, whatever its shape. So the count in the valley has at most a binomial tail.
    """
    num_rows = len(values)
    low, high = np.quantile(values, [0.005, 0.995], axis=1)[:, :, None]
    with quiet():
        scaled = np.floor((values - low) / np.maximum(high - low, 1e-300) * _BINS)
    bins = np.clip(np.nan_to_num(scaled, nan=-1.0), -1, _BINS).astype(int) + 1
    flat = (bins + (_BINS + 2) * np.arange(num_rows)[:, None]).ravel()
    counts = np.bincount(flat, minlength=num_rows * (_BINS + 2)).reshape(num_rows, -1)[:, :-1]
    counts[:, 0] = 0  # what lies below all bins
    sums = np.cumsum(counts, axis=1)
    clearest = np.zeros(num_rows)
    for wide, narrow in itertools.product(_WIDTHS, _WIDTHS):
        peaks = sums[:, wide:] - sums[:, :-wide]
        left = np.maximum.accumulate(peaks, axis=1)[:, : -wide - narrow]
        right = np.maximum.accumulate(peaks[:, ::-1], axis=1)[:, ::-1][:, wide + narrow :]
        peak, valley = np.minimum(left, right), (sums[:, narrow:] - sums[:, :-narrow])[:, wide:-wide]
        share, total = narrow / (narrow + wide), peak + valley
        clarity = (share * total - valley) / np.sqrt(share * (1 - share) * total + 1)
        is_deep = valley * wide < _DEEP * peak * narrow
        clearest = np.maximum(clearest, np.max(np.where(is_deep, clarity, 0.0), axis=1))
    return clearest


def has_groups(rows: HostRows) -> bool:
    """Return whether some coordinate of the rows has a deep valley between two peaks."""
    return bool(np.max(_valleys(np.asarray(rows, float).T)) > _CLEAR)


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
