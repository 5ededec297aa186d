"""Random numbers of one row of a compiled program, all that it needs in one call."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

_TABLE_BITS = 16


def numbers(key: Array, num: int, normals: int, uniforms: int, dtype: Any) -> tuple[Array, Array]:
    # Drawn flat: the same numbers under `vmap` in a quarter of the time.
    uniform = jax.random.uniform(key, (num * (normals + uniforms),), dtype).reshape(num, -1)
    symmetric = jnp.maximum(2 * uniform[:, uniforms:] - 1, np.nextafter(-1.0, 0.0, dtype=dtype))  # finite at 0
    return np.sqrt(2.0).astype(dtype) * jax.lax.erf_inv(symmetric), uniform[:, :uniforms]


def coarse_numbers(key: Array, num: int, normals: int, uniforms: int, dtype: Any) -> tuple[Array, Array]:
    bits = jax.random.bits(key, (num * (normals + 2 * uniforms),), jnp.uint16)
    noise = jnp.asarray(quantiles(), dtype)[bits[: num * normals]].reshape(num, -1)
    rest = bits[num * normals :].astype(jnp.uint32).reshape(2, num, -1)
    # In the middle of equal steps, as many as the type can tell apart: neither 0 nor 1.
    width = min(32, jnp.finfo(dtype).nmant)
    return noise, (((rest[0] << 16 | rest[1]) >> (32 - width)).astype(dtype) + 0.5) * 2.0**-width


@functools.cache
def quantiles() -> np.ndarray:
    """Quantiles of the normal law at 2^16 equal steps."""
    from scipy.special import ndtri

    half = ndtri(0.5 + (np.arange(2 ** (_TABLE_BITS - 1)) + 0.5) / 2**_TABLE_BITS).astype(np.float32)
    return np.concatenate([-half[::-1], half])
