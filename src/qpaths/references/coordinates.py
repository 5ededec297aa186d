"""Runs in the coordinates of a map: kernels see noise z where the user's densities see points x.

The densities at both ends of a path are multiplied by the same determinant, so the weights do not change. At every beta
z has the distribution for which x has that of the path. Kernels and the loop do not know about it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from ..core import ArrayNamespace, Point, Rows, Stream, Vector, quiet
from ..densities import DensityLike
from ..maps import Chain
from ..rows import DerivedDensity, Layout, PlainDensities


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MappedLayout:
    """A layout whose flat vectors are noise; points are those of the inner layout."""

    inner: Layout = dataclasses.field(metadata={"static": True})
    map: Chain

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def dtype(self) -> Any:
        return self.inner.dtype

    def points(self, rows: Any) -> Point:
        flat = rows.reshape(-1, rows.shape[-1])
        return self.inner.points(self.map.forward(flat).points.reshape(rows.shape))

    def rows(self, points: Point) -> Any:
        rows = self.inner.rows(points)
        return self.map.inverse(rows.reshape(-1, rows.shape[-1])).noise.reshape(rows.shape)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MappedDensities(PlainDensities):
    """Evaluates at the points of a map, and returns densities and slopes in its noise.

    The reference that chose the map needs none at the noise. One product with a dense map makes points, and one for
    each of the user's densities brings its slopes back.
    """

    inner: Any
    """Densities in points; JAX puts other things in their place where it takes the tree apart."""
    map: Chain

    @property
    def xp(self) -> ArrayNamespace:  # type: ignore[override]
        return self.inner.xp

    @property
    def layout(self) -> Any:  # type: ignore[override]
        return MappedLayout(self.inner.layout, self.map)

    def own(self, values: Any) -> Any:
        return self.inner.own(values)

    def each_row(self, function: Any, tree: Any, *arrays: Any) -> Any:
        return self.inner.each_row(function, tree, *arrays)

    @quiet()
    def draw(self, density: DensityLike, stream: Stream, num: int) -> Rows:
        return super().draw(_in_noise(density), stream, num)

    @quiet()
    def at(
        self, densities: dict[str, DensityLike], positions: Rows, *, with_slopes: bool
    ) -> list[tuple[Vector, Rows | None]]:
        densities = {name: _in_noise(density) for name, density in densities.items()}
        found = super().at(densities, positions, with_slopes=with_slopes)
        return [(value, slope() if callable(slope) else slope) for value, slope in found]

    def _drawn(self, density: DensityLike, stream: Stream, num: int) -> Rows:
        return self.map.inverse(self.inner._drawn(density, stream, num)).noise

    def _evaluated(
        self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool
    ) -> list[tuple[Vector, Any]]:
        """Return log densities of the noise, each with a function that brings its gradients there."""
        at = self.map.forward(positions)
        found = self.inner._evaluated(densities, at.points, with_slopes)
        log_volume = self.map.log_volume(at)

        def pulled(slope: Rows) -> Callable[[], Rows]:
            return lambda: self.map.pull_back(at, slope).astype(positions.dtype, copy=False)

        return [
            ((value + log_volume).astype(value.dtype), None if slope is None else pulled(slope))
            for value, slope in found
        ]

    def in_points(self, positions: Rows, score: Rows | None) -> tuple[Rows, Rows | None]:
        at = self.map.forward(positions)
        return at.points, None if score is None else self.map.push_forward(at, score)


def _in_noise(density: Any) -> Any:
    """Return a reference in the coordinates of its map, and other densities as they are."""
    return density.in_own_coordinates if isinstance(density, DerivedDensity) else density
