"""Rows of arrays spread over devices, of one process or of several that form a JAX cluster.

Numbers must not depend on how many devices there are, not even in the last bit. Compilers round differently in arrays
of different shapes, and in programs for one device and for many. So all arithmetic is done by programs for a single
device, on cells: pieces of the rows whose size depends on the number of rows alone. Each device works through its
cells. Programs for many devices at once only move rows. Sums over rows are made cell by cell, and added on the host in
the order of the cells.
"""

import dataclasses
import functools
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from ..core import AnyArray, PyTree
from .pieces import COMPILED, Place, in_pieces, num_of

Devices: TypeAlias = int | Sequence[Any] | None
"""A number of devices, the devices themselves (`jax.devices()`), or None."""

_AXIS = "rows"
"""Name of the only axis of a mesh."""
_CELLS = 16
"""Cells of the rows. Any number of devices that divides this one has the same, where it divides the rows, too."""
_CPU_ROWS = 4096
"""Rows that a CPU works on at once where nothing else is asked for: what fits into its cache."""


def as_devices(devices: Devices) -> tuple[Any, ...] | None:
    """The devices that were asked for, checked: a number means the first ones that JAX sees."""
    if devices is None:
        return None
    found = tuple(jax.devices())
    if isinstance(devices, int):
        if not 1 <= devices <= len(found):
            hint = (
                ""
                if found[0].platform != "cpu" or devices < 1
                else (
                    f" A CPU counts as {devices} devices if XLA_FLAGS holds "
                    f"--xla_force_host_platform_device_count={devices} when Python starts."
                )
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


def check_shares(name: str, num: int, devices: Any, length: int = 1) -> None:
    """Raise unless every device gets as many rows, or chains of some length, as the others."""
    if devices is None or num % (len(devices) * length) == 0:
        return
    step = len(devices) * length
    numbers = " or ".join(str(number) for number in (num // step * step, -(-num // step) * step) if number)
    fewer = max(count for count in range(1, len(devices)) if num % (count * length) == 0)
    chains = "" if length == 1 else f" in chains of {length}"
    raise ValueError(
        f"`devices` must divide `{name}`, got {len(devices)} devices for {num}{chains}: take `{name}={numbers}`, or "
        f"`devices={fewer}`."
    )


def gathered(tree: PyTree) -> PyTree:
    """Arrays on devices as NumPy arrays, in every process."""
    leaves, structure = jax.tree.flatten(tree)
    if not all(leaf.is_fully_addressable for leaf in leaves):
        everywhere = _everywhere(tuple(leaves[0].sharding.mesh.devices.flat))
        leaves = [leaf.addressable_data(0) for leaf in everywhere(leaves)]
    return jax.tree.unflatten(structure, [np.asarray(leaf) for leaf in leaves])


def portable(tree: PyTree, dtype: DTypeLike) -> PyTree:
    """Arrays that every process has, as programs on devices of several processes take them: NumPy's.

    Single numbers that JAX would let follow the precision of what they meet get that of the run.
    """

    def one(leaf: AnyArray) -> AnyArray:
        follows = isinstance(leaf, float | np.floating) or (isinstance(leaf, jax.Array) and leaf.weak_type)
        if follows and np.issubdtype(np.result_type(leaf), np.floating):
            return np.asarray(leaf, dtype)
        return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf

    return jax.tree.map(one, tree)


@functools.lru_cache
def _everywhere(devices: tuple[Any, ...]) -> Callable[..., PyTree]:
    """A program that gives every device all rows."""
    return jax.jit(lambda arrays: arrays, out_shardings=sharding(devices))


@functools.lru_cache
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.array(devices), (_AXIS,))


def sharding(devices: tuple[Any, ...], *axes: str) -> NamedSharding:
    return NamedSharding(_mesh(devices), PartitionSpec(*axes))


def mapped(function: Callable[..., Any], devices: tuple[Any, ...], specs: str, out: str) -> Callable[..., PyTree]:
    """`function` on each device; a letter r for an argument whose rows are spread, a for one that all have."""
    parts = {"r": PartitionSpec(_AXIS), "a": PartitionSpec()}
    in_specs = tuple(parts[letter] for letter in specs)
    return jax.shard_map(function, mesh=_mesh(devices), in_specs=in_specs, out_specs=parts[out], check_vma=False)


# Work on rows where they lie.


def rows_at_once(num: int, devices: tuple[Any, ...]) -> int:
    """Return how many of `num` rows a device works on at once where nothing else is asked for."""
    height = num // _num_cells(num, devices)
    return min(height, _CPU_ROWS) if devices[0].platform == "cpu" else height


def _num_cells(num: int, devices: tuple[Any, ...]) -> int:
    return math.lcm(math.gcd(num, _CELLS), len(devices))


@dataclasses.dataclass(frozen=True, eq=False)
class OnDevices(Place):
    """Devices on which rows lie and are worked on: `work(shared, numbers, before, rows)` gives rows on the same ones.

    The work is a function that JAX can trace, hashable, equal to the one of the last call where it does the same. It
    gets the numbers of the rows, and the share of all rows that lies before the cell, so that it can tell groups of
    rows apart. It may return several rows for each.
    """

    devices: tuple[Any, ...]
    shared: PyTree
    """Arrays that every device needs, NumPy's."""
    cells: int | None = None
    """The number of cells, a multiple of the number of devices, where it should not follow from the number of
    rows."""

    def run(self, work: Callable[..., Any], rows: PyTree, size: int | None) -> PyTree:
        size = size or rows_at_once(num_of(rows), self.devices)
        return _join(_in_cells(work, self.shared, rows, self.devices, self.cells, size), self.devices)


def total(work: Callable[..., Any], shared: PyTree, rows: PyTree, devices: tuple[Any, ...]) -> PyTree:
    """The sum of `work(shared, rows)` over the cells, on the host."""

    def one(*parts: np.ndarray) -> np.ndarray:
        return np.sum(np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:]), axis=0)

    return jax.tree.map(one, *gathered(_in_cells(work, shared, rows, devices, None, None)))


