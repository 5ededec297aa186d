"""Discrete exponential families: Poisson, and products of Bernoulli or categorical variables.

Points are floating point numbers, so that samplers treat them like any other point.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Float, Real

from ..core import FloatArray, PRNGKey, RealLike, Scalar, ScalarLike, is_concrete
from .base import AbstractExponentialFamily, Parameters
from .parameters import check_between, check_finite, check_numbers, check_positive


class Poisson(AbstractExponentialFamily):
    """The Poisson distribution: phi(x) = x, theta = log rate, eta = rate, base measure 1 / x!.

    Points are whole numbers as floating-point numbers; elsewhere the density is zero. Between two rates the geometric
    path has rate `rate_0^(1-beta) rate_1^beta`, and the moment path mixes the rates linearly.

    Args:
        rate: The mean, positive.

    See [Families](families.md). Kernels that move points continuously do not apply.

    Examples:
        >>> round(float(Poisson(2.0).log_prob(0.0)), 4)
        -2.0
    """

    rate: ScalarLike

    def __check_init__(self) -> None:
        check_positive("rate", self.rate, "it is the mean")

    def log_prob(self, x: ScalarLike) -> Scalar:
        inside = (x >= 0) & (x == jnp.floor(x))
        y = jnp.where(inside, x, 0)
        return jnp.where(inside, y * jnp.log(self.rate) - self.rate + self.log_base_measure(y), -jnp.inf)

    def sample(self, key: PRNGKey) -> Scalar:
        check_numbers(rate=self.rate)
        return jax.random.poisson(key, self.rate).astype(jnp.result_type(self.rate, 0.0))

    def sufficient_statistics(self, x: ScalarLike) -> Parameters:
        return (jnp.asarray(x),)

    def log_base_measure(self, x: ScalarLike) -> Scalar:
        return -jax.lax.lgamma(jnp.asarray(x, jnp.result_type(0.0, x)) + 1)

    def log_partition(self, natural: Parameters) -> Scalar:
        return jnp.exp(natural[0])

    @property
    def natural(self) -> Parameters:
        return (jnp.log(self.rate),)

    @property
    def moments(self) -> Parameters:
        return (jnp.asarray(self.rate, jnp.result_type(0.0, self.rate)),)

    def with_natural(self, natural: Parameters) -> "Poisson":
        check_finite("natural[0]", natural[0])
        return Poisson(jnp.exp(natural[0]))

    def with_moments(self, moments: Parameters) -> "Poisson":
        return Poisson(moments[0])


class Bernoulli(AbstractExponentialFamily):
    """A product of Bernoulli variables with success probabilities `probs`, of any shape; points are zeros and ones.

    phi(x) = x, theta = logit(probs), eta = probs.

    Args:
        probs: Probabilities in [0, 1], of any shape.

    See [Families](families.md). Points must be exactly 0 or 1: the density is zero elsewhere.

    Examples:
        >>> import jax.numpy as jnp
        >>> round(float(Bernoulli(jnp.array([0.5, 0.25])).log_prob(jnp.array([1.0, 0.0]))), 4)  # log(0.5 0.75)
        -0.9808
    """

    probs: FloatArray

    def __init__(self, probs: RealLike):
        self.probs = jnp.asarray(probs, jnp.result_type(0.0, probs))
        check_between("probs", self.probs, 0, 1, "at 0 and 1 the natural parameter is infinite")

    def log_prob(self, x: RealLike) -> Scalar:
        x = jnp.asarray(x)
        value = jnp.sum(x * jnp.log(self.probs) + (1 - x) * jnp.log1p(-self.probs))
        return jnp.where(jnp.all((x == 0) | (x == 1)), value, -jnp.inf)

    def sample(self, key: PRNGKey) -> FloatArray:
        return jax.random.bernoulli(key, self.probs).astype(self.probs.dtype)

    @property
    def fixed(self) -> dict[str, Any]:
        return {"shape": self.probs.shape}

    def sufficient_statistics(self, x: RealLike) -> Parameters:
        return (jnp.asarray(x),)

    def log_partition(self, natural: Parameters) -> Scalar:
        return jnp.sum(jax.nn.softplus(natural[0]))

    @property
    def natural(self) -> Parameters:
        return (jnp.log(self.probs) - jnp.log1p(-self.probs),)

    @property
    def moments(self) -> Parameters:
        return (self.probs,)

    def with_natural(self, natural: Parameters) -> "Bernoulli":
        check_finite("natural[0]", natural[0])
        return Bernoulli(jax.nn.sigmoid(natural[0]))

    def with_moments(self, moments: Parameters) -> "Bernoulli":
        return Bernoulli(moments[0])


class Categorical(AbstractExponentialFamily):
    """A product of categorical variables, one per row of `probs` (the last axis sums to one); points are one-hot rows.

    phi(x) = x without its last column, theta = log(p_j / p_last), eta = p_j.

    Args:
        probs: Probabilities; the last axis sums to one.

    See [Families](families.md). The natural parameters need a positive probability of the last value.

    Examples:
        >>> import jax.numpy as jnp
        >>> density = Categorical(jnp.array([0.2, 0.3, 0.5]))
        >>> round(float(jnp.exp(density.log_prob(jnp.array([0.0, 1.0, 0.0])))), 3)
        0.3
    """

    probs: Float[Array, "*rows k"]

    def __init__(self, probs: Real[ArrayLike, "*rows k"]):
        self.probs = jnp.asarray(probs, jnp.result_type(0.0, probs))
        check_positive("probs", self.probs, "at 0 the natural parameter is infinite")
        if is_concrete(self.probs) and not np.allclose(np.sum(self.probs, axis=-1), 1, atol=1e-5):
            raise ValueError(f"`probs` must sum to 1 over the last axis, got {self.probs}.")

    def log_prob(self, x: Real[ArrayLike, "*rows k"]) -> Scalar:
        x = jnp.asarray(x)
        inside = jnp.all((x == 0) | (x == 1)) & jnp.all(jnp.sum(x, axis=-1) == 1)
        return jnp.where(inside, jnp.sum(x * jnp.log(self.probs)), -jnp.inf)

    def sample(self, key: PRNGKey) -> Float[Array, "*rows k"]:
        labels = jax.random.categorical(key, jnp.log(self.probs))
        return jax.nn.one_hot(labels, self.probs.shape[-1], dtype=self.probs.dtype)

    @property
    def fixed(self) -> dict[str, Any]:
        return {"shape": self.probs.shape}

    def sufficient_statistics(self, x: Any) -> Parameters:
        return (jnp.asarray(x)[..., :-1],)

    def log_partition(self, natural: Parameters) -> Scalar:
        return jnp.sum(jax.nn.logsumexp(_with_last(natural[0], 0.0), axis=-1))

    @property
    def natural(self) -> Parameters:
        return (jnp.log(self.probs[..., :-1]) - jnp.log(self.probs[..., -1:]),)

    @property
    def moments(self) -> Parameters:
        return (self.probs[..., :-1],)

    def with_natural(self, natural: Parameters) -> "Categorical":
        check_finite("natural[0]", natural[0])
        return Categorical(jax.nn.softmax(_with_last(natural[0], 0.0), axis=-1))

    def with_moments(self, moments: Parameters) -> "Categorical":
        return Categorical(_with_last(moments[0], 1 - jnp.sum(moments[0], axis=-1, keepdims=True)))


def _with_last(columns: Array, last: Any) -> Array:
    """`columns` with one more column."""
    return jnp.concatenate([columns, jnp.broadcast_to(last, (*columns.shape[:-1], 1)).astype(columns.dtype)], axis=-1)
