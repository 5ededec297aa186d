"""Decoders, the networks in them, and the path to the posterior of an observation."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float, Shaped

from ..core import LogLikelihood, Point, PRNGKey, PyTree, Scalar, ScalarLike, is_concrete
from ..densities import DensityLike, as_density, as_pytree
from ..paths import AbstractPath, GeometricPath, QPath


@runtime_checkable
class Decoder(Protocol):
    """Describe what a generative model must offer to be evaluated: the likelihood of an observation, and draws of one.

    One latent point and one observation at a time; the library vectorizes. A decoder that is a pytree (an equinox
    module) can change its weights without recompiling. The prior of the latent point is given apart from it.

    See [Generative models](models.md). Nothing checks that `sample` draws from `log_likelihood`; bounds of simulated
    data rest on it.

    Examples:
        >>> import jax
        >>> from qpaths.models import BernoulliDecoder, Network
        >>> isinstance(BernoulliDecoder(Network.random(jax.random.key(0), [2, 4, 6])), Decoder)
        True
    """

    def log_likelihood(self, z: Point, x: Point, /) -> Array:
        """Return log p(x | z), one number."""

    def sample(self, z: Point, key: PRNGKey, /) -> Point:
        """Draw one observation from p(x | z)."""


class Layer(eqx.Module):
    """An affine map; weights in PyTorch's layout (out, in)."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        # With the weights on the right the batch of a `vmap` stays the slowest axis.
        return x @ self.weight.T + self.bias

    @staticmethod
    def random(key: PRNGKey, num_in: int, num_out: int) -> "Layer":
        """Glorot and Bengio's uniform start, which keeps the variance through a tanh layer, and no bias."""
        limit = math.sqrt(6 / (num_in + num_out))
        weight = jax.random.uniform(key, (num_out, num_in), jnp.float32, -limit, limit)
        return Layer(weight, jnp.zeros(num_out, jnp.float32))


class Network(eqx.Module):
    """Layers with a tanh between each two.

    Args:
        layers: Affine layers, whose sizes must fit together.

    `Network.random(key, sizes)` makes one with random weights (Glorot and Bengio, 2010).

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> network = Network.random(jax.random.key(0), [2, 4, 6])
        >>> network.num_in, network(jnp.zeros(2)).shape
        (2, (6,))
    """

    layers: tuple[Layer, ...]

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)

    @staticmethod
    def random(key: PRNGKey, sizes: Sequence[int]) -> "Network":
        """Random weights for layers of the given sizes, input and output included."""
        keys = jax.random.split(key, len(sizes) - 1)
        return Network(tuple(Layer.random(k, *pair) for k, pair in zip(keys, itertools.pairwise(sizes), strict=True)))

    @property
    def num_in(self) -> int:
        return self.layers[0].weight.shape[1]

    @property
    def num_out(self) -> int:
        return self.layers[-1].weight.shape[0]


class LowPrecisionNetwork(eqx.Module):
    """A network whose weights and activations have a few digits only; numbers of full precision in and out."""

    network: Network

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        return self.network(x.astype(self.network.layers[0].weight.dtype)).astype(x.dtype)


class BernoulliDecoder(eqx.Module):
    """Independent pixels in [0, 1]; `network(z)` are their logits.

    Args:
        network: Maps a latent point to one logit for each pixel.

    See [Generative models](models.md). Pixels between 0 and 1 count as probabilities of ink, which is not a density.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> decoder = BernoulliDecoder(Network.random(jax.random.key(0), [2, 4, 6]))
        >>> decoder.num_latent, decoder.num_pixels
        (2, 6)
        >>> round(float(decoder.log_likelihood(jnp.zeros(2), jnp.ones(6))), 3)  # 6 log(1/2): no bias at first
        -4.159
    """

    network: Network

    def log_likelihood(self, z: Float[Array, " latent"], x: Shaped[Array, " pixels"]) -> Scalar:
        logits = self.network(z)
        if x.shape != logits.shape:
            raise ValueError(
                f"`x` must be one image of shape {logits.shape}, as the decoder draws them, got {x.shape}: flatten it "
                f"to a row of pixels, and give many images to `jax.vmap`."
            )
        # Of whole numbers there is no derivative in x, which paths ask for.
        return bernoulli_log_likelihood(logits, x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(logits.dtype))

    def sample(self, z: Float[Array, " latent"], key: PRNGKey) -> Float[Array, " pixels"]:
        logits = self.network(z)
        # A logistic variable exceeds -logit with probability sigmoid(logit).
        return (jax.random.logistic(key, logits.shape, logits.dtype) < logits).astype(logits.dtype)

    @property
    def num_latent(self) -> int:
        return self.network.num_in

    @property
    def num_pixels(self) -> int:
        return self.network.num_out


class GaussianDecoder(eqx.Module):
    """Independent normal observations of a fixed standard deviation `scale` around `network(z)`.

    Args:
        network: Maps a latent point to the means.
        scale: The standard deviation, positive.

    See [Generative models](models.md). The standard deviation is not learned.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> decoder = GaussianDecoder(Network.random(jax.random.key(0), [2, 4, 6]), 0.5)
        >>> decoder.sample(jnp.zeros(2), jax.random.key(1)).shape
        (6,)
    """

    network: Network
    scale: ScalarLike

    def __check_init__(self) -> None:
        if is_concrete(self.scale) and not self.scale > 0:
            raise ValueError(f"`scale` must be positive, got {self.scale}: it is the standard deviation of a pixel.")

    def log_likelihood(self, z: Float[Array, " latent"], x: Float[Array, " pixels"]) -> Scalar:
        residuals = (x - self.network(z)) / self.scale
        return -0.5 * jnp.sum(jnp.square(residuals)) - residuals.size * jnp.log(self.scale * math.sqrt(2 * math.pi))

    def sample(self, z: Float[Array, " latent"], key: PRNGKey) -> Float[Array, " pixels"]:
        mean = self.network(z)
        return mean + self.scale * jax.random.normal(key, mean.shape, mean.dtype)

    @property
    def num_latent(self) -> int:
        return self.network.num_in

    @property
    def num_pixels(self) -> int:
        return self.network.num_out


