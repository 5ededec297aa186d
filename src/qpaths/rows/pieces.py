"""Work on many rows in pieces, so that memory stays bounded; a piece for which there is no memory is made in halves."""

import abc
import itertools
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from ..core import HostRows, PyTree, namespace

Found = TypeVar("Found")
Each = Callable[[Any, list[Any]], list[Any]]
"""Returns what some work gives for each of some pieces, in order."""

BLOCK = 2**16
"""Particles that are moved at once on the host where nothing else is asked for: more would only take memory."""


class Place(abc.ABC):
    """A place where pieces are cut, worked on and joined."""

    @abc.abstractmethod
    def run(self, work: Callable[..., Any], rows: PyTree, size: int | None) -> PyTree:
        """Return `work(piece)` for pieces of at most `size` rows, joined."""


class AtMost:
    """The number of rows that are worked on at once. What did not fit once is not tried again.

    Args:
        rows: The number to begin with; halved where memory runs out.
        what: What is counted, for the warning.
        times: A piece has as many times this number of rows.
    """

    def __init__(self, rows: int, what: str, times: int = 1):
        self.rows, self.what, self.times = rows, what, times

    def run(self, work: Callable[[int], Found]) -> Found:
        """Return `work(rows)`. It is called again where memory runs out, so it must leave nothing behind."""
        while True:
            try:
                return jax.block_until_ready(work(self.rows))
            except (jax.errors.JaxRuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
                if self.rows == 1:
                    error.add_note(
                        f"qpaths: there is no memory even for 1 of the {self.what} at a time. End other programs that "
                        f"use the memory, take fewer {self.what} in all, or a smaller model. On a GPU, JAX takes most "
                        f"of the memory of the device at the start: see XLA_PYTHON_CLIENT_MEM_FRACTION in JAX's "
                        f"documentation."
                    )
                    raise
            # Outside of the `except`, since the error holds on to the memory of the failed call.
            self.rows = (self.rows + 1) // 2
            words = f"there is no memory for that many {self.what} at once: {self.rows} from now on"
            warnings.warn(words, stacklevel=3)


def here(work: Callable[[Any], Any], pieces: list[Any]) -> list[Any]:
    """One piece after the other, in Python."""
    return [work(piece) for piece in pieces]


def joined(parts: list[Any]) -> PyTree:
    """Return trees of arrays joined row by row; each array is let go once it has been copied."""
    if len(parts) == 1:
        return parts[0]
    structure = jax.tree.structure(parts[0])
    columns = [list(column) for column in zip(*map(jax.tree.leaves, parts), strict=True)]
    parts.clear()
    leaves = []
    for column in columns:
        leaves.append(namespace(column).concatenate(column))
        column.clear()
    return jax.tree.unflatten(structure, leaves)


def in_pieces(
    work: Any,
    rows: PyTree,
    size: int | Iterable[int] | AtMost | None,
    where: Each | Place = here,
    *,
    is_filled: bool = False,
    join: Callable[[list[Any]], Any] = joined,
    observe: Callable[[list[Any], int, int], None] | None = None,
) -> PyTree:
    """Return `work(piece)` for pieces of some rows, joined in their order.

    Args:
        work: Takes a piece, which has the structure of `rows`; as a rule it returns arrays with as many rows.
        rows: Arrays, or a tree of them, with equally many rows.
        size: The most rows of a piece, or the sizes of all pieces. `AtMost` makes a piece in halves for which there is
            no memory; then `where` is here.
        where: Python (`here`), a loop of a compiled program (`COMPILED`), devices (`OnDevices`), or workers
            (`OverWorkers.each`).
        is_filled: Whether the last piece is filled up with the last row, so that all have a shape that is compiled
            already. What comes of these rows is left out again.
        join: Makes one of what came of all pieces.
        observe: Called with these, the number of rows done, and that of all.
    """
    if isinstance(where, Place):
        assert size is None or isinstance(size, int)
        return where.run(work, rows, size)
    num = num_of(rows)
    if isinstance(size, AtMost):
        found, done = [], 0
        while done < num:
            found.append(size.run(lambda most: work(piece_of(rows, done, most * size.times, is_filled))))  # noqa: B023
            done += size.rows * size.times
            if observe is not None:
                observe(found, min(done, num), num)
    else:
        sizes = itertools.repeat(size or num) if size is None or isinstance(size, int) else size
        pieces, done = [], 0
        for rows_of_piece in sizes:
            if done >= num:
                break
            pieces.append(piece_of(rows, done, rows_of_piece, is_filled))
            done += rows_of_piece
        found = where(work, pieces)
    result = join(found)
    return jax.tree.map(lambda leaf: leaf[:num], result) if is_filled and done > num else result


def piece_of(rows: PyTree, start: int, size: int, is_filled: bool = False) -> PyTree:
    """Return the rows from `start` on, filled up with the last one where they are fewer than `size`."""
    end, num = start + size, num_of(rows)
    cut = np.minimum(np.arange(start, end), num - 1) if is_filled and end > num else slice(start, end)
    return rows[cut] if isinstance(rows, np.ndarray) else jax.tree.map(lambda leaf: leaf[cut], rows)


def num_of(rows: PyTree) -> int:
    """Return how many rows the arrays of a tree have."""
    return len(rows) if isinstance(rows, np.ndarray) else int(jax.tree.leaves(rows)[0].shape[0])


class _Compiled(Place):
    """A loop of a compiled program. Rows that do not fill a piece are a smaller one at the end."""

    def run(self, work: Callable[..., Any], rows: PyTree, size: int | None) -> PyTree:
        num = num_of(rows)
        if size is None or size >= num:
            return work(rows)
        full = num // size
        pieces = jax.tree.map(lambda leaf: leaf[: full * size].reshape(full, size, *leaf.shape[1:]), rows)
        results = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jax.lax.map(work, pieces))
        if num == full * size:
            return results
        rest = work(jax.tree.map(lambda leaf: leaf[full * size :], rows))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), results, rest)


