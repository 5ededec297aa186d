"""The modes that ascents have led to: which ends are the same, what mass they have, and what is likely still unseen."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import softmax
from .climb import Climbed, End, Scale, Starts
from .structure import Images

SAME = 0.3
"""Distance of two ends of ascents, in the scale of the target, below which they are the same mode."""
_MARGIN = 30.0
"""Nats below the highest optimum from which on no curvature makes up for the height."""
_RELEVANT = 1e-3
"""Share of all mass from which a mode counts."""
MOST_NEW = 128
"""New modes of one batch of ascents, the highest first."""
_MOST_COMPONENTS = 256
"""Modes and their images that a reference may have."""
_COVERED = 0.999
"""Share of the known mass that a reference covers where it can."""


class Mode(NamedTuple):
    """An optimum of the target, its log density there, and minus the Hessian, or its diagonal where that is all."""

    position: Float[np.ndarray, " d"]
    value: float
    precision: Scale

    @property
    def log_mass(self) -> float:
        """By Laplace's approximation."""
        if self.precision.ndim == 1:
            log_determinant = np.sum(np.log(self.precision))
        else:
            log_determinant = 2 * np.sum(np.log(np.diag(np.linalg.cholesky(self.precision))))
        return float(self.value + 0.5 * len(self.position) * math.log(2 * math.pi) - 0.5 * log_determinant)

    def distance(self, rows: Starts) -> Float[np.ndarray, " s"]:
        """Return distances of some points, in the scale of the curvature."""
        away = rows - self.position
        return np.sqrt(np.abs(np.mean(times(away, self.precision) * away, axis=1)))

    def deviation(self) -> Float[np.ndarray, " d"]:
        """Return the deviation of each coordinate, while the others stay."""
        diagonal = self.precision if self.precision.ndim == 1 else np.diag(self.precision)
        return diagonal**-0.5


def times(rows: Float[np.ndarray, "*s d"], precision: Scale) -> Float[np.ndarray, "*s d"]:
    """Return a row, or rows, times a matrix or its diagonal."""
    return rows * precision if precision.ndim == 1 else rows @ precision


class Pool:
    """Modes with the number of ascents that came to each; images of a mode are the same mode.

    Args:
        curvature: Returns minus the Hessians at some points, None where the target does not fall off on all sides.
        images: Maps that leave the density as it is.
        most_new: Modes of one batch of ascents of which the curvature is affordable.
    """

    def __init__(self, curvature: Callable[[Starts], list[Scale | None]], images: Images, most_new: int = MOST_NEW):
        self.curvature, self.images, self.most_new = curvature, images, most_new
        self.modes: list[Mode] = []
        self.hits: list[int] = []
        self.flattest = -np.inf
        """Height of the highest optimum that does not fall off on all sides."""
        self._all: list[tuple[int, Mode]] = []

    def add(self, tops: Climbed) -> list[int]:
        """Count the ends of ascents, and return the numbers of the modes that are new."""
        order = np.argsort(-tops.value)
        order = order[tops.end[order] == End.CONVERGED]
        highest = max([self.highest, *tops.value[order[:1]]])
        rest = order[tops.value[order] > highest - _MARGIN]
        rest = self._counted(tops, rest, [])
        new: list[int] = []
        while rest.size and len(new) < self.most_new:
            firsts = _unlike(tops.position[rest], tops.value[rest])[: self.most_new - len(new)]
            found = self.curvature(tops.position[rest[firsts]])
            flat = []
            for i, precision in zip(rest[firsts], found, strict=True):
                if precision is None:
                    self.flattest = max(self.flattest, float(tops.value[i]))
                    flat.append(int(i))
                elif not self._matches(tops.position[i]):
                    new.append(len(self.modes))
                    self._append(Mode(tops.position[i], float(tops.value[i]), precision), 0)
            rest = self._counted(tops, rest, flat)
        return new

    def put(self, mode: Mode, hits: int) -> None:
        """Add a mode that is known, unless it is one of these already."""
        if not self._matches(mode.position):
            self._append(mode, hits)

    @property
    def highest(self) -> float:
        """Return the height of the highest mode."""
        return max((mode.value for mode in self.modes), default=-np.inf)

    @property
    def shares(self) -> Float[np.ndarray, " k"]:
        """Return the share of each mode in the mass of all."""
        masses = np.array([mode.log_mass for mode in self.modes])
        return np.asarray(softmax(masses)) if self.modes else masses

    @property
    def unseen(self) -> float:
        """Return an estimate of the share of mass in modes that no ascent came to (Good and Turing).

        It is the mass of the modes to which a single ascent came.
        """
        if not self.modes:
            return 1.0
        return float(np.sum(self.shares, where=np.array(self.hits) == 1))

    @property
    def relevant(self) -> list[int]:
        """Return the numbers of the modes with a relevant mass, the largest first."""
        order = np.argsort(-self.shares)
        return [int(k) for k in order if self.shares[k] > _RELEVANT]

    @property
    def used(self) -> tuple[tuple[Mode, ...], float]:
        """Return the modes that a reference can have, with their images, and the share of mass of the others."""
        chosen: list[Mode] = []
        covered, shares = 0.0, self.shares
        for k in np.argsort(-shares):
            images = self._images(self.modes[k])
            if chosen and (covered > _COVERED or len(chosen) + len(images) > _MOST_COMPONENTS):
                break
            chosen += images
            covered += shares[k]
        return tuple(chosen), 1 - covered

    def _append(self, mode: Mode, hits: int) -> None:
        number = len(self.modes)
        self.modes.append(mode)
        self.hits.append(hits)
        self._all += [(number, image) for image in self._images(mode)]

    def _images(self, mode: Mode) -> list[Mode]:
        """Return a mode and its images that are other modes."""
        positions = self.images.of(mode.position)
        # Maps keep distances: all images differ from each other if they differ from the mode.
        is_simple = bool((mode.distance(positions[1:]) > 2 * SAME).all())
        found = [mode]
        for number in range(1, len(positions)):
            if is_simple or min(float(one.distance(positions[[number]])[0]) for one in found) > 2 * SAME:
                found.append(Mode(positions[number], mode.value, self.images.of_matrix(mode.precision, number)))
        return found

    def _matches(self, position: Float[np.ndarray, " d"]) -> bool:
        return any(one.distance(position[None])[0] < SAME for _, one in self._all)

    def _counted(self, tops: Climbed, rest: np.ndarray, flat: list[int]) -> np.ndarray:
        """Count the ends that are modes already, and return the others, without those that are `flat`."""
        rest = rest[~np.isin(rest, flat)]
        if not self._all or not rest.size:
            return rest
        away = np.array([one.distance(tops.position[rest]) for _, one in self._all])
        nearest = np.argmin(away, axis=0)
        known = away[nearest, np.arange(rest.size)] < SAME
        for k in nearest[known]:
            self.hits[self._all[k][0]] += 1
        return rest[~known]


def _unlike(positions: Starts, values: Float[np.ndarray, " s"]) -> list[int]:
    """Return ends of which no two are plainly the same: at nearly one height, and nearly one place."""
    spread = np.maximum(np.ptp(positions, axis=0), 1e-300)
    chosen: list[int] = []
    for i in range(len(positions)):
        near = [j for j in chosen if abs(values[i] - values[j]) < 1e-2]
        if not near or np.max(np.abs(positions[near] - positions[i]) / spread, axis=1).min() > 1e-3:
            chosen.append(i)
    return chosen
