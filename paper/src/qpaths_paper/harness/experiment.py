"""The record of an experiment: settings in, runs to do, rows out, and from stored rows pictures, tables and claims."""

import enum
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

Settings = Mapping[str, Any]
"""Numbers, words, and lists of them, by name."""

DataSet = Callable[[Path | None], list[str]]
"""Checks the file of a data set, or looks for it if the path is None.

Returns lines that describe the content of the file. Raises `UserError`, `OSError` or `ValueError` with advice if the
file is missing or wrong.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a sweep. Its row is a function of the settings and the seed alone."""

    settings: Settings
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        """Identifies the run in the store."""
        return canonical(self.settings), self.seed


Axis = str | Sequence[Any] | Callable[[Settings, Settings], Iterable[Any]]
"""Values of one setting of the runs: the name of a list in the settings of the sweep, the values, or a function of the
settings of the sweep and those of the run so far."""


def product(*, without: Sequence[str] = (), **axes: Axis) -> Callable[[Settings, int], list[Run]]:
    """Make `Experiment.runs`: every combination of the axes with every seed, the last axis fastest.

    A run also has the settings of the sweep that no axis names or bears the name of, but for those of `without`.

        product(problem="problems", q="q")  # a run for each of `problems` with each of `q`
    """
    left_out = {*without, *axes, *(axis for axis in axes.values() if isinstance(axis, str))}

    def runs(settings: Settings, num_seeds: int) -> list[Run]:
        found: list[dict[str, Any]] = [{}]
        for name, axis in axes.items():
            found = [{**run, name: value} for run in found for value in _values(axis, settings, run)]
        common = {name: value for name, value in settings.items() if name not in left_out}
        return [Run({**run, **common}, seed) for run in found for seed in range(num_seeds)]

    return runs


def _values(axis: Axis, settings: Settings, run: Settings) -> Iterable[Any]:
    if isinstance(axis, str):
        return settings[axis]
    return axis(settings, run) if callable(axis) else axis


@dataclass(frozen=True, slots=True)
class Row:
    """The values that one run found, together with its settings; `row["name"]` looks in both."""

    settings: Settings
    seed: int
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.settings[name] if name in self.settings else self.values[name]


class Judgment(enum.Enum):
    """The verdict on a claim; `judging.py` has the rules."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "undecided"


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's number, our number with its uncertainty, and the verdict."""

    statement: str
    paper: str
    ours: str
    judgment: Judgment


@dataclass(frozen=True)
class Picture:
    """A figure with its caption.

    `name` consists of letters, digits and underscores, and is unique in its experiment.
    """

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Sheet:
    """A table of formatted text, with a note below it."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure. Each lives in a module of its name, as its `EXPERIMENT`.

    - `paper` names the table or figure of the paper; None means that the paper does not have it.
    - `settings` are the defaults; `--set` accepts values of their types. `smoke` replaces some of them, so that a run
      takes seconds.
    - `runs(settings, num_seeds)` lists the runs of the sweep.
    - `run_one(settings, seed)` does one of them. It depends on its arguments alone, and JSON can hold what it returns.
    - `check(settings)` raises before the first run if one of the runs cannot be done.
    - `inputs(settings)` returns digests of the files that the settings name. They become settings of the sweep, so that
      rows from different files are not mixed.
    - `pictures`, `sheets` and `claims` take stored rows, perhaps only some of them, and run nothing.
    - `num_seeds` is None if nothing is random.
    - `free` names the settings that may change without making the sweep a rehearsal of the paper's.
    - `data_sets` are the files that `qpaths data NAME` checks.
    - `version` must rise when rows change their meaning: then old folders are not mixed with new rows.
    """

    name: str
    title: str
    paper: str | None
    duration: str
    about: str
    settings: Settings
    smoke: Settings
    runs: Callable[[Settings, int], list[Run]]
    run_one: Callable[[Settings, int], dict[str, Any]]
    claims: Callable[[list[Row]], Iterable[Claim]]
    check: Callable[[Settings], None] = field(default=lambda settings: None)
    inputs: Callable[[Settings], Settings] = field(default=lambda settings: {})
    pictures: Callable[[list[Row]], list[Picture]] = field(default=lambda rows: [])
    sheets: Callable[[list[Row]], list[Sheet]] = field(default=lambda rows: [])
    num_seeds: int | None = None
    smoke_seeds: int = 1
    version: int = 1
    free: frozenset[str] = frozenset()
    data_sets: Mapping[str, DataSet] = field(default_factory=dict)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def canonical(value: Any) -> str:
    """The JSON text of a value: sorted keys, no spaces, every digit of a float. Equal values have equal texts."""
    return _ENCODER.encode(value)


def group(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Group rows by the values of some settings, in the order of the first row of each group."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
