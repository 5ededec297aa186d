"""The state of a call of `evidence`, and the file from which an interrupted call goes on."""

import os
from typing import Any, NamedTuple

import numpy as np

from .. import maps
from ..algorithms import Identities, Islands, cost_of_islands
from ..core import Cost, PRNGKey
from ..io import Checkpoint, Codec, classes_around, parts_of
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath, GeometricPath, QPath
from ..recipe import Recipe
from ..references import Component, Mode, Reference
from ..results import REMARKS
from ..rows import Layout
from ..schedules import FixedSchedule


class CallState(NamedTuple):
    """How far a call has come.

    Attributes:
        recipe: What the pilots found.
        islands: The islands that have run.
        num_batches: In how many batches they ran.
    """

    recipe: Recipe
    islands: Islands | None
    num_batches: int

    def cost_of_island(self, num_particles: int) -> Cost:
        """Return what one island takes."""
        return cost_of_islands(self.recipe, num_particles, 1)


CLASSES = (
    *(CallState, Recipe, Islands, Identities, Mode, Cost, FixedSchedule, FrozenKernel, *REMARKS),
    *(GeometricPath, QPath, Reference, Component),
    *(value for value in vars(maps).values() if isinstance(value, type)),
)
"""What a file may hold, besides the user's own kernel and points."""


def file_of(
    name: str | os.PathLike[str] | None,
    path: AbstractPath[Any],
    kernel: AbstractKernel[Any],
    layout: Layout,
    key: PRNGKey,
) -> Checkpoint:
    """Return the file of a call with this path, kernel and key."""
    moved = parts_of(kernel=kernel, point=layout.points(np.zeros(layout.dimension)))
    classes = (*classes_around(*moved.values()), type(path), *CLASSES)
    given = parts_of(path=path, layout=layout) | moved
    return Checkpoint(name, "evidence", {"kernel": kernel, "path": path, "key": key}, Codec(classes, given))
