"""The one place that knows NumPy from JAX.

The engine is written for arrays with a leading particle axis. NumPy arrays run on the host, without a compiler; JAX
arrays run traced, inside a compiled program. `namespace` says which library the arrays belong to, and this module holds
what the two libraries do differently: loops, random numbers, and a few reductions.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Key

from .types import AnyArray, ArrayNamespace, Count, PyTree, RealLike

_TABLE_BITS = 16
"""Random bits that choose a quantile: four normal numbers from one word of 64 bits."""

Carry = TypeVar("Carry")


def numbers(key: Array, num: int, normals: int, uniforms: int, dtype: DTypeLike) -> tuple[Array, Array]:
    """Draw normal and uniform numbers of the transitions of one row, in one call."""
    # Drawn flat: the same numbers under `vmap` in a quarter of the time.
    uniform = jax.random.uniform(key, (num * (normals + uniforms),), dtype).reshape(num, -1)
    symmetric = jnp.maximum(2 * uniform[:, uniforms:] - 1, np.nextafter(-1.0, 0.0, dtype=dtype))  # finite at 0
    return np.sqrt(2.0).astype(dtype) * jax.lax.erf_inv(symmetric), uniform[:, :uniforms]


def coarse_numbers(key: Array, num: int, normals: int, uniforms: int, dtype: DTypeLike) -> tuple[Array, Array]:
    """Draw the same, with normal numbers looked up among quantiles."""
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


_PLAIN = (np.ndarray, np.generic, float, int, type(None))
"""Types that hold no JAX array, told apart without a look at their leaves."""
quiet = functools.partial(np.errstate, all="ignore")
"""Silence warnings of NumPy where `-inf - -inf` and `log(0)` are expected: a context or a decorator."""


def namespace(*values: PyTree) -> ArrayNamespace:
    """`jax.numpy` if any of the values holds a JAX array, `numpy` otherwise."""
    for value in values:
        if isinstance(value, jax.Array):
            return jnp
        if not isinstance(value, _PLAIN) and any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value)):
            return jnp
    return np


def is_traced(*values: PyTree) -> bool:
    """Return whether some of the numbers are known only inside a transformation."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def to_host(tree: PyTree) -> PyTree:
    """Return the tree with arrays of NumPy; single numbers become NumPy scalars, which do not promote."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[()] if isinstance(leaf, jax.Array) else leaf, tree)


def as_float(xp: ArrayNamespace, value: RealLike, dtype: DTypeLike | None = None) -> AnyArray:
    """Return an array of floating-point numbers: of the given type, or of the widest one in use."""
    return xp.asarray(value, dtype=dtype or (np.float64 if xp is np else jnp.result_type(float)))


@functools.cache
def _thread_pools(with_scipy: bool) -> Any:
    """Find the libraries that are loaded now. SciPy brings another one, and may be imported at any time."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, so that small products do not compete with the densities for cores.

    On two cores they made a run in 61 dimensions five times slower, because they wait for each other actively.
    """
    return _thread_pools("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


def is_double() -> bool:
    """Return whether JAX computes with 64 bits here."""
    return jnp.result_type(float) == np.float64


def in_precision(double: bool) -> AbstractContextManager[object]:
    """Compute in the precision of the process that gave a worker its task."""
    if is_double() == double:
        return contextlib.nullcontext()  # a setting of the thread, even the same one, would compile everything anew
    package: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
    return package.enable_x64(double)


# Loops. On the host they are Python's own, and each round runs as it comes.


def scan(
    xp: ArrayNamespace,
    body: Callable[[Carry, Any], tuple[Carry, Any]],
    carry: Carry,
    xs: PyTree = None,
    length: int | None = None,
    unroll: int = 1,
) -> tuple[Carry, PyTree]:
    """`carry, y = body(carry, x)` for each row of `xs`; the last carry and the stacked results, as `jax.lax.scan`."""
    if xp is jnp:
        return jax.lax.scan(body, carry, xs, length=length, unroll=unroll)
    results = []
    for i in range(length if xs is None else jax.tree.leaves(xs)[0].shape[0]):  # type: ignore[arg-type]
        carry, result = body(carry, jax.tree.map(lambda leaf: leaf[i], xs))  # noqa: B023
        results.append(result)
    return carry, stack(results)


def map_rows(xp: ArrayNamespace, function: Callable[[Any], PyTree], xs: PyTree) -> PyTree:
    """`function(x)` for each row of `xs`, one after the other, stacked."""
    leaves = jax.tree.leaves(xs)
    if not leaves:
        return None
    if xp is jnp:
        return jax.lax.map(function, xs)
    num = leaves[0].shape[0]
    return stack([function(jax.tree.map(lambda leaf: leaf[i], xs)) for i in range(num)])  # noqa: B023


def while_loop(xp: ArrayNamespace, unsettled: Callable[..., Any], body: Callable[..., Any], carry: Carry) -> Carry:
    """`carry = body(carry)` while `unsettled(carry)`."""
    if xp is jnp:
        return jax.lax.while_loop(unsettled, body, carry)
    while unsettled(carry):
        carry = body(carry)
    return carry


def cond(
    xp: ArrayNamespace, condition: AnyArray, if_true: Callable[..., Any], if_false: Callable[..., Any], operand: PyTree
) -> PyTree:
    """`if_true(operand)` or `if_false(operand)`."""
    if xp is jnp:
        return jax.lax.cond(condition, if_true, if_false, operand)
    return if_true(operand) if condition else if_false(operand)


def stack(trees: list[Any]) -> PyTree:
    """Stack trees of equal structure into one tree of arrays with a leading axis."""
    return jax.tree.map(lambda *leaves: namespace(leaves).stack(leaves), *trees) if trees else None


# Reductions.


def logsumexp(values: AnyArray, axis: int = -1, keepdims: bool = False) -> AnyArray:
    """Return the log of the sum of `exp(values)`; `-inf` where all are `-inf`."""
    if namespace(values) is jnp:
        return jax.nn.logsumexp(values, axis=axis, keepdims=keepdims)
    largest = np.max(values, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with quiet():
        total = np.log(np.sum(np.exp(values - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else np.squeeze(total, axis=axis)


def softmax(values: AnyArray) -> AnyArray:
    """`exp(values)` divided by its sum over the last axis."""
    if namespace(values) is jnp:
        return jax.nn.softmax(values)
    with quiet():
        unnormalized = np.exp(values - np.max(values, axis=-1, keepdims=True))
        return unnormalized / np.sum(unnormalized, axis=-1, keepdims=True)


def sigmoid(values: AnyArray) -> AnyArray:
    """`1 / (1 + exp(-values))`, exact in relative terms on both sides."""
    if namespace(values) is jnp:
        return jax.nn.sigmoid(values)
    small = np.exp(-np.abs(values))
    return np.where(values >= 0, 1.0, small) / (1.0 + small)


def segment_sum(values: AnyArray, segments: AnyArray, num: int) -> AnyArray:
    """Return sums of the values that belong to each of `num` segments."""
    if namespace(values) is jnp:
        return jax.ops.segment_sum(values, segments, num_segments=num)
    return np.bincount(segments, weights=values, minlength=num)


def largest_first(values: AnyArray, num: int) -> AnyArray:
    """Return the `num` largest values in decreasing order."""
    if namespace(values) is jnp:
        return jax.lax.top_k(values, num)[0]
    return np.sort(np.partition(values, values.size - num)[values.size - num :])[::-1]


# Random numbers. They depend on the key, on what was folded in (a stage, a round) and on the row alone: neither on the
# size of chunks nor on the number of devices. The two worlds draw different numbers from the same key.


def in_order(function: Callable[[Any], Any], tree: Any) -> Any:
    """Map a function over the leaves of a tree whose dictionaries keep their order, which JAX would sort."""

    def one(node: Any) -> Any:
        is_dict = type(node) is dict
        return {name: in_order(function, child) for name, child in node.items()} if is_dict else function(node)

    return jax.tree.map(one, tree, is_leaf=lambda node: type(node) is dict)


def stream_of(key: "RandomKey", *, host: bool) -> Any:
    """Return the random numbers that follow from a key of JAX; a stream is returned as it is."""
    if isinstance(key, HostStream | TracedStream):
        return key
    if not isinstance(key, jax.Array):
        raise TypeError(f"`key` must be a random key of JAX, got {key!r}: give `jax.random.key(0)`.")
    if host:
        return HostStream(tuple(np.asarray(jax.random.key_data(key)).ravel().tolist()))
    return TracedStream(key)


class HostStream:
    """Random numbers of NumPy's counter-based generator, seeded by a tuple of integers."""

    def __init__(self, entropy: tuple[int, ...]):
        self.entropy = entropy

    def fold(self, number: Count) -> "HostStream":
        """The stream of one of many purposes."""
        return HostStream((*self.entropy, int(number)))

    def split(self, num: int) -> list["HostStream"]:
        return [self.fold(i) for i in range(num)]

    @functools.cached_property
    def generator(self) -> np.random.Generator:
        # The length tells (1,) from (1, 0), which the mixing of the seed would not.
        return np.random.Generator(np.random.Philox(np.random.SeedSequence((len(self.entropy), *self.entropy))))

    def uniform(self, shape: tuple[int, ...], dtype: DTypeLike | None = None) -> np.ndarray:
        return self.generator.random(shape)

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.generator.standard_normal(shape)

    def gamma(self, concentration: RealLike, shape: tuple[int, ...]) -> np.ndarray:
        return self.generator.standard_gamma(concentration, shape)

    def key_data(self) -> np.ndarray:
        """Numbers that make a key of JAX, for samplers that need one."""
        return self.generator.integers(0, 2**32, 2, dtype=np.uint32)

    def as_key(self) -> Array:
        return jax.random.wrap_key_data(jnp.asarray(self.key_data()))

    def rows(self, num: int) -> "HostRows":
        return HostRows(self)


