"""Features of earlier coordinates, which bend the mean and the log scale of later ones."""

import abc
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..core import AnyArray, ArrayNamespace, FloatArray, Module, Rows, namespace

CLIP = 12.0
"""Standard deviations beyond which a coordinate bends the later ones no further, so that nothing overflows far out."""


class AbstractFeatures(Module):
    """Functions of earlier coordinates v, and what they add to the means and the log scales of later ones.

    `look` computes them for as many first coordinates as are known. The other methods take what it returned.
    """

    @abc.abstractmethod
    def look(self, v: Rows, before: Any) -> Any:
        """Compute the functions; `before` is what it returned for fewer coordinates of the same rows, or None."""

    @abc.abstractmethod
    def terms(self, v: Rows, looked: Any, own: slice) -> tuple[Any, Any]:
        """Return what is added to the means and the log scales of some coordinates."""

    @abc.abstractmethod
    def pull_back(
        self, v: Rows, looked: Any, of_means: FloatArray, of_log_scales: FloatArray, own: slice, late: slice
    ) -> Any:
        """Return gradients by own coordinates from those by the means and the log scales of late ones."""

    @abc.abstractmethod
    def bending(self) -> Bool[np.ndarray, " d"]:
        """Return which coordinates bend later ones."""


class Bends(AbstractFeatures):
    """`squares @ f(v)^2` for means and `slopes @ f(v)` for log scales, where `f(v) = clip(v)`.

    Both matrices are strictly lower triangular. A matrix of zeros may be None.
    """

    squares: Float[AnyArray, "d d"] | None
    slopes: Float[AnyArray, "d d"] | None

    def look(self, v: Rows, before: Any) -> Rows:
        return namespace(v).clip(v, -CLIP, CLIP)

    def terms(self, v: Rows, looked: Rows, own: slice) -> tuple[Any, Any]:
        num = v.shape[1]
        means = 0.0 if self.squares is None else looked**2 @ self.squares[own, :num].T
        return means, 0.0 if self.slopes is None else looked @ self.slopes[own, :num].T

    def pull_back(
        self, v: Rows, looked: Any, of_means: FloatArray, of_log_scales: FloatArray, own: slice, late: slice
    ) -> Any:
        xp, total = namespace(v), 0.0
        if self.squares is not None:
            total = 2 * looked[:, own] * (of_means @ self.squares[late, own])
        if self.slopes is not None:
            total = total + of_log_scales @ self.slopes[late, own]
        return xp.where(xp.abs(looked[:, own]) < CLIP, total, 0.0)

    def bending(self) -> Bool[np.ndarray, " d"]:
        return np.any([(part != 0).any(axis=0) for part in (self.squares, self.slopes) if part is not None], axis=0)


class _Looked(NamedTuple):
    """Features of the drivers, and the slopes by earlier coordinates that follow from them."""

    features: Rows
    coefficients: list[Rows]
    """One array for each of the `before`."""


