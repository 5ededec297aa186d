"""Densities evaluated on the host or inside a compiled program, and the choice between the two.

On the host one compiled program serves any number of rows, because a chunk always has the same size. So another number
of particles, another key or another q compiles nothing. Inside a compiled program the same methods work on traced
arrays; chunks and errors are the business of the caller.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from ..core import (
    AnyArray,
    FloatArray,
    HostStream,
    Identity,
    PRNGKey,
    PyTree,
    RandomKey,
    Rows,
    Stream,
    TracedStream,
    in_precision,
    is_double,
    is_traced,
    stream_of,
    to_host,
)
from ..densities import DensityLike, called, evaluate, is_numpy, sampler_of
from ..paths import AbstractPath
from .evaluator import AbstractDensities, Evaluator, PlainDensities, forward
from .executors import spread_of_call
from .layout import DerivedDensity, Layout, any_numpy, layout_of, traced_layout
from .numpy_density import check_draws, faults_of_call, numpy_row, spread_rows
from .pieces import COMPILED, AtMost, in_pieces


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedDensities(PlainDensities):
    """Evaluates inside a compiled program: `jax.vmap` around the user's density, and nothing else."""

    layout: Layout = dataclasses.field(metadata={"static": True})

    xp = jnp

    def _evaluated(
        self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool
    ) -> list[tuple[Any, Any]]:
        return [of_rows(density, name, self.layout, positions, with_slopes) for name, density in densities.items()]

    def _drawn(self, density: DensityLike, stream: TracedStream, num: int) -> Rows:
        """Each draw has its key, `fold_in(key, i)`: the draws do not depend on chunks."""
        return draws(density, self.layout, stream.key, jnp.arange(num))

    def each_row(self, function: Callable[..., Any], tree: PyTree, *arrays: AnyArray) -> PyTree:
        return jax.vmap(functools.partial(function, tree))(*arrays)

    def own(self, values: PyTree) -> PyTree:
        return values


def of_rows(density: DensityLike, name: str, layout: Layout, positions: AnyArray, with_slopes: bool) -> tuple[Any, Any]:
    """Log densities at all rows, and their gradients or None, by `jax.vmap` of the user's function."""

    def log_prob(row: AnyArray) -> FloatArray:
        return evaluate(density, layout.points(row), name)

    if with_slopes:
        return jax.vmap(jax.value_and_grad(log_prob))(positions)
    return jax.vmap(log_prob)(positions), None


def draws(density: DensityLike, layout: Layout, key: PRNGKey, numbers: AnyArray) -> Rows:
    """Rows of the draws with the given numbers, each with its key."""
    sample = sampler_of(density, "base")
    return jax.vmap(lambda i: layout.rows(sample(jax.random.fold_in(key, i))))(numbers)


CHUNKS = (2048, 128)
"""Rows of one call of a compiled density. A call costs 60 us, and a last chunk that is not filled wastes what is
missing: small chunks suit the populations of pilots and islands, and large ones are compiled only where there are
enough particles to fill them."""
_MOST_PROGRAMS = 8
"""Compiled programs of each kind that are kept: a session seldom alternates between more models."""
_RARE = 0.01
"""Share of the draws from the base below which overflow is not a mistake."""
_PART = 256
"""Rows that a program on a CPU works on at once: what it computes for them stays in the cache of a core."""
_WIDE = {"xla_cpu_prefer_vector_width": "512"}
"""XLA asks for vectors of 256 bits, also where the processor has 512: logistic regression then takes a fifth longer."""


