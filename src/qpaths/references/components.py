"""Parts of a reference: noise through a triangular map."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from .._modules import Module
from .._types import AnyArray, Rows, Vector
from ..arrays import logsumexp, namespace
from ..remarks import Shape
from .composed import AnyMap
from .maps import TriangularMap

_HEAVY = 4.0
"""Degrees of freedom of drivers."""


class Wells(Module):
    """Independent noise: coordinate j is a mixture of normal distributions, `sum_k shares[j, k] N(centers, scales)`."""

    shares: Float[AnyArray, "m k"]
    centers: Float[AnyArray, "m k"]
    scales: Float[AnyArray, "m k"]

    def log_prob_and_slope(self, noise: Rows) -> tuple[Vector, Rows]:
        xp = namespace(noise)
        logs = self.logs(noise)
        each = logsumexp(logs, keepdims=True)
        slopes = xp.exp(logs - each) * (self.centers - noise[:, :, None]) / self.scales**2
        return xp.sum(each[:, :, 0], axis=-1), xp.sum(slopes, axis=-1)

    def logs(self, noise: Rows) -> Float[AnyArray, "n m k"]:
        """Log of the share times the density, of each part of each coordinate."""
        xp = namespace(noise)
        away = (noise[:, :, None] - self.centers) / self.scales
        return xp.log(self.shares) - xp.log(self.scales) - 0.5 * (away**2 + math.log(2 * math.pi))

    def draw(self, stream: Any, normal: Rows) -> Rows:
        """Noise from standard normal numbers, and others that choose the part."""
        number = stream.uniform(normal.shape)
        xp = namespace(number, normal)
        last = self.shares.shape[1] - 1
        which = xp.sum(number[:, :, None] > xp.cumsum(self.shares, axis=1)[:, :last], axis=-1)
        center, scale = (
            xp.take_along_axis(xp.asarray(part)[None], which[:, :, None], axis=2)[:, :, 0]
            for part in (self.centers, self.scales)
        )
        return center + scale * normal


class Component(Module):
    """Noise through a triangular map, that of a Student-t distribution as a rule: one part of a reference.

    The drivers of a modulated map have separate, heavy noise: how far they reach decides what the others can be. The
    first coordinates of the noise are mixtures where there are `wells`.
    """

    df: float = eqx.field(static=True)
    map: AnyMap
    wells: Wells | None = None

    @staticmethod
    def linear(df: float, mean: np.ndarray, scale_matrix: np.ndarray) -> "Component":
        """The multivariate Student-t distribution. NumPy raises an error where the matrix is not positive definite."""
        return Component(df, TriangularMap.linear(mean, np.linalg.cholesky(scale_matrix)))

    def log_prob_and_slope(self, positions: Rows) -> tuple[Vector, Rows]:
        """Log density and its gradient."""
        noise, log_volume = self.map.to_noise(positions)
        found = [part.log_prob_and_slope(noise[:, own]) for part, own in self._parts]
        log_prob = sum((value for value, _ in found), log_volume)
        noise_slope = namespace(noise).concatenate([slope for _, slope in found], axis=-1)
        slope = self.map.slope_of_points(positions, noise, noise_slope)
        return log_prob.astype(positions.dtype), slope.astype(positions.dtype)

    def draw(self, stream: Any, num: int) -> Rows:
        """`num` rows."""
        return self.map.to_points(self.noise(stream, num))[0]

    def noise(self, stream: Any, num: int) -> Rows:
        """`num` rows of what the map turns into draws."""
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
        """Distributions of groups of coordinates of the noise."""
        if self.wells is not None:
            num = self.wells.centers.shape[0]
            first: list[tuple[Any, slice]] = [(self.wells, slice(0, num))]
            return first if num == self.map.dimension else [*first, (_Student(self.df), slice(num, None))]
        if self.map.modulation is None:
            return [(_Student(self.df), slice(None))]
        num = self.map.modulation.num_drivers
        return [(_Student(_HEAVY), slice(0, num)), (_Student(self.df), slice(num, None))]


class _Student(NamedTuple):
    """Standard noise of a multivariate Student-t distribution."""

    df: float

    def log_prob_and_slope(self, noise: Rows) -> tuple[Vector, Rows]:
        xp, df, dimension = namespace(noise), self.df, noise.shape[1]
        squared = xp.sum(noise**2, axis=-1)
        constant = (
            math.lgamma(0.5 * (df + dimension)) - math.lgamma(0.5 * df) - 0.5 * dimension * math.log(math.pi * df)
        )
        log_prob = constant - 0.5 * (df + dimension) * xp.log1p(squared / df)
        return log_prob, -((df + dimension) / (df + squared))[..., None] * noise

    def draw(self, stream: Any, normal: Rows) -> Rows:
        mixing = stream.gamma(0.5 * self.df, (normal.shape[0], 1)) / (0.5 * self.df)
        return normal / mixing**0.5
