"""The file from which an interrupted call of `evidence` goes on, where there is one."""

from pathlib import Path
from typing import Any, NamedTuple

from .. import storage
from .._types import PRNGKey
from ..algorithms.identities import Identities
from ..algorithms.islands import Islands, cost_of_islands
from ..checkpoints import check_features, check_folder, check_settings, describe_all
from ..cost import Cost
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..recipe import Recipe
from ..rows import Layout
from ..search.store import from_tree, to_tree


class CallState(NamedTuple):
    """How far a call has come: the recipe, the islands that have run, and in how many batches."""

    recipe: Recipe
    islands: Islands | None
    num_batches: int

    def cost_of_island(self, num_particles: int) -> Cost:
        """Return what one island takes."""
        return cost_of_islands(self.recipe, num_particles, 1)


def _islands(tree: dict[str, Any]) -> Islands:
    return Islands(**{**tree, "identities": Identities(**tree["identities"])})


class File:
    """Keeps the progress of a call; without a name it keeps nothing."""

    def __init__(self, name: Any, path: AbstractPath[Any], kernel: AbstractKernel[Any], layout: Layout, key: PRNGKey):
        self.name = name
        self.parts = path, kernel, layout
        self.features: Any = None
        """The endpoints at some draws from the base; they say whether a file belongs to the same model."""
        if name is not None:
            check_folder(name)
            self.settings = describe_all({"kernel": kernel, "path": path, "key": key})

    def read(self) -> CallState | None:
        """What is there; an error where it belongs to another call."""
        if self.name is None or not Path(self.name).exists():
            return None
        _, notes, tree = storage.read(self.name, ("evidence",))
        check_settings(self.name, notes["settings"], self.settings)
        check_features(self.name, tree["features"], self.features)
        islands = None if tree["islands"] is None else _islands(tree["islands"])
        return CallState(from_tree(notes["recipe"], tree["recipe"], *self.parts), islands, notes["num_batches"])

    def write(self, progress: CallState) -> None:
        """Replace the file as a whole."""
        if self.name is not None:
            notes, arrays = to_tree(progress.recipe)
            islands = (
                None
                if progress.islands is None
                else progress.islands._asdict() | {"identities": progress.islands.identities._asdict()}
            )
            storage.write(
                self.name,
                "evidence",
                {"settings": self.settings, "recipe": notes, "num_batches": progress.num_batches},
                {"recipe": arrays, "islands": islands, "features": self.features},
            )