class HostDensities(PlainDensities):
    """Evaluates from Python: JAX densities by compiled programs for chunks of rows, NumPy densities by plain calls.

    Positions and all arithmetic have 64 bits, whatever the densities have.

    Args:
        layout: How points lie in a row.
        with_slopes: Whether the run needs gradients. Then one program, that of values and gradients, serves all
            requests, so that nothing else has to be compiled.
    """

    xp = np

    def __init__(self, layout: Layout, with_slopes: bool):
        self.layout = layout
        self.with_slopes = with_slopes
        self._programs: dict[Identity, _Program] = {}

    def _evaluated(
        self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool
    ) -> list[tuple[Any, Any]]:
        positions = np.asarray(positions, float)
        compiled = {name: density for name, density in densities.items() if not is_numpy(density)}
        found: dict[str, tuple[Any, Any]] = {}
        if compiled:
            pairs = self._compiled(compiled, positions, with_slopes or self.with_slopes)
            found = dict(zip(compiled, pairs, strict=True))
            faults = faults_of_call()
            if faults is not None:
                found = {
                    n: (faults.without(called(compiled[n], n), positions, v, {}), s) for n, (v, s) in found.items()
                }
        for name, density in densities.items():
            if is_numpy(density):
                found[name] = spread_rows(density, name, self.layout, positions, with_slopes)
        return [found[name] for name in densities]

    def _compiled(self, densities: dict[str, DensityLike], positions: np.ndarray, with_slopes: bool) -> list[Any]:
        """Log densities by compiled programs; where memory runs out, by those that work on fewer rows at once."""
        identity = Identity(tuple(densities.values()), *densities, with_slopes)
        program: Any = self._programs.get(identity)
        if program is None:
            program = self._programs[identity] = _Program(densities, self.layout, with_slopes)
        rows, spread = positions.astype(self.layout.dtype), spread_of_call()

        def run(part: int) -> list[Any]:
            cut: Any = functools.partial(in_pieces, is_filled=True, join=_as_doubles)
            of_chunk, chunks = program.on(part), _chunks(len(rows))
            if spread is None:
                return cut(of_chunk.begin, rows, chunks)
            key = identity, self.layout, part, is_double()
            return cut(spread.model(key, lambda: of_chunk), rows, chunks, spread.each)

        return program.at_once.run(run)

    def each_row(self, function: Callable[..., Any], tree: PyTree, *arrays: AnyArray) -> PyTree:
        """Map over rows in one compiled program for all rows."""
        leaves, structure = jax.tree.flatten(tree)
        return to_host(_row_program(structure, function)(leaves, *arrays))

    def own(self, values: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: np.asarray(leaf, float) if isinstance(leaf, jax.Array) else leaf, values)

    def _drawn(self, density: DensityLike, stream: HostStream, num: int) -> Rows:
        """Draws that are checked to differ.

        A JAX sampler runs compiled, with one key for each draw; a NumPy sampler is called once for each draw.
        """
        if is_numpy(density):
            sample, generator = sampler_of(density, "base"), stream.generator
            rows = [numpy_row(sample(generator), self.layout) for _ in range(num)]
            positions = np.array(rows, float).reshape(num, self.layout.dimension)
        else:
            leaves, structure = jax.tree.flatten(density)
            program, data = _draw_program(structure, self.layout), stream.key_data()

            def begin(numbers: np.ndarray) -> PyTree:
                return program(leaves, data, numbers)

            positions = in_pieces(begin, np.arange(num), _chunks(num), is_filled=True, join=_as_doubles)
        check_draws(positions, self.layout)
        return _in_range(positions)


def _in_range(positions: Rows) -> Rows:
    """Draws, with others in place of the few that lie beyond the largest floating-point number.

    A prior with huge tails makes such a draw in a million. Many of them are a mistake of the sampler, and stay.
    """
    beyond = np.isinf(positions).any(axis=1)
    if not 0 < np.sum(beyond) < _RARE * len(positions) or np.isnan(positions).any():
        return positions
    kept = positions.copy()
    kept[beyond] = positions[~beyond][: int(np.sum(beyond))]
    return kept


# Compiled programs, one for each set of functions and layout of a point. They are kept while they are among the last
# ones in use; `clear_cache` forgets all of them.


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _rows_at_once(structure: PyTreeDef, names: tuple[str, ...], layout: Layout, with_slopes: bool) -> AtMost:
    """Remember how many rows the programs of some densities work on at once."""
    return AtMost(_PART, "points")


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _value_program(
    structure: PyTreeDef, names: tuple[str, ...], layout: Layout, with_slopes: bool, part: int
) -> Callable[..., PyTree]:
    """A compiled function of the densities' arrays and a chunk of positions: one pair for each density.

    It works on `part` rows at once on a CPU, and anywhere if that is fewer than usual.
    """

    @functools.partial(jax.jit, compiler_options=_WIDE)
    def values(leaves: list[Any], positions: AnyArray) -> PyTree:
        densities = jax.tree.unflatten(structure, leaves)

        def of_part(rows: PyTree) -> PyTree:
            return [of_rows(d, name, layout, rows, with_slopes) for name, d in zip(names, densities, strict=True)]

        in_parts = part < _PART or jax.default_backend() == "cpu"
        return in_pieces(of_part, positions, part if in_parts else None, COMPILED)

    return values


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _draw_program(structure: PyTreeDef, layout: Layout) -> Callable[..., Rows]:
    """A compiled function that draws the points with the given numbers."""

    @jax.jit
    def draw(leaves: list[Any], data: AnyArray, numbers: AnyArray) -> Rows:
        return draws(jax.tree.unflatten(structure, leaves), layout, jax.random.wrap_key_data(data), numbers)

    return draw


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _row_program(structure: PyTreeDef, function: Callable[..., Any]) -> Callable[..., PyTree]:
    """A compiled function that maps a function of a tree over rows."""
    return jax.jit(
        lambda leaves, *arrays: jax.vmap(functools.partial(function, jax.tree.unflatten(structure, leaves)))(*arrays)
    )


