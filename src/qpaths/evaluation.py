"""Evaluation of the densities of a path at many positions, and the path's arithmetic on what was found there.

An evaluator takes positions, rows of an array (n, d), and returns particles: the positions with the features and slopes
of both endpoints. It owns flattening, chunks, compiled programs and the difference between JAX and NumPy densities.
There are two: `HostEvaluator` runs the densities in chunks of a fixed size from Python, with one compiled program for
any number of rows, and everything else is NumPy; `TracedEvaluator` is part of a larger compiled program.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ._types import AnyArray, FloatArray, Point, RealLike, Rows
from .arrays import HostStream, TracedStream, is_traced, namespace, stream_of, to_host
from .densities import DensityLike, evaluate, is_numpy, sampler_of
from .paths.base import AbstractPath, EndpointSlopes, EndpointValues, Reversed

CHUNKS = (2048, 128)
"""Rows of one call of a compiled density. A call costs 60 us, and a last chunk that is not filled wastes what is
missing: small chunks suit the populations of pilots and islands, and large ones are compiled only where there are
enough particles to fill them."""
_MOST_PROGRAMS = 8


class Particles(NamedTuple):
    """Points with all that was ever computed about them, so that nothing is computed twice; rows are particles."""

    position: Rows
    """The points as flat vectors."""
    features: Any
    """What the path needs for the density at every beta."""
    slopes: Any
    """What the path needs for the gradient at every beta; None for kernels that follow no gradient."""


class Layout(NamedTuple):
    """How the numbers of a point, an array or a tree of arrays, lie in a flat vector."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]

    @staticmethod
    def of(example: Point) -> "Layout":
        """That of a point, or of a tree of shapes and types."""
        leaves, structure = jax.tree.flatten(example)
        return Layout(structure, tuple(tuple(leaf.shape) for leaf in leaves), tuple(leaf.dtype for leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        return [int(np.prod(shape, dtype=int)) for shape in self.shapes]

    @property
    def dimension(self) -> int:
        return sum(self.sizes)

    @property
    def dtype(self) -> Any:
        """That of the flat vector."""
        return np.result_type(*self.dtypes)

    def points(self, rows: AnyArray) -> Point:
        """Flat vectors as points; axes before the last stay in front."""
        ends = np.cumsum([0, *self.sizes])
        leaves = [
            rows[..., start:end].reshape((*rows.shape[:-1], *shape)).astype(dtype)
            for start, end, shape, dtype in zip(ends[:-1], ends[1:], self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)

    def rows(self, points: Point) -> AnyArray:
        """Points as flat vectors; axes in front of those of a point stay."""
        leaves = jax.tree.leaves(points)
        xp = namespace(leaves)
        flat = []
        for leaf, shape in zip(leaves, self.shapes, strict=True):
            array = xp.asarray(leaf)
            flat.append(array.reshape(*array.shape[: array.ndim - len(shape)], -1))
        return flat[0] if len(flat) == 1 else xp.concatenate(flat, axis=-1)


class AbstractEvaluator(abc.ABC):
    """What kernels and algorithms see of a path: positions in, numbers out, all with a leading particle axis."""

    path: AbstractPath[Any]
    layout: Layout
    xp: Any
    """`numpy` on the host, `jax.numpy` in a compiled program."""

    @abc.abstractmethod
    def _evaluate(
        self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool
    ) -> list[tuple[FloatArray, Any]]:
        """Log densities at all positions, with their gradients or None; each density by its name in errors."""

    @abc.abstractmethod
    def _by_path(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """`function(path, *rows)` for each row of the arrays, for paths that are not pointwise."""

    @abc.abstractmethod
    def _own(self, values: Any) -> Any:
        """What a path's arithmetic returned, as arrays of this evaluator's kind."""

    @abc.abstractmethod
    def draw(self, stream: Any, num: int) -> Rows:
        """Positions of `num` exact draws from the base."""

    @property
    def dimension(self) -> int:
        return self.layout.dimension

    @property
    def _forward(self) -> AbstractPath[Any]:
        """The path in the direction in which features are stored."""
        path = self.path
        while isinstance(path, Reversed):
            path = path.path
        return path

    def values(self, positions: Rows) -> EndpointValues:
        """Log densities of the two endpoints."""
        ends = {"base": self._forward.base, "target": self._forward.target}
        return EndpointValues(*(value for value, _ in self._ends(ends, positions, with_slopes=False)))

    def particles(self, positions: Rows, *, with_slopes: bool) -> Particles:
        """Evaluate the user's densities at some positions, each once."""
        if with_slopes:
            return self.completed(self.waypoints(positions))
        if self.path.is_pointwise:
            return Particles(positions, self.values(positions), None)
        return Particles(positions, self._by_path(_features, self.layout.points(positions)), None)

    def waypoints(self, positions: Rows) -> Particles:
        """Particles on a trajectory: good for their score, and to be `completed` where the trajectory ends."""
        if not self.path.is_pointwise:
            return Particles(positions, self._by_path(_features, self.layout.points(positions)), positions)
        guide = self._guide
        ends = {"base": self._forward.base, "target": self._forward.target if guide is None else guide}
        (log_base, base_slope), (log_target, target_slope) = self._ends(ends, positions, with_slopes=True)
        features = EndpointValues(log_base, log_target)
        return Particles(
            positions, features, EndpointSlopes(base_slope, target_slope, None if guide is None else features)
        )

    def completed(self, particles: Particles) -> Particles:
        """Waypoints at which trajectories ended, with the features of the target itself."""
        if self._guide is None:
            return particles
        return particles._replace(features=self.values(particles.position))

    @property
    def _guide(self) -> DensityLike | None:
        return getattr(self._forward.target, "guide", None) if self.path.is_pointwise else None

    def _ends(self, ends: dict[str, DensityLike], positions: Rows, *, with_slopes: bool) -> list[tuple[Any, Any]]:
        """As `_evaluate`, for densities that may be built on another one (`inner`), which alone is evaluated then."""
        inner = {name: getattr(density, "inner", density) for name, density in ends.items()}
        found = self._evaluate(inner, positions, with_slopes)
        return [
            density.given_inner(positions, *pair) if hasattr(density, "given_inner") else pair
            for density, pair in zip(ends.values(), found, strict=True)
        ]

    # The path's arithmetic: no density is evaluated.

    def log_density(self, beta: RealLike, features: Any) -> FloatArray:
        return self._own(self.path.log_density_from(beta, features))

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Any) -> FloatArray:
        return self._own(self.path.log_ratio(beta, new_beta, features))

    def derivative(self, beta: RealLike, features: Any) -> FloatArray:
        return self._own(self.path.derivative_from(beta, features))

    def derivatives(self, beta: RealLike, features: Any) -> tuple[FloatArray, FloatArray]:
        return self._own(self.path.derivatives_from(beta, features))

    def score(self, beta: RealLike, particles: Particles) -> Rows:
        """Gradient of the log density at `beta` in the positions."""
        if self.path.is_pointwise:
            return self._own(self.path.score(beta, particles.features, particles.slopes))  # type: ignore[attr-defined]
        betas = self.xp.broadcast_to(self.xp.asarray(beta), particles.position.shape[:1])
        return self._by_path(_score_in(self.layout), particles.position, betas)


def _features(path: AbstractPath[Any], x: Point) -> Any:
    return path.features(x)


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _score_in(layout: Layout) -> Callable[..., Any]:
    """One function for each layout, so that programs are found again."""

    def score(path: AbstractPath[Any], position: Any, beta: Any) -> Any:
        return jax.grad(lambda row: path.log_density_from(beta, path.features(layout.points(row))))(position)

    return score


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedEvaluator(AbstractEvaluator):
    """Evaluates inside a compiled program: `jax.vmap` around the user's density, and nothing else."""

    path: AbstractPath[Any]
    layout: Layout = dataclasses.field(metadata={"static": True})

    xp = jnp

    def _evaluate(self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool) -> list[tuple[Any, Any]]:
        return [_of_rows(density, name, self.layout, positions, with_slopes) for name, density in densities.items()]

    def _by_path(self, function: Callable[..., Any], *arrays: Any) -> Any:
        return jax.vmap(functools.partial(function, self.path))(*arrays)

    def _own(self, values: Any) -> Any:
        return values

    def draw(self, stream: TracedStream, num: int) -> Rows:
        """Each draw has its key. Draws are spread over the devices where there are several."""
        base: Any = self.path.base
        if hasattr(base, "draw_rows"):
            return base.draw_rows(stream, num, lambda s, n: _draw_rows(base.inner, self.layout, s.key, n))
        return _draw_rows(base, self.layout, stream.key, num)


def _of_rows(density: DensityLike, name: str, layout: Layout, positions: Any, with_slopes: bool) -> tuple[Any, Any]:
    def log_prob(row: Any) -> Any:
        return evaluate(density, layout.points(row), name)

    if with_slopes:
        return jax.vmap(jax.value_and_grad(log_prob))(positions)
    return jax.vmap(log_prob)(positions), None


def _draws(density: DensityLike, layout: Layout, key: Any, numbers: Any) -> Any:
    """Rows of the draws with the given numbers, each with its key."""
    sample = sampler_of(density, "base")
    return jax.vmap(lambda i: layout.rows(sample(jax.random.fold_in(key, i))))(numbers)


def _draw_rows(density: DensityLike, layout: Layout, key: Any, num: int) -> Any:
    indices = jnp.arange(num)
    devices = jax.devices()
    if len(devices) > 1 and num % len(devices) == 0:
        sharding = NamedSharding(Mesh(devices, "particles"), PartitionSpec("particles"))
        indices = jax.lax.with_sharding_constraint(indices, sharding)
    return _draws(density, layout, key, indices)


class HostEvaluator(AbstractEvaluator):
    """Evaluates from Python: JAX densities by compiled programs for chunks of rows, NumPy densities by plain calls.

    With `with_slopes` one program, that of values and gradients, serves all requests, so that nothing else needs to be
    compiled. Positions and all arithmetic have 64 bits whatever the densities have.
    """

    xp = np

    def __init__(self, path: AbstractPath[Any], layout: Layout, with_slopes: bool):
        self.path = _with_host_numbers(path)
        self.layout = layout
        self.with_slopes = with_slopes
        self._programs: dict[Any, Any] = {}

    def _evaluate(self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool) -> list[tuple[Any, Any]]:
        positions = np.asarray(positions, float)
        compiled = {name: density for name, density in densities.items() if not is_numpy(density)}
        found: dict[str, tuple[Any, Any]] = {}
        if compiled:
            program, leaves = self._program(compiled, with_slopes or self.with_slopes)
            found = dict(zip(compiled, _in_chunks(program, leaves, positions, self.layout.dtype), strict=True))
        for name, density in densities.items():
            if is_numpy(density):
                found[name] = _numpy_rows(density, name, self.layout, positions, with_slopes)
        return [found[name] for name in densities]

    def _program(self, densities: dict[str, DensityLike], with_slopes: bool) -> tuple[Any, list[Any]]:
        """The compiled program and the arrays of the densities, put on the device once."""
        key = (*map(id, densities.values()), with_slopes)
        if key not in self._programs:
            leaves, structure = jax.tree.flatten(tuple(densities.values()))
            program = _value_program(structure, tuple(densities), self.layout, with_slopes)
            self._programs[key] = program, [jnp.asarray(leaf) for leaf in leaves]
        return self._programs[key]

    @functools.cached_property
    def _guide(self) -> DensityLike | None:
        return super()._guide  # a target may make it anew at each call, and programs are kept by its identity

    def _by_path(self, function: Callable[..., Any], *arrays: Any) -> Any:
        leaves, structure = jax.tree.flatten(self.path)
        return to_host(_path_program(structure, function)(leaves, *arrays))

    def _own(self, values: Any) -> Any:
        return jax.tree.map(lambda leaf: np.asarray(leaf, float) if isinstance(leaf, jax.Array) else leaf, values)

    def draw(self, stream: HostStream, num: int) -> Rows:
        base: Any = self.path.base
        if hasattr(base, "draw_rows"):
            return base.draw_rows(stream, num, lambda s, n: self._draw(base.inner, s, n))
        return self._draw(base, stream, num)

    def _draw(self, density: DensityLike, stream: HostStream, num: int) -> Rows:
        if is_numpy(density):
            sample, generator = sampler_of(density, "base"), stream.generator
            rows = [_numpy_row(sample(generator), self.layout) for _ in range(num)]
            positions = np.array(rows, float).reshape(num, self.dimension)
        else:
            leaves, structure = jax.tree.flatten(density)
            program, data = _draw_program(structure, self.layout), stream.key_data()
            parts = [program(leaves, data, np.arange(start, start + size)) for start, size in _chunks(num)]
            positions = np.concatenate([np.asarray(part, float) for part in parts])[:num]
        _check_draws(positions, self.layout)
        return positions


def _with_host_numbers(path: AbstractPath[Any]) -> AbstractPath[Any]:
    """A path whose own numbers (q, a scale) are NumPy's: a JAX number would turn arrays that it meets into JAX's."""
    if isinstance(path, Reversed):
        return Reversed(_with_host_numbers(path.path))
    if not path.is_pointwise:
        return path
    new = object.__new__(type(path))
    for name, value in vars(path).items():
        object.__setattr__(new, name, value if name in ("base", "target") else to_host(value))
    return new


# Compiled programs, one for each set of functions and layout of a point. They are kept while they are among the last
# ones in use; `clear_cache` forgets all of them.


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _value_program(structure: Any, names: tuple[str, ...], layout: Layout, with_slopes: bool) -> Any:
    @jax.jit
    def values(leaves: list[Any], positions: Any) -> Any:
        densities = jax.tree.unflatten(structure, leaves)
        return [_of_rows(d, name, layout, positions, with_slopes) for name, d in zip(names, densities, strict=True)]

    return values


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _draw_program(structure: Any, layout: Layout) -> Any:
    @jax.jit
    def draw(leaves: list[Any], data: Any, numbers: Any) -> Any:
        return _draws(jax.tree.unflatten(structure, leaves), layout, jax.random.wrap_key_data(data), numbers)

    return draw


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _path_program(structure: Any, function: Callable[..., Any]) -> Any:
    return jax.jit(
        lambda leaves, *arrays: jax.vmap(functools.partial(function, jax.tree.unflatten(structure, leaves)))(*arrays)
    )


def clear_cache() -> None:
    """Forget the compiled programs of all densities."""
    for cache in (_value_program, _draw_program, _path_program, _traced_layout):
        cache.cache_clear()


def _chunks(num: int) -> Iterator[tuple[int, int]]:
    """First row and size of chunks that cover `num` rows, the last one perhaps with room to spare."""
    start, (large, small) = 0, CHUNKS
    while start < num:
        size = large if num > 2 * large and num - start >= 0.75 * large else small
        yield start, size
        start += size


def _in_chunks(program: Any, leaves: list[Any], positions: np.ndarray, dtype: Any) -> list[tuple[Any, Any]]:
    """The program on all rows, chunk by chunk, the last one filled up with copies of its first row."""
    num = positions.shape[0]
    parts = []
    for start, size in _chunks(num):
        rows = positions[start : start + size].astype(dtype)
        if rows.shape[0] < size:
            rows = np.concatenate([rows, np.broadcast_to(rows[:1], (size - rows.shape[0], rows.shape[1]))])
        parts.append(program(leaves, rows))

    def join(*chunks: Any) -> np.ndarray:
        return np.concatenate([np.asarray(chunk, float) for chunk in chunks])[:num]

    return jax.tree.map(join, *parts)


# Densities that are not JAX.


def _numpy_rows(
    density: Any, name: str, layout: Layout, positions: np.ndarray, with_slopes: bool
) -> tuple[np.ndarray, Any]:
    values = _numpy_calls(density.log_prob, f"{name}.log_prob", density.batched, layout, positions)
    if values.shape != positions.shape[:1]:
        one = "each of the points of a batch" if density.batched else "one point"
        raise ValueError(
            f"`{name}.log_prob` must return one number for {one}, got shape {values.shape} for {positions.shape[0]} "
            f"points: sum over the coordinates of a point."
        )
    if not with_slopes:
        return values, None
    if density.gradient is None:
        raise ValueError(
            f"`{name}` is a NumPy density without a gradient, and the kernel needs one: give "
            f"`Density(..., gradient=...)`, or a kernel such as `RandomWalk()`."
        )
    slopes = _numpy_calls(density.gradient, f"{name}.gradient", density.batched, layout, positions, is_point=True)
    if slopes.shape != positions.shape:
        raise ValueError(f"`{name}.gradient` must return one number for each coordinate, got shape {slopes.shape[1:]}.")
    return values, slopes


def _numpy_calls(
    function: Any, name: str, batched: bool, layout: Layout, positions: np.ndarray, is_point: bool = False
) -> np.ndarray:
    def call(rows: np.ndarray) -> np.ndarray:
        try:
            value = function(layout.points(rows))
        except Exception as error:
            at = "a batch that begins with" if rows.ndim == 2 else "the point"
            point = layout.points(rows[0] if rows.ndim == 2 else rows)
            raise RuntimeError(f"`{name}` raised {type(error).__name__} at {at} {point}: {error}") from error
        return np.asarray(layout.rows(value) if is_point else value, float)

    if batched:
        return call(positions)
    values = [call(row) for row in positions]
    if not is_point and any(value.size != 1 for value in values):
        wrong = next(value for value in values if value.size != 1)
        raise ValueError(f"`{name}` must return one number for one point, got shape {wrong.shape}.")
    return np.array([value if is_point else value.reshape(()) for value in values])


def _numpy_row(point: Any, layout: Layout) -> np.ndarray:
    row = np.asarray(layout.rows(point), float)
    if row.shape != (layout.dimension,):
        raise ValueError(
            f"`base.sample` must return points of one shape, got {row.size} numbers after {layout.dimension}."
        )
    return row


def _check_draws(positions: np.ndarray, layout: Layout) -> None:
    """Raise where a sampler returns the same point for every key."""
    if positions.shape[0] > 1 and (positions == positions[0]).all():
        raise ValueError(
            f"`base.sample` (the sampler of the prior) returned the same point {layout.points(positions[0])} for each "
            f"of {positions.shape[0]} keys: it probably calls NumPy's random numbers, which are drawn only once when "
            f"JAX traces it. Draw with `jax.random` and the key, or give `backend='numpy'` and draw with the generator."
        )


# What a run needs to know before it starts.


def layout_of(path: Any) -> Layout:
    """The layout of the points that the base draws; a clear error where the endpoints do not fit together."""
    if not isinstance(path, AbstractPath):
        raise TypeError(f"`path` must be a path such as `QPath(base, target, q=0.999)`, got {type(path).__name__}.")
    if _any_numpy((path,)):
        return _layout_of(path)
    leaves, structure = jax.tree.flatten(path)
    return _traced_layout(structure, tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))


@functools.lru_cache(maxsize=_MOST_PROGRAMS)
def _traced_layout(structure: Any, leaves: tuple[Any, ...]) -> Layout:
    """Traces the endpoints, which takes some milliseconds, once for all paths of one kind."""
    found = []

    def look(leaves: Any) -> None:
        found.append(_layout_of(jax.tree.unflatten(structure, leaves)))

    jax.eval_shape(look, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    return found[0]


def _layout_of(path: AbstractPath[Any]) -> Layout:
    if isinstance(path, Reversed) and getattr(path.base, "sample", None) is None:
        return _layout_of(path.path)  # chains that walk back start at given points
    base = getattr(path.base, "inner", path.base)
    sample = sampler_of(base, "base")
    if is_numpy(base):
        example = jax.tree.map(np.asarray, sample(np.random.default_rng(0)))
    else:
        example = _shape_of(sample, jax.ShapeDtypeStruct((), _key_type()), "base.sample", "a key")
    if not any(leaf.size for leaf in jax.tree.leaves(example)):
        raise ValueError(
            f"`base.sample` must return a point with at least one number, got {_describe(example)}: return an array, "
            f"or a tree of arrays, with the coordinates of one draw."
        )
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)):
        raise TypeError(
            f"`base.sample` must return floating-point numbers, got {_describe(example)}: kernels move every "
            f"coordinate continuously; return `x.astype(float)`, and keep what is discrete out of the point."
        )
    for name in ("base", "target"):
        density = getattr(path, name)
        if not is_numpy(density) and not is_numpy(getattr(density, "inner", density)):
            _shape_of(lambda x: evaluate(density, x, name), example, f"{name}.log_prob", "a draw from the base")  # noqa: B023
    return Layout.of(example)


@functools.cache
def _key_type() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0)).dtype


