"""Points as rows: their layout in a flat vector, and densities that are built on another one."""

import abc
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from ..core import AnyArray, Point, PyTree, QpathsError, QpathsTypeError, Rows, Stream, Vector, namespace
from ..densities import DensityLike, called, evaluate, is_numpy, sampler_of
from ..paths import AbstractPath, Reversed


class DerivedDensity(abc.ABC):
    """A normalized density that is built on another one, and evaluates that one alone by the user's function.

    A fitted reference is one: it mixes Student-t distributions with the user's base. A run from it compiles nothing,
    because evaluators know the program of the base.
    """

    inner: DensityLike

    @abc.abstractmethod
    def given_inner(
        self, positions: Rows, log_inner: Vector, inner_slope: Rows | Callable[[], Rows] | None
    ) -> tuple[Vector, Rows | None]:
        """Return the log density at rows and its gradient, from those of `inner`.

        The gradient of `inner` may be a function, which need not be called where that gradient does not count.
        """

    @abc.abstractmethod
    def draw_rows(self, stream: Stream, num: int, draw_inner: Callable[[Any, int], Rows]) -> Rows:
        """Return rows of draws; `draw_inner(stream, num)` makes those of `inner`."""

    @abc.abstractmethod
    def is_far(self, positions: Rows) -> AnyArray:
        """Return which rows lie beyond all draws that anyone expects: NaN there is not the fault of a density."""

    def in_coordinates(self, densities: Any) -> Any:
        """Return the densities in the coordinates in which runs from this one are made."""
        return densities

    @property
    def in_own_coordinates(self) -> "DerivedDensity":
        """Return the same density in the coordinates that `in_coordinates` chooses."""
        return self


def inner_of(density: DensityLike) -> DensityLike:
    """Return the density that the user gave: `density` itself, or what it is built on."""
    return density.inner if isinstance(density, DerivedDensity) else density


_MOST_LAYOUTS = 8
"""Kinds of paths whose layout is kept; tracing the endpoints takes some milliseconds."""


class Layout(NamedTuple):
    """The order in which the numbers of a point, an array or a tree of arrays, lie in a flat vector.

    Kernels see flat vectors only; the user's functions see points only. The leaves of the tree lie one after the other.

    Examples:
        >>> import numpy as np
        >>> layout = Layout.of({"scale": np.ones(1), "weights": np.zeros((2, 2))})
        >>> layout.dimension
        5
        >>> layout.points(np.arange(10.0).reshape(2, 5))["weights"].shape
        (2, 2, 2)
    """

    structure: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]

    @staticmethod
    def of(example: Point) -> "Layout":
        """That of a point, or of a tree of shapes and types."""
        leaves, structure = jax.tree.flatten(example)
        return Layout(structure, tuple(tuple(leaf.shape) for leaf in leaves), tuple(leaf.dtype for leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        """Numbers of each leaf."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dimension(self) -> int:
        """Numbers of a whole point."""
        return sum(self.sizes)

    @property
    def dtype(self) -> np.dtype:
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
        """Points as flat vectors; axes in front of those of a point stay.

        The inverse of `points`.
        """
        leaves = jax.tree.leaves(points)
        xp = namespace(leaves)
        flat = []
        for leaf, shape in zip(leaves, self.shapes, strict=True):
            array = xp.asarray(leaf)
            flat.append(array.reshape(*array.shape[: array.ndim - len(shape)], -1))
        return flat[0] if len(flat) == 1 else xp.concatenate(flat, axis=-1)


def layout_of(path: AbstractPath[Any]) -> Layout:
    """The layout of the points that the base draws.

    The endpoints are traced with such a point, so that functions that do not fit together fail here: with an error that
    names the function, what it was given, and what it returned.
    """
    if not isinstance(path, AbstractPath):
        raise QpathsTypeError(
            f"`path` must be a path such as `QPath(base, target, q=0.999)`, got {type(path).__name__}."
        )
    if any_numpy((path,)):
        return _layout_of(path)
    leaves, structure = jax.tree.flatten(path)
    return traced_layout(structure, tuple((np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))


@functools.lru_cache(maxsize=_MOST_LAYOUTS)
def traced_layout(structure: PyTreeDef, leaves: tuple[Any, ...]) -> Layout:
    """Traces the endpoints, which takes some milliseconds, once for all paths of one kind."""
    found = []

    def look(leaves: PyTree) -> None:
        found.append(_layout_of(jax.tree.unflatten(structure, leaves)))

    jax.eval_shape(look, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    return found[0]


def _layout_of(path: AbstractPath[Any]) -> Layout:
    """Looks at one draw from the base, and at both endpoints there."""
    if isinstance(path, Reversed) and getattr(path.base, "sample", None) is None:
        return _layout_of(path.path)  # chains that walk back start at given points
    base = inner_of(path.base)
    sample = sampler_of(base, "base")
    if is_numpy(base):
        example = jax.tree.map(np.asarray, sample(np.random.default_rng(0)))
    else:
        example = shape_of(sample, jax.ShapeDtypeStruct((), key_type()), "base.sample", "a key")
    if not any(leaf.size for leaf in jax.tree.leaves(example)):
        raise ValueError(
            f"`base.sample` must return a point with at least one number, got {describe(example)}: return an array, "
            f"or a tree of arrays, with the coordinates of one draw."
        )
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(example)):
        raise QpathsTypeError(
            f"`base.sample` must return floating-point numbers, got {describe(example)}: kernels move every "
            f"coordinate continuously; return `x.astype(float)`, and keep what is discrete out of the point."
        )
    for name in ("base", "target"):
        density = getattr(path, name)
        if not is_numpy(inner_of(density)):
            shape_of(lambda x: evaluate(density, x, name), example, called(density, name), "a draw from the base")  # noqa: B023
    return Layout.of(example)


@functools.cache
def key_type() -> Any:
    """The type of JAX's keys, found once."""
    return jax.eval_shape(lambda: jax.random.key(0)).dtype


def shape_of(function: Any, argument: PyTree, name: str, what: str) -> PyTree:
    """Shape and type of what a function returns, by tracing it."""
    try:
        # A function of its own, because a method that carries traced arrays cannot be a key of jax's caches.
        return jax.eval_shape(lambda x: function(x), argument)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise QpathsTypeError(
            f"`{name}` cannot be traced by JAX: it calls NumPy, or needs the numbers themselves. Write it with "
            f"`jax.numpy`, or say `backend='numpy'` to have it called as it is. JAX says: {error}"
        ) from error
    except QpathsError:
        raise
    except Exception as error:
        raise QpathsError(f"`{name}` does not take {what}, which is {describe(argument)}: {error}") from error


def describe(example: PyTree) -> str:
    """Types and shapes of a point, for errors."""
    return str(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", example))


def any_numpy(parts: Iterable[object]) -> bool:
    """Return whether some of the paths among the parts have an endpoint in NumPy."""
    paths = [part for part in parts if isinstance(part, AbstractPath)]
    ends = [end for path in paths for end in (path.base, path.target)]
    return any(is_numpy(inner_of(end)) for end in ends)