def check_pixels(decoder: Decoder, x: Point) -> None:
    """Raise if concrete pixels for a Bernoulli decoder are not in [0, 1]: its formula has a value for any number."""
    if isinstance(decoder, BernoulliDecoder) and is_concrete(x):
        values = np.asarray(x)
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            raise ValueError(
                f"`x` must lie in [0, 1], got {values[bad].flat[0]}: the pixels of a Bernoulli decoder are 0, 1 or "
                f"probabilities; divide gray values by their maximum, and mend NaN."
            )


def check_rows(decoder: PyTree, x: Point) -> None:
    """Raise if `x` is not one image per row for a Bernoulli decoder, or has no leading axis for another."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(x)]
    if isinstance(decoder, BernoulliDecoder):
        # A guide in low precision does not know its number.
        num_pixels = getattr(decoder.network, "num_out", None)
        if [len(shape) for shape in shapes] != [2] or shapes[0][1] != (num_pixels or shapes[0][1]):
            raise ValueError(
                f"`x` must hold one image of {num_pixels or 'all'} pixels per row, got shape "
                f"{', '.join(map(str, shapes))}: flatten images to rows, and give a single one as `x[None]`."
            )
    if () in shapes:
        raise ValueError("`x` must have an axis of observations in front, got a number: give one as `x[None]`.")
    check_pixels(decoder, x)


def low_precision(decoder: PyTree, dtype: DTypeLike = jnp.bfloat16) -> PyTree:
    """Return the decoder with its `network` in low precision: a guide, on a GPU about twice as fast.

    For `DecoderProblem(decoder, guide=...)` and `posterior_path(..., guide=...)`: it steers, and bounds stay exact.

    Args:
        decoder: A decoder with a `network`; others have no such copy.
        dtype: The precision.

    Returns:
        A decoder of the same kind.

    See [Gradients in low precision](models.md#gradients-in-low-precision). On a CPU it gains nothing.

    Examples:
        >>> import jax
        >>> decoder = BernoulliDecoder(Network.random(jax.random.key(0), [2, 4, 6]))
        >>> low_precision(decoder).network.network.layers[0].weight.dtype
        dtype(bfloat16)
    """
    network = jax.tree.map(lambda leaf: leaf.astype(dtype), decoder.network)
    return eqx.tree_at(lambda one: one.network, decoder, LowPrecisionNetwork(network))


@jax.custom_jvp
def bernoulli_log_likelihood(logits: Float[Array, " pixels"], x: Float[Array, " pixels"]) -> Scalar:
    """Return `sum(x log p + (1 - x) log(1 - p))` with `p = sigmoid(logits)`; x may be any number in [0, 1].

    One exponential, one logarithm; the gradient is `x - p`. The plain logarithm of 1 + exp(-|logit|) is off by one
    rounding of 1 at most, which is the rounding of the sum itself, and costs half of `log1p`.
    """
    softplus = jnp.maximum(logits, 0) + jnp.log(1 + jnp.exp(-jnp.abs(logits)))
    return jnp.sum(x * logits - softplus)


@bernoulli_log_likelihood.defjvp
def _bernoulli_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (logits, x), (d_logits, d_x) = primals, tangents
    value = bernoulli_log_likelihood(logits, x)
    return value, jnp.sum((x - jax.nn.sigmoid(logits)) * d_logits) + jnp.sum(logits * d_x)


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


def standard_normal(num_latent: int, dtype: DTypeLike | None = None) -> DiagonalNormal:
    """Return N(0, I), the usual prior of a latent point.

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


def prior_of(decoder: PyTree) -> DiagonalNormal:
    """Return N(0, I) in the latent space of a decoder that knows its dimension, in the precision of its weights."""
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
    log_likelihood: LogLikelihood
    x: Point
    cheap_log_likelihood: LogLikelihood | None = None

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
    """Return the path from `base` to `p(z) p(x | z)`, whose log evidence is log p(x).

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
    target = Joint(
        prior, as_pytree(decoder.log_likelihood), x, None if guide is None else as_pytree(guide.log_likelihood)
    )
    if q is None and delta is None:
        return GeometricPath(base, target)
    return QPath(base, target, q=q, delta=delta, log_scale=log_scale)


class DecoderProblem(eqx.Module):
    """Hold what all observations share: the model, the path to its posteriors, and where it begins.

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
    encoder: Callable[[Point], DensityLike] | None
    prior: DensityLike | None
    guide: Decoder | None

    def __init__(
        self,
        decoder: Decoder,
        *,
        q: ScalarLike | None = None,
        delta: ScalarLike | None = None,
        encoder: Callable[[Point], DensityLike] | None = None,
        prior: DensityLike | None = None,
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
        """Return the path to the posterior of one observation."""
        base = None if self.encoder is None else self.encoder(x)
        return posterior_path(self.decoder, x, delta=self.delta, prior=self.prior, base=base, guide=self.guide)


def simulate(decoder: Decoder, num: int, *, key: PRNGKey, prior: DensityLike | None = None) -> tuple[Point, Point]:
    """Draw latent points from the prior, and one observation from each.

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