def _shape_of(function: Any, argument: Any, name: str, what: str) -> Any:
    """Shape and type of what a function returns, by tracing it."""
    try:
        # A function of its own, because a method that carries traced arrays cannot be a key of jax's caches.
        return jax.eval_shape(lambda x: function(x), argument)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(
            f"`{name}` cannot be traced by JAX: it calls NumPy, or needs the numbers themselves. Write it with "
            f"`jax.numpy`, or say `backend='numpy'` to have it called as it is. JAX says: {error}"
        ) from error
    except ValueError as error:
        if str(error).startswith("`"):
            raise
        raise ValueError(f"`{name}` does not take {what}, which is {_describe(argument)}: {error}") from error
    except Exception as error:
        raise ValueError(f"`{name}` does not take {what}, which is {_describe(argument)}: {error}") from error


def _describe(example: Any) -> str:
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", example))


def on_host(*parts: Any) -> bool:
    """Whether a run of these parts is stepped on the host: outside any transformation, and without an accelerator."""
    return not is_traced(parts) and (on_cpu() or _any_numpy(parts))


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _any_numpy(parts: Any) -> bool:
    paths = [part for part in parts if isinstance(part, AbstractPath)]
    ends = [end for path in paths for end in (path.base, path.target)]
    return any(is_numpy(end) or is_numpy(getattr(end, "inner", None)) for end in ends)


