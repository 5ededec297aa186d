"""Formulas shared by the families of location and scatter: normal, Student-t and q-Gaussian, in d dimensions.

The standard density in d dimensions is `c exp_q(-|z|^2 / m)` with m = 2 + d delta, and x = mean + cholesky z. With
this m it is N(0, I) at q = 1, Student-t with nu = m / (q - 1) for q > 1 and has compact support for q < 1. Under the
escort density the covariance of z is I for every q.
"""

from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import Array

from ..core import Scalar, ScalarLike, log_gamma_ratio, promote_jax
from ..deformed import log_exp_delta, log_q_of_exp


def log_normalizer(delta: ScalarLike, dimension: int) -> Scalar:
    """log c, the log density of the standard member at its mode, for q < 1 + 2/d.

    q > 1: Gamma(nu/2 + d/2) / [Gamma(nu/2) (pi nu)^(d/2)] (the Z of the paper's eq. student is this, not its inverse).
    q < 1: the same with nu replaced by m / delta and the gammas by Gamma(1/delta + 1 + d/2) / Gamma(1/delta + 1).
    """
    (delta,) = promote_jax(delta)
    half = dimension / 2
    gaussian = jnp.abs(delta) < jnp.finfo(delta.dtype).eps
    safe = jnp.where(gaussian, 1, delta)
    m = 2 + dimension * safe
    ratio = log_gamma_ratio(jnp.where(safe > 0, 1 / safe + 1, jnp.abs(m / safe) / 2), half)
    log_c = ratio - half * jnp.log(jnp.pi * m / jnp.abs(safe))
    return jnp.where(gaussian, -half * jnp.log(2 * jnp.pi), log_c)


def log_density(delta: ScalarLike, square: Any, log_det: Any, dimension: int) -> Scalar:
    """Log density where `square` = |z|^2 and `log_det` is the log determinant of the Cholesky factor."""
    m = 2 + dimension * delta
    return log_normalizer(delta, dimension) - log_det + log_exp_delta(-square / m, delta)


def natural(delta: ScalarLike, mean: Array, factor: Array) -> tuple[Array, Array]:
    """theta for `phi(x) = (x, x x^T)` and base measure 1: `(2 k P mu / m, -k P / m)`.

    P is the inverse scatter and k = c^delta, with c the density at the mode, determinant included.
    """
    dimension = mean.shape[0]
    m = 2 + dimension * delta
    precision = jsl.cho_solve((factor, True), jnp.eye(dimension, dtype=factor.dtype))
    log_c = log_normalizer(delta, dimension) - jnp.sum(jnp.log(jnp.diag(factor)))
    weighted = jnp.exp(delta * log_c) * precision
    return 2 * weighted @ mean / m, -weighted / m


def _split(delta: ScalarLike, theta: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    """The mean, k P, and the term `mu^T k P mu / m` of the free energy."""
    m = 2 + theta[0].shape[0] * delta
    weighted = -m * theta[1]
    mean = m / 2 * jnp.linalg.solve(weighted, theta[0])
    return mean, weighted, mean @ theta[0] / 2


def _log_peak(delta: ScalarLike, weighted: Array) -> Scalar:
    """Log density at the mode, from k P: `k = c^delta` and `c^2 = c_0^2 det P` are solved for c."""
    dimension = weighted.shape[0]
    half_log_det = jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(weighted))))
    return 2 / (2 + dimension * delta) * (log_normalizer(delta, dimension) + half_log_det)


def free_energy(delta: ScalarLike, theta: tuple[Array, ...]) -> Scalar:
    """psi_q(theta) = -log_q(c) + mu^T k P mu / m."""
    _, weighted, square = _split(delta, theta)
    return square - log_q_of_exp(_log_peak(delta, weighted), delta)


def from_natural(delta: ScalarLike, theta: tuple[Array, ...]) -> tuple[Array, Array]:
    """Mean and scatter matrix of the member with natural parameters theta."""
    mean, weighted, _ = _split(delta, theta)
    return mean, jnp.exp(delta * _log_peak(delta, weighted)) * symmetric_inverse(weighted)


def from_offset(delta: ScalarLike, theta: tuple[Array, ...], offset: ScalarLike) -> tuple[Array, Array, Scalar]:
    """Mean, scatter matrix and log mass of `exp_q(theta . phi - offset)`."""
    mean, weighted, square = _split(delta, theta)
    log_peak = log_exp_delta(square - offset, delta)
    scatter = jnp.exp(delta * log_peak) * symmetric_inverse(weighted)
    half_log_det = jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(scatter))))
    return mean, scatter, log_peak - log_normalizer(delta, mean.shape[0]) + half_log_det


def symmetric_inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix, symmetric to the last digit so that its Cholesky factor exists."""
    inverse = jnp.linalg.inv(matrix)
    return (inverse + jnp.swapaxes(inverse, -1, -2)) / 2


def mix_scatter(a: tuple[Any, Any], b: tuple[Any, Any], beta: ScalarLike, spread: ScalarLike) -> tuple[Any, Any]:
    """Mean and scatter of the member whose (escort) moments are mixed, from those of the two ends.

    `(1-beta) S0 + beta S1 + spread beta (1-beta) (mu1 - mu0)(mu1 - mu0)^T`. With a spread of 1 the same as averaging
    second moments, but it keeps its digits when the means are far from zero.
    """
    gap = b[0] - a[0]
    mean = a[0] + beta * gap
    scatter = (1 - beta) * a[1] + beta * b[1] + spread * beta * (1 - beta) * jnp.multiply.outer(gap, gap)
    return mean, scatter


def published_spread(delta: ScalarLike, dimension: int) -> ScalarLike:
    """`(nu + 2) / nu` in terms of q: the paper's factor of the spread, where 1 is exact; see `EscortMomentPath`."""
    return 1 - 2 * delta / (2 + dimension * delta)


def as_matrix(theta: tuple[Any, ...]) -> tuple[Array, Array]:
    """Natural parameters of a density on the line as those of one dimension."""
    return jnp.reshape(theta[0], (1,)), jnp.reshape(theta[1], (1, 1))
