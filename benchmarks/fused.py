"""The Bernoulli decoder with its gradient in one GPU kernel (Pallas, Triton backend): activations never leave the chip.

A program takes a block of chains through all layers. The last layer is walked in chunks of pixels: each chunk of its
weights is read once and used at once for the logits and for the gradient in the last hidden layer. A measured variant
beside `benchmarks/gpu.py`, not part of the library. Off a GPU it runs in Pallas's interpreter, for checks.
"""

import functools
import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

LATENT = 64
TILES = 64, 64, 64, 16
"""The hidden layers of 200 units, filled up to 208: sizes in a kernel must be powers of two."""
STARTS = tuple(itertools.accumulate(TILES, initial=0))
CHUNK = 64
NUM_CHUNKS = 13


class Config(NamedTuple):
    """How the kernel is run: chains per program, warps, stages, and the kind of the matrix products."""

    block: int = 64
    num_warps: int = 8
    num_stages: int = 2
    precision: str = "tf32"

    def __str__(self) -> str:
        return f"fused {self.precision}, block {self.block}, {self.num_warps} warps, {self.num_stages} stages"


class FusedDecoder(eqx.Module):
    """A decoder of the paper's shape whose likelihood, with its gradient in z, is one kernel. Weights are constants."""

    weights: dict[str, jax.Array]
    num_latent: int = eqx.field(static=True)
    config: Config = eqx.field(static=True)

    @staticmethod
    def of(decoder: Any, config: Config) -> "FusedDecoder":
        layers = decoder.network.layers
        shapes = [(LATENT, STARTS[-1]), (STARTS[-1], STARTS[-1]), (STARTS[-1], CHUNK * NUM_CHUNKS)]
        weights = {}
        for i, (layer, shape) in enumerate(zip(layers, shapes, strict=True), start=1):
            matrix = layer.weight.T
            weights[f"w{i}"] = jnp.zeros(shape, matrix.dtype).at[: matrix.shape[0], : matrix.shape[1]].set(matrix)
            # Pixels that are not there are certainly white.
            fill = -1e4 if i == 3 else 0.0
            weights[f"b{i}"] = jnp.full(shape[1], fill, matrix.dtype).at[: layer.bias.size].set(layer.bias)
        if config.precision == "bf16":
            weights = {name: w.astype(jnp.bfloat16) if name[0] == "w" else w for name, w in weights.items()}
        return FusedDecoder(weights, decoder.num_latent, config)

    def log_likelihood(self, z: jax.Array, x: jax.Array) -> jax.Array:
        return _likelihood(self.config)(self.weights, z, x)


def _kernel(z_ref, x_ref, w1, b1, w2, b2, w3, b3, value_ref, slope_ref, *, config: Config, chains: int):
    def dot(a, b, transposed=False):
        if config.precision == "bf16":
            a, b = a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)
            return plgpu.dot(a, b, trans_b=transposed)
        return plgpu.dot(a, b, trans_b=transposed, allow_tf32=config.precision == "tf32")

    def tile(ref, i, j):
        return ref[pl.ds(STARTS[i], TILES[i]), pl.ds(STARTS[j], TILES[j])]

    def bias(ref, j):
        return ref[pl.ds(STARTS[j], TILES[j])][None, :]

    def first_layer():
        z = z_ref[...]
        return [jnp.tanh(dot(z, w1[:, pl.ds(STARTS[j], TILES[j])]) + bias(b1, j)) for j in range(4)]

    h1 = first_layer()
    h2 = [jnp.tanh(sum(dot(h1[i], tile(w2, i, j)) for i in range(4)) + bias(b2, j)) for j in range(4)]
    rows = (pl.program_id(0) * config.block + jnp.arange(config.block)) // chains
    rows = jnp.minimum(rows, x_ref.shape[0] - 1)

    def chunk(c, carry):
        value, slopes = carry
        pixels = pl.ds(c * CHUNK, CHUNK)
        columns = [w3[pl.ds(STARTS[i], TILES[i]), pixels] for i in range(4)]
        logits = sum(dot(h2[i], columns[i]) for i in range(4)) + b3[pixels][None, :]
        x = x_ref[rows, pixels]
        decay = jnp.exp(-jnp.abs(logits))
        value = value + jnp.sum(x * logits - jnp.maximum(logits, 0.0) - jnp.log(1.0 + decay), axis=1)
        residual = x - jnp.where(logits >= 0, 1.0, decay) / (1.0 + decay)
        return value, [slopes[i] + dot(residual, columns[i], True) for i in range(4)]

    start = jnp.zeros(config.block, jnp.float32), [jnp.zeros((config.block, t), jnp.float32) for t in TILES]
    value, slopes = jax.lax.fori_loop(0, NUM_CHUNKS, chunk, start)
    slopes = [s * (1.0 - h * h) for s, h in zip(slopes, h2, strict=True)]
    # Computed again: holding it over the loop would cost more in registers.
    h1 = first_layer()
    slope = jnp.zeros((config.block, LATENT), jnp.float32)
    for i in range(4):
        inner = sum(dot(slopes[j], tile(w2, i, j), True) for j in range(4)) * (1.0 - h1[i] * h1[i])
        slope = slope + dot(inner, w1[:, pl.ds(STARTS[i], TILES[i])], True)
    value_ref[...] = value
    slope_ref[...] = slope


