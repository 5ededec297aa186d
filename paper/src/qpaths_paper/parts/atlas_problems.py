"""The problems of the atlas: small ones with a known log evidence, each hard in one way."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from qpaths.core import log_mean_exp
from qpaths.densities import Density, DensityLike
from qpaths.families import MultivariateNormal, MultivariateStudentT
from qpaths.models import VAE, simulate
from qpaths.testing import skewed, truncated


class AtlasProblem(NamedTuple):
    """Endpoints, and the log evidence."""

    base: DensityLike
    target: DensityLike
    log_evidence: float


def _normal(dimension: int, mean: float = 0.0, scale: float = 1.0) -> MultivariateNormal:
    return MultivariateNormal(jnp.full(dimension, mean), scale**2 * jnp.eye(dimension))


def _student(dimension: int, df: float, mean: float = 0.0, scale: float = 1.0) -> MultivariateStudentT:
    return MultivariateStudentT(df, jnp.full(dimension, mean), scale**2 * jnp.eye(dimension))


def _far() -> AtlasProblem:
    """Data eight prior standard deviations away."""
    dimension, place, noise = 6, 8.0, 0.5
    prior, evidence = _normal(dimension), _normal(dimension, place, (1 + noise**2) ** 0.5)
    target = Density(Partial(_joint, prior, _normal(dimension, place, noise)))
    return AtlasProblem(prior, target, float(evidence.log_prob(jnp.zeros(dimension))))


def _joint(prior: Any, likelihood: Any, x: Array) -> Array:
    return prior.log_prob(x) + likelihood.log_prob(x)


def _correlated() -> AtlasProblem:
    """Linear regression with 30 weights and correlated predictors."""
    num, dimension, noise = 60, 30, 1.0
    rng = np.random.default_rng(0)
    design = rng.normal(size=(num, 1)) + 0.4 * rng.normal(size=(num, dimension))
    y = design @ rng.normal(size=dimension) + noise * rng.normal(size=num)
    covariance = design @ design.T + noise**2 * np.eye(num)
    evidence = MultivariateNormal(jnp.zeros(num), jnp.asarray(covariance)).log_prob(jnp.asarray(y))
    prior = _normal(dimension)
    target = Density(Partial(_linear_regression, prior, jnp.asarray(design), jnp.asarray(y), noise))
    return AtlasProblem(prior, target, float(evidence))


def _linear_regression(prior: Any, design: Array, y: Array, noise: float, x: Array) -> Array:
    residual = (y - design @ x) / noise
    constant = y.size * (jnp.log(noise) + 0.5 * jnp.log(2 * jnp.pi))
    return prior.log_prob(x) - 0.5 * jnp.sum(residual**2) - constant


def _two_modes() -> AtlasProblem:
    """Seven tenths of the mass on one side of the prior, three tenths on the other."""
    return AtlasProblem(
        _normal(3, 0.0, 3.0), Density(Partial(_mixture, _normal(3, -4.0, 0.5), _normal(3, 4.0, 0.5))), 0.0
    )


def _mixture(first: Any, second: Any, x: Array) -> Array:
    return jnp.logaddexp(jnp.log(0.7) + first.log_prob(x), jnp.log(0.3) + second.log_prob(x))


def _heavy_target() -> AtlasProblem:
    """A Student-t target with two degrees of freedom, wider than the normal base."""
    return AtlasProblem(_normal(4), _student(4, 2.0, 0.0, 2.0), 0.0)


def _heavy_base() -> AtlasProblem:
    """A narrow normal target, and a Student-t base."""
    return AtlasProblem(_student(4, 3.0), _normal(4, 2.0, 0.3), 0.0)


def _narrow_base() -> AtlasProblem:
    """A base with half of the target's standard deviation: its tails are too light."""
    return AtlasProblem(_normal(4, 0.0, 0.5), _normal(4, 0.5, 1.0), 0.0)


def _student_ends() -> AtlasProblem:
    """Two Student-t densities of one family, apart from each other."""
    return AtlasProblem(_student(2, 3.0, -4.0), _student(2, 3.0, 4.0, 0.5), 0.0)


def _known(problem: Any) -> AtlasProblem:
    return AtlasProblem(problem.base, problem.target, float(problem.log_evidence))


def _decoder() -> AtlasProblem:
    """The posterior of two latent numbers given 60 pixels that a small decoder drew."""
    model = VAE.random(jax.random.key(0), num_pixels=60, hidden=(12,), num_latent=2)
    decoder = jax.tree.map(lambda leaf: 2.5 * leaf.astype(float), model.decoder)
    _, x = simulate(decoder, 1, key=jax.random.key(2), prior=_normal(2))
    return _on_a_grid(_normal(2), Partial(_decoded, _normal(2), decoder, x[0]))


def _decoded(prior: Any, decoder: Any, x: Array, z: Array) -> Array:
    return prior.log_prob(z) + decoder.log_likelihood(z, x)


def _sparse() -> AtlasProblem:
    """Logistic regression with two weights, a wide prior, and six data."""
    predictor, labels = jnp.array([-1.6, -0.9, -0.2, 0.3, 1.1, 1.8]), jnp.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    return _on_a_grid(_normal(2, 0.0, 5.0), Partial(_logistic, _normal(2, 0.0, 5.0), predictor, labels))


def _logistic(prior: Any, predictor: Array, labels: Array, x: Array) -> Array:
    return prior.log_prob(x) + jnp.sum(jax.nn.log_sigmoid(labels * (x[0] + x[1] * predictor)))


def _on_a_grid(base: MultivariateNormal, log_target: Any) -> AtlasProblem:
    """A problem in two dimensions, whose evidence is a sum over a grid that reaches eight standard deviations."""
    reach = 8 * float(jnp.sqrt(base.cov[0, 0]))
    line = jnp.linspace(-reach, reach, 401)
    points = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    values = np.asarray(jax.lax.map(log_target, points, batch_size=401))
    return AtlasProblem(
        base, Density(log_target), float(log_mean_exp(values)) + 2 * float(np.log(401 * (line[1] - line[0])))
    )


PROBLEMS = {
    "far": ("prior far from the posterior", _far),
    "narrow base": ("base with lighter tails than the target", _narrow_base),
    "heavy target": ("heavy-tailed target", _heavy_target),
    "heavy base": ("heavy-tailed base", _heavy_base),
    "student ends": ("Student-t at both ends", _student_ends),
    "skewed": ("one light and one heavy tail", lambda: _known(skewed(5))),
    "hard bounds": ("a hard bound", lambda: _known(truncated(5))),
    "two modes": ("two modes", _two_modes),
    "correlated": ("30 correlated dimensions", _correlated),
    "decoder": ("a small decoder", _decoder),
    "sparse data": ("sparse data", _sparse),
}
"""The meaning of each problem, and the function that makes it."""


@functools.cache
def atlas_problem(name: str) -> AtlasProblem:
    """The problem of a name."""
    return PROBLEMS[name][1]()
