"""What a benchmark runs on: the arguments of `qpaths.evidence`, and the truth to compare with."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import qpaths as qp


class Problem(NamedTuple):
    """The endpoints, the truth and its standard error, and the error that is wanted within a budget."""

    base: Any
    target: Any
    truth: float
    truth_se: float
    wanted: float
    budget: int

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `qpaths.evidence`."""
        return {"base": self.base, "target": self.target}


class Model(NamedTuple):
    """A model as users write it, and its log evidence with the error that quadrature left at most."""

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any], Any]
    sample_prior: Callable[[Any], Any]
    truth: float
    truth_se: float = 0.0

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of `qpaths.evidence`."""
        names = ("log_prior", "log_likelihood", "sample_prior")
        return {name: getattr(self, name) for name in names}


def standard_normal(dimension, scale=1.0):
    return qp.Density(
        lambda x: jnp.sum(norm.logpdf(x, scale=scale)), lambda key: scale * jax.random.normal(key, (dimension,))
    )


def dimension_of(problem):
    return jax.eval_shape(problem.base.sample, jax.random.key(0)).size


def rotated(problem):
    """The target turned by a random orthogonal matrix. The base must be the same in all directions."""
    size = dimension_of(problem)
    matrix = jnp.asarray(np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0])
    return problem._replace(target=qp.Density(lambda x: problem.target.log_prob(x @ matrix)))


def shuffled(problem):
    """The target with its coordinates in a random order. The base must be the same in all coordinates."""
    order = np.random.default_rng(dimension_of(problem)).permutation(dimension_of(problem))
    return problem._replace(target=qp.Density(lambda x: problem.target.log_prob(x[order])))


def log_integral(log_values, *spacings):
    """The logarithm of the integral of `exp(log_values)` on a regular grid."""
    log_values = np.asarray(log_values)
    peak = log_values.max()
    return float(peak + np.log(np.sum(np.exp(log_values - peak))) + np.sum(np.log(spacings)))
