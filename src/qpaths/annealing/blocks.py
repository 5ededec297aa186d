"""Work on many particles in blocks, so that memory stays bounded."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..arrays import TracedRows
from ..chunks import in_chunks
from ..evaluation import Particles

BLOCK = 2**16
"""Particles that are moved at once on the host where nothing else is asked for: more would only take memory."""


def in_blocks(
    on_host: bool, chunk_size: int | None, function: Any, particles: Particles, rows: Any, params: Any
) -> Any:
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
