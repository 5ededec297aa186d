"""Runs in the coordinates of a map: kernels see noise z where the densities see points x.

The densities at both ends of a path are multiplied by the same determinant, so the weights do not change. At every beta
z has the distribution for which x has that of the path. Kernels and the loop do not know about it.
"""

import dataclasses
from typing import Any

import jax

from .._types import Point, Rows, Vector
from ..arrays import quiet
from ..paths.base import AbstractPath, EndpointValues
from ..rows import AbstractEvaluator, Layout, Particles
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
class MappedEvaluator(AbstractEvaluator):
    """Evaluates at the points of a map, and returns densities and slopes in its noise."""

    inner: Any
    """An evaluator; JAX puts other things in its place where it takes the tree apart."""
    map: AnyMap

    @property
    def path(self) -> AbstractPath[Any]:  # type: ignore[override]
        return self.inner.path

    @property
    def xp(self) -> Any:
        return self.inner.xp

    @property
    def layout(self) -> Any:  # type: ignore[override]
        return MappedLayout(self.inner.layout, self.map)

    @property
    def _guide(self) -> Any:
        return self.inner._guide

    def _evaluate(self, *arguments: Any) -> Any:
        return self.inner._evaluate(*arguments)

    def _by_path(self, function: Any, *arrays: Any) -> Any:
        return self.inner._by_path(function, *arrays)

    def _own(self, values: Any) -> Any:
        return self.inner._own(values)

    @quiet()
    def draw(self, stream: Any, num: int) -> Rows:
        return self.map.to_noise(self.inner.draw(stream, num))[0]

    @quiet()
    def values(self, positions: Rows) -> EndpointValues:
        points, log_volume = self.map.to_points(positions)
        return self._shifted(self.inner.values(points), log_volume)

    @quiet()
    def waypoints(self, positions: Rows) -> Particles:
        points, log_volume = self.map.to_points(positions)
        found = self.inner.waypoints(points)
        slopes = found.slopes
        base, target = self.map.slopes_of_noise(points, positions, [slopes.base, slopes.target])
        guide = None if slopes.values is None else self._shifted(slopes.values, log_volume)
        return Particles(
            positions,
            self._shifted(found.features, log_volume),
            type(slopes)(base.astype(positions.dtype), target.astype(positions.dtype), guide),
        )

    def in_points(self, positions: Rows, score: Rows | None) -> tuple[Rows, Rows | None]:
        """Points of some noise, and the score by the points from that by the noise."""
        points, _ = self.map.to_points(positions)
        return points, None if score is None else self.map.slope_of_points(points, positions, score)

    def _shifted(self, values: EndpointValues, log_volume: Vector) -> EndpointValues:
        """Log densities of the noise."""
        return EndpointValues(*((value + log_volume).astype(value.dtype) for value in values))