COMPILED = _Compiled()


def in_blocks(size: int | None, function: Callable[..., Any], particles: Any, rows: PyTree, params: PyTree) -> PyTree:
    """Return `function(particles, rows, params)` for blocks of particles of one group, joined.

    Args:
        size: The most particles of a block; None for all at once, or 65,536 on the host.
        function: Moves particles with their random numbers and the parameters of their group.
        particles: All particles; groups have equal size and follow each other.
        rows: Random numbers of the rows, which do not depend on the blocks. The host hands them out in order.
        params: Parameters with a leading axis of groups.

    A block never spans two groups, since a group has its own parameters.
    """
    on_host, num = isinstance(rows, HostRows), num_of(particles.position)
    size = size or (BLOCK if on_host else num)
    if size >= num:
        return function(particles, rows, params)
    where: Each | Place = here if on_host else COMPILED
    groups = next((leaf.shape[0] for leaf in jax.tree.leaves(params)), 1)
    arrays = particles, None if on_host else rows

    def of_group(arrays: PyTree, own: PyTree) -> PyTree:
        return in_pieces(lambda piece: function(piece[0], rows if on_host else piece[1], own), arrays, size, where)

    if groups == 1:
        return of_group(arrays, params)
    if on_host:
        height = num // groups
        return joined(
            [of_group(piece_of(arrays, group * height, height), piece_of(params, group, 1)) for group in range(groups)]
        )
    arrays = jax.tree.map(lambda leaf: leaf.reshape(groups, -1, *leaf.shape[1:]), arrays)
    results = jax.lax.map(
        lambda inputs: of_group(inputs[1], jax.tree.map(lambda leaf: leaf[inputs[0]][None], params)),
        (jnp.arange(groups), arrays),
    )
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)


def ran_out(error: BaseException) -> bool:
    """Return whether an error says that there was no memory, on a device or on the host."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return "RESOURCE_EXHAUSTED" in str(error)
    return isinstance(error, MemoryError)
