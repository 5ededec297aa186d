"""Maps of a prior whose coordinates are pulled toward data, as those of a hierarchical model are.

Let a coordinate be normal with mean m and scale s given earlier ones, and let the data say `a` with precision p. Then
it is normal again. Its mean is `m + (a - m) k` and its scale `s sqrt(1 - k)`, where `k = p s^2 / (1 + p s^2)`.
If earlier coordinates make s small, the data do not count and the coordinate follows its prior; if they make it large,
the data alone count. No mean and log scale that are linear in earlier coordinates do both.
"""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from .._modules import Module
from .._types import AnyArray, Rows, Vector
from ..arrays import namespace, quiet
from .maps import CLIP, TriangularMap, pairs, put

_GRID = np.exp(np.linspace(-9.0, 15.0, 49))
"""Precisions that are tried, in units of a coordinate's own standardized scale."""
_GAIN = 5.0
"""Nats that the pull of a coordinate must gain over all draws."""


class _At(NamedTuple):
    """What the map is at some rows: standardized coordinates, means and scales, and derivatives of the last two.

    `keeps` is the derivative of mean by the prior's mean, and that of log scale by its log scale; `turns` is the
    derivative of mean by the prior's log scale.
    """

    v: Any
    means: Any
    log_scales: Any
    keeps: Any
    turns: Any


class PulledMap(Module):
    """A triangular map (`prior`, without drivers) with `places` and `precisions` of data, those of one coordinate each.

    Both are in the standardized coordinates and the order of the prior's map. It has the methods of a `TriangularMap`.
    """

    prior: TriangularMap
    places: Float[AnyArray, " d"]
    precisions: Float[AnyArray, " d"]
    ends: tuple[int, ...] = eqx.field(static=True)
    """Where the blocks end."""

    @staticmethod
    def of(prior: TriangularMap, places: Float[np.ndarray, " d"], precisions: Float[np.ndarray, " d"]) -> "PulledMap":
        """The map with these data. A block ends before a coordinate that is pulled and depends on others in it."""
        ends = {prior.dimension}
        for start, end in pairs(prior.ends):
            ends.add(end)
            if prior.means is not None:
                within = np.any(prior.means[start:end, start:end] != 0, axis=1) & (precisions[start:end] > 0)
                ends |= {start + int(j) for j in np.flatnonzero(within)}
        return PulledMap(prior, places, precisions, tuple(sorted(ends - {0})))

    is_linear = False
    modulation = None

    @property
    def dimension(self) -> int:
        return self.prior.dimension

    def to_noise(self, positions: Rows) -> tuple[Rows, Vector]:
        """Noise at some points, and the log determinant of its derivative by the points."""
        at = self._at(self.prior.standardized(positions))
        noise = (at.v - at.means) * namespace(at.v).exp(-at.log_scales)
        return noise, -self._log_volume(at)

    def to_points(self, noise: Rows) -> tuple[Rows, Vector]:
        """Points at some noise, and the log determinant of their derivative by the noise."""
        xp = namespace(noise)
        v = xp.zeros_like(noise)
        for start, end in pairs(self.ends):
            own = slice(start, end)
            at = self._at(v[:, :start], own)
            v = put(v, own, self.prior.within(at.means + xp.exp(at.log_scales) * noise[:, own], own))
        positions = self.prior.center + self.prior.scale * v[:, xp.argsort(self.prior.order)]
        return positions, self._log_volume(self._at(v))

    def slope_of_points(self, positions: Rows, noise: Rows, noise_slope: Rows) -> Rows:
        """Gradient by the points of `h(noise) + log |d noise / d points|`, where `noise_slope` is that of h."""
        xp = namespace(positions)
        at = self._at(self.prior.standardized(positions))
        pulled = noise_slope * xp.exp(-at.log_scales)
        slope = pulled - self._back(at, pulled, noise_slope * noise + 1.0)
        return slope[:, xp.argsort(self.prior.order)] / self.prior.scale

    def slopes_of_noise(self, positions: Rows, noise: Rows, point_slopes: list[Rows]) -> list[Rows]:
        """Gradients by the noise of `h(points) + log |d points / d noise|`; `point_slopes` are those of each h."""
        xp, order = namespace(positions), self.prior.order
        at = self._at(self.prior.standardized(positions))
        scales = xp.exp(at.log_scales)
        volume = self._back(at, scales * 0.0, scales * 0.0 + 1.0)
        rights = [slope[:, order] * self.prior.scale[order] + volume for slope in point_slopes]
        return [self._solve_back(at, right, scales, noise) for right in rights]

    def _solve_back(self, at: _At, right: Rows, scales: Rows, noise: Rows) -> Rows:
        """As that of `TriangularMap`: block by block from the last."""
        inverse, solved = self.prior.inverse, namespace(right).zeros_like(right)
        for start, end in reversed(list(pairs(self.ends))):
            own, late = slice(start, end), slice(end, None)
            found, rest = solved[:, late], right[:, own]
            if end < self.dimension:
                rest = rest + self._back(at, found / scales[:, late], found * noise[:, late], own, late)
            rest = rest if inverse is None else rest @ inverse[own, own]
            solved = put(solved, own, scales[:, own] * rest)
        return solved

    def _at(self, v: Any, own: slice = slice(None)) -> _At:
        """Of some coordinates at standardized rows, as far as these are known."""
        xp = namespace(v)
        means, log_scales = self.prior.means_and_log_scales(v, own)
        precisions, places = xp.asarray(self.precisions)[own], xp.asarray(self.places)[own]
        strength = precisions * xp.exp(2 * log_scales)
        keeps = 1 / (1 + strength)
        pull = (places - means) * (1 - keeps)
        return _At(v, means + pull, log_scales + 0.5 * xp.log(keeps), keeps, 2 * pull * keeps)

    def _back(self, at: _At, pulled: Any, of_scales: Any, own: slice = slice(None), late: slice = slice(None)) -> Any:
        """`sum_j pulled_j d mean_j / d v_i + of_scales_j d log scale_j / d v_i` over late coordinates j for own i."""
        xp, prior = namespace(pulled), self.prior
        keeps, turns = (xp.broadcast_to(part, at.v.shape)[:, late] for part in (at.keeps, at.turns))
        bent, inside = xp.clip(at.v, -CLIP, CLIP)[:, own], xp.abs(at.v[:, own]) < CLIP
        total = 0.0 if prior.means is None else (pulled * keeps) @ prior.means[late, own]
        if prior.squares is not None:
            total = total + xp.where(inside, 2 * bent * ((pulled * keeps) @ prior.squares[late, own]), 0.0)
        if prior.slopes is not None:
            by_log_scale = of_scales * keeps + pulled * turns
            total = total + xp.where(inside, by_log_scale @ prior.slopes[late, own], 0.0)
        return total

    def _log_volume(self, at: _At) -> Vector:
        xp = namespace(self.prior.scale, at.v)
        volume = xp.sum(at.log_scales, axis=-1) + xp.sum(xp.log(self.prior.scale))
        return xp.broadcast_to(volume, at.v.shape[:1])


