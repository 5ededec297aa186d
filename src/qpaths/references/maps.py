"""Triangular maps: noise becomes draws of a curved distribution, one coordinate after the other.

In some order of the coordinates, standardized to v, coordinate j is normal given those before it:

    v_j = sum_k means[j, k] v_k + sum_k squares[j, k] f(v_k)^2 + exp(log_scales[j] + sum_k slopes[j, k] f(v_k)) z_j

with k < j, and f(v) = clip(v) so that nothing overflows far out. Without squares and slopes the map is linear, and
noise of a Student-t distribution through it is the multivariate Student-t distribution. From points to noise everything
is a product of matrices. The way back is a triangular solve for each block of coordinates, and a block ends where a
coordinate bends later ones.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from .._modules import Module
from .._types import AnyArray, Rows, Vector
from ..arrays import namespace
from .drivers import Back, Modulation

CLIP = 12.0
"""Standard deviations beyond which a coordinate bends the later ones no further."""


class TriangularMap(Module):
    """A map from noise z to points x, and back; rows are points.

    `center`, `scale` and `order` make the standardized coordinates, `v = ((x - center) / scale)[order]`, after x was
    multiplied by the orthogonal matrix `rotation`, if there is one. The matrices are strictly lower triangular.
    `squares` and `slopes` are None in a linear map, and `means` too where coordinates do not depend on each other.
    `inverse` holds, for each block, the inverse of `1 - means` within it.
    """

    center: Float[AnyArray, " d"]
    scale: Float[AnyArray, " d"]
    order: Int[AnyArray, " d"]
    means: Float[AnyArray, "d d"] | None
    log_scales: Float[AnyArray, " d"]
    squares: Float[AnyArray, "d d"] | None
    slopes: Float[AnyArray, "d d"] | None
    inverse: Float[AnyArray, "d d"] | None
    modulation: Modulation | None
    rotation: Float[AnyArray, "d d"] | None
    ends: tuple[int, ...] = eqx.field(static=True)
    """Where the blocks end."""

    @staticmethod
    def of(
        center: np.ndarray,
        scale: np.ndarray,
        order: np.ndarray,
        means: np.ndarray | None,
        log_scales: np.ndarray,
        squares: np.ndarray | None = None,
        slopes: np.ndarray | None = None,
        modulation: Modulation | None = None,
        rotation: np.ndarray | None = None,
    ) -> "TriangularMap":
        """The map with these terms; matrices of zeros count as none."""
        squares, slopes = (None if part is None or not part.any() else part for part in (squares, slopes))
        ends = _block_ends(squares, slopes, modulation, len(center))
        inverse = None if means is None else _inverse_of_blocks(means, ends)
        return TriangularMap(
            center, scale, order, means, log_scales, squares, slopes, inverse, modulation, rotation, ends
        )

    @staticmethod
    def linear(
        mean: Float[np.ndarray, " d"],
        factor: Float[np.ndarray, "d d"],
        rotation: Float[np.ndarray, "d d"] | None = None,
    ) -> "TriangularMap":
        """`x = mean + factor z` with a lower triangular factor, multiplied by the rotation if there is one."""
        scale = np.sqrt(np.sum(np.square(factor), axis=1))
        standard = factor / scale[:, None]
        diagonal = np.diag(standard)
        unit = standard / diagonal
        means = np.eye(len(mean)) - np.linalg.inv(unit)
        order = np.arange(len(mean))
        return TriangularMap.of(mean, scale, order, np.tril(means, -1), np.log(diagonal), rotation=rotation)

    @staticmethod
    def diagonal(mean: Float[np.ndarray, " d"], deviation: Float[np.ndarray, " d"]) -> "TriangularMap":
        """`x = mean + deviation z`, each coordinate by itself."""
        return TriangularMap.of(mean, deviation, np.arange(len(mean)), None, np.zeros(len(mean)))

    @property
    def dimension(self) -> int:
        return self.center.shape[0]

    @property
    def is_linear(self) -> bool:
        return self.squares is None and self.slopes is None and self.modulation is None

    @property
    def factor(self) -> Float[AnyArray, "d d"] | Float[AnyArray, " d"]:
        """Of a linear map: the derivative of points by noise; only its diagonal where there is no more."""
        xp = namespace(self.center)
        if self.means is None or self.inverse is None:
            return self.scale * xp.exp(self.log_scales)
        unit = self.inverse * xp.exp(self.log_scales)[None, :]
        back = xp.argsort(self.order)
        return self.scale[:, None] * unit[back]

    def to_noise(self, positions: Rows) -> tuple[Rows, Vector]:
        """Noise at some points, and the log determinant of its derivative by the points."""
        v = self.standardized(positions)
        features = self._features(v)
        log_scales = self._log_scales(v, features)
        noise = (v - self._means(v, features)) * namespace(v).exp(-log_scales)
        return noise, -self._log_volume(log_scales, v)

    def to_points(self, noise: Rows) -> tuple[Rows, Vector]:
        """Points at some noise, and the log determinant of their derivative by the noise."""
        xp = namespace(noise)
        v, scales, features = xp.zeros_like(noise), xp.zeros_like(noise), None
        for start, end in pairs(self.ends):
            before, own = v[:, :start], slice(start, end)
            features = self._features(before) if features is None else features
            log_scales = self._log_scales(before, features, own)
            right = self._means(before, features, own) + xp.exp(log_scales) * noise[:, own]
            v, scales = put(v, own, self.within(right, own)), put(scales, own, log_scales)
        positions = self.center + self.scale * v[:, xp.argsort(self.order)]
        if self.rotation is not None:
            positions = positions @ self.rotation.T
        return positions, self._log_volume(scales, v)

    def slope_of_points(self, positions: Rows, noise: Rows, noise_slope: Rows) -> Rows:
        """Gradient by the points of `h(noise) + log |d noise / d points|`, where `noise_slope` is that of h."""
        xp = namespace(positions)
        v = self.standardized(positions)
        features = self._features(v)
        pulled = noise_slope * xp.exp(-self._log_scales(v, features))
        slope = pulled if self.means is None else pulled - pulled @ self.means
        bent, inside = _bent(v), xp.abs(v) < CLIP
        if self.squares is not None:
            slope = slope - xp.where(inside, 2 * bent * (pulled @ self.squares), 0.0)
        if self.slopes is not None:
            slope = slope - xp.where(inside, (noise_slope * noise + 1.0) @ self.slopes, 0.0)
        if self.modulation is not None:
            at = self.modulation.back(v, features)
            slope = slope - self._by_modulation(at, pulled, noise_slope * noise + 1.0)
        slope = slope[:, xp.argsort(self.order)] / self.scale
        return slope if self.rotation is None else slope @ self.rotation.T

    def slopes_of_noise(self, positions: Rows, noise: Rows, point_slopes: list[Rows]) -> list[Rows]:
        """Gradients by the noise of `h(points) + log |d points / d noise|`, where `point_slopes` are those of each h.

        Back through the triangle: `(d noise / d v)' a = d h / d v`, block by block from the last.
        """
        xp = namespace(positions)
        v = self.standardized(positions)
        bent, inside = _bent(v), xp.abs(v) < CLIP
        features = self._features(v)
        scales = xp.broadcast_to(xp.exp(self._log_scales(v, features)), v.shape)
        volume = 0.0 if self.slopes is None else xp.where(inside, xp.sum(self.slopes, axis=0), 0.0)
        modulated = None
        if self.modulation is not None:
            modulated = self.modulation.back(v, features)
            volume = volume + self._by_modulation(modulated, xp.zeros_like(v), xp.ones_like(v))
        at = bent, inside, scales, modulated
        return [
            self._solve_back(self._rotated(slope)[:, self.order] * self.scale[self.order] + volume, at, noise)
            for slope in point_slopes
        ]

    def _by_modulation(self, at: Back, pulled: Rows, of_scales: Rows) -> Rows:
        """`sum_j pulled_j d mean_j / d v + of_scales_j d log scale_j / d v`, as far as the modulation is concerned."""
        modulation: Any = self.modulation
        slopes = modulation.to_others(at, pulled, slice(None), slice(None))
        of_drivers = modulation.to_drivers(at, pulled, of_scales)
        num = modulation.num_drivers
        return namespace(pulled).concatenate([slopes[:, :num] + of_drivers, slopes[:, num:]], axis=-1)

    def _solve_back(self, right: Rows, at: tuple[Rows, Any, Rows, Back | None], noise: Rows) -> Rows:
        xp = namespace(right)
        bent, inside, scales, modulated = at
        solved = xp.zeros_like(right)
        for start, end in reversed(list(pairs(self.ends))):
            own, late = slice(start, end), slice(end, None)
            rest = right[:, own]
            if end < self.dimension:
                found = solved[:, late]
                pulled = found / scales[:, late]
                if self.means is not None:
                    rest = rest + pulled @ self.means[late, own]
                if self.squares is not None:
                    curved = 2 * bent[:, own] * (pulled @ self.squares[late, own])
                    rest = rest + xp.where(inside[:, own], curved, 0.0)
                if self.slopes is not None:
                    curved = (found * noise[:, late]) @ self.slopes[late, own]
                    rest = rest + xp.where(inside[:, own], curved, 0.0)
                if modulated is not None:
                    rest = rest + self._modulated_back(modulated, pulled, found * noise[:, late], own, late)
            rest = rest if self.inverse is None else rest @ self.inverse[own, own]
            solved = put(solved, own, scales[:, own] * rest)
        return solved

    def _modulated_back(self, at: Back, pulled: Any, of_scales: Any, own: slice, late: slice) -> Any:
        """What late coordinates add to the slopes of own ones; all drivers are one block, or the last blocks solved."""
        modulation: Any = self.modulation
        total = modulation.to_others(at, pulled, own, late)
        if own.start >= modulation.num_drivers:
            return total
        xp = namespace(pulled)
        none = xp.zeros_like(at.positions[:, : late.start])
        whole = (xp.concatenate([none, part], axis=-1) for part in (pulled, of_scales))
        return total + modulation.to_drivers(at, *whole)[:, own]

    def standardized(self, positions: Rows) -> Rows:
        """Coordinates with a spread of about one, in the order of the map."""
        return ((self._rotated(positions) - self.center) / self.scale)[:, self.order]

    def _rotated(self, rows: Rows) -> Rows:
        return rows if self.rotation is None else rows @ self.rotation

    def within(self, right: Any, own: slice) -> Any:
        """Solve for the coordinates of a block, which depend on each other linearly."""
        return right if self.inverse is None else right @ self.inverse[own, own].T

    def _features(self, v: Any) -> Any:
        """Of the drivers, where they are among the coordinates that are known."""
        if self.modulation is None or v.shape[1] < self.modulation.num_drivers:
            return None
        return self.modulation.features(v)

    def _means(self, v: Any, features: Any, own: slice = slice(None)) -> Any:
        """Means of some coordinates from the first ones, as many as `v` has."""
        num = v.shape[1]
        means = 0.0 if self.means is None else v @ self.means[own, :num].T
        if self.squares is not None:
            means = means + _bent(v) ** 2 @ self.squares[own, :num].T
        return means if features is None else means + self.modulation.means(v, features, own)  # type: ignore[union-attr]

    def _log_scales(self, v: Any, features: Any, own: slice = slice(None)) -> Any:
        log_scales = self.log_scales[own]
        if self.slopes is not None:
            log_scales = log_scales + _bent(v) @ self.slopes[own, : v.shape[1]].T
        return log_scales if features is None else log_scales + features @ self.modulation.widths[own].T  # type: ignore[union-attr]

    def means_and_log_scales(self, v: Any, own: slice = slice(None)) -> tuple[Any, Any]:
        """Of some coordinates, given the first ones, standardized, as many as `v` has; for maps without drivers."""
        return self._means(v, None, own), self._log_scales(v, None, own)

    def _log_volume(self, log_scales: Any, v: Rows) -> Vector:
        xp = namespace(self.scale, v)
        volume = xp.sum(log_scales, axis=-1) + xp.sum(xp.log(self.scale))
        return xp.broadcast_to(volume, v.shape[:1])


def _bent(v: Any) -> Any:
    return namespace(v).clip(v, -CLIP, CLIP)


def _inverse_of_blocks(means: np.ndarray, ends: tuple[int, ...]) -> np.ndarray:
    """Of `1 - means`, block by block."""
    inverse = np.zeros_like(means)
    for start, end in pairs(ends):
        inverse[start:end, start:end] = np.linalg.inv(np.eye(end - start) - means[start:end, start:end])
    return inverse


def put(rows: Any, own: slice, values: Any) -> Any:
    """Rows with other values in some columns: in place with NumPy, anew with JAX."""
    if isinstance(rows, np.ndarray):
        rows[:, own] = values
        return rows
    return rows.at[:, own].set(values)


def pairs(ends: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """First and last of each block."""
    return zip((0, *ends[:-1]), ends, strict=True)


def _block_ends(
    squares: np.ndarray | None, slopes: np.ndarray | None, modulation: Modulation | None, dimension: int
) -> tuple[int, ...]:
    """Just after each coordinate that bends others, and at the end."""
    bends = np.zeros(dimension, bool)
    for part in (squares, slopes):
        if part is not None:
            bends |= (part != 0).any(axis=0)
    if modulation is not None:
        bends[modulation.num_drivers - 1] = True
        bends[np.asarray(modulation.before)[np.asarray(modulation.turns).any(axis=-1)]] = True
    return tuple(sorted({*(np.flatnonzero(bends[:-1]) + 1).tolist(), dimension}))
