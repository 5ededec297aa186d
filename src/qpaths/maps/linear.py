"""Linear layers: shift and scale, rotate, permute, and multiply with a triangular matrix."""

import contextlib
import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..core import AnyArray, Rows, namespace, one_thread
from .base import AbstractLayer, At

_BLOCK = 128
"""Rows of a triangular matrix that are multiplied at once. The zeros beyond them are left out."""
_LARGE = 2e9
"""Multiplications from which on a product is worth several threads. While a density is evaluated they wait actively:
on two busy cores a gradient in 900 dimensions took three times the CPU time (`benchmarks/speed/reference_share.py`)."""


class Scale(AbstractLayer):
    """`center + scale * noise`, each coordinate alone."""

    center: Float[AnyArray, " d"]
    scale: Float[AnyArray, " d"]

    @property
    def dimension(self) -> int:
        return self.center.shape[0]

    def rescaled(self, center: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"]) -> "Scale":
        """Return the layer with another center, of noise that is multiplied by a scale first."""
        return Scale(center, self.scale * scale)

    def relative_to(self, other: Any) -> AbstractLayer:
        if not isinstance(other, Scale):
            return super().relative_to(other)
        return Scale((self.center - other.center) / other.scale, self.scale / other.scale)

    def forward(self, noise: Rows) -> At:
        return At(noise, self.center + self.scale * noise)

    def inverse(self, points: Rows) -> At:
        return At((points - self.center) / self.scale, points)

    def log_volume(self, at: At) -> Any:
        xp = namespace(self.scale)
        return xp.sum(xp.log(self.scale))

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        return slopes * self.scale

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        return slopes / self.scale


class _Orthogonal(AbstractLayer):
    """A layer in which points and slopes are made alike."""

    def forward(self, noise: Rows) -> At:
        return At(noise, self.push_forward(At(noise, noise), noise))

    def inverse(self, points: Rows) -> At:
        return At(self.pull_back(At(points, points), points), points)

    def log_volume(self, at: At) -> float:
        return 0.0


class Permute(_Orthogonal):
    """Coordinate j of the noise becomes coordinate `order[j]`."""

    order: Int[AnyArray, " d"]

    @property
    def dimension(self) -> int:
        return self.order.shape[0]

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        return slopes[:, self.order]

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        return slopes[:, namespace(self.order).argsort(self.order)]


class Rotate(_Orthogonal):
    """Noise times an orthogonal matrix."""

    rotation: Float[AnyArray, "d d"]

    @property
    def dimension(self) -> int:
        return self.rotation.shape[0]

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        return slopes @ self.rotation

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        return slopes @ self.rotation.T


class Triangular(AbstractLayer):
    """`center + factor @ noise` with a lower triangular factor, whose inverse is kept."""

    center: Float[AnyArray, " d"]
    factor: Float[AnyArray, "d d"]
    inverse_factor: Float[AnyArray, "d d"]

    @staticmethod
    def of(center: Float[np.ndarray, " d"], factor: Float[np.ndarray, "d d"]) -> "Triangular":
        """Return the layer with this factor."""
        # The inverse of each row's size is exact, whatever the sizes are.
        sizes = np.sqrt(np.sum(np.square(factor), axis=1))
        return Triangular(center, factor, np.tril(np.linalg.inv(factor / sizes[:, None])) / sizes)

    @property
    def dimension(self) -> int:
        return self.center.shape[0]

    def rescaled(self, center: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"]) -> "Triangular":
        """Return the layer with another center, of noise that is multiplied by a scale first."""
        return Triangular(center, self.factor * scale, self.inverse_factor / scale[:, None])

    def relative_to(self, other: Any) -> AbstractLayer:
        if not isinstance(other, Triangular):
            return super().relative_to(other)
        back = other.inverse_factor
        center = back @ (self.center - other.center)
        return Triangular(center, back @ self.factor, self.inverse_factor @ other.factor)

    def forward(self, noise: Rows) -> At:
        points = _times_lower(noise, self.factor)
        points += self.center
        return At(noise, points)

    def inverse(self, points: Rows) -> At:
        return At(_times_lower(points - self.center, self.inverse_factor), points)

    def log_volume(self, at: At) -> Any:
        xp = namespace(self.factor)
        return xp.sum(xp.log(xp.diagonal(self.factor)))

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        return _slopes_times(slopes, self._factors_of_slopes[0])

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        return _slopes_times(slopes, self._factors_of_slopes[1])

    @functools.cached_property
    def _factors_of_slopes(self) -> tuple[AnyArray, AnyArray]:
        """Return the factors, in single precision on the host if large: slopes steer moves, and weigh nothing."""
        factors = self.factor, self.inverse_factor
        if namespace(*factors) is not np or self.dimension <= _BLOCK:
            return factors
        return self.factor.astype(np.float32), self.inverse_factor.astype(np.float32)


def _times_lower(rows: Rows, factor: AnyArray) -> Rows:
    """Return `rows @ factor.T`; on the host without the zeros of the factor."""
    if namespace(rows, factor) is not np or factor.shape[0] <= _BLOCK:
        return rows @ factor.T
    product = np.empty(rows.shape, np.result_type(rows, factor))
    with _threads_for(rows):
        for start, end in _blocks(factor):
            np.matmul(rows[:, :end], factor[start:end, :end].T, out=product[:, start:end])
    return product


def _slopes_times(slopes: Rows, factor: AnyArray) -> Rows:
    """Return `slopes @ factor`; on the host without the zeros of the factor, and in its precision."""
    if namespace(slopes, factor) is not np or factor.shape[0] <= _BLOCK:
        return slopes @ factor
    rows, product = slopes.astype(factor.dtype), np.empty(slopes.shape, factor.dtype)
    with _threads_for(rows):
        for start, end in _blocks(factor):
            np.matmul(rows[:, start:], factor[start:, start:end], out=product[:, start:end])
    return product.astype(slopes.dtype)


def _blocks(factor: AnyArray) -> list[tuple[int, int]]:
    """Return the first row of each block, and its end."""
    num = factor.shape[0]
    return [(start, min(start + _BLOCK, num)) for start in range(0, num, _BLOCK)]


def _threads_for(rows: Rows) -> Any:
    """Return a context with one thread for a product of usual size, which has to wait for threads otherwise."""
    return one_thread() if rows.size * rows.shape[1] < _LARGE else contextlib.nullcontext()