class HostRows:
    """Random numbers of consecutive rows, handed out block by block."""

    def __init__(self, stream: HostStream):
        self.stream = stream
        self.steps: dict[int, tuple[np.random.Generator, np.random.Generator]] = {}

    def draw(
        self, num_rows: int, num: int, normals: int, uniforms: int, dtype: DTypeLike | None = None, coarse: bool = False
    ) -> tuple[np.ndarray, ...]:
        """Normal and uniform numbers of `num` transitions for the next rows: shapes (num, rows, ...).

        `coarse` normal numbers are looked up at 2^16 quantiles, as in `TracedRows`, in a quarter of the time.
        """
        normal = np.empty((num, num_rows, normals), np.float32 if coarse else np.float64)
        uniform = np.empty((num, num_rows, uniforms))
        for i in range(num):
            if i not in self.steps:
                self.steps[i] = self.stream.fold(2 * i).generator, self.stream.fold(2 * i + 1).generator
            if coarse:
                # Each row begins with a new word of four numbers, so that blocks of rows do not matter.
                words = self.steps[i][0].bit_generator.random_raw(num_rows * -(-normals // 4))
                bits = words.view(np.uint16).reshape(num_rows, -1)[:, :normals]
                np.take(quantiles(), bits, out=normal[i], mode="wrap")  # without a check of the bounds
            else:
                self.steps[i][0].standard_normal(out=normal[i])
            self.steps[i][1].random(out=uniform[i])
        return normal, uniform


class TracedStream(eqx.Module):
    """Random numbers of `jax.random`."""

    key: Array

    def fold(self, number: Count) -> "TracedStream":
        return TracedStream(jax.random.fold_in(self.key, number))

    def split(self, num: int) -> list["TracedStream"]:
        return [TracedStream(key) for key in jax.random.split(self.key, num)]

    def uniform(self, shape: tuple[int, ...], dtype: DTypeLike | None = None) -> Array:
        return jax.random.uniform(self.key, shape, dtype or jnp.result_type(float))

    def normal(self, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(self.key, shape)

    def gamma(self, concentration: RealLike, shape: tuple[int, ...]) -> Array:
        return jax.random.gamma(self.key, concentration, shape)

    def as_key(self) -> Array:
        return self.key

    def rows(self, num: int) -> "TracedRows":
        return TracedRows(jax.random.split(self.key, num))


class TracedRows(eqx.Module):
    """Random numbers of rows that each have a key."""

    keys: Array

    def draw(
        self, num_rows: int, num: int, normals: int, uniforms: int, dtype: DTypeLike, coarse: bool = False
    ) -> tuple[Array, ...]:
        """Normal and uniform numbers of `num` transitions of every row: shapes (num, rows, ...).

        In one call for each row, which costs a quarter of several and is compiled once. `coarse` normal numbers are
        looked up at 2^16 quantiles, four times faster again: any symmetric law leaves a random walk exact.
        """
        draw = coarse_numbers if coarse else numbers
        parts = jax.vmap(lambda key: draw(key, num, normals, uniforms, dtype))(self.keys)
        return tuple(jnp.swapaxes(part, 0, 1) for part in parts)


Stream: TypeAlias = HostStream | TracedStream
"""Random numbers of one world, made by `stream_of`."""
StreamRows: TypeAlias = HostRows | TracedRows
"""Random numbers of the rows of a stream."""
RandomKey: TypeAlias = Key[Array, ""] | Stream
"""A key of JAX, or the stream that was made from one."""
