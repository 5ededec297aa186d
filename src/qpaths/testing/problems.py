"""Annealing problems whose log evidence is known."""

from typing import NamedTuple

import jax.numpy as jnp
import jax.scipy.special as jss
import jax.scipy.stats as jst
from jax import Array
from jax.tree_util import Partial

from ..densities import Density
from ..families import MultivariateNormal


class KnownProblem(NamedTuple):
    """Endpoints, and the log of the target's mass.

    Attributes:
        base: A standard normal distribution.
        target: The unnormalized target.
        log_evidence: The log of its mass.

    A known answer tests an estimate, not its standard error: use many keys for that.

    See [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> import qpaths as qp
        >>> problem = gaussian(2)
        >>> path = qp.GeometricPath(problem.base, problem.target)
        >>> float(problem.log_evidence)
        -3.0
    """

    base: MultivariateNormal
    target: Density
    log_evidence: Array


def _standard_normal(dimension: int) -> MultivariateNormal:
    return MultivariateNormal(jnp.zeros(dimension), jnp.eye(dimension))


def gaussian(dimension: int = 10) -> KnownProblem:
    """Correlated normal target, away from the base and narrower.

    Args:
        dimension: The number of coordinates.

    Returns:
        A `KnownProblem`, the easiest of the three.

    A known answer tests an estimate, not its standard error: use many keys for that.

    See [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> float(gaussian(3).log_evidence)
        -3.0
    """
    scale = 0.4 + 0.4 * jnp.arange(dimension) / dimension
    covariance = scale[:, None] * scale * (0.5 + 0.5 * jnp.eye(dimension))
    normal = MultivariateNormal(0.5 * jnp.ones(dimension), covariance)
    return KnownProblem(_standard_normal(dimension), Density(Partial(_log_gaussian, normal)), jnp.array(-3.0))


def skewed(dimension: int = 10) -> KnownProblem:
    """Independent log-gamma coordinates, `exp(2 x - exp(x))`: a light tail on one side, a heavy one on the other.

    Args:
        dimension: The number of coordinates.

    Returns:
        A `KnownProblem`. Its log evidence is 0.

    The coordinates are independent, so a mistake in correlations is not seen.

    See [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> round(float(skewed(3).log_evidence), 6)
        0.0
    """
    return KnownProblem(_standard_normal(dimension), Density(_log_skewed), dimension * jss.gammaln(2.0))


def truncated(dimension: int = 10) -> KnownProblem:
    """A normal target cut off at `x_0 < 0.3`, where its log density is `-inf`.

    Args:
        dimension: The number of coordinates.

    Returns:
        A `KnownProblem` with a hard bound.

    Half of the normal mass is cut off. Paths with q >= 1 lose particles there at the first step.

    See [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> import jax.numpy as jnp
        >>> float(truncated(2).target.log_prob(jnp.zeros(2)))
        -inf
    """
    log_evidence = dimension * jnp.log(0.6 * jnp.sqrt(2 * jnp.pi)) + jst.norm.logcdf(0.0)
    return KnownProblem(_standard_normal(dimension), Density(_log_truncated), log_evidence)


# Functions of the module: the compiled programs of a run are those of these functions, whoever asks for the problem.


def _log_gaussian(normal: MultivariateNormal, x: Array) -> Array:
    return normal.log_prob(x) - 3.0


def _log_skewed(x: Array) -> Array:
    return jnp.sum(2.0 * x - jnp.exp(x))


def _log_truncated(x: Array) -> Array:
    return jnp.where(x[0] > 0.3, -jnp.sum((x - 0.3) ** 2) / (2 * 0.6**2), -jnp.inf)