@quiet()
def fit_pulls(prior: TriangularMap, positions: Float[np.ndarray, "n d"]) -> PulledMap | None:
    """The most likely pulls for draws of the posterior; None where no coordinate is pulled.

    Only coordinates whose scale depends on others need it. For each precision the place is a least-squares fit.
    """
    if prior.slopes is None or prior.modulation is not None or prior.rotation is not None:
        return None
    v = prior.standardized(positions)
    means, log_scales = (np.broadcast_to(part, v.shape) for part in prior.means_and_log_scales(v))
    places, precisions = np.zeros(prior.dimension), np.zeros(prior.dimension)
    for j in np.flatnonzero(np.any(prior.slopes != 0, axis=1)):
        own, mean, variance = v[:, j], means[:, j], np.exp(2 * log_scales[:, j])
        strength = _GRID[:, None] * variance
        pull, spread = strength / (1 + strength), variance / (1 + strength)
        target = own - mean * (1 - pull)
        place = np.sum(pull * target / spread, axis=1) / np.sum(pull**2 / spread, axis=1)
        fits = -0.5 * np.sum((target - place[:, None] * pull) ** 2 / spread + np.log(spread), axis=1)
        plain = -0.5 * np.sum((own - mean) ** 2 / variance + np.log(variance))
        best = int(np.argmax(fits))
        if fits[best] > plain + _GAIN:
            places[j], precisions[j] = place[best], _GRID[best]
    return PulledMap.of(prior, places, precisions) if precisions.any() else None
