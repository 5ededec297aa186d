"""Work on many rows in pieces, so that memory stays bounded; a piece for which there is no memory is made in halves."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ..arrays import TracedRows

Found = TypeVar("Found")

BLOCK = 2**16
"""Particles that are moved at once on the host where nothing else is asked for: more would only take memory."""


def in_chunks(function: Any, arrays: Any, size: int) -> Any:
    """`function(arrays)` for chunks of rows, one after the other in a compiled loop.

    Memory then follows the size of a chunk. Rows that do not fill a chunk are a smaller chunk at the end.
    """
    num = jax.tree.leaves(arrays)[0].shape[0]
    if size >= num:
        return function(arrays)
    full = num // size
    chunks = jax.tree.map(lambda leaf: leaf[: full * size].reshape(full, size, *leaf.shape[1:]), arrays)
    results = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jax.lax.map(function, chunks))
    if num == full * size:
        return results
    rest = function(jax.tree.map(lambda leaf: leaf[full * size :], arrays))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), results, rest)


def in_blocks(on_host: bool, chunk_size: int | None, function: Any, particles: Any, rows: Any, params: Any) -> Any:
    """`function(particles, rows, params)` for blocks of particles of one group, joined.

    Args:
        on_host: Whether the blocks run in Python, or in a compiled loop.
        chunk_size: The most particles of a block; None for all at once, or 65,536 on the host.
        function: Moves particles with their random numbers and the parameters of their group.
        particles: All particles; groups have equal size and follow each other.
        rows: Random numbers of the rows, which do not depend on the blocks.
        params: Parameters with a leading axis of groups.

    A block never spans two groups, since a group has its own parameters.
    """
    num = particles.position.shape[0]
    size = chunk_size or (BLOCK if on_host else num)
    if size >= num:
        return function(particles, rows, params)
    groups = next((leaf.shape[0] for leaf in jax.tree.leaves(params)), 1)
    if groups == num:  # every particle has its own
        per_group, params_at = num, lambda start, end: _part(params, start, end)
    else:
        per_group, params_at = (
            num // groups,
            lambda start, end: _part(params, start // per_group, start // per_group + 1),
        )
    if on_host:
        parts = []
        for first in range(0, num, per_group):
            for start in range(first, first + per_group, size):
                end = min(start + size, first + per_group)
                parts.append(function(_part(particles, start, end), rows, params_at(start, end)))
        return _joined(parts)

    def of_group(number: Any, arrays: Any) -> Any:
        own = jax.tree.map(lambda leaf: leaf[number][None], params)
        return in_chunks(lambda part: function(part[0], TracedRows(part[1]), own), arrays, size)

    arrays = particles, rows.keys
    if groups == num:
        return in_chunks(lambda part: function(part[0], TracedRows(part[1]), part[2]), (*arrays, params), size)
    if groups == 1:
        return of_group(0, arrays)
    arrays = jax.tree.map(lambda leaf: leaf.reshape(groups, -1, *leaf.shape[1:]), arrays)
    results = jax.lax.map(lambda inputs: of_group(*inputs), (jnp.arange(groups), arrays))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)


def _joined(parts: list[Any]) -> Any:
    """Trees of arrays joined row by row; each array is let go once it has been copied."""
    structure = jax.tree.structure(parts[0])
    columns = [list(column) for column in zip(*map(jax.tree.leaves, parts), strict=True)]
    parts.clear()
    leaves = []
    for column in columns:
        leaves.append(np.concatenate(column))
        column.clear()
    return jax.tree.unflatten(structure, leaves)


def _part(tree: Any, start: int, end: int) -> Any:
    """Rows `start` to `end` of every array."""
    return jax.tree.map(lambda leaf: leaf[start:end], tree)


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory, on a device or on the host."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" in str(error)
    return isinstance(error, MemoryError)


def halving(run: Callable[[int], Found], size: int, what: str) -> tuple[Found, int]:
    """`run(size)`, and where memory runs out half of the size, again and again.

    Args:
        run: Works on pieces of at most a given size. It is called again, so it must leave nothing behind.
        size: The size to begin with.
        what: What is counted, for the warning.

    Returns:
        What `run` returned, and the size with which it did.
    """
    while True:
        try:
            return jax.block_until_ready(run(size)), size
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            if not ran_out(error):
                raise
            if size == 1:
                error.add_note(
                    f"qpaths: there is no memory even for 1 of the {what} at a time. End other programs that use the "
                    f"memory, take fewer {what} in all, or a smaller model. On a GPU, JAX takes most of the memory of "
                    f"the device at the start: see XLA_PYTHON_CLIENT_MEM_FRACTION in JAX's documentation."
                )
                raise
        # Outside of the `except`, since the error holds on to the memory of the failed call.
        size = (size + 1) // 2
        warnings.warn(f"there is no memory for that many {what} at once: {size} from now on", stacklevel=3)


class Pieces:
    """Work in pieces whose size is remembered: what did not fit once is not tried again."""

    def __init__(self, size: int, what: str):
        self.size = size
        self.what = what

    def run(self, work: Callable[[int], Found]) -> Found:
        """`work(size)`, as `halving` does it."""
        found, self.size = halving(work, self.size, self.what)
        return found
