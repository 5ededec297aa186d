"""The gradient of the Bernoulli decoder in bfloat16: by XLA, and by GPU kernels that keep activations on the chip.

    python -m benchmarks.speed.fused [--model WEIGHTS] [--images 2500] [--chains 10]

Two kernels (Pallas, Triton backend). `last` fuses the last layer, where logits and residuals are four fifths of the
memory traffic: as in attention, a block of chains walks over chunks of pixels, each chunk of weights is read once and
used for the logits and for the gradient in the last hidden layer. `whole` fuses all layers, and gives the value as
well. Prints microseconds for one gradient of all chains. Off a GPU the kernels run in Pallas's interpreter.
"""

import argparse
import functools
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from qpaths.models import VAE, load_vae, low_precision, simulate

LATENT, HIDDEN, INNER = 64, 256, 32
"""Sizes in a kernel are powers of two; the first hidden layer is walked in chunks of INNER units."""


class Config(NamedTuple):
    """Chains of a program, pixels of a chunk, warps, stages, and whether the value is wanted."""

    block: int = 64
    chunk: int = 64
    warps: int = 4
    stages: int = 2
    with_value: bool = False


class Weights(NamedTuple):
    """Of three layers, filled up: units that are not there are zero, pixels that are not there certainly white."""

    w1: jax.Array
    b1: jax.Array
    w2: jax.Array
    b2: jax.Array
    w3: jax.Array
    b3: jax.Array

    @staticmethod
    def of(decoder, chunk):
        first, second, last = decoder.network.layers
        hidden, pixels = up_to(first.bias.size, INNER), up_to(last.bias.size, chunk)
        return Weights(
            filled(first.weight, (hidden, LATENT)).astype(jnp.bfloat16),
            filled(first.bias, (hidden,)),
            filled(second.weight.T, (hidden, HIDDEN)).astype(jnp.bfloat16),
            filled(second.bias, (HIDDEN,)),
            filled(last.weight, (pixels, HIDDEN)).astype(jnp.bfloat16),
            filled(last.bias, (pixels,), -1e4),
        )


