"""A reference distribution fitted to a pilot's particles: where to anneal from when the base is far from the target."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from .._modules import Module
from .._types import AnyArray, Point, PRNGKey, Rows, Scalar, Vector
from ..arrays import TracedStream, namespace, sigmoid
from ..densities import DensityLike, draw, evaluate
from ..evaluation import AbstractEvaluator, Layout
from ..numerics import log_ess
from ..remarks import Note, Remark
from ..standard_errors import importance_log_evidence

Matrix = Float[np.ndarray, "d d"]
HostRows = Float[np.ndarray, "n d"]
Directions = Float[np.ndarray, "k d"]

_HEAVIEST, _LIGHTEST = 4.0, 30.0
"""Degrees of freedom: below the first the fit is not to be trusted, above the second its tails would be too light."""
_BIMODAL = 0.6
"""Of Sarle's coefficient, which is 1/3 for a normal, 5/9 for a uniform and an exponential, 1 for two points."""


class FittedT(Module):
    """A multivariate Student-t distribution by products with matrices alone: rows in, numbers out."""

    df: float = eqx.field(static=True)
    mean: Float[AnyArray, " d"]
    factor: Float[AnyArray, "d d"]
    """Cholesky factor of the scale matrix."""
    inverse: Float[AnyArray, "d d"]

    @staticmethod
    def of(df: float, mean: np.ndarray, scale_matrix: np.ndarray) -> "FittedT":
        """An error of numpy where the matrix is not positive definite."""
        factor = np.linalg.cholesky(scale_matrix)
        return FittedT(df, mean, factor, np.linalg.inv(factor))

    def log_prob_and_slope(self, positions: Rows) -> tuple[Vector, Rows]:
        """Log density and its gradient."""
        xp = namespace(positions)
        dimension = self.mean.shape[0]
        white = (positions - self.mean) @ self.inverse.T
        squared = xp.sum(white**2, axis=-1)
        constant = (
            math.lgamma(0.5 * (self.df + dimension))
            - math.lgamma(0.5 * self.df)
            - 0.5 * dimension * math.log(math.pi * self.df)
            - xp.sum(xp.log(xp.diag(self.factor)))
        )
        log_prob = constant - 0.5 * (self.df + dimension) * xp.log1p(squared / self.df)
        slope = -((self.df + dimension) / (self.df + squared))[..., None] * (white @ self.inverse)
        return log_prob.astype(positions.dtype), slope.astype(positions.dtype)

    def draw(self, stream: Any, num: int) -> Rows:
        """`num` rows."""
        normals, gammas = stream.split(2)
        noise = normals.normal((num, self.mean.shape[0]))
        mixing = gammas.gamma(0.5 * self.df, (num, 1)) / (0.5 * self.df)
        return self.mean + (noise / mixing**0.5) @ self.factor.T


class Reference(Module):
    """A Student-t distribution mixed with a little of the base: normalised, sampleable, and with the base's support.

    The share of the base is the defence: whatever mass of the target the fit has missed, the weight there is at most
    `1 / share` times what it would be from the base. Evaluators see that it is built on the base (`inner`) and evaluate
    that one alone, so that a run from a reference compiles nothing.
    """

    fitted: FittedT
    inner: DensityLike
    share: float = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)

    def given_inner(self, positions: Rows, log_inner: Vector, inner_slope: Rows | None) -> tuple[Vector, Rows | None]:
        """Log density at rows and its gradient, from those of the base."""
        xp = namespace(positions, log_inner)
        fitted, fitted_slope = self.fitted.log_prob_and_slope(positions)
        near, far = math.log1p(-self.share) + fitted, math.log(self.share) + log_inner
        value = xp.logaddexp(near, far)
        if inner_slope is None:
            return value, None
        part = sigmoid(far - near)[:, None]
        # Where the base has no mass its slope means nothing.
        return value, (1 - part) * fitted_slope + xp.where(part > 0, part * inner_slope, 0.0)

    def draw_rows(self, stream: Any, num: int, draw_inner: Callable[[Any, int], Rows]) -> Rows:
        """Rows of draws; `draw_inner(stream, num)` makes those of the base."""
        which, near, far = stream.split(3)
        is_far = which.uniform((num, 1)) < self.share
        near_rows, far_rows = self.fitted.draw(near, num), draw_inner(far, num)
        return namespace(near_rows, far_rows).where(is_far, far_rows, near_rows).astype(far_rows.dtype)

    def log_prob(self, x: Point) -> Scalar:
        row = self.layout.rows(x)[None]
        return self.given_inner(row, evaluate(self.inner, x, "base")[None], None)[0][0]

    def sample(self, key: PRNGKey) -> Point:
        def draw_inner(stream: Any, num: int) -> Any:
            return self.layout.rows(draw(self.inner, stream.key, "base"))[None]

        return self.layout.points(self.draw_rows(TracedStream(key), 1, draw_inner)[0])


