"""The layer for curved targets: each coordinate is normal given those before it.

    v_j = m_j + exp(s_j) z_j,    k < j
    m_j = intercepts[j] + sum_k linear[j, k] v_k + terms,    s_j = log_scales[j] + terms

The terms come from feature sets: squares and slopes of earlier coordinates, drivers of all others. Pulls by data change
both. From points to noise everything is a product of matrices. The way back is a triangular solve for each block of
coordinates, and a block ends where a coordinate bends later ones.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..core import AnyArray, FloatArray, Module, Rows, namespace
from .base import AbstractLayer, At
from .features import AbstractFeatures


class Pulls(Module):
    """Data of one coordinate each, to which the coordinates of a hierarchical prior are pulled.

    Let a coordinate be normal with mean m and scale s given earlier ones, and let the data say `a` with precision p.
    Then it is normal again. Its mean is `m + (a - m) k` and its scale `s sqrt(1 - k)`, where
    `k = p s^2 / (1 + p s^2)`. If earlier coordinates make s small, the data do not count and the coordinate follows its
    prior; if they make it large, the data alone count. No mean and log scale that are linear in earlier coordinates do
    both.
    """

    places: Float[AnyArray, " d"]
    precisions: Float[AnyArray, " d"]


class Law(NamedTuple):
    """Means and log scales of some coordinates given earlier ones, and how pulls changed them.

    `keeps` is the derivative of mean by the prior's mean, and that of log scale by its log scale; `turns` is the
    derivative of mean by the prior's log scale. Both are None without pulls.
    """

    means: Any
    log_scales: Any
    keeps: Any = None
    turns: Any = None


class _Work(NamedTuple):
    law: Law
    looked: list[Any]
    """At all feature sets."""


class Conditional(AbstractLayer):
    """Coordinates that are normal given earlier ones, with means and log scales that features bend.

    `linear` is strictly lower triangular, or None where means depend on features alone. `solver` holds, for each block,
    the inverse of `1 - linear` within it.
    """

    linear: Float[AnyArray, "d d"] | None
    log_scales: Float[AnyArray, " d"]
    features: tuple[AbstractFeatures, ...]
    intercepts: Float[AnyArray, " d"] | None
    pulls: Pulls | None
    solver: Float[AnyArray, "d d"] | None
    ends: tuple[int, ...] = eqx.field(static=True)
    """Ends of the blocks."""

    @staticmethod
    def of(
        linear: Float[np.ndarray, "d d"] | None,
        log_scales: Float[np.ndarray, " d"],
        *features: AbstractFeatures,
        intercepts: Float[np.ndarray, " d"] | None = None,
        pulls: Pulls | None = None,
    ) -> "Conditional":
        """Return the layer with these terms."""
        ends = _block_ends(linear, features, pulls, len(log_scales))
        solver = None if linear is None else np.zeros_like(linear)
        for start, end in _pairs(ends):
            own = slice(start, end)
            if linear is not None and solver is not None:
                solver[own, own] = np.linalg.inv(np.eye(end - start) - linear[own, own])
        return Conditional(linear, log_scales, features, intercepts, pulls, solver, ends)

    is_linear = False

    @property
    def dimension(self) -> int:
        return self.log_scales.shape[0]

    def with_parts(self, **parts: Any) -> "Conditional":
        """Return the layer with other log scales, intercepts or pulls."""
        terms = {"log_scales": self.log_scales, "intercepts": self.intercepts, "pulls": self.pulls} | parts
        return Conditional.of(self.linear, terms.pop("log_scales"), *self.features, **terms)

    def forward(self, noise: Rows) -> At:
        xp = namespace(noise)
        v, laws, looked = xp.zeros_like(noise), [], [None] * len(self.features)
        for start, end in _pairs(self.ends):
            own = slice(start, end)
            looked = self._look(v[:, :start], looked)
            law = self._law(v[:, :start], looked, own)
            right = law.means + xp.exp(law.log_scales) * noise[:, own]
            v = _put(v, own, right if self.solver is None else right @ self.solver[own, own].T)
            laws.append(Law(*(None if part is None else xp.broadcast_to(part, right.shape) for part in law)))
        whole = (None if parts[0] is None else xp.concatenate(parts, axis=-1) for parts in zip(*laws, strict=True))
        return At(noise, v, _Work(Law(*whole), self._look(v, looked)))

    def inverse(self, points: Rows) -> At:
        looked = self._look(points, [None] * len(self.features))
        law = self.law(points, looked)
        return At((points - law.means) * namespace(points).exp(-law.log_scales), points, _Work(law, looked))

    def log_volume(self, at: At) -> Any:
        return namespace(at.work.law.log_scales).sum(at.work.law.log_scales, axis=-1)

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        """Solve `(d noise / d points)' a = slopes` block by block from the last."""
        xp = namespace(at.points, slopes)
        scales = xp.broadcast_to(xp.exp(at.work.law.log_scales), at.points.shape)
        solved = xp.zeros_like(slopes)
        for start, end in reversed(list(_pairs(self.ends))):
            own, late = slice(start, end), slice(end, self.dimension)
            rest = slopes[:, own]
            if end < self.dimension:
                found = solved[:, late]
                rest = rest + self._back(at, found / scales[:, late], found * at.noise[:, late] + 1.0, own, late)
            rest = rest if self.solver is None else rest @ self.solver[own, own]
            solved = _put(solved, own, scales[:, own] * rest)
        return solved

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        whole = slice(0, self.dimension)
        pulled = slopes * namespace(slopes).exp(-at.work.law.log_scales)
        return pulled - self._back(at, pulled, slopes * at.noise + 1.0, whole, whole)

    def law(self, v: Rows, looked: list[Any] | None = None) -> Law:
        """Compute the law of every coordinate given those before it."""
        looked = self._look(v, [None] * len(self.features)) if looked is None else looked
        return self._law(v, looked, slice(0, self.dimension))

    def _look(self, v: Rows, before: list[Any]) -> list[Any]:
        return [part.look(v, one) for part, one in zip(self.features, before, strict=True)]

    def _law(self, v: Rows, looked: list[Any], own: slice) -> Law:
        """Compute the law of some coordinates from the first ones, as many as `v` has."""
        means = 0.0 if self.linear is None else v @ self.linear[own, : v.shape[1]].T
        means = means if self.intercepts is None else means + self.intercepts[own]
        log_scales = self.log_scales[own]
        for part, one in zip(self.features, looked, strict=True):
            of_means, of_log_scales = part.terms(v, one, own)
            means, log_scales = means + of_means, log_scales + of_log_scales
        if self.pulls is None:
            return Law(means, log_scales)
        xp = namespace(v)
        strength = xp.asarray(self.pulls.precisions)[own] * xp.exp(2 * log_scales)
        keeps = 1 / (1 + strength)
        pull = (xp.asarray(self.pulls.places)[own] - means) * (1 - keeps)
        return Law(means + pull, log_scales + 0.5 * xp.log(keeps), keeps, 2 * pull * keeps)

    def _back(self, at: At, of_means: FloatArray, of_log_scales: FloatArray, own: slice, late: slice) -> Any:
        """Return gradients by own coordinates from those by the means and the log scales of late ones."""
        law, looked = at.work
        if law.keeps is not None:
            shape = at.points.shape
            keeps, turns = (namespace(part).broadcast_to(part, shape)[:, late] for part in (law.keeps, law.turns))
            of_means, of_log_scales = of_means * keeps, of_log_scales * keeps + of_means * turns
        total = 0.0 if self.linear is None else of_means @ self.linear[late, own]
        for part, one in zip(self.features, looked, strict=True):
            total = total + part.pull_back(at.points, one, of_means, of_log_scales, own, late)
        return total


def _put(rows: Any, own: slice, values: Any) -> Any:
    """Return rows with other values in some columns: in place with NumPy, anew with JAX."""
    if isinstance(rows, np.ndarray):
        rows[:, own] = values
        return rows
    return rows.at[:, own].set(values)


def _pairs(ends: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the first coordinate of each block, and its end."""
    return zip((0, *ends[:-1]), ends, strict=True)


def _block_ends(
    linear: np.ndarray | None, features: tuple[AbstractFeatures, ...], pulls: Pulls | None, dimension: int
) -> tuple[int, ...]:
    """Return the ends: after each coordinate that bends others, and before one that is pulled and linear in others."""
    bends = np.any([np.zeros(dimension, bool), *(part.bending() for part in features)], axis=0)
    ends = {*(np.flatnonzero(bends[:-1]) + 1).tolist(), dimension}
    if linear is None or pulls is None:
        return tuple(sorted(ends))
    for start, end in _pairs(tuple(sorted(ends))):
        pulled = (linear[start:end, start:end] != 0).any(axis=1) & (pulls.precisions[start:end] > 0)
        ends |= {start + int(j) for j in np.flatnonzero(pulled)}
    return tuple(sorted(ends - {0}))