def up_to(size, step):
    return -(-size // step) * step


def filled(array, shape, value=0.0):
    return jnp.full(shape, value, array.dtype).at[tuple(slice(0, size) for size in array.shape)].set(array)


def dot(a, b, transposed=False):
    return plgpu.dot(a.astype(jnp.bfloat16), b, trans_b=transposed)


def last_layer(h2, x_ref, w3, b3, config, chains):
    """Value and slope in the last hidden layer of a block of chains."""
    rows = (pl.program_id(0) * config.block + jnp.arange(config.block)) // chains
    rows = jnp.minimum(rows, x_ref.shape[0] - 1)

    def step(c, carry):
        value, slope = carry
        pixels = pl.ds(c * config.chunk, config.chunk)
        w = w3[pixels, :]
        logits = dot(h2, w, transposed=True) + b3[pixels][None, :]
        x = x_ref[rows, pixels].astype(jnp.float32)
        decay = jnp.exp(-jnp.abs(logits))
        if config.with_value:
            value = value + jnp.sum(x * logits - jnp.maximum(logits, 0.0) - jnp.log(1.0 + decay), axis=1)
        residual = x - jnp.where(logits >= 0, 1.0, decay) / (1.0 + decay)
        return value, slope + dot(residual, w)

    start = jnp.zeros(config.block, jnp.float32), jnp.zeros((config.block, HIDDEN), jnp.float32)
    return jax.lax.fori_loop(0, w3.shape[0] // config.chunk, step, start)


def last_kernel(h2_ref, x_ref, w3, b3, value_ref, slope_ref, *, config, chains):
    value, slope = last_layer(h2_ref[...], x_ref, w3, b3, config, chains)
    value_ref[...], slope_ref[...] = value, slope.astype(slope_ref.dtype)


def whole_kernel(z_ref, x_ref, w1, b1, w2, b2, w3, b3, value_ref, slope_ref, *, config, chains):
    z, num = z_ref[...], w1.shape[0] // INNER

    def first_layer(c):
        part = pl.ds(c * INNER, INNER)
        return part, jnp.tanh(dot(z, w1[part, :], transposed=True) + b1[part][None, :])

    def up(c, total):
        part, h1 = first_layer(c)
        return total + dot(h1, w2[part, :])

    def down(c, slope):
        # Computed again: holding it would cost more in registers.
        part, h1 = first_layer(c)
        return slope + dot(dot(slope2, w2[part, :], transposed=True) * (1.0 - h1 * h1), w1[part, :])

    h2 = jnp.tanh(jax.lax.fori_loop(0, num, up, jnp.zeros((config.block, HIDDEN), jnp.float32)) + b2[...][None, :])
    value, slope2 = last_layer(h2.astype(jnp.bfloat16), x_ref, w3, b3, config, chains)
    slope2 = (slope2 * (1.0 - h2 * h2)).astype(jnp.bfloat16)
    value_ref[...] = value
    slope_ref[...] = jax.lax.fori_loop(0, num, down, jnp.zeros(z_ref.shape, jnp.float32))


def call(kernel, rows, dtype, x, weights, config, chains):
    """Values, and slopes of the shape of `rows`, over blocks of chains."""
    num, width = rows.shape
    padded = up_to(num, config.block)
    x = jnp.pad(x, ((0, 0), (0, weights[-1].size - x.shape[1])))
    by_row = pl.BlockSpec((config.block, width), lambda i: (i, 0))
    value, slope = pl.pallas_call(
        functools.partial(kernel, config=config, chains=chains),
        grid=(padded // config.block,),
        in_specs=[by_row, *(pl.BlockSpec(a.shape, lambda i, n=a.ndim: (0,) * n) for a in (x, *weights))],
        out_specs=[pl.BlockSpec((config.block,), lambda i: (i,)), by_row],
        out_shape=[jax.ShapeDtypeStruct((padded,), jnp.float32), jax.ShapeDtypeStruct((padded, width), dtype)],
        compiler_params=plgpu.CompilerParams(num_warps=config.warps, num_stages=config.stages),
        interpret=jax.default_backend() == "cpu",
    )(jnp.pad(rows, ((0, padded - num), (0, 0))), x, *weights)
    return value[:num], slope[:num]


def whole(decoder, z, x, chains, config):
    rows = jnp.pad(z, ((0, 0), (0, LATENT - z.shape[1])))
    value, slope = call(whole_kernel, rows, jnp.float32, x, Weights.of(decoder, config.chunk), config, chains)
    return value, slope[:, : z.shape[1]]


def last(decoder, z, x, chains, config):
    w = Weights.of(decoder, config.chunk)
    z16 = jnp.pad(z, ((0, 0), (0, LATENT - z.shape[1]))).astype(jnp.bfloat16)
    h1 = jnp.tanh(z16 @ w.w1.T + w.b1.astype(jnp.bfloat16))
    h2 = jnp.tanh(h1 @ w.w2 + w.b2.astype(jnp.bfloat16))
    value, slope = call(last_kernel, h2, jnp.bfloat16, x, (w.w3, w.b3), config, chains)
    slope = ((slope * (1 - h2 * h2)) @ w.w2.T) * (1 - h1 * h1)
    return value, (slope @ w.w1)[:, : z.shape[1]].astype(jnp.float32)


def by_xla(decoder, z, x, chains):
    def of_image(z, x):
        return jax.vmap(jax.value_and_grad(lambda z: decoder.log_likelihood(z, x)))(z)

    value, slope = jax.vmap(of_image)(z.reshape(-1, chains, z.shape[1]), x)
    return value.reshape(-1), slope.reshape(z.shape)


def microseconds(function, z, with_value, num, rounds):
    """Of one gradient, in a loop of `num` that feeds each into the next."""

    def once(_, z):
        value, slope = function(z)
        return z + 1e-4 * slope + (1e-9 * value[:, None] if with_value else 0.0)

    many = jax.jit(lambda z: jax.lax.fori_loop(0, num, once, z))
    jax.block_until_ready(many(z))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(many(z))
        seconds.append(time.perf_counter() - start)
    return 1e6 * statistics.median(seconds) / num


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="weights, as .npz or .safetensors; random ones unless given")
    parser.add_argument("--images", type=int, default=2500)
    parser.add_argument("--chains", type=int, default=10)
    parser.add_argument("--num", type=int, default=200, help="gradients of a timing")
    arguments = parser.parse_args()
    decoder = (load_vae(arguments.model) if arguments.model else VAE.random(jax.random.key(0))).decoder
    chains = arguments.chains
    _, x = simulate(decoder, arguments.images, key=jax.random.key(1))
    z = jax.random.normal(jax.random.key(2), (arguments.images * chains, decoder.num_latent))
    with jax.default_matmul_precision("highest"):
        wanted = by_xla(decoder, z, x, chains)[1]
    variants = {f"XLA, value {v}": (lambda z: by_xla(low_precision(decoder), z, x, chains), v) for v in (False, True)}
    for config in (
        Config(),
        Config(128, 64, 8),
        Config(64, 32, 4, 3),
        Config(with_value=True),
        Config(64, 32, 4, 3, with_value=True),
    ):
        for fused in (last, whole):
            name = f"{fused.__name__}, {', '.join(f'{k} {v}' for k, v in config._asdict().items())}"
            compute = functools.partial(fused, decoder, x=x.astype(jnp.bfloat16), chains=chains, config=config)
            variants[name] = compute, config.with_value
    for name, (function, with_value) in variants.items():
        error = float(jnp.linalg.norm(function(z)[1] - wanted) / jnp.linalg.norm(wanted))
        found = microseconds(function, z, with_value, arguments.num, 3)
        print(f"{name}: {found:.1f} us, relative error {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