def _in_cells(
    work: Callable[..., Any],
    shared: PyTree,
    rows: PyTree,
    devices: tuple[Any, ...],
    cells: int | None,
    size: int | None,
) -> list[Any]:
    """Return what `work` makes of the first cells of all devices, for the second ones, and so on."""
    num = num_of(rows)
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
def _piece(shared: PyTree, here: AnyArray, rows: PyTree, *, work: Callable[..., Any], size: int | None) -> PyTree:
    """One cell on one device: its rows in chunks of a size, or one value of all of them where there is none."""
    if size is None:
        return jax.tree.map(lambda leaf: leaf[None], work(shared, rows))
    first, before = here
    numbers = first + jnp.arange(num_of(rows))
    return in_pieces(lambda part: work(shared, part[0], before, part[1]), (numbers, rows), size, COMPILED)


def _on_device(tree: PyTree) -> dict[Any, Any]:
    """The parts of arrays that lie on each device of this process."""
    leaves, structure = jax.tree.flatten(tree)
    shards = [{shard.device: shard.data for shard in leaf.addressable_shards} for leaf in leaves]
    devices = shards[0].keys()
    return {device: jax.tree.unflatten(structure, [shard[device] for shard in shards]) for device in devices}


def _global(parts: tuple[Any, ...], devices: tuple[Any, ...]) -> jax.Array:
    """One array from its parts on the devices of this process."""
    shape = len(devices) * parts[0].shape[0], *parts[0].shape[1:]
    return jax.make_array_from_single_device_arrays(shape, sharding(devices, _AXIS), list(parts))


@functools.partial(jax.jit, static_argnames=("devices", "own"))
def _cut(rows: PyTree, *, devices: tuple[Any, ...], own: int) -> list[Any]:
    """The rows of each device in as many pieces as it has cells."""

    def on_device(rows: PyTree) -> list[Any]:
        split = jax.tree.map(lambda leaf: jnp.split(leaf, own), rows)
        return [jax.tree.map(lambda _, parts: parts[i], rows, split) for i in range(own)]  # noqa: B023

    return mapped(on_device, devices, "r", "r")(rows)


def _join(pieces: list[Any], devices: tuple[Any, ...]) -> PyTree:
    """The inverse of `_cut`."""
    return pieces[0] if len(pieces) == 1 else _joined(pieces, devices=devices)


