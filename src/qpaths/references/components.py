"""Parts of a reference: noise through a map."""

from typing import Any

import equinox as eqx
import numpy as np

from ..core import Module, Rows, Stream, Vector, namespace
from ..maps import At, Chain, Marginal, Mixture, Student, Triangular
from ..remarks import Shape


class Component(Module):
    """Noise through a map, that of a Student-t distribution as a rule: one part of a reference.

    The drivers of a map, its first coordinates, have separate noise: how far they reach decides what the others can
    be. Each of the first coordinates of the noise is a mixture where there are `wells`.
    """

    df: float = eqx.field(static=True)
    map: Chain
    wells: Marginal | None = None
    drivers: Mixture | None = None

    @staticmethod
    def linear(df: float, mean: np.ndarray, scale_matrix: np.ndarray) -> "Component":
        """Return the multivariate Student-t distribution; NumPy raises an error if the matrix is not definite."""
        return Component(df, Chain.of(Triangular.of(mean, np.linalg.cholesky(scale_matrix))))

    def log_prob(self, positions: Rows) -> Vector:
        """Return the log density."""
        at = self.map.inverse(positions)
        values = (value for value, _ in self._found(at))
        return sum(values, -self.map.log_volume(at)).astype(positions.dtype)

    def log_prob_and_slope(self, positions: Rows) -> tuple[Vector, Rows]:
        """Return the log density and its gradient."""
        at = self.map.inverse(positions)
        values, slopes = zip(*self._found(at), strict=True)
        noise_slope = slopes[0] if len(slopes) == 1 else namespace(at.noise).concatenate(slopes, axis=-1)
        slope = self.map.push_forward(at, noise_slope)
        return sum(values, -self.map.log_volume(at)).astype(positions.dtype), slope.astype(positions.dtype, copy=False)

    def _found(self, at: At) -> list[tuple[Vector, Rows]]:
        return [part.log_prob_and_slope(at.noise[:, own]) for part, own in self._parts]

    def draw(self, stream: Stream, num: int) -> Rows:
        """Return `num` rows."""
        return self.map.forward(self.noise(stream, num)).points

    def noise(self, stream: Stream, num: int) -> Rows:
        """Return `num` rows of what the map turns into draws."""
        normals, *others = stream.split(1 + len(self._parts))
        normal = normals.normal((num, self.map.dimension))
        parts = [part.draw(other, normal[:, own]) for (part, own), other in zip(self._parts, others, strict=True)]
        return namespace(normal).concatenate(parts, axis=-1)

    @property
    def shape(self) -> Shape:
        if self.wells is not None:
            return Shape.WELLS
        return Shape.STUDENT if self.map.is_linear else Shape.CURVED

    @property
    def _parts(self) -> list[tuple[Any, slice]]:
        """Return the distributions of groups of coordinates of the noise."""
        rest = Student(self.df)
        if self.wells is None and self.drivers is None:
            return [(rest, slice(None))]
        first: Any = self.drivers if self.wells is None else self.wells
        num = first.centers.shape[0 if self.drivers is None else 1]
        parts: list[tuple[Any, slice]] = [(first, slice(0, num))]
        return parts if num == self.map.dimension else [*parts, (rest, slice(num, None))]
