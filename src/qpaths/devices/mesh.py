"""The devices of a run, checked, and programs that run on all of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Devices: TypeAlias = int | Sequence[Any] | None
"""How many devices, the devices themselves (`jax.devices()`), or None."""

AXIS = "rows"


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


def gathered(tree: Any) -> Any:
    """Arrays on devices as NumPy arrays, in every process."""
    leaves, structure = jax.tree.flatten(tree)
    if not all(leaf.is_fully_addressable for leaf in leaves):
        everywhere = _everywhere(tuple(leaves[0].sharding.mesh.devices.flat))
        leaves = [leaf.addressable_data(0) for leaf in everywhere(leaves)]
    return jax.tree.unflatten(structure, [np.asarray(leaf) for leaf in leaves])


def portable(tree: Any, dtype: Any) -> Any:
    """Arrays that every process has, as programs on devices of several processes take them: NumPy's.

    Single numbers that JAX would let follow the precision of what they meet get that of the run.
    """

    def one(leaf: Any) -> Any:
        follows = isinstance(leaf, float | np.floating) or (isinstance(leaf, jax.Array) and leaf.weak_type)
        if follows and np.issubdtype(np.result_type(leaf), np.floating):
            return np.asarray(leaf, dtype)
        return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf

    return jax.tree.map(one, tree)


@functools.lru_cache
def _everywhere(devices: tuple[Any, ...]) -> Any:
    """A program that gives every device all rows."""
    return jax.jit(lambda arrays: arrays, out_shardings=sharding(devices))


@functools.lru_cache
def _mesh(devices: tuple[Any, ...]) -> Mesh:
    return Mesh(np.array(devices), (AXIS,))


def sharding(devices: tuple[Any, ...], *axes: str) -> NamedSharding:
    return NamedSharding(_mesh(devices), PartitionSpec(*axes))


def mapped(function: Callable[..., Any], devices: tuple[Any, ...], specs: str, out: str) -> Any:
    """`function` on each device; a letter r for an argument whose rows are spread, a for one that all have."""
    parts = {"r": PartitionSpec(AXIS), "a": PartitionSpec()}
    in_specs = tuple(parts[letter] for letter in specs)
    return jax.shard_map(function, mesh=_mesh(devices), in_specs=in_specs, out_specs=parts[out], check_vma=False)
