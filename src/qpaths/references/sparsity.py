"""Zeros of a Hessian: gradients in few directions show all other entries, and few coordinates depend on each other."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .fitting import HostRows

Slopes = Callable[[HostRows], HostRows]
"""The gradient at some points."""

_MOST_BORDERS = 12
"""Borders of a Hessian that are tried."""


class Sparsity(NamedTuple):
    """Which entries of a Hessian are not zero, and directions of gradients that show them all.

    Border coordinates, which have to do with most others, have a direction each. Of the others those share a direction
    that no coordinate has to do with both of.
    """

    coupled: Bool[np.ndarray, "r r"]
    border: Int[np.ndarray, " b"]
    colors: Int[np.ndarray, " r"]
    """The direction of each coordinate; those of the border are the first."""

    @staticmethod
    def of(coupled: Bool[np.ndarray, "r r"]) -> "Sparsity":
        """Return the fewest directions, over borders of all sizes at which the number of neighbors falls."""
        degrees = np.sum(coupled, axis=1)
        order = np.argsort(-degrees, kind="stable")
        falls = np.flatnonzero(np.diff(degrees[order]) < 0) + 1
        best = np.arange(len(coupled))
        border = order[:0]
        for size in (0, *falls[:_MOST_BORDERS].tolist()):
            inner = np.sort(order[size:])
            colors = np.empty(len(coupled), int)
            colors[order[:size]] = np.arange(size)
            colors[inner] = size + _colored(coupled[np.ix_(inner, inner)])
            if colors.max() < best.max():
                best, border = colors, order[:size]
        return Sparsity(coupled, border, best)

    @property
    def num_directions(self) -> int:
        return int(self.colors.max()) + 1

    def minus_hessians(
        self, slopes_at: Slopes, points: HostRows, steps: Float[np.ndarray, " r"]
    ) -> Float[np.ndarray, "n r r"]:
        """Return minus the Hessian at some points, by differences of gradients."""
        num, width = points.shape
        offsets = np.zeros((self.num_directions, width))
        offsets[self.colors, np.arange(width)] = steps
        around = np.concatenate([points[:, None] + offsets, points[:, None] - offsets], axis=1)
        ahead, behind = np.split(slopes_at(around.reshape(-1, width)).reshape(num, -1, width), 2, axis=1)
        found = np.moveaxis(behind - ahead, 1, 2)[:, :, self.colors] / (2 * steps)
        found = np.where(self.coupled, found, 0.0)
        # Directions that coordinates share also have what the border does to their other coordinates.
        found[:, self.border] = np.swapaxes(found[:, :, self.border], 1, 2)
        return 0.5 * (found + np.swapaxes(found, 1, 2))

    def order(self) -> Int[np.ndarray, " r"]:
        """Return an order in which each coordinate depends on few before it: those with few neighbors are last."""
        coupled, left, order = self.coupled.copy(), np.ones(len(self.coupled), bool), []
        for _ in range(len(left)):
            last = int(np.argmin(np.where(left, np.sum(coupled & left, axis=1), len(left) + 1)))
            near = np.flatnonzero(coupled[last] & left)
            coupled[np.ix_(near, near)] = True
            left[last] = False
            order.append(last)
        return np.array(order[::-1])


def _colored(coupled: Bool[np.ndarray, "r r"]) -> Int[np.ndarray, " r"]:
    """Return colors such that no coordinate has to do with two of the same color."""
    near = (coupled.astype(np.float32) @ coupled.astype(np.float32)) > 0
    colors = np.full(len(coupled), -1)
    for j in range(len(coupled)):
        taken = set(colors[near[j]].tolist())
        colors[j] = next(color for color in range(len(coupled)) if color not in taken)
    return colors