@functools.partial(jax.jit, static_argnames="devices")
def _joined(pieces: list[Any], *, devices: tuple[Any, ...]) -> PyTree:
    def on_device(pieces: list[Any]) -> PyTree:
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *pieces)

    return mapped(on_device, devices, "r", "r")(pieces)


class ShardedRows:
    """An array whose rows lie on several devices, in order. NumPy's functions see all of them."""

    def __init__(self, array: jax.Array):
        self.array = array

    @staticmethod
    def of(rows: np.ndarray, devices: tuple[Any, ...], dtype: DTypeLike | None = None) -> "ShardedRows":
        """Rows that every process has, each put on its device."""
        rows = np.asarray(rows, dtype)
        return ShardedRows(jax.make_array_from_callback(rows.shape, sharding(devices, _AXIS), lambda part: rows[part]))

    def like(self, rows: np.ndarray) -> "ShardedRows":
        """Other rows on the same devices."""
        return ShardedRows.of(rows, self.devices, self.dtype)

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
    def dtype(self) -> np.dtype:
        return np.dtype(self.array.dtype)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
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
        own = ShardedRows.of(weights, self.devices, self.dtype).array
        mean = total(_weighted_sum, None, (self.array, own), self.devices)
        return mean, total(_weighted_square, mean.astype(self.dtype), (self.array, own), self.devices)


def on_host(rows: PyTree) -> PyTree:
    """All rows as a NumPy array where they are spread; anything else as it is."""
    return np.asarray(rows) if isinstance(rows, ShardedRows) else rows


def _weighted_sum(shared: PyTree, rows: PyTree) -> AnyArray:
    positions, weights = rows
    return weights @ positions


def _weighted_square(shared: PyTree, rows: PyTree) -> AnyArray:
    positions, weights = rows
    centered = positions - shared
    return (centered * weights[:, None]).T @ centered


@functools.partial(jax.jit, static_argnames="devices")
def _fetched(array: AnyArray, numbers: AnyArray, *, devices: tuple[Any, ...]) -> AnyArray:
    """Some rows of a spread array, in every process."""

    def on_device(rows: PyTree, numbers: AnyArray) -> PyTree:
        local = numbers - jax.lax.axis_index(_AXIS) * rows.shape[0]
        is_here = ((local >= 0) & (local < rows.shape[0])).reshape(-1, *[1] * (rows.ndim - 1))
        return jax.lax.psum(jnp.where(is_here, rows[jnp.clip(local, 0, rows.shape[0] - 1)], 0), _AXIS)

    return mapped(on_device, devices, "ra", "a")(array, numbers)


# Rows that change places, as in resampling: each device sends what others need, and nothing else travels.


def taken(tree: PyTree, numbers: AnyArray) -> PyTree:
    """Rows of all arrays by number, as many as there are devices times something: those of spread arrays spread again.

    Every process calls it with the same numbers. Only rows that are needed on another device travel, each once.
    """
    leaves, structure = jax.tree.flatten(tree)
    spread = [leaf.array for leaf in leaves if isinstance(leaf, ShardedRows)]
    if spread:
        devices = next(leaf.devices for leaf in leaves if isinstance(leaf, ShardedRows))
        moved = iter(_exchanged(spread, numbers, devices))
    return jax.tree.unflatten(
        structure, [ShardedRows(next(moved)) if isinstance(leaf, ShardedRows) else leaf[numbers] for leaf in leaves]
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
    plan = tuple(ShardedRows.of(rows, devices, np.int32).array for rows in (sent, picked))
    return _exchange(arrays, *plan, devices=devices)


@functools.partial(jax.jit, static_argnames="devices")
def _exchange(arrays: list[Any], sent: AnyArray, picked: AnyArray, *, devices: tuple[Any, ...]) -> list[Any]:
    """On each device: send rows to the others, and pick from the own rows and those that came."""

    def on_device(arrays: list[Any], sent: AnyArray, picked: AnyArray) -> list[Any]:
        def one(rows: PyTree) -> AnyArray:
            if sent.size:
                came = jax.lax.all_to_all(rows[sent[0]], _AXIS, 0, 0)
                rows = jnp.concatenate([rows, came.reshape(-1, *rows.shape[1:])])
            return rows[picked[0]]

        return [one(rows) for rows in arrays]

    return mapped(on_device, devices, "rrr", "r")(arrays, sent, picked)


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
