"""Work on many rows inside a compiled program, chunk by chunk, so that memory stays bounded."""

from typing import Any

import jax
import jax.numpy as jnp


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
