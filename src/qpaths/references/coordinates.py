"""Runs in the coordinates of a map: kernels see noise z where the user's densities see points x.

The densities at both ends of a path are multiplied by the same determinant, so the weights do not change. At every beta
z has the distribution for which x has that of the path. Kernels and the loop do not know about it.
"""

import dataclasses
from typing import Any

import jax

from .._types import Point, Rows, Vector
from ..arrays import quiet
from ..densities import DensityLike
from ..rows import AbstractDensities, Layout
from .composed import AnyMap


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MappedLayout:
    """A layout whose flat vectors are noise; points are those of the inner layout."""

    inner: Layout = dataclasses.field(metadata={"static": True})
    map: AnyMap

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    def points(self, rows: Any) -> Point:
        flat = rows.reshape(-1, rows.shape[-1])
        return self.inner.points(self.map.to_points(flat)[0].reshape(rows.shape))

    def rows(self, points: Point) -> Any:
        rows = self.inner.rows(points)
        return self.map.to_noise(rows.reshape(-1, rows.shape[-1]))[0].reshape(rows.shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MappedDensities(AbstractDensities):
    """Evaluates at the points of a map, and returns densities and slopes in its noise."""

    inner: Any
    """Densities in points; JAX puts other things in their place where it takes the tree apart."""
    map: AnyMap

    @property
    def xp(self) -> Any:
        return self.inner.xp

    @property
    def layout(self) -> Any:  # type: ignore[override]
        return MappedLayout(self.inner.layout, self.map)

    def own(self, values: Any) -> Any:
        return self.inner.own(values)

    def each_row(self, function: Any, tree: Any, *arrays: Any) -> Any:
        return self.inner.each_row(function, tree, *arrays)

    @quiet()
    def draw(self, density: DensityLike, stream: Any, num: int) -> Rows:
        return self.map.to_noise(self.inner.draw(density, stream, num))[0]

    @quiet()
    def at(
        self, densities: dict[str, DensityLike], positions: Rows, *, with_slopes: bool
    ) -> list[tuple[Vector, Rows | None]]:
        points, log_volume = self.map.to_points(positions)
        values, slopes = zip(*self.inner.at(densities, points, with_slopes=with_slopes), strict=True)
        shifted = [(value + log_volume).astype(value.dtype) for value in values]
        if not with_slopes:
            return [(value, None) for value in shifted]
        by_noise = self.map.slopes_of_noise(points, positions, list(slopes))
        return [(value, slope.astype(positions.dtype)) for value, slope in zip(shifted, by_noise, strict=True)]

    def in_points(self, positions: Rows, score: Rows | None) -> tuple[Rows, Rows | None]:
        points, _ = self.map.to_points(positions)
        return points, None if score is None else self.map.slope_of_points(points, positions, score)
