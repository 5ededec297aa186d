"""Annealing problems from decoders: from the prior, or the encoder, to the posterior of the latent point."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ..core import Point, PRNGKey, Scalar, ScalarLike
from ..densities import DensityLike, as_density, as_pytree
from ..paths import AbstractPath, GeometricPath, QPath
from .networks import Decoder, check_pixels


class DiagonalNormal(eqx.Module):
    """The normal density with independent coordinates: the prior of a latent point, or what an encoder returns.

    Args:
        mean: The means.
        scale: The standard deviations, positive; nothing checks it.

    For a full covariance use `qpaths.MultivariateNormal`. See [Generative models](models.md).

    Examples:
        >>> import jax.numpy as jnp
        >>> round(float(DiagonalNormal(jnp.zeros(2), jnp.ones(2)).log_prob(jnp.zeros(2))), 3)  # -log(2 pi)
        -1.838
    """

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
    """N(0, I), the usual prior of a latent point.

    Args:
        num_latent: The number of coordinates.
        dtype: The precision; that of JAX by default. It should be that of the decoder's weights.

    Returns:
        A `DiagonalNormal`. See [Generative models](models.md).

    Examples:
        >>> import jax
        >>> standard_normal(3).sample(jax.random.key(0)).shape
        (3,)
    """
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

    Args:
        decoder: The generative model.
        x: One observation. It is an array of the path: `jax.vmap` over observations compiles once.
        q: The order of a q-path; the geometric path without it.
        delta: `1 - q`, in place of q.
        log_scale: As in `QPath`.
        prior: The prior of the latent point; N(0, I) for a decoder that has `num_latent`.
        base: Where the path begins; the prior by default. An encoder's `q(z | x)` also is normalized and can be
            sampled, so that the bounds stay valid.
        guide: A cheaper decoder that is nearly the same (`low_precision`). Kernels follow its gradients; densities and
            weights are the decoder's own.

    Returns:
        A `GeometricPath` or a `QPath`. See [Any decoder](models.md#any-decoder). A base with lighter tails than the
        posterior, as encoders often have, makes weights with heavy tails.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> path = posterior_path(model.decoder, jnp.ones(6), q=0.99)
        >>> round(float(path.q), 4)
        0.99
    """
    check_pixels(decoder, x)
    prior = prior_of(decoder) if prior is None else as_density(prior, "prior")
    base = prior if base is None else as_density(base, "base")
    target = Joint(prior, as_pytree(decoder.log_likelihood), x, guide and as_pytree(guide.log_likelihood))
    if q is None and delta is None:
        return GeometricPath(base, target)
    return QPath(base, target, q=q, delta=delta, log_scale=log_scale)


class DecoderProblem(eqx.Module):
    """What all observations share: the model, the path to its posteriors, and where it begins.

    `problem(x)` is the path to the posterior of one observation. See [Many observations](models.md#many-observations).
    All observations must have one shape.

    Args:
        decoder: The generative model.
        q: The order of the path; geometric without it.
        delta: `1 - q`, in place of q.
        encoder: `encoder(x)`, a normalized density that can be sampled, takes the place of the prior as the base.
        prior: The prior of the latent point; N(0, I) for a decoder that has `num_latent`.
        guide: A cheaper decoder that is nearly the same (`low_precision`), whose gradients kernels follow.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> problem = DecoderProblem(model.decoder, q=0.99)
        >>> type(problem(jnp.ones(6))).__name__
        'QPath'
    """

    decoder: Decoder
    delta: ScalarLike | None
    encoder: Any
    prior: Any
    guide: Decoder | None

    def __init__(
        self,
        decoder: Decoder,
        *,
        q: ScalarLike | None = None,
        delta: ScalarLike | None = None,
        encoder: Any = None,
        prior: Any = None,
        guide: Decoder | None = None,
    ):
        if q is not None and delta is not None:
            raise ValueError(f"give `q` or `delta` (delta = 1 - q), not both, got q = {q} and delta = {delta}.")
        self.decoder = decoder
        delta = 1 - q if q is not None else delta
        # An array, so that another value does not compile again; Python numbers do not widen float32.
        self.delta = None if delta is None else jnp.asarray(delta)
        self.encoder = encoder
        self.prior = prior
        self.guide = guide

    def __call__(self, x: Point) -> AbstractPath[Any]:
        """The path to the posterior of one observation."""
        base = None if self.encoder is None else self.encoder(x)
        return posterior_path(self.decoder, x, delta=self.delta, prior=self.prior, base=base, guide=self.guide)


def simulate(decoder: Decoder, num: int, *, key: PRNGKey, prior: Any = None) -> tuple[Point, Point]:
    """Latent points from the prior, and one observation from each.

    A latent point is an exact draw from the posterior of its observation, as `BDMC` needs (Grosse, Ghahramani and
    Adams, 2015). Such data follow the model, so they say how good a sampler is, and nothing about how well the model
    fits.

    Args:
        decoder: The generative model.
        num: How many.
        key: For the draws.
        prior: The prior of the latent point; N(0, I) for a decoder that has `num_latent`.

    Returns:
        The latent points and the observations, each with a leading axis.

    Examples:
        >>> import jax
        >>> from qpaths.models import VAE
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> latents, images = simulate(model.decoder, 5, key=jax.random.key(1))
        >>> latents.shape, images.shape
        ((5, 2), (5, 6))
    """
    return _simulate(decoder, prior_of(decoder) if prior is None else prior, jax.random.split(key, num))


@eqx.filter_jit
def _simulate(decoder: Decoder, prior: Any, keys: Array) -> tuple[Point, Point]:
    def one(key: PRNGKey) -> tuple[Point, Point]:
        latent_key, observation_key = jax.random.split(key)
        z = prior.sample(latent_key)
        return z, decoder.sample(z, observation_key)

    return jax.vmap(one)(keys)
