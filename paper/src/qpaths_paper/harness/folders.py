"""Reads folders that `qpaths run` wrote: the rows of each, or the reason why they cannot be read.

Nothing is run or written here. The report is made from what these functions return.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import UserError
from .experiment import Experiment, Row
from .registry import find
from .settings import under_present_names
from .store import FILE, Store, damaged


@dataclass(frozen=True)
class Stored:
    """The content of one folder.

    `meta` has the settings of the sweep, under present names, and its number of seeds. `seconds` is the total time of
    all runs. A sweep is complete if it has as many rows as `num_planned`.
    """

    folder: Path
    experiment: Experiment
    meta: dict[str, Any]
    environments: list[dict[str, Any]]
    seconds: float
    rows: list[Row]
    num_planned: int


@dataclass(frozen=True)
class Unreadable:
    """A folder that cannot be shown, and the reason."""

    folder: Path
    reason: str


def load(folder: Path) -> Stored:
    """Read one folder. Raises `UserError` if it holds no runs, or runs that this version cannot show."""
    with Store.open(folder) as store:
        meta = store.meta()
        experiment = find(meta["experiment"])
        if meta["version"] != experiment.version:
            raise UserError(
                f"{folder} holds runs of version {meta['version']} of {experiment.name}, and this qpaths draws version "
                f"{experiment.version}: report them with the qpaths that ran them."
            )
        meta["settings"] = under_present_names(meta["settings"], experiment.settings)
        num_planned = _num_planned(folder, experiment, meta)
        return Stored(folder, experiment, meta, store.environments(), store.seconds(), store.rows(), num_planned)


def _num_planned(folder: Path, experiment: Experiment, meta: dict[str, Any]) -> int:
    """The number of runs in the sweep that the stored settings describe."""
    try:
        return len(experiment.runs(meta["settings"], meta["num_seeds"]))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(folder, f"its settings are no sweep: {type(error).__name__} {error}") from error


def load_all(folder: Path) -> list[Stored | Unreadable]:
    """Read the folder itself if it holds runs, otherwise every folder in it that does.

    One of several folders that cannot be read is not an error: it comes back as `Unreadable`.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give one that `qpaths run` wrote.")
    if (folder / FILE).is_file():
        return [load(folder)]
    inside = sorted(child for child in folder.iterdir() if (child / FILE).is_file())
    if not inside:
        raise UserError(f"{folder} holds no runs, and no folder in it does: give one that `qpaths run` wrote.")
    return [_load_or_say_why(child) for child in inside]


def _load_or_say_why(folder: Path) -> Stored | Unreadable:
    """Read one of several folders."""
    try:
        return load(folder)
    except (UserError, OSError) as error:
        return Unreadable(folder, str(error))
    except Exception as error:  # whatever else is wrong with this file
        return Unreadable(folder, f"{folder} holds what no version writes ({type(error).__name__}: {error}).")
