"""A reference distribution fitted to a pilot's particles: where to anneal from when the base is far from the target."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from .._numerics import log_ess
from .._types import Point, PRNGKey, Scalar, ScalarLike
from ..densities import DensityLike, draw, evaluate
from ..estimators import importance_log_evidence
from ..families import MultivariateStudentT

Matrix = Float[np.ndarray, "d d"]
Rows = Float[np.ndarray, "n d"]
Directions = Float[np.ndarray, "k d"]

_HEAVIEST, _LIGHTEST = 4.0, 30.0
"""Degrees of freedom: below the first the fit is not to be trusted, above the second its tails would be too light."""
_BIMODAL = 0.6
"""Of Sarle's coefficient, which is 1/3 for a normal, 5/9 for a uniform and an exponential, 1 for two points."""


class Reference(eqx.Module):
    """A Student-t distribution mixed with a little of the base: normalised, sampleable, and with the base's support.

    The share of the base is the defence: whatever mass of the target the fit has missed, the weight there is at most
    `1 / share` times what it would be from the base.
    """

    fitted: MultivariateStudentT
    base: DensityLike
    share: ScalarLike
    example: Point

    def log_prob(self, x: Point) -> Scalar:
        near = jnp.log1p(-self.share) + self.fitted.log_prob(ravel_pytree(x)[0])
        return jnp.logaddexp(near, jnp.log(self.share) + evaluate(self.base, x, "base"))

    def sample(self, key: PRNGKey) -> Point:
        which, key = jax.random.split(key)
        near = ravel_pytree(self.example)[1](self.fitted.sample(key))
        far = draw(self.base, key, "base")
        is_far = jax.random.bernoulli(which, self.share)
        return jax.tree.map(lambda a, b: jnp.where(is_far, a, b), far, near)


class Fit(NamedTuple):
    """A fitted distribution, and the reason why it must not be used, if there is one."""

    fitted: MultivariateStudentT | None
    refusal: str


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
        return Fit(None, f"{num} particles are too few to fit a distribution in {dimension} dimensions")
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
        return Fit(None, "the particles lie in a subspace")
    white = scipy.linalg.solve_triangular(factor, (x - mean).T, lower=True).T
    if _looks_bimodal(white):
        return Fit(None, "the particles fall into several groups")
    df = _degrees_of_freedom(white)
    if df <= _HEAVIEST:
        return Fit(None, "the particles have heavy tails")
    return Fit(MultivariateStudentT(df, jnp.asarray(mean), jnp.asarray(matrix * (df - 2) / df)), "")


def _covariance(x: Rows) -> Matrix:
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


def _degrees_of_freedom(white: Rows) -> float:
    """From the fourth moment of the Mahalanobis distance, `(df - 2) / (df - 4)` times the normal's."""
    dimension = white.shape[1]
    squared = np.sum(np.square(white), axis=1)
    kurtosis = np.mean(np.square(squared)) / np.mean(squared) ** 2 * dimension / (dimension + 2)
    return float(np.clip(4 + 2 / max(kurtosis - 1, 1e-3), _HEAVIEST, _LIGHTEST))


def _looks_bimodal(white: Rows) -> bool:
    """Whether some projection of one half of the rows falls into two groups, and that of the other half too.

    The projections are the directions that the moments single out, and the fixed points of projection pursuit that
    start from them, `w <- E[z (w'z)^2]` for skewness and `w <- E[z (w'z)^3] - 3 w` for kurtosis. Searching on one half
    and judging on the other keeps the noise of many dimensions out.
    """
    search, judge = white[::2], white[1::2]
    starts = _conspicuous_directions(search)
    directions = np.vstack([starts, _pursue(search, starts, 2), _pursue(search, starts, 3)])
    return any(min(_bimodality(search @ w), _bimodality(judge @ w)) > _BIMODAL for w in directions)


def _pursue(white: Rows, directions: Directions, power: int) -> Directions:
    for _ in range(20):
        moment = (white @ directions.T).T ** power @ white / len(white)
        directions = moment - (3 * directions if power == 3 else 0)
        directions = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    return directions


def _conspicuous_directions(white: Rows) -> Directions:
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


def share_outside(reference: DensityLike, target: DensityLike, num: int, *, key: PRNGKey) -> float:
    """Share of `num` draws from the reference at which the target has no mass: beyond a hard bound."""

    @jax.jit
    def is_outside(key: PRNGKey) -> Any:
        return evaluate(target, draw(reference, key, "reference"), "target") == -jnp.inf

    return float(jnp.mean(jax.vmap(is_outside)(jax.random.split(key, num))))


def log_mass(density: DensityLike, points: Point, *, key: PRNGKey) -> tuple[float, float] | None:
    """Log of the integral of a density and its standard error, by importance sampling around draws from it.

    The proposal is fitted to `points`; None where no fit can be trusted or too few of its draws have weight.
    """
    example = jax.tree.map(lambda leaf: leaf[0], points)
    rows = np.asarray(jax.vmap(lambda x: ravel_pytree(x)[0])(points))
    fitted = fit_reference(rows).fitted
    if fitted is None:
        return None
    unravel = ravel_pytree(example)[1]

    @jax.jit
    def log_weight(key: PRNGKey) -> Scalar:
        x = fitted.sample(key)
        return evaluate(density, unravel(x), "base") - fitted.log_prob(x)

    log_weights = jax.vmap(log_weight)(jax.random.split(key, rows.shape[0]))
    if not jnp.exp(log_ess(log_weights)) > 0.05 * rows.shape[0]:
        return None
    value, error = importance_log_evidence(log_weights)
    return float(value), float(error)