class Drivers(AbstractFeatures):
    """The first coordinates change the means, slopes and log scales of all others, as hyperparameters do.

    Features are functions of the drivers: a constant, the drivers, parabolas between `knots` that go on as straight
    lines, and products. A mean has them as they are (`shifts`), and times a few earlier coordinates (`turns`, and
    which ones in `before`); a log scale is linear in them (`widths`). Rows of the drivers themselves are zero.
    """

    knots: Float[AnyArray, "k n"]
    shifts: Float[AnyArray, "d m"]
    widths: Float[AnyArray, "d m"]
    before: Int[AnyArray, "d s"]
    turns: Float[AnyArray, "d s m"]

    @property
    def num_drivers(self) -> int:
        return self.knots.shape[0]

    def look(self, v: Rows, before: _Looked | None) -> _Looked | None:
        if before is not None or v.shape[1] < self.num_drivers:
            return before
        features = features_of(v, self.knots)
        return _Looked(features, [features @ self.turns[:, s].T for s in range(self.before.shape[1])])

    def terms(self, v: Rows, looked: _Looked | None, own: slice) -> tuple[Any, Any]:
        if looked is None:
            return 0.0, 0.0
        means = looked.features @ self.shifts[own].T
        for s, coefficients in enumerate(looked.coefficients):
            means = means + v[:, self.before[own, s]] * coefficients[:, own]
        return means, looked.features @ self.widths[own].T

    def pull_back(
        self, v: Rows, looked: _Looked, of_means: FloatArray, of_log_scales: FloatArray, own: slice, late: slice
    ) -> Any:
        total = self._to_others(looked, of_means, own, late)
        num = min(self.num_drivers, own.stop) - own.start
        if num <= 0:
            return total
        of_drivers = self._to_drivers(v, of_means, of_log_scales, late)[:, own]
        return namespace(v).concatenate([total[:, :num] + of_drivers, total[:, num:]], axis=-1)

    def bending(self) -> Bool[np.ndarray, " d"]:
        bends = np.zeros(self.before.shape[0], bool)
        bends[self.num_drivers - 1] = True
        bends[np.asarray(self.before)[np.asarray(self.turns).any(axis=-1)]] = True
        return bends

    def _to_others(self, looked: _Looked, of_means: FloatArray, own: slice, late: slice) -> Any:
        """Return gradients by the coordinates that means are linear in, the features held fixed."""
        xp = namespace(of_means)
        rows = xp.arange(self.before.shape[0])[own]
        total = 0.0
        for s, coefficients in enumerate(looked.coefficients):
            places = xp.asarray(self.before[late, s][:, None] == rows, of_means.dtype)
            total = total + (of_means * coefficients[:, late]) @ places
        return total

    def _to_drivers(self, v: Rows, of_means: FloatArray, of_log_scales: FloatArray, late: slice) -> Any:
        """Return gradients by the drivers, through their features."""
        xp = namespace(of_means)
        total = of_means @ self.shifts[late] + of_log_scales @ self.widths[late]
        for s in range(self.before.shape[1]):
            total = total + (of_means * v[:, self.before[late, s]]) @ self.turns[late, s]
        u, num = v[:, : self.num_drivers], self.num_drivers
        inside = xp.abs(u) < CLIP
        slopes = [total[:, 1 + k] for k in range(num)]
        for i, (k, ends) in enumerate(_intervals(xp, self.knots)):
            slopes[k] = slopes[k] + total[:, 1 + num + i] * _parabola(xp, u[:, k], *ends)[1]
        pairs = _pairs(num)
        first = total.shape[-1] - len(pairs)
        for i, (k, other) in enumerate(pairs):
            slopes[k] = slopes[k] + total[:, first + i] * u[:, other]
            slopes[other] = slopes[other] + total[:, first + i] * u[:, k]
        return xp.where(inside, xp.stack(slopes, axis=-1), 0.0)


def features_of(v: Any, knots: Float[AnyArray, "k n"]) -> Any:
    """Return the features of drivers, which are the first columns of some rows."""
    xp, num = namespace(v), knots.shape[0]
    u = xp.clip(v[:, :num], -CLIP, CLIP)
    bent = [_parabola(xp, u[:, k], *ends)[0] for k, ends in _intervals(xp, knots)]
    products = [u[:, i] * u[:, j] for i, j in _pairs(num)]
    return xp.stack([xp.ones_like(u[:, 0]), *xp.moveaxis(u, 1, 0), *bent, *products], axis=-1)


def _pairs(num: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(num) for j in range(i)]


def _intervals(xp: ArrayNamespace, knots: Any) -> list[tuple[int, tuple[Any, Any]]]:
    knots = xp.asarray(knots)
    return [(k, (knots[k, i], knots[k, i + 1])) for k in range(knots.shape[0]) for i in range(knots.shape[1] - 1)]


def _parabola(xp: ArrayNamespace, u: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Compute a parabola over an interval that goes on as straight lines of slope -1 and 1, and its derivative."""
    half = 0.5 * (high - low)
    away = u - low - half
    inner = xp.clip(away, -half, half)
    return inner * (away - 0.5 * inner) / half, inner / half
