"""The file from which `drive` continues an interrupted run: its state, and the settings it belongs to."""

import dataclasses
import os
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import storage
from .._types import PRNGKey
from ..annealing import Annealing, State
from ..arrays import to_host
from ..checkpoints import check_features, check_settings, describe_all, filled
from ..paths import AbstractPath
from ..rows import Spread, on_host


class StoredRun(NamedTuple):
    """What a run has reached: its kernel if a pilot has fitted one, its state, and a row of statistics per stage."""

    kernel: dict[str, Any] | None
    state: State
    rows: list[dict[str, Any]]

    def like(self, path: str | os.PathLike[str], template: State) -> "StoredRun":
        """The run with a state of the structure of another one; an error where the numbers do not fit."""
        state = filled(path, template, self.state)
        return StoredRun(self.kernel, state, self.rows[: int(state.stage)])


def settings_of(algorithm: Any, path: AbstractPath[Any], key: PRNGKey) -> dict[str, str]:
    """Everything that determines the numbers of a run, as text that is the same in every process.

    What a plain function closes over cannot be compared here; `check_densities` compares its values instead.
    """
    fields = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    for name in ("chunk_size", "devices"):  # the numbers do not depend on them, and another machine needs others
        fields.pop(name, None)
    return describe_all({"algorithm": type(algorithm).__name__, **fields, "path": path, "key": key})


def write_checkpoint(path: str | os.PathLike[str], settings: dict[str, str], run: StoredRun) -> None:
    """Write a run to a file; a file that exists is replaced as a whole. One process of a cluster writes for all."""
    is_shared = any(isinstance(leaf, Spread) for leaf in jax.tree.leaves(run.state))
    run = run._replace(state=jax.tree.map(on_host, run.state))
    if is_shared and jax.process_index() > 0:
        return
    storage.write(path, "checkpoint", {"settings": settings}, run._asdict() | {"rows": stacked(run.rows)})


def read_checkpoint(path: str | os.PathLike[str], settings: dict[str, str]) -> StoredRun:
    """The run in the file, its state as it was stored; an error where it is not a run of these settings."""
    _, notes, tree = storage.read(path, ("checkpoint",))
    check_settings(path, notes["settings"], settings)
    stats = tree["rows"]
    num = len(next(iter(stats.values()))) if stats else 0
    return StoredRun(tree["kernel"], tree["state"], [{name: stats[name][i] for name in stats} for i in range(num)])


def check_densities(path: str | os.PathLike[str], annealing: Annealing, run: StoredRun) -> None:
    """Raise where the densities do not give at the first stored particle what they gave before."""
    stored = jax.tree.map(lambda leaf: np.asarray(leaf)[:1], run.state.particles)
    now = annealing.evaluator.particles(stored.position, with_slopes=False).features
    check_features(path, stored.features, to_host(now))


def stacked(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Statistics of single stages as arrays over the stages; nothing where there are none."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]} if rows else {}
