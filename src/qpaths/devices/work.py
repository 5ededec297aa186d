"""Work on rows where they lie, in pieces that do not depend on the number of devices.

Numbers must not depend on how many devices there are, not even in the last bit. Compilers round differently in arrays
of different shapes, and in programs for one device and for many. So all arithmetic is done by programs for a single
device, on cells: pieces of the rows whose size depends on the number of rows alone. Each device works through its
cells. Programs for many devices at once only move rows. Sums over rows are made cell by cell, and added on the host in
the order of the cells.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..chunks import in_chunks
from .mesh import gathered, mapped, sharding

_CELLS = 16
"""Cells of the rows. Any number of devices that divides this one has the same, where it divides the rows, too."""
_CPU_ROWS = 4096
"""Rows that a CPU works on at once where nothing else is asked for: what fits into its cache."""


def rows_at_once(num: int, devices: tuple[Any, ...]) -> int:
    """How many of `num` rows a device works on at once where nothing else is asked for."""
    height = num // _num_cells(num, devices)
    return min(height, _CPU_ROWS) if devices[0].platform == "cpu" else height


def _num_cells(num: int, devices: tuple[Any, ...]) -> int:
    return math.lcm(math.gcd(num, _CELLS), len(devices))


def by_rows(
    work: Callable[..., Any],
    shared: Any,
    rows: Any,
    devices: tuple[Any, ...],
    chunk_size: int | None = None,
    cells: int | None = None,
) -> Any:
    """`work(shared, numbers, before, rows)` for pieces of the rows on their devices; rows again, on the same devices.

    Args:
        work: A function that JAX can trace, hashable, equal to the one of the last call where it does the same. It
            gets the numbers of the rows, and the share of all rows that lies before the cell, so that it can tell
            groups of rows apart. It may return several rows for each.
        shared: Arrays that every device needs, NumPy's.
        rows: Arrays on the devices.
        devices: The devices.
        chunk_size: The most rows of a piece.
        cells: How many cells there are, a multiple of the number of devices, where it should not follow from the number
            of rows.
    """
    size = chunk_size or rows_at_once(jax.tree.leaves(rows)[0].shape[0], devices)
    return _join(_in_cells(work, shared, rows, devices, cells, size), devices)


def total(work: Callable[..., Any], shared: Any, rows: Any, devices: tuple[Any, ...]) -> Any:
    """The sum of `work(shared, rows)` over the cells, on the host."""

    def one(*parts: np.ndarray) -> np.ndarray:
        return np.sum(np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:]), axis=0)

    return jax.tree.map(one, *gathered(_in_cells(work, shared, rows, devices, None, None)))


def _in_cells(
    work: Any, shared: Any, rows: Any, devices: tuple[Any, ...], cells: int | None, size: int | None
) -> list[Any]:
    """What `work` returns for the first cells of all devices, for the second ones, and so on."""
    num = jax.tree.leaves(rows)[0].shape[0]
    cells = cells or _num_cells(num, devices)
    own, height = cells // len(devices), num // cells
    pieces = [_on_device(piece) for piece in (_cut(rows, devices=devices, own=own) if own > 1 else [rows])]
    found: list[list[Any]] = [[] for _ in range(own)]
    for place, device in enumerate(devices):
        if device.process_index != jax.process_index():
            continue
        put = jax.device_put(shared, device)
        for i in range(own):
            cell = place * own + i
            here = np.int64(cell * height), np.float64(cell / cells)
            found[i].append(_piece(put, here, pieces[i][device], work=work, size=size))
    return [jax.tree.map(lambda *parts: _global(parts, devices), *parts) for parts in found]


@functools.partial(jax.jit, static_argnames=("work", "size"))
def _piece(shared: Any, here: Any, rows: Any, *, work: Any, size: int | None) -> Any:
    """One cell on one device: its rows in chunks of a size, or one value of all of them where there is none."""
    if size is None:
        return jax.tree.map(lambda leaf: leaf[None], work(shared, rows))
    first, before = here
    numbers = first + jnp.arange(jax.tree.leaves(rows)[0].shape[0])
    return in_chunks(lambda part: work(shared, part[0], before, part[1]), (numbers, rows), size)


def _on_device(tree: Any) -> dict[Any, Any]:
    """The parts of arrays that lie on each device of this process."""
    leaves, structure = jax.tree.flatten(tree)
    shards = [{shard.device: shard.data for shard in leaf.addressable_shards} for leaf in leaves]
    devices = shards[0].keys()
    return {device: jax.tree.unflatten(structure, [shard[device] for shard in shards]) for device in devices}


def _global(parts: tuple[Any, ...], devices: tuple[Any, ...]) -> jax.Array:
    """One array from its parts on the devices of this process."""
    shape = len(devices) * parts[0].shape[0], *parts[0].shape[1:]
    return jax.make_array_from_single_device_arrays(shape, sharding(devices, "rows"), list(parts))


@functools.partial(jax.jit, static_argnames=("devices", "own"))
def _cut(rows: Any, *, devices: tuple[Any, ...], own: int) -> list[Any]:
    """The rows of each device in as many pieces as it has cells."""

    def on_device(rows: Any) -> list[Any]:
        split = jax.tree.map(lambda leaf: jnp.split(leaf, own), rows)
        return [jax.tree.map(lambda _, parts: parts[i], rows, split) for i in range(own)]  # noqa: B023

    return mapped(on_device, devices, "r", "r")(rows)


def _join(pieces: list[Any], devices: tuple[Any, ...]) -> Any:
    """The inverse of `_cut`."""
    return pieces[0] if len(pieces) == 1 else _joined(pieces, devices=devices)


@functools.partial(jax.jit, static_argnames="devices")
def _joined(pieces: list[Any], *, devices: tuple[Any, ...]) -> Any:
    def on_device(pieces: list[Any]) -> Any:
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *pieces)

    return mapped(on_device, devices, "r", "r")(pieces)