class Fit(NamedTuple):
    """A fitted distribution, or the reason why there is none."""

    fitted: FittedT | None
    refusal: Remark | None


def fit_reference(positions: Any, scores: Any = None) -> Fit:
    """A Student-t distribution fitted to draws from the target and, where there are any, the target's scores at them.

    With scores g the scale matrix S is the geometric mean of Cov(x) and the inverse of Cov(g), the solution of
    `S Cov(g) S = Cov(x)`, and the centre is `mean(x) + S mean(g)`: the normal distribution whose scores at the draws
    are closest to g (Seyboldt, Carlson and Carpenter, 2026, use it for mass matrices). For a normal target g is linear
    in x and both are exact whatever the draws, whereas the sample covariance alone loses `d^2 / 4n` nats to noise.
    The degrees of freedom follow from the kurtosis of the Mahalanobis distances.
    """
    x = np.asarray(positions, float)
    num, dimension = x.shape
    if num < 2 * dimension + 2:
        return Fit(None, Note.TOO_FEW(num=num, dimension=dimension))
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
        return Fit(None, Note.SUBSPACE())
    white = np.linalg.solve(factor, (x - mean).T).T
    if _looks_bimodal(white):
        return Fit(None, Note.SEVERAL_GROUPS())
    df = _degrees_of_freedom(white)
    if df <= _HEAVIEST:
        return Fit(None, Note.HEAVY_TAILS())
    return Fit(FittedT.of(df, mean, matrix * (df - 2) / df), None)


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


def _degrees_of_freedom(white: HostRows) -> float:
    """From the fourth moment of the Mahalanobis distance, `(df - 2) / (df - 4)` times the normal's."""
    dimension = white.shape[1]
    squared = np.sum(np.square(white), axis=1)
    kurtosis = np.mean(np.square(squared)) / np.mean(squared) ** 2 * dimension / (dimension + 2)
    return float(np.clip(4 + 2 / max(kurtosis - 1, 1e-3), _HEAVIEST, _LIGHTEST))


def _looks_bimodal(white: HostRows) -> bool:
    """Whether some projection of one half of the rows falls into two groups, and that of the other half too.

    The projections are the directions that the moments single out, and the fixed points of projection pursuit that
    start from them, `w <- E[z (w'z)^2]` for skewness and `w <- E[z (w'z)^3] - 3 w` for kurtosis. Searching on one half
    and judging on the other keeps the noise of many dimensions out.
    """
    search, judge = white[::2], white[1::2]
    starts = _conspicuous_directions(search)
    directions = np.vstack([starts, _pursue(search, starts, 2), _pursue(search, starts, 3)])
    return any(min(_bimodality(search @ w), _bimodality(judge @ w)) > _BIMODAL for w in directions)


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
    centred = white - white.mean(axis=0)
    squared = np.sum(np.square(centred), axis=1)
    axes = np.linalg.eigh(centred.T @ centred)[1]
    vectors = np.linalg.eigh((centred * squared[:, None]).T @ centred)[1]
    return np.vstack([squared @ centred, axes[:, -3:].T, vectors[:, :3].T, vectors[:, -3:].T])


def _bimodality(values: Float[np.ndarray, " n"]) -> float:
    """Sarle's coefficient, (skewness^2 + 1) / kurtosis."""
    centred = values - values.mean()
    variance = np.mean(centred**2)
    if not variance > 0:
        return 0.0
    skewness = np.mean(centred**3) / variance**1.5
    return float((skewness**2 + 1) / (np.mean(centred**4) / variance**2))


def share_outside(reference: Reference, evaluator: AbstractEvaluator, num: int, *, stream: Any) -> float:
    """Share of `num` draws from what was fitted at which the target has no mass: beyond a hard bound."""
    positions = reference.fitted.draw(stream, num)
    return float(np.mean(np.asarray(evaluator.values(positions).log_target) == -np.inf))


def log_mass(evaluator: AbstractEvaluator, positions: Rows, *, stream: Any) -> tuple[float, float] | None:
    """Log of the integral of the base and its standard error, by importance sampling around draws from it.

    The proposal is fitted to `positions`; None where no fit can be trusted or too few of its draws have weight.
    """
    fitted = fit_reference(positions).fitted
    if fitted is None:
        return None
    proposed = fitted.draw(stream, positions.shape[0])
    log_weights = np.asarray(evaluator.values(proposed).log_base) - np.asarray(fitted.log_prob_and_slope(proposed)[0])
    if not np.exp(log_ess(log_weights)) > 0.05 * positions.shape[0]:
        return None
    value, error = importance_log_evidence(log_weights)
    return float(value), float(error)