def clear_cache() -> None:
    """Forget the compiled programs of all densities, and free their memory.

    The last eight programs of each kind are kept. Call this in a long process that works through many models.

    See [How it runs](engine.md#new-data-without-a-new-program). The next call of a model compiles it again, and results
    are not affected.

    Examples:
        >>> import qpaths as qp
        >>> qp.clear_cache()
    """
    for cache in (_rows_at_once, _value_program, _draw_program, _row_program, traced_layout):
        cache.cache_clear()


def _chunks(num: int) -> Iterator[int]:
    """Sizes of chunks that cover `num` rows, the last one perhaps with room to spare."""
    start, (large, small) = 0, CHUNKS
    while start < num:
        size = large if num > 2 * large and num - start >= 0.75 * large else small
        yield size
        start += size


def _as_doubles(parts: list[Any]) -> PyTree:
    """Join what was found in chunks to arrays of all rows with 64 bits."""
    return jax.tree.map(lambda *chunks: np.concatenate([np.asarray(chunk, float) for chunk in chunks]), *parts)


class _Program:
    """The compiled programs of some densities, with the arrays of these on the device, by how many rows they take."""

    def __init__(self, densities: dict[str, DensityLike], layout: Layout, with_slopes: bool):
        self.parts = densities, layout, with_slopes
        structure = jax.tree.structure(tuple(densities.values()))
        self.at_once = _rows_at_once(structure, tuple(densities), layout, with_slopes)
        self._programs: dict[int, _CompiledRows] = {}

    def on(self, part: int) -> "_CompiledRows":
        if part not in self._programs:
            self._programs[part] = _CompiledRows(*self.parts, part, is_double())
        return self._programs[part]


class _CompiledRows:
    """JAX densities at one chunk of rows, as a function that can be sent to a worker, which compiles it once."""

    is_compiled = True

    def __init__(self, *parts: Any):
        self.parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        return _CompiledRows, self.parts

    @functools.cached_property
    def _program(self) -> tuple[Any, list[Any]]:
        densities, layout, with_slopes, part, _ = self.parts
        leaves, structure = jax.tree.flatten(tuple(densities.values()))
        program = _value_program(structure, tuple(densities), layout, with_slopes, part)
        return program, [jnp.asarray(leaf) for leaf in leaves]

    def begin(self, rows: np.ndarray) -> PyTree:
        """Arrays that the device may still work on."""
        program, leaves = self._program
        return program(leaves, rows)

    def __call__(self, rows: np.ndarray) -> PyTree:
        with in_precision(self.parts[-1]):
            return jax.tree.map(np.asarray, self.begin(rows))


def runs_on_host(*parts: PyTree) -> bool:
    """Return whether the host steps a run of these parts: outside any transformation, and without an accelerator."""
    return not is_traced(parts) and (on_cpu() or any_numpy(parts))


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def stream_for(key: RandomKey, *parts: PyTree, pilots: bool = False) -> HostStream | TracedStream:
    """The random numbers of a run of these parts: a stream of the host, or of JAX where the run is compiled.

    Args:
        key: A key of JAX, or a stream, which is returned as it is.
        *parts: What will run: the path, the algorithm, and arrays. A traced array among them makes the run a compiled
            one.
        pilots: Many short runs of a few hundred particles. They step on the host even where there is an accelerator,
            which then evaluates the densities. Compiling their steps would take ten times as long as running them.

    Returns:
        The stream. `split` and `fold` make further ones; use each for one purpose only.

    The two kinds of streams give different numbers for the same key. See [How it runs](engine.md).

    Examples:
        >>> import jax
        >>> stream = stream_for(jax.random.key(0))
        >>> len(stream.split(2))
        2
    """
    if isinstance(key, HostStream | TracedStream):
        return key
    return stream_of(key, host=runs_on_host(*parts, key) or (pilots and not is_traced(parts, key)))


def evaluator_of(path: AbstractPath[Any], stream: Stream, *, with_slopes: bool) -> Evaluator:
    """The evaluator for a run of a path in the world of a stream; a base may choose the coordinates of the run."""
    layout, is_host = layout_of(path), isinstance(stream, HostStream)
    if not is_host and any_numpy((path,)):
        raise TypeError(
            "a density with `backend='numpy'` cannot run under `jax.jit` or `jax.vmap`: call `run` outside of them."
        )
    densities: AbstractDensities = HostDensities(layout, with_slopes) if is_host else TracedDensities(layout)
    base = forward(path).base
    return Evaluator.of(path, base.in_coordinates(densities) if isinstance(base, DerivedDensity) else densities)
