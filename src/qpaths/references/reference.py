"""A reference distribution: where to anneal from when the base is far from the target."""

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from ..core import (
    AnyArray,
    Module,
    Point,
    PRNGKey,
    Rows,
    Scalar,
    Stream,
    TracedStream,
    Vector,
    logsumexp,
    namespace,
    quiet,
)
from ..densities import DensityLike, draw, evaluate
from ..rows import AbstractDensities, DerivedDensity, Evaluator, Layout
from .components import Component
from .coordinates import MappedDensities

_FARTHEST = 7.0
"""Size of the noise beyond which NaN is not the fault of a density."""
_MOST_ROUNDED = 0.1
"""Error of the noise of a draw, relative to its size, beyond which it is lost."""
_NEGLIGIBLE = 1e-30
"""Share of the base in the density below which its gradient does not count."""
_NUM_PROBED, _NUM_CLIMBED = 512, 16
"""Points at which the target is compared with a reference, and from how many of them another ascent starts."""


class Reference(Module, DerivedDensity):
    """A mixture of components with a little of the base: normalized, easy to sample, and with the base's support.

    Component i has the share `(1 - share) * shares[i]`. The share of the base is the defense: whatever mass of the
    target the components miss, the weight there is at most `1 / share` times what it would be from the base. With
    `is_mapped` runs live in the coordinates of the first component's map. With a `share` of 1 that is all, and the
    reference is the base.
    """

    components: tuple[Component, ...]
    shares: Float[AnyArray, " k"]
    inner: DensityLike
    share: float = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    is_mapped: bool = eqx.field(static=True, default=False)

    @quiet()
    def given_inner(
        self, positions: Rows, log_inner: Vector, inner_slope: Rows | Callable[[], Rows] | None
    ) -> tuple[Vector, Rows | None]:
        if self.share == 1:
            return log_inner, inner_slope() if callable(inner_slope) else inner_slope
        xp = namespace(positions, log_inner)
        if inner_slope is None:
            found = [(component.log_prob(positions), None) for component in self.components]
        else:
            found = [component.log_prob_and_slope(positions) for component in self.components]
        shares = xp.concatenate([(1 - self.share) * xp.asarray(self.shares), xp.full(1, self.share)])
        logs = xp.stack([*(value for value, _ in found), log_inner], axis=-1) + xp.log(shares).astype(log_inner.dtype)
        logs = xp.where(xp.isnan(logs), -xp.inf, logs)  # a map has overflowed there
        value = logsumexp(logs, axis=-1)
        if inner_slope is None:
            return value, None
        parts = xp.exp(logs - value[:, None])
        slopes = [own for _, own in found]
        if xp is not np or (parts[:, -1] > _NEGLIGIBLE).any():
            slopes.append(inner_slope() if callable(inner_slope) else inner_slope)
        each = [part * own for part, own in zip(parts.T[:, :, None], slopes, strict=False)]
        if xp is not np or not (parts[:, : len(each)] > 0).all():  # where a part has no mass its slope means nothing
            each = [xp.where(part > 0, own, 0.0) for part, own in zip(parts.T[:, :, None], each, strict=False)]
        return value, functools.reduce(operator.add, each)

    @functools.cached_property
    def in_own_coordinates(self) -> "Reference":
        """Return the distribution of the noise of the first component's map, for which that component needs no map."""
        first = self.components[0].map
        maps = [component.map.relative_to(first) for component in self.components]
        parts = zip(self.components, maps, strict=True)
        return dataclasses.replace(self, components=tuple(dataclasses.replace(one, map=own) for one, own in parts))

    @quiet()
    def is_far(self, positions: Rows) -> Any:
        xp = namespace(positions)
        away = [xp.max(xp.abs(component.map.inverse(positions).noise), axis=-1) for component in self.components]
        return ~(xp.min(xp.stack(away), axis=0) < _FARTHEST)

    @quiet()
    def draw_rows(self, stream: Stream, num: int, draw_inner: Callable[[Any, int], Rows]) -> Rows:
        streams: list[Any] = [*stream.split(2 + len(self.components))]
        which, far, *near = streams
        number = which.uniform((num, 1))
        rows = draw_inner(far, num)
        xp = namespace(rows, number)
        first = self.share
        for component, share, own in zip(self.components, self.shares, near, strict=True):
            drawn = component.draw(own, num).astype(rows.dtype)
            rows, first = xp.where(number >= first, drawn, rows), first + (1 - self.share) * share
        return rows

    def in_coordinates(self, densities: AbstractDensities) -> AbstractDensities:
        return MappedDensities(densities, self.components[0].map) if self.is_mapped else densities

    def log_prob(self, x: Point) -> Scalar:
        row = self.layout.rows(x)[None]
        return self.given_inner(row, evaluate(self.inner, x, "base")[None], None)[0][0]

    def sample(self, key: PRNGKey) -> Point:
        def draw_inner(stream: TracedStream, num: int) -> Any:
            return self.layout.rows(draw(self.inner, stream.key, "base"))[None]

        return self.layout.points(self.draw_rows(TracedStream(key), 1, draw_inner)[0])


def share_outside(reference: Reference, evaluator: Evaluator, num: int, *, stream: Stream) -> float:
    """Share of `num` draws from each component at which the target has no mass: beyond a hard bound. The largest."""
    shares = []
    for number, component in enumerate(reference.components):
        positions = component.draw(stream.fold(number), num)
        shares.append(float(np.mean(np.asarray(evaluator.values(positions).log_target) == -np.inf)))
    return max(shares)


@quiet()
def share_lost(reference: Reference, num: int, *, stream: Stream) -> float:
    """Share of `num` draws from each curved component that its map does not lead back to their noise. The largest.

    Far out, a map whose coordinates drive each other can grow without bound. What comes back is then rounding errors.
    """
    shares = [0.0]
    for number, component in enumerate(reference.components):
        if component.map.is_linear:
            continue
        noise = np.asarray(component.noise(stream.fold(number), num))
        back = np.asarray(component.map.inverse(component.map.forward(noise).points).noise)
        is_back = np.abs(back - noise) < _MOST_ROUNDED * (1 + np.abs(noise))
        shares.append(float(np.mean(~is_back.all(axis=-1))))
    return max(shares)


def least_covered(
    reference: Reference, evaluator: Evaluator, stream: Stream, num: int = _NUM_PROBED, above: float = -np.inf
) -> tuple[Rows, int]:
    """Points around the base and the reference at which the target is highest, compared with the reference.

    A narrow mode that no ascent met shows there: a single draw near it has a weight of thousands. Of `num` points each
    these are at most a few, with a log weight `above` some value. Also returned: how many values were computed.
    """
    far, near = stream.split(2)
    component = reference.components[0]
    center = component.map.forward(np.zeros((1, component.map.dimension))).points
    wide = center + 3 * (component.draw(near, num) - center)
    positions = np.concatenate([np.asarray(evaluator.draw(far, num)), wide])
    values = evaluator.values(positions)
    weights = values.log_target - reference.given_inner(positions, values.log_base, None)[0]
    weights = np.nan_to_num(weights, nan=-np.inf)
    highest = np.argsort(-weights)[:_NUM_CLIMBED]
    return positions[highest[weights[highest] > above]], len(positions)
