"""Many observations in batches: on one device, or shared by several, with smaller batches where memory runs out."""

import datetime
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..progress import Clock, display
from ..rows import AtMost, OnDevices, Spread, gathered, in_pieces, num_of
from .bounds import DecoderBounds

_CELLS = 16
"""Batches on several devices are at most this share of all, so that the numbers do not depend on how many there are."""


def size_of(num: int, batch_size: int | None) -> int:
    size = num if batch_size is None else min(batch_size, num)
    if size < 1:
        raise ValueError(f"`batch_size` must be at least 1, got {batch_size}, for {num} observations.")
    return size


def in_batches(run: Callable[..., Any], arrays: Any, batch_size: int | None, progress: bool = False) -> Any:
    """`run(*arrays)` for slices of at most `batch_size` along the first axis, joined; smaller where memory runs out."""
    return _shown(run, arrays, AtMost(size_of(num_of(arrays), batch_size), "observations"), progress)


def on_devices(
    work: Any, shared: Any, arrays: Any, batch_size: int | None, progress: bool, devices: tuple[Any, ...]
) -> Any:
    """`work(shared, _, _, arrays)` for batches of at most `batch_size` on each device, joined.

    A process of a cluster works on its part of the observations without regard to the others, so that one which runs
    out of memory can take smaller batches. In the end all of them have everything.
    """
    num = num_of(arrays)
    size = min(size_of(num, batch_size), -(-num // _CELLS))
    own = tuple(device for device in devices if device.process_index == jax.process_index())
    ends = _shares(-(-num // size), devices)
    first, last = (min(end * size, num) for end in (ends[jax.process_index()], ends[jax.process_index() + 1]))
    if last == first:
        raise ValueError(
            f"there must be a batch for each process, got {num} observations in batches of {size} for "
            f"{jax.process_count()} processes: give a smaller `batch_size`, or start fewer processes."
        )

    def run(*arrays: Any) -> Any:
        height = num_of(arrays) // len(own)
        rows = jax.tree.map(lambda leaf: Spread.of(leaf, own).array, arrays)
        return gathered(in_pieces(work, rows, height, OnDevices(own, shared, cells=len(own))))

    part = jax.tree.map(lambda leaf: np.asarray(leaf)[first:last], arrays)
    return _from_all_processes(_shown(run, part, AtMost(size, "observations", times=len(own)), progress))


def _shares(num_batches: int, devices: tuple[Any, ...]) -> list[int]:
    """The batch with which each process begins, and the number of batches at the end: as many as it has devices."""
    before = [sum(d.process_index < process for d in devices) for process in range(jax.process_count() + 1)]
    return [num_batches * count // len(devices) for count in before]


def _from_all_processes(tree: Any) -> Any:
    """Rows of all processes, one after the other."""
    if jax.process_count() == 1:
        return tree
    from jax.experimental.multihost_utils import process_allgather

    nums = np.asarray(process_allgather(np.asarray(num_of(tree))))

    def join(leaf: Any) -> Any:
        filled = np.zeros((nums.max(), *leaf.shape[1:]), leaf.dtype)
        filled[: len(leaf)] = leaf
        everyone = np.asarray(process_allgather(filled))
        return jnp.concatenate([part[:num] for part, num in zip(everyone, nums, strict=True)])

    return jax.tree.map(join, tree)


def _shown(run: Callable[..., Any], arrays: Any, at_once: AtMost, progress: bool) -> Any:
    """`run(*arrays)` in batches, with a line that says how far it is."""
    clock = Clock()
    with display(progress) as show:

        def observe(parts: list[Any], num_done: int, num: int) -> None:
            left = clock.seconds_left((num - num_done) / (at_once.rows * at_once.times))
            show(_line(parts, num_done, num, left), num_done / num)

        return in_pieces(lambda part: run(*part), arrays, at_once, is_filled=True, observe=observe)


def _line(done: list[Any], num_done: int, num: int, seconds_left: float | None) -> str:
    """How far a run is, in a few words."""
    line = f"{num_done} of {num} observations"
    if isinstance(done[0], DecoderBounds):
        parts = {"lower": jnp.concatenate([part.lower for part in done])[:num_done]}
        if done[0].reverse.shape[1]:
            parts["upper"] = jnp.concatenate([part.upper for part in done])[:num_done]
        line += "".join(f", {name} {float(jnp.mean(values)):.3f}" for name, values in parts.items())
    return line if seconds_left is None else f"{line}, {datetime.timedelta(seconds=round(seconds_left))} left"
