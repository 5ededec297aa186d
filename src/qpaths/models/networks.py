"""Fully connected tanh networks, and decoders made from them: Bernoulli pixels, and Gaussian observations."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Shaped

from ..core import Point, PRNGKey, Scalar, ScalarLike, is_concrete


@runtime_checkable
class Decoder(Protocol):
    """What a generative model must offer to be evaluated: the likelihood of an observation, and draws of one.

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
        """log p(x | z), one number."""

    def sample(self, z: Point, key: PRNGKey, /) -> Point:
        """One observation from p(x | z)."""


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


def check_pixels(decoder: Any, x: Any) -> None:
    """Raise if concrete pixels for a Bernoulli decoder are not in [0, 1]: its formula has a value for any number."""
    if isinstance(decoder, BernoulliDecoder) and is_concrete(x):
        values = np.asarray(x)
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            raise ValueError(
                f"`x` must lie in [0, 1], got {values[bad].flat[0]}: the pixels of a Bernoulli decoder are 0, 1 or "
                f"probabilities; divide gray values by their maximum, and mend NaN."
            )


def check_rows(decoder: Any, x: Any) -> None:
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


def low_precision(decoder: Any, dtype: Any = jnp.bfloat16) -> Any:
    """The decoder with its `network` in low precision: a guide, on a GPU about twice as fast as the decoder itself.

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
    """`sum(x log p + (1 - x) log(1 - p))` with `p = sigmoid(logits)`; x may be any number in [0, 1].

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