def stream_for(key: Any, *parts: Any, pilots: bool = False) -> HostStream | TracedStream:
    """The random numbers of a run of these parts: a stream of the host, or of JAX where the run is compiled.

    `pilots` are many short runs of a few hundred particles. They step on the host even where there is an accelerator,
    which then evaluates the densities. Compiling their steps would take ten times as long as running them.
    """
    if isinstance(key, HostStream | TracedStream):
        return key
    if not isinstance(key, jax.Array):
        raise TypeError(f"`key` must be a random key of JAX, got {key!r}: give `jax.random.key(0)`.")
    return stream_of(key, host=on_host(*parts, key) or (pilots and not is_traced(parts, key)))


def evaluator_of(path: Any, stream: Any, *, with_slopes: bool) -> AbstractEvaluator:
    """The evaluator for a run of a path in the world of a stream; a base may choose the coordinates of the run."""
    layout = layout_of(path)
    evaluator: AbstractEvaluator
    if isinstance(stream, HostStream):
        evaluator = HostEvaluator(path, layout, with_slopes)
    elif _any_numpy((path,)):
        raise TypeError(
            "a density with `backend='numpy'` cannot run under `jax.jit` or `jax.vmap`: call `run` outside of them."
        )
    else:
        evaluator = TracedEvaluator(path, layout)
    base: Any = evaluator._forward.base
    return base.in_coordinates(evaluator) if hasattr(base, "in_coordinates") else evaluator