def _many(config: Config, weights: Any, z: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Log likelihoods and their gradients for latents (images, chains, latent) and images (images, pixels)."""
    images, chains, latent = z.shape
    num = images * chains
    programs = pl.cdiv(num, config.block)
    padded = programs * config.block
    flat = jnp.zeros((padded, LATENT), z.dtype).at[:num, :latent].set(z.reshape(num, latent))
    x = jnp.pad(x, ((0, 0), (0, CHUNK * NUM_CHUNKS - x.shape[1])))
    whole = [weights[name] for name in ("w1", "b1", "w2", "b2", "w3", "b3")]
    by_row = pl.BlockSpec((config.block, LATENT), lambda i: (i, 0))
    value, slope = pl.pallas_call(
        functools.partial(_kernel, config=config, chains=chains),
        grid=(programs,),
        in_specs=[by_row, *(pl.BlockSpec(a.shape, lambda i, n=a.ndim: (0,) * n) for a in (x, *whole))],
        out_specs=[pl.BlockSpec((config.block,), lambda i: (i,)), by_row],
        out_shape=[
            jax.ShapeDtypeStruct((padded,), jnp.float32),
            jax.ShapeDtypeStruct((padded, LATENT), jnp.float32),
        ],
        compiler_params=plgpu.CompilerParams(num_warps=config.num_warps, num_stages=config.num_stages),
        interpret=jax.default_backend() == "cpu",
    )(flat, x, *whole)
    return value[:num].reshape(images, chains), slope[:num, :latent].reshape(z.shape)


def _broadcast(size: int, leaf: jax.Array, batched: bool) -> jax.Array:
    return leaf if batched else jnp.broadcast_to(leaf, (size, *leaf.shape))


@functools.cache
def _likelihood(config: Config) -> Any:
    """`f(weights, z, x)`: differentiable in z; under `vmap` over chains, and over images around it, one kernel."""

    @custom_vmap
    def of_one_image(weights, z, x):
        value, slope = _many(config, weights, z[None], x[None])
        return value[0], slope[0]

    @of_one_image.def_vmap
    def _(size, batched, weights, z, x):
        return _many(config, weights, _broadcast(size, z, batched[1]), _broadcast(size, x, batched[2])), (True, True)

    @custom_vmap
    def of_one(weights, z, x):
        value, slope = of_one_image(weights, z[None], x)
        return value[0], slope[0]

    @of_one.def_vmap
    def _(size, batched, weights, z, x):
        if not batched[2]:
            return of_one_image(weights, z, x), (True, True)
        value, slope = _many(config, weights, _broadcast(size, z, batched[1])[:, None], x)
        return (value[:, 0], slope[:, 0]), (True, True)

    @jax.custom_vjp
    def likelihood(weights, z, x):
        return of_one(weights, z, x)[0]

    def forward(weights, z, x):
        value, slope = of_one(weights, z, x)
        return value, (slope, weights, x)

    def backward(kept, cotangent):
        slope, weights, x = kept
        return jax.tree.map(jnp.zeros_like, weights), cotangent * slope, jnp.zeros_like(x)

    likelihood.defvjp(forward, backward)
    return likelihood
