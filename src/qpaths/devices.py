"""Rows of arrays spread over devices, of one process or of several that form a JAX cluster.

Numbers must not depend on how many devices there are, not even in the last bit. Compilers round differently in arrays
of different shapes, so all work is done in cells: pieces of the rows whose size depends on the number of rows, not on
that of the devices. Each device loops over its cells with the same compiled body. Sums over rows are made cell by cell
and added on the host in the order of the cells.
"""

import functools
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Devices: TypeAlias = int | Sequence[Any] | None
"""How many devices, the devices themselves (`jax.devices()`), or None."""

_AXIS = "rows"
_CELLS = 16
"""Cells of the rows. Any number of devices that divides this one has the same, where it divides the rows, too."""
_CPU_ROWS = 4096
"""Rows that a CPU works on at once where nothing else is asked for: what fits into its cache."""


def as_devices(devices: Devices) -> tuple[Any, ...] | None:
    """The devices that were asked for, checked: a number stands for the first ones that JAX sees."""
    if devices is None:
        return None
    found = tuple(jax.devices())
    if isinstance(devices, int):
        if not 1 <= devices <= len(found):
            hint = "" if found[0].platform != "cpu" else (
                f" A CPU counts as {devices} devices if XLA_FLAGS holds "
                f"--xla_force_host_platform_device_count={devices} when Python starts."
            )
            raise ValueError(f"`devices` must lie between 1 and {len(found)}, which JAX sees, got {devices}.{hint}")
        devices = found[:devices]
    devices = tuple(devices)
    strange = [device for device in devices if device not in found]
    if not devices or strange or len(set(devices)) < len(devices):
        raise ValueError(f"`devices` must be different devices out of `jax.devices()`, got {list(devices)}.")
    absent = set(range(jax.process_count())) - {device.process_index for device in devices}
    if absent:
        raise ValueError(
            f"`devices` must include some of each process of the cluster, got none of process {min(absent)}: give "
            f"`jax.devices()`."
        )
    return devices


def check_shares(name: str, num: int, devices: tuple[Any, ...] | None) -> None:
    """Raise unless every device gets as many rows as the others."""
    if devices is not None and num % len(devices):
        below, above = num // len(devices) * len(devices), -(-num // len(devices)) * len(devices)
        fewer = max(count for count in range(1, len(devices)) if num % count == 0)
        numbers = f"{below} or {above}" if below else f"{above}"
        raise ValueError(
            f"`devices` must divide `{name}`, got {len(devices)} devices for {num}: take `{name}={numbers}`, or "
            f"`devices={fewer}`."
        )


