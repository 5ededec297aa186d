"""Divergences between unnormalized measures, given by their log densities at the nodes of a quadrature or at draws."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..core import FloatArray, Scalar, ScalarLike, log_power_mean_pair, promote_jax
from ..deformed import log_q_of_exp
from ..densities import DensityLike
from .nodes import Nodes


def kl_divergence(log_p: FloatArray, log_r: FloatArray, nodes: Nodes) -> Scalar:
    """KL[p : r] = integral of `p log(p/r) - p + r` (paper, section 5), for measures of any mass."""
    return alpha_divergence(log_p, log_r, -1.0, nodes)


def alpha_divergence(log_p: FloatArray, log_r: FloatArray, alpha: ScalarLike, nodes: Nodes) -> Scalar:
    """Amari's D_alpha[p : r] for measures of any mass (paper, eq. alpha_div), with q = (1 + alpha) / 2.

    The integral of `[(1-q) p + q r - p^(1-q) r^q] / (q (1-q))`. Its limits are KL[p : r] at alpha = -1 (q = 0) and
    KL[r : p] at alpha = 1 (q = 1); both are taken without cancellation. (The second line of the paper's appendix C
    writes q (q-1) in the last denominator, which flips the sign of that term.)
    """
    log_p, log_r, alpha = promote_jax(log_p, log_r, alpha)
    # D_alpha[p : r] = D_-alpha[r : p], and of the two ways of writing it one has q <= 1/2.
    swap = alpha > 0
    values = _alpha_integrand(jnp.where(swap, log_r, log_p), jnp.where(swap, log_p, log_r), (1 - jnp.abs(alpha)) / 2)
    return jnp.sum(jnp.exp(nodes.log_weights) * values)


def _alpha_integrand(log_p: Array, log_r: Array, q: Array) -> Array:
    """`(r - p - p log_{1-q}(r/p)) / (1-q)` for q <= 1/2; nothing is left of the last term where p = 0."""
    p = jnp.exp(log_p)
    log_ratio = jnp.where(p == 0, 0, log_r - jnp.where(p == 0, 0, log_p))
    # Far from q = 0 the ratio can overflow where p all but vanishes; its product with p does not.
    near = (q == 0) | (jnp.abs(q * log_ratio) < 1) & (p > 0)
    near_gain = p * log_q_of_exp(jnp.where(near, log_ratio, 0), q)
    log_product = (1 - q) * jnp.where(near, 0, log_p) + q * jnp.where(near, 0, log_r)
    far_gain = (jnp.exp(jnp.where(log_p == -jnp.inf, -jnp.inf, log_product)) - p) / jnp.where(q == 0, 1, q)
    return (jnp.exp(log_r) - p - jnp.where(near, near_gain, far_gain)) / (1 - q)


def mixed_divergence(
    log_base: FloatArray, log_target: FloatArray, log_r: FloatArray, beta: ScalarLike, alpha: ScalarLike, nodes: Nodes
) -> Scalar:
    """`(1-beta) D_alpha[base : r] + beta D_alpha[target : r]` (paper, eq. vrep_alpha).

    Over all measures r its minimum is the q-path at `beta` with q = (1 + alpha) / 2: the geometric path at alpha = 1,
    the mixture at alpha = -1.
    """
    base = alpha_divergence(log_base, log_r, alpha, nodes)
    return (1 - beta) * base + beta * alpha_divergence(log_target, log_r, alpha, nodes)


def jensen_shannon_divergence(
    log_p: FloatArray, log_r: FloatArray, beta: ScalarLike, alpha: ScalarLike, nodes: Nodes
) -> Scalar:
    """The least `mixed_divergence` to p and r, reached at their power mean (Nielsen, 2019; paper, section 6).

    alpha = -1 and beta = 1/2 is the Jensen-Shannon divergence; alpha = 1 its geometric counterpart.
    """
    log_mean = log_power_mean_pair(beta, log_p, log_r, (1 - alpha) / 2)
    return mixed_divergence(log_p, log_r, log_mean, beta, alpha, nodes)


def log_bhattacharyya(log_p: FloatArray, log_r: FloatArray, nodes: Nodes) -> Scalar:
    """Log of the Bhattacharyya coefficient, the integral of sqrt(p r)."""
    return jax.nn.logsumexp((log_p + log_r) / 2 + nodes.log_weights)


def escort_expectation(statistic: Callable[[Any], Any], density: DensityLike, q: ScalarLike, nodes: Nodes) -> Any:
    """Expectation of `statistic(x)` under the escort density, proportional to `density^q` (paper, appendix D.4)."""
    weights = jax.nn.softmax(q * nodes.log_values(density) + nodes.log_weights)
    values = jax.vmap(statistic)(nodes.points)
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, axes=1), values)
