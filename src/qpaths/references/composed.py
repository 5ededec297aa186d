"""Two triangular maps, one after the other: a fit in the coordinates of another map."""

from .._modules import Module
from .._types import Rows, Vector
from .maps import TriangularMap
from .pulled import PulledMap


class ComposedMap(Module):
    """A map from noise to points: `inner` makes the noise of `outer`, and `outer` makes the points.

    Where scales of the prior depend on some of its coordinates, `outer` is a map of the prior. In its coordinates the
    prior is plain (a parameterization that is not centered), and often the posterior is plainer, too.
    """

    inner: TriangularMap
    outer: TriangularMap | PulledMap

    is_linear = False

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def modulation(self) -> None:
        """Drivers are looked for among the points alone."""
        return None

    def to_noise(self, positions: Rows) -> tuple[Rows, Vector]:
        """Noise at some points, and the log determinant of its derivative by the points."""
        middle, outer = self.outer.to_noise(positions)
        noise, inner = self.inner.to_noise(middle)
        return noise, outer + inner

    def to_points(self, noise: Rows) -> tuple[Rows, Vector]:
        """Points at some noise, and the log determinant of their derivative by the noise."""
        middle, inner = self.inner.to_points(noise)
        positions, outer = self.outer.to_points(middle)
        return positions, inner + outer

    def slope_of_points(self, positions: Rows, noise: Rows, noise_slope: Rows) -> Rows:
        """As that of `TriangularMap`."""
        middle, _ = self.inner.to_points(noise)
        return self.outer.slope_of_points(positions, middle, self.inner.slope_of_points(middle, noise, noise_slope))

    def slopes_of_noise(self, positions: Rows, noise: Rows, point_slopes: list[Rows]) -> list[Rows]:
        """As that of `TriangularMap`."""
        middle, _ = self.inner.to_points(noise)
        return self.inner.slopes_of_noise(middle, noise, self.outer.slopes_of_noise(positions, middle, point_slopes))


AnyMap = TriangularMap | PulledMap | ComposedMap
"""What a component may have for a map."""