class Spread:
    """An array whose rows lie on several devices, in order. NumPy's functions see all of them."""

    def __init__(self, array: jax.Array):
        self.array = array

    @staticmethod
    def of(rows: np.ndarray, devices: tuple[Any, ...], dtype: Any = None) -> "Spread":
        """Rows that every process has, each put on its device."""
        rows = np.asarray(rows, dtype)
        return Spread(jax.make_array_from_callback(rows.shape, _sharding(devices, _AXIS), lambda part: rows[part]))

    def like(self, rows: np.ndarray) -> "Spread":
        """Other rows on the same devices."""
        return Spread.of(rows, self.devices, self.dtype)

    @property
    def devices(self) -> tuple[Any, ...]:
        return tuple(self.array.sharding.mesh.devices.flat)  # type: ignore[attr-defined]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        return np.dtype(self.array.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(gathered(self.array), dtype)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Rows by number, on the host: only these are fetched. With a tuple, any part of the array."""
        if isinstance(index, tuple):
            return np.asarray(self)[index]
        numbers = np.arange(self.shape[0])[index]
        rows = gathered(_fetched(self.array, np.atleast_1d(numbers), devices=self.devices))
        return rows.reshape(*np.shape(numbers), *self.shape[1:])

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the rows with weights that sum to one."""
        own = Spread.of(weights, self.devices, self.dtype).array
        mean = total(_weighted_sum, (), (self.array, own), self.devices)
        return mean, total(_weighted_square, (mean.astype(self.dtype),), (self.array, own), self.devices)


def on_host(rows: Any) -> Any:
    """All rows as a NumPy array where they are spread; anything else as it is."""
    return np.asarray(rows) if isinstance(rows, Spread) else rows


def gathered(tree: Any) -> Any:
    """Arrays on devices as NumPy arrays, in every process."""
    leaves, structure = jax.tree.flatten(tree)
    if not all(leaf.is_fully_addressable for leaf in leaves):
        everywhere = _everywhere(tuple(leaves[0].sharding.mesh.devices.flat))
        leaves = [leaf.addressable_data(0) for leaf in everywhere(leaves)]
    return jax.tree.unflatten(structure, [np.asarray(leaf) for leaf in leaves])


@functools.lru_cache
def _everywhere(devices: tuple[Any, ...]) -> Any:
    """A program that gives every device all rows."""
    return jax.jit(lambda arrays: arrays, out_shardings=_sharding(devices))


@functools.lru_cache
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.array(devices), (_AXIS,))


def _sharding(devices: tuple[Any, ...], *axes: str) -> NamedSharding:
    return NamedSharding(_mesh(devices), PartitionSpec(*axes))


def _mapped(function: Callable[..., Any], devices: tuple[Any, ...], specs: str, out: str) -> Any:
    """`function` on each device; a letter r for an argument whose rows are spread, a for one that all have."""
    parts = {"r": PartitionSpec(_AXIS), "a": PartitionSpec()}
    in_specs = tuple(parts[letter] for letter in specs)
    return jax.shard_map(function, mesh=_mesh(devices), in_specs=in_specs, out_specs=parts[out], check_vma=False)


# Work on rows.


def by_rows(
    work: Callable[..., Any], shared: Any, rows: Any, devices: tuple[Any, ...], chunk_size: int | None = None
) -> Any:
    """`work(shared, numbers, group, rows)` for pieces of the rows on their devices; rows again, on the same devices.

    Args:
        work: A function that JAX can trace, the same object at each call. It gets the numbers of the rows and the share
            of all rows that lies before the piece, so that it can tell groups of rows apart. It may return several
            rows for each.
        shared: Arrays that every device needs, NumPy's.
        rows: Arrays on the devices.
        devices: The devices.
        chunk_size: The most rows of a piece.
    """
    return _run(work, shared, rows, devices, chunk_size, True)


def total(work: Callable[..., Any], shared: Any, rows: Any, devices: tuple[Any, ...]) -> Any:
    """The sum of `work(shared, is_real, rows)` over pieces of the rows, on the host."""
    parts = gathered(_run(work, shared, rows, devices, None, False))
    return jax.tree.map(lambda leaf: np.sum(leaf, axis=0), parts)


def _run(
    work: Any, shared: Any, rows: Any, devices: tuple[Any, ...], chunk_size: int | None, keeps_rows: bool
) -> Any:
    num = jax.tree.leaves(rows)[0].shape[0]
    cells = math.lcm(math.gcd(num, _CELLS), len(devices))
    height = num // cells
    most = chunk_size or (_CPU_ROWS if devices[0].platform == "cpu" else height)
    parts = -(-height // most)
    # XLA would take apart a loop whose length it knows to be one, and round differently.
    length = np.int32(cells // len(devices) * parts)
    return _program(work, shared, rows, length, devices=devices, cells=cells, parts=parts, keeps_rows=keeps_rows)


@functools.partial(jax.jit, static_argnames=("work", "devices", "cells", "parts", "keeps_rows"))
def _program(
    work: Any,
    shared: Any,
    rows: Any,
    length: Any,
    *,
    devices: tuple[Any, ...],
    cells: int,
    parts: int,
    keeps_rows: bool,
) -> Any:
    """All pieces: `cells` of equal height, each cut into `parts`, the last one filled up with copies of its last row."""
    height = jax.tree.leaves(rows)[0].shape[0] // cells
    size, own = -(-height // parts), cells // len(devices)

    def cut(leaf: Any) -> Any:
        leaf = leaf.reshape(own, height, *leaf.shape[1:])
        if parts * size > height:
            filling = [(0, 0), (0, parts * size - height)] + [(0, 0)] * (leaf.ndim - 2)
            leaf = jnp.pad(leaf, filling, mode="edge")
        leaf = leaf.reshape(own * parts, size, *leaf.shape[2:])
        # XLA would take what is the only piece out of the loop, and round differently.
        return leaf if own * parts > 1 else jnp.concatenate([leaf, leaf])

    def joined(leaf: Any) -> Any:
        several = leaf.shape[1] // size
        leaf = leaf.reshape(own, parts * size, several, *leaf.shape[2:])[:, :height]
        return leaf.reshape(own * height * several, *leaf.shape[3:])

    def on_device(shared: Any, rows: Any, length: Any) -> Any:
        pieces = jax.tree.map(cut, rows)
        first_cell = jax.lax.axis_index(_AXIS) * own

        def one(number: Any) -> Any:
            cell, part = first_cell + number // parts, number % parts
            piece = jax.tree.map(lambda leaf: leaf[number], pieces)
            within = part * size + jnp.arange(size)
            if keeps_rows:
                return work(shared, cell * height + jnp.minimum(within, height - 1), cell / cells, piece)
            return work(shared, within < height, piece)

        empty = jax.tree.map(lambda leaf: jnp.zeros((own * parts, *leaf.shape), leaf.dtype), jax.eval_shape(one, 0))
        found = jax.lax.fori_loop(
            0,
            length,
            lambda number, found: jax.tree.map(lambda old, new: old.at[number].set(new), found, one(number)),
            empty,
        )
        return jax.tree.map(joined, found) if keeps_rows else found

    return _mapped(on_device, devices, "ara", "r")(shared, rows, length)


def _weighted_sum(shared: Any, is_real: Any, rows: Any) -> Any:
    positions, weights = rows
    return jnp.where(is_real, weights, 0) @ positions


def _weighted_square(shared: Any, is_real: Any, rows: Any) -> Any:
    positions, weights = rows
    centered = positions - shared[0]
    return (centered * jnp.where(is_real, weights, 0)[:, None]).T @ centered


@functools.partial(jax.jit, static_argnames="devices")
def _fetched(array: Any, numbers: Any, *, devices: tuple[Any, ...]) -> Any:
    """Some rows of a spread array, in every process."""

    def on_device(rows: Any, numbers: Any) -> Any:
        local = numbers - jax.lax.axis_index(_AXIS) * rows.shape[0]
        is_here = ((local >= 0) & (local < rows.shape[0])).reshape(-1, *[1] * (rows.ndim - 1))
        return jax.lax.psum(jnp.where(is_here, rows[jnp.clip(local, 0, rows.shape[0] - 1)], 0), _AXIS)

    return _mapped(on_device, devices, "ra", "a")(array, numbers)


# Rows that change places.


def taken(tree: Any, numbers: np.ndarray) -> Any:
    """Rows of all arrays by number, as many as there are devices times something: those of spread arrays spread again.

    Every process calls it with the same numbers. Only rows that are needed on another device travel, each once.
    """
    leaves, structure = jax.tree.flatten(tree)
    spread = [leaf.array for leaf in leaves if isinstance(leaf, Spread)]
    if spread:
        devices = next(leaf.devices for leaf in leaves if isinstance(leaf, Spread))
        moved = iter(_exchanged(spread, numbers, devices))
    return jax.tree.unflatten(
        structure, [Spread(next(moved)) if isinstance(leaf, Spread) else leaf[numbers] for leaf in leaves]
    )


def _exchanged(arrays: list[Any], numbers: np.ndarray, devices: tuple[Any, ...]) -> list[Any]:
    """The rows with the given numbers of arrays that have equally many rows."""
    _check_agreement(numbers)
    num_devices, height = len(devices), arrays[0].shape[0] // len(devices)
    wanted = numbers.reshape(num_devices, -1)
    source, local = np.divmod(wanted, height)
    needed = [[np.unique(local[to][source[to] == at]) for at in range(num_devices)] for to in range(num_devices)]
    most = max((needed[to][at].size for to in range(num_devices) for at in range(num_devices) if at != to), default=0)
    # A few sizes, since each compiles a program.
    most = 0 if most == 0 else min(4 ** math.ceil(math.log(most, 4)), height)
    sent = np.zeros((num_devices, num_devices, most), np.int32)
    picked = local.copy()
    for to in range(num_devices):
        for at in range(num_devices):
            if at != to and needed[to][at].size:
                sent[at, to, : needed[to][at].size] = needed[to][at]
                comes = source[to] == at
                picked[to, comes] = height + at * most + np.searchsorted(needed[to][at], local[to][comes])
    plan = tuple(Spread.of(rows, devices, np.int32).array for rows in (sent, picked))
    return _exchange(arrays, *plan, devices=devices)


@functools.partial(jax.jit, static_argnames="devices")
def _exchange(arrays: list[Any], sent: Any, picked: Any, *, devices: tuple[Any, ...]) -> list[Any]:
    """On each device: send rows to the others, and pick from the own rows and those that came."""

    def on_device(arrays: list[Any], sent: Any, picked: Any) -> list[Any]:
        def one(rows: Any) -> Any:
            if sent.size:
                came = jax.lax.all_to_all(rows[sent[0]], _AXIS, 0, 0)
                rows = jnp.concatenate([rows, came.reshape(-1, *rows.shape[1:])])
            return rows[picked[0]]

        return [one(rows) for rows in arrays]

    return _mapped(on_device, devices, "rrr", "r")(arrays, sent, picked)


def _check_agreement(numbers: np.ndarray) -> None:
    """Raise where processes of a cluster would send other rows than the others expect."""
    if jax.process_count() == 1:
        return
    from jax.experimental.multihost_utils import process_allgather

    found = np.asarray(process_allgather(np.uint32(zlib.crc32(numbers.tobytes()))))
    if (found != found[0]).any():
        raise RuntimeError(
            "the processes of the cluster chose different ancestors: give all of them the same key, model and data, "
            "and run them on machines of one kind, with the same versions of NumPy and JAX."
        )
