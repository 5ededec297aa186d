"""Annealing problems from decoders: from the prior, or the encoder, to the posterior of the latent point."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from .._types import Point, PRNGKey, Scalar, ScalarLike
from ..densities import DensityLike, as_density, as_pytree
from ..paths import GeometricPath, QPath
from .networks import Decoder, check_pixels


class DiagonalNormal(eqx.Module):
    """The normal density with independent coordinates: the prior of a latent point, or what an encoder returns."""

    mean: Float[Array, " latent"]
    scale: Float[Array, " latent"]

    def log_prob(self, z: Float[Array, " latent"]) -> Scalar:
        standardized = (z - self.mean) / self.scale
        # The constant is a Python number, so that it does not widen float32.
        constant = 0.5 * z.size * float(np.log(2 * np.pi))
        return -0.5 * jnp.sum(jnp.square(standardized)) - jnp.sum(jnp.log(self.scale)) - constant

    def sample(self, key: PRNGKey) -> Float[Array, " latent"]:
        return self.mean + self.scale * jax.random.normal(key, self.mean.shape, self.mean.dtype)


def standard_normal(num_latent: int, dtype: Any = None) -> DiagonalNormal:
    """N(0, I), in the default precision of jax unless told."""
    return DiagonalNormal(jnp.zeros(num_latent, dtype), jnp.ones(num_latent, dtype))


def prior_of(decoder: Any) -> DiagonalNormal:
    """N(0, I) in the latent space of a decoder that knows its dimension, in the precision of its weights."""
    if not hasattr(decoder, "num_latent"):
        raise ValueError(
            f"`prior` is needed, because {type(decoder).__name__} has no `num_latent`: give "
            f"`prior=qpaths.models.standard_normal(num_latent)`, or any density with `log_prob` and `sample`."
        )
    floats = [x.dtype for x in jax.tree.leaves(decoder) if eqx.is_inexact_array(x)]
    return standard_normal(decoder.num_latent, jnp.result_type(*floats) if floats else None)


class Joint(eqx.Module):
    """`log p(z) + log p(x | z)` as a function of z; its mass is the marginal likelihood p(x).

    `cheap_log_likelihood`, where there is one, makes the guide that steers trajectories.
    """

    prior: DensityLike
    log_likelihood: Any
    x: Point
    cheap_log_likelihood: Any = None

    def log_prob(self, z: Point) -> Array:
        return self.prior.log_prob(z) + self.log_likelihood(z, self.x)

    @property
    def guide(self) -> "Joint | None":
        return None if self.cheap_log_likelihood is None else Joint(self.prior, self.cheap_log_likelihood, self.x)


def posterior_path(
    decoder: Decoder,
    x: Point,
    *,
    q: ScalarLike | None = None,
    delta: ScalarLike | None = None,
    log_scale: ScalarLike = 0.0,
    prior: DensityLike | None = None,
    base: DensityLike | None = None,
    guide: Decoder | None = None,
) -> GeometricPath | QPath:
    """The path from `base` to `p(z) p(x | z)`, whose log evidence is log p(x).

    The geometric path, or the q-path where `q` or `delta = 1 - q` is given. The prior is N(0, I) in the latent space of
    the decoder unless given; the base is the prior unless given: an encoder's `q(z | x)` also is normalized and can be
    sampled, so that the bounds stay valid. The gradients that kernels follow are those of `guide`, a cheaper decoder
    that is nearly the same (`low_precision`), where it is given; densities and weights are the decoder's own. The
    observation is an array of the path: `jax.vmap` over observations compiles once.
    """
    check_pixels(decoder, x)
    prior = prior_of(decoder) if prior is None else as_density(prior, "prior")
    base = prior if base is None else as_density(base, "base")
    target = Joint(prior, as_pytree(decoder.log_likelihood), x, guide and as_pytree(guide.log_likelihood))
    if q is None and delta is None:
        return GeometricPath(base, target)
    return QPath(base, target, q=q, delta=delta, log_scale=log_scale)


def simulate(decoder: Decoder, num: int, *, key: PRNGKey, prior: Any = None) -> tuple[Point, Point]:
    """`num` latent points from the prior and an observation from each: exact draws of their posteriors, for BDMC."""
    return _simulate(decoder, prior_of(decoder) if prior is None else prior, jax.random.split(key, num))


@eqx.filter_jit
def _simulate(decoder: Decoder, prior: Any, keys: Array) -> tuple[Point, Point]:
    def one(key: PRNGKey) -> tuple[Point, Point]:
        latent_key, observation_key = jax.random.split(key)
        z = prior.sample(latent_key)
        return z, decoder.sample(z, observation_key)

    return jax.vmap(one)(keys)
