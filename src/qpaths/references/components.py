"""Parts of a reference: Student-t noise through a triangular map."""

import math
from typing import Any

import equinox as eqx
import numpy as np

from .._modules import Module
from .._types import Rows, Vector
from ..arrays import namespace
from .maps import TriangularMap

_HEAVY = 4.0
"""Degrees of freedom of drivers."""


class Component(Module):
    """Noise of a Student-t distribution through a triangular map: one part of a reference.

    The drivers of a modulated map have separate, heavy noise: how far they reach decides what the others can be.
    """

    df: float = eqx.field(static=True)
    map: TriangularMap

    @staticmethod
    def linear(df: float, mean: np.ndarray, scale_matrix: np.ndarray) -> "Component":
        """The multivariate Student-t distribution. NumPy raises an error where the matrix is not positive definite."""
        return Component(df, TriangularMap.linear(mean, np.linalg.cholesky(scale_matrix)))

    def log_prob_and_slope(self, positions: Rows) -> tuple[Vector, Rows]:
        """Log density and its gradient."""
        noise, log_volume = self.map.to_noise(positions)
        found = [_student(df, noise[:, own]) for df, own in self._parts]
        log_prob = sum((value for value, _ in found), log_volume)
        noise_slope = namespace(noise).concatenate([slope for _, slope in found], axis=-1)
        slope = self.map.slope_of_points(positions, noise, noise_slope)
        return log_prob.astype(positions.dtype), slope.astype(positions.dtype)

    def draw(self, stream: Any, num: int) -> Rows:
        """`num` rows."""
        normals, *gammas = stream.split(1 + len(self._parts))
        noise = normals.normal((num, self.map.dimension))
        mixing = [own.gamma(0.5 * df, (num, 1)) / (0.5 * df) for (df, _), own in zip(self._parts, gammas, strict=True)]
        parts = [noise[:, own] / mixed**0.5 for (_, own), mixed in zip(self._parts, mixing, strict=True)]
        return self.map.to_points(namespace(noise).concatenate(parts, axis=-1))[0]

    @property
    def _parts(self) -> list[tuple[float, slice]]:
        """Degrees of freedom of groups of coordinates of the noise."""
        if self.map.modulation is None:
            return [(self.df, slice(None))]
        num = self.map.modulation.num_drivers
        return [(_HEAVY, slice(0, num)), (self.df, slice(num, None))]


def _student(df: float, noise: Rows) -> tuple[Vector, Rows]:
    """Log density of standard Student-t noise, and its gradient."""
    xp, dimension = namespace(noise), noise.shape[1]
    squared = xp.sum(noise**2, axis=-1)
    constant = math.lgamma(0.5 * (df + dimension)) - math.lgamma(0.5 * df) - 0.5 * dimension * math.log(math.pi * df)
    log_prob = constant - 0.5 * (df + dimension) * xp.log1p(squared / df)
    return log_prob, -((df + dimension) / (df + squared))[..., None] * noise
