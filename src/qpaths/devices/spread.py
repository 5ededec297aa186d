"""An array whose rows lie on several devices."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .mesh import AXIS, gathered, mapped, sharding
from .work import total


class Spread:
    """An array whose rows lie on several devices, in order. NumPy's functions see all of them."""

    def __init__(self, array: jax.Array):
        self.array = array

    @staticmethod
    def of(rows: np.ndarray, devices: tuple[Any, ...], dtype: Any = None) -> "Spread":
        """Rows that every process has, each put on its device."""
        rows = np.asarray(rows, dtype)
        return Spread(jax.make_array_from_callback(rows.shape, sharding(devices, AXIS), lambda part: rows[part]))

    def like(self, rows: np.ndarray) -> "Spread":
        """Other rows on the same devices."""
        return Spread.of(rows, self.devices, self.dtype)

    @property
    def devices(self) -> tuple[Any, ...]:
        return tuple(self.array.sharding.mesh.devices.flat)  # type: ignore[attr-defined]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        return np.dtype(self.array.dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(gathered(self.array), dtype)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Rows by number, on the host: only these are fetched. With a tuple, any part of the array."""
        if isinstance(index, tuple):
            return np.asarray(self)[index]
        numbers = np.arange(self.shape[0])[index]
        rows = gathered(_fetched(self.array, np.atleast_1d(numbers), devices=self.devices))
        return rows.reshape(*np.shape(numbers), *self.shape[1:])

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the rows with weights that sum to one."""
        own = Spread.of(weights, self.devices, self.dtype).array
        mean = total(_weighted_sum, None, (self.array, own), self.devices)
        return mean, total(_weighted_square, mean.astype(self.dtype), (self.array, own), self.devices)


def on_host(rows: Any) -> Any:
    """All rows as a NumPy array where they are spread; anything else as it is."""
    return np.asarray(rows) if isinstance(rows, Spread) else rows


def _weighted_sum(shared: Any, rows: Any) -> Any:
    positions, weights = rows
    return weights @ positions


def _weighted_square(shared: Any, rows: Any) -> Any:
    positions, weights = rows
    centered = positions - shared
    return (centered * weights[:, None]).T @ centered


@functools.partial(jax.jit, static_argnames="devices")
def _fetched(array: Any, numbers: Any, *, devices: tuple[Any, ...]) -> Any:
    """Some rows of a spread array, in every process."""

    def on_device(rows: Any, numbers: Any) -> Any:
        local = numbers - jax.lax.axis_index(AXIS) * rows.shape[0]
        is_here = ((local >= 0) & (local < rows.shape[0])).reshape(-1, *[1] * (rows.ndim - 1))
        return jax.lax.psum(jnp.where(is_here, rows[jnp.clip(local, 0, rows.shape[0] - 1)], 0), AXIS)

    return mapped(on_device, devices, "ra", "a")(array, numbers)
