"""Annealing on the line with exact transitions: independent draws from the density at each beta, whatever the path."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from qpaths.core import PRNGKey, Scalar, ScalarLike
from qpaths.families import Nodes
from qpaths.paths import AbstractPath

_NUM_NODES = 2001
_SCALE = 2.0
"""Width in which the nodes are densest; those of the paper's toys are between 1 and 3."""


class ExactBounds(NamedTuple):
    """Bounds of bidirectional Monte Carlo from a finite number of exact draws, and the gap they tend to."""

    lower: Scalar
    upper: Scalar
    gap_se: Scalar
    exact_gap: Scalar


@functools.partial(jax.jit, static_argnames="num_samples")
def exact_bounds(
    path: AbstractPath[Any], num_distributions: ScalarLike, num_samples: int, *, key: PRNGKey
) -> ExactBounds:
    """Bounds on the log evidence with linearly spaced betas and `num_samples` independent draws at each of them.

    The draws at a beta serve both directions, as in the paper: forwards they are weighed against the next beta,
    backwards against the one before. `exact_gap` is the expected gap by quadrature: the sum over the steps of the two
    Kullback-Leibler divergences between neighbors. The number of distributions is traced: one program serves all.
    """
    line = Nodes.line(num=_NUM_NODES, scale=_SCALE)
    at_nodes = jax.vmap(lambda x: path.features(x))(line.points)

    def log_ratios(beta: Scalar, new_beta: Scalar, features: Any) -> Array:
        return jax.vmap(lambda f: path.log_ratio(beta, new_beta, f))(features)

    def at(k: Array) -> tuple[Scalar, Float[Array, " nodes"], Any]:
        """The beta of a stage, the mass at each node, and draws with their features."""
        beta = k / (num_distributions - 1.0)
        log_mass = jax.vmap(lambda f: path.log_density_from(beta, f))(at_nodes) + line.log_weights
        mass = jax.nn.softmax(log_mass)
        uniform = jax.random.uniform(jax.random.fold_in(key, k), (num_samples,), mass.dtype)
        return beta, mass, jax.vmap(lambda x: path.features(x))(invert(line, mass, uniform))

    def step(k: Array, carry: Any) -> Any:
        (beta, mass, features), forward, backward, exact = carry
        new = new_beta, new_mass, new_features = at(k + 1)
        ratio = log_ratios(beta, new_beta, at_nodes)
        weight = new_mass - mass
        exact = exact + jnp.sum(jnp.where(weight == 0, 0.0, weight * ratio))
        forward = forward + log_ratios(beta, new_beta, features)
        return new, forward, backward + log_ratios(beta, new_beta, new_features), exact

    start = at(jnp.zeros((), int))
    none = jnp.zeros(num_samples)
    _, forward, backward, exact = jax.lax.fori_loop(0, num_distributions - 1, step, (start, none, none, jnp.zeros(())))
    gap_se = jnp.std(backward - forward, ddof=1) / num_samples**0.5
    return ExactBounds(jnp.mean(forward), jnp.mean(backward), gap_se, exact)


def invert(line: Nodes, mass: Float[Array, " nodes"], uniform: Float[Array, " n"]) -> Float[Array, " n"]:
    """The points below which the given shares of the mass lie.

    Half the mass of a node lies on either side of it. In between the distribution function is interpolated in the
    variable in which the nodes are equally spaced; the error of an expectation is of the order of 1e-5.
    """
    variable = jnp.arcsinh(jnp.arcsinh(line.points / _SCALE) * 2 / jnp.pi)
    between = jnp.interp(uniform, jnp.cumsum(mass) - 0.5 * mass, variable)
    return _SCALE * jnp.sinh(jnp.pi / 2 * jnp.sinh(between))
