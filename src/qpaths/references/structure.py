"""Find structure in the coordinates of a target: groups that belong together, and maps that leave the density as it is.

Labels of a mixture, hidden units and the signs of factors can be exchanged without a change of the density. Such maps
are looked for among those that names and shapes suggest, and tested at draws of the base.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..core import Stream, quiet
from ..maps import Chain, Rotate
from ..rows import Layout
from .climb import Climbable

_MOST_LABELS, _MOST_GROUPS, _MOST_IMAGES = 5, 12, 256
"""Labels that are exchanged, groups that are redrawn one by one, and images of a point."""
_NUM_TESTED, _FEWEST_TESTED = 8, 4
"""Draws at which a map is tested, and how many of them must have mass."""
_MOST_TAIL = 2
"""Numbers at the end of a vector that may belong to no block of it."""

Group = Int[np.ndarray, " k"]
Signed = Float[np.ndarray, " d"]
"""The coordinate from which each one of an image comes, counted from 1, with a sign."""


class Structure(NamedTuple):
    """Groups of coordinates, each of which is redrawn while the others stay.

    Attributes:
        groups: The numbers of the coordinates of each.
        has_labels: Whether they are the parts of a sum or a mixture, one for each label.
        is_given: Whether the user gave them.
    """

    groups: tuple[Group, ...] = ()
    has_labels: bool = False
    is_given: bool = False

    @staticmethod
    def of(layout: Layout) -> "Structure":
        """Return the groups that shapes suggest: the k-th rows of all arrays of one length, or else the arrays."""
        arrays = _arrays(layout)
        groups: list[Group] = []
        for num in sorted({len(one) for one in arrays if 2 <= len(one) <= _MOST_GROUPS and one.ndim}):
            rows = [one.reshape(num, -1) for one in arrays if len(one) == num]
            if len(rows) > 1 or rows[0].shape[1] > 1:
                groups += [np.concatenate([own[k] for own in rows]) for k in range(num)]
        has_labels = bool(groups)
        if not groups and 1 < len(arrays) <= _MOST_GROUPS:
            groups = [one.ravel() for one in arrays]
        return Structure(tuple(groups[: 2 * _MOST_GROUPS]), has_labels)


class Images(NamedTuple):
    """Maps `sign * x[order]` that leave the density as it is, the first of which changes nothing."""

    order: Int[np.ndarray, "p d"]
    sign: Float[np.ndarray, "p d"]

    def __len__(self) -> int:
        return self.order.shape[0]

    @staticmethod
    def none(dimension: int) -> "Images":
        """Return the map that changes nothing."""
        return Images(np.arange(dimension)[None], np.ones((1, dimension)))

    def of(self, row: Float[np.ndarray, " d"]) -> Float[np.ndarray, "p d"]:
        """Return all images of a point."""
        return self.sign * row[self.order]

    def of_matrix(self, matrix: np.ndarray, number: int) -> np.ndarray:
        """Return the curvature at an image from that at the point: a matrix, or its diagonal."""
        order, sign = self.order[number], self.sign[number]
        if matrix.ndim == 1:
            return matrix[order]
        return matrix[np.ix_(order, order)] * sign * sign[:, None]

    def back(self, rows: np.ndarray, number: Int[np.ndarray, " n"]) -> np.ndarray:
        """Return the points of which rows are images, each by a separate map."""
        found = np.empty_like(rows)
        np.put_along_axis(found, self.order[number], self.sign[number] * rows, axis=1)
        return found

    def after(self, chain: Chain, number: int) -> Chain:
        """Return a chain of layers, and then a map."""
        return Chain.of(chain, Rotate(np.eye(self.order.shape[1])[self.order[number]] * self.sign[number][:, None]))

    def orbits(self, centers: np.ndarray) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """Return, for each of some points, the number of the first one of which it is an image, and by which map."""
        first, by = np.arange(len(centers)), np.zeros(len(centers), int)
        near = 1e-3 * np.maximum(np.ptp(centers, axis=0), 1e-12)
        for k, center in enumerate(centers):
            if first[k] == k:
                is_near = (np.abs(self.of(center)[:, None] - centers) < near).all(axis=2)
                found = is_near.any(axis=0) & (first == np.arange(len(centers)))
                first[found], by[found] = k, np.argmax(is_near, axis=0)[found]
        return first, by


@quiet()
def find_images(evaluator: Climbable, stream: Stream) -> tuple[Images, int]:
    """Return the exchanges of labels and signs under which both densities stay the same, and how many values it took.

    A map is accepted if neither density changes at draws of the base, beyond rounding.
    """
    source: Any = getattr(evaluator, "evaluator", evaluator)  # the one with densities, behind differences
    layout: Any = evaluator.layout
    rows = np.asarray(evaluator.draw(stream, _NUM_TESTED), float)
    tried: dict[bytes, bool] = {}
    num_values = [_NUM_TESTED]

    def values(points: Any) -> Any:
        found = source.values(points)
        return np.array([np.asarray(found.log_base, float), np.asarray(found.log_target, float)])

    before = values(rows)
    if np.sum(np.isfinite(before).all(axis=0)) < _FEWEST_TESTED:
        return Images.none(rows.shape[1]), _NUM_TESTED
    tolerance = 50 * float(np.finfo(layout.dtype).eps) * np.maximum(np.abs(before), 1.0)

    def holds(maps: list[Signed]) -> bool:
        new = [one for one in maps if one.tobytes() not in tried]
        if new:
            after = values(np.concatenate([_applied(one, rows) for one in new])).reshape(2, len(new), -1)
            same = (np.abs(after - before[:, None]) <= tolerance[:, None]) | (after == before[:, None])
            tried.update({one.tobytes(): bool(ok) for one, ok in zip(new, same.all(axis=(0, 2)), strict=True)})
            num_values[0] += len(new) * len(rows)
        return all(tried[one.tobytes()] for one in maps)

    return _closed(list(_generators(layout, holds)), rows.shape[1]), num_values[0]


def _arrays(layout: Any) -> list[np.ndarray]:
    """Return the numbers of the coordinates of each array of a point, in its shape."""
    ends = np.cumsum([0, *layout.sizes])
    numbers = np.arange(ends[-1])
    return [
        numbers[start:end].reshape(shape or (1,))
        for start, end, shape in zip(ends[:-1], ends[1:], layout.shapes, strict=True)
    ]


def _applied(signed: Signed, rows: np.ndarray) -> np.ndarray:
    return np.sign(signed) * rows[:, np.abs(signed).astype(int) - 1]


def _generators(layout: Any, holds: Any) -> Iterator[Signed]:
    """Yield maps that hold, of which all others are made."""
    arrays = _arrays(layout)
    identity = np.arange(1.0, layout.dimension + 1)
    whole = [-identity] + [_flipped(identity, one.ravel()) for one in arrays if len(arrays) > 1]
    yield from (one for one in whole if holds([one]))
    used = np.zeros(layout.dimension, bool)
    for rows in _labeled(arrays):
        if any(used[row].any() for row in rows.values()):
            continue
        pairs = itertools.combinations(range(_num_labels(rows)), 2)
        exchanges = [one for one in (_exchanged(identity, rows, *pair) for pair in pairs) if holds([one])]
        yield from exchanges
        for row in rows.values() if exchanges else ():
            used[row.ravel()] = True
        for size in range(len(rows), 0, -1):
            for names in itertools.combinations(rows, size):
                parts = [np.concatenate([rows[name][k] for name in names]) for k in range(_num_labels(rows))]
                yield from (one for one in (_flipped(identity, part) for part in parts) if holds([one]))


def _labeled(arrays: list[np.ndarray]) -> Iterator[dict[int, np.ndarray]]:
    """Yield ways to read arrays as one row of coordinates for each label, those with all arrays first."""
    axes = range(max(one.ndim for one in arrays))
    for num in range(2, _MOST_LABELS + 1):
        for turned in (arrays, [one.T for one in arrays]) if len(axes) > 1 else (arrays,):
            rows = {k: one.reshape(num, -1) for k, one in enumerate(turned) if len(one) == num}
            if rows:
                yield rows
            if len(rows) > 1:
                yield from ({k: one} for k, one in rows.items())
    if len(arrays) > 1 or arrays[0].ndim > 1:
        return
    for num, tail in itertools.product(range(2, _MOST_LABELS + 1), range(_MOST_TAIL + 1)):
        size = arrays[0].size - tail
        if size > num and size % num == 0:
            block = arrays[0][:size]
            yield {0: block.reshape(num, -1)}
            yield {0: block.reshape(-1, num).T}


def _num_labels(rows: dict[int, np.ndarray]) -> int:
    return len(next(iter(rows.values())))


def _exchanged(identity: Signed, rows: dict[int, np.ndarray], first: int, second: int) -> Signed:
    image = identity.copy()
    for row in rows.values():
        image[row[first]], image[row[second]] = identity[row[second]], identity[row[first]]
    return image


def _flipped(identity: Signed, which: np.ndarray) -> Signed:
    image = identity.copy()
    image[which] *= -1
    return image


def _closed(generators: list[Signed], dimension: int) -> Images:
    """Return all products of some maps. Where they are too many, those of the last ones are left out."""
    while True:
        found = {np.arange(1.0, dimension + 1).tobytes(): np.arange(1.0, dimension + 1)}
        fresh = list(found.values())
        while fresh and len(found) <= _MOST_IMAGES:
            made = [np.sign(one) * other[np.abs(one).astype(int) - 1] for one in generators for other in fresh]
            fresh = []
            for one in made:
                if one.tobytes() not in found:
                    found[one.tobytes()] = one
                    fresh.append(one)
        if len(found) <= _MOST_IMAGES:
            signed = np.array(list(found.values()))
            return Images(np.abs(signed).astype(int) - 1, np.sign(signed))
        generators = generators[:-1]
