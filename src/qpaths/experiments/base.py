"""What an experiment is: settings in, runs to do, rows out, and from stored rows its pictures, tables and claims."""

import difflib
import enum
import functools
import importlib
import json
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

Settings = Mapping[str, Any]
"""Numbers, words, and lists of them, under names."""


class UserError(Exception):
    """Something that the person at the keyboard can mend; the message says how."""


@dataclass(frozen=True)
class Run:
    """One run of a sweep. Its row is a function of these two alone."""

    settings: Settings
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        return canonical(self.settings), self.seed


@dataclass(frozen=True)
class Row:
    """What one run found, beside its settings; `row["name"]` looks in both."""

    settings: Settings
    seed: int
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.settings[name] if name in self.settings else self.values[name]


class Verdict(enum.Enum):
    """Whether a claim holds in the stored rows."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be told"


@dataclass(frozen=True)
class Claim:
    """A statement, the paper's figure for it, ours with its uncertainty, and the verdict."""

    statement: str
    paper: str
    ours: str
    verdict: Verdict


@dataclass(frozen=True)
class Picture:
    """A figure with a line below it. `name`, made of letters, digits and underscores, tells it from others."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Sheet:
    """A table of words, ready to be read."""

    title: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper. Each lives in a module of this package, as its `EXPERIMENT`.

    `settings` are the defaults; their types are those that `--set` accepts. `smoke` are the few that make it small.
    `runs(settings, num_seeds)` lists the sweep and `run_one(settings, seed)` does one run of it: a function of its
    arguments alone, whose values JSON can hold. `check(settings)` raises, before the first run, if one of them could
    not be done. `inputs(settings)` are digests of the files that the settings name; they become settings of the sweep,
    so that rows of other content are not mixed. `pictures`, `sheets` and `claims` see stored rows, perhaps only some of
    them, and compute nothing anew. `num_seeds` is None where nothing is random. A sweep with other settings than the
    defaults is a rehearsal of the paper's, unless only those change that are `free`. Raise `version` when rows change
    their meaning, so that old folders are not mixed with new rows.
    """

    name: str
    title: str
    paper: str
    duration: str
    about: str
    settings: Settings
    smoke: Settings
    runs: Callable[[Settings, int], list[Run]]
    run_one: Callable[[Settings, int], dict[str, Any]]
    claims: Callable[[list[Row]], list[Claim]]
    check: Callable[[Settings], None] = field(default=lambda settings: None)
    inputs: Callable[[Settings], Settings] = field(default=lambda settings: {})
    pictures: Callable[[list[Row]], list[Picture]] = field(default=lambda rows: [])
    sheets: Callable[[list[Row]], list[Sheet]] = field(default=lambda rows: [])
    num_seeds: int | None = None
    smoke_seeds: int = 1
    version: int = 1
    free: frozenset[str] = frozenset()


def rehearsed(experiment: Experiment, settings: Settings, num_seeds: int) -> list[str]:
    """Settings of a sweep that make it a rehearsal."""
    defaults = experiment.settings
    changed = [name for name, value in settings.items() if name not in experiment.free and value != defaults.get(name)]
    return [*changed, "seeds"] if num_seeds < (experiment.num_seeds or 1) else changed


def canonical(value: Any) -> str:
    """The one JSON text of a value; floats keep every digit."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def nearest(word: str, words: Iterable[str]) -> str:
    """`, did you mean 'x'?`, where one of the words is near."""
    found = difflib.get_close_matches(word, list(words), n=1)
    return f", did you mean {found[0]!r}?" if found else ""


def modules() -> list[str]:
    """Names of the modules of this package."""
    return [module.name for module in pkgutil.iter_modules(importlib.import_module(__package__).__path__)]


@functools.cache
def find_all() -> dict[str, Experiment]:
    """Every experiment, by name, found by listing the package."""
    found = (importlib.import_module(f"{__package__}.{name}") for name in modules())
    experiments = [module.EXPERIMENT for module in found if hasattr(module, "EXPERIMENT")]
    return {experiment.name: experiment for experiment in sorted(experiments, key=lambda one: one.name)}


def find(name: str) -> Experiment:
    """The experiment of that name."""
    experiments = find_all()
    if name not in experiments:
        hint = nearest(name, experiments) or ":"
        raise UserError(f"there is no experiment {name!r}{hint} `qpaths list` shows all {len(experiments)}.")
    return experiments[name]


def with_changes(defaults: Settings, changes: Sequence[str]) -> dict[str, Any]:
    """The defaults with `key=value` changes applied; a value must read as the type of the default."""
    settings = dict(defaults)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise UserError(f"`--set` takes key=value, got {change!r}.")
        if key not in defaults:
            hint = nearest(key, defaults)
            raise UserError(f"there is no setting {key!r}{hint or '.'} The settings are: {', '.join(defaults)}.")
        settings[key] = _parse(key, text, defaults[key])
    return settings


_NAMES = {int: "a whole number", float: "a number", str: "a word"}


def _parse(key: str, text: str, default: Any) -> Any:
    if isinstance(default, list):
        return [_parse(key, part, default[0]) for part in text.split(",")]
    kind = type(default)
    try:
        value = kind(text)
    except ValueError:
        raise UserError(f"setting {key!r} must be {_NAMES[kind]}, got {text!r}.") from None
    if text == "" or (kind is float and not math.isfinite(value)):
        raise UserError(f"setting {key!r} must be {_NAMES[kind]}, got {text!r}.")
    return value


def check_words(settings: Settings, name: str, known: Iterable[str]) -> None:
    """Raise if a setting, or one of a list, is not among the known words."""
    known = list(known)
    for value in settings[name] if isinstance(settings[name], list) else [settings[name]]:
        if value not in known:
            raise UserError(f"`{name}` must be among {', '.join(known)}, got {value!r}{nearest(value, known) or '.'}")


def check_numbers(settings: Settings, low: int, *names: str, high: int | None = None) -> None:
    """Raise if one of these settings, or one of a list, is too small or too large."""
    for name in names:
        for value in settings[name] if isinstance(settings[name], list) else [settings[name]]:
            if value < low or (high is not None and value > high):
                wanted = f"be at least {low}" if high is None else f"lie between {low} and {high}"
                raise UserError(f"`{name}` must {wanted}, got {value}.")


def group(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some settings, in the order of the first row of each."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def judge(value: float, standard_error: float, low: float, high: float) -> Verdict:
    """Whether a value lies in [low, high] by more than two standard errors, outside by as much, or neither."""
    reach = 2 * standard_error
    if not (value == value and reach == reach):
        return Verdict.OPEN
    if low <= value - reach and value + reach <= high:
        return Verdict.HOLDS
    if value + reach < low or value - reach > high:
        return Verdict.FAILS
    return Verdict.OPEN


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """One failure fails the whole; all must hold for it to hold."""
    verdicts = list(verdicts)
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    return Verdict.HOLDS if verdicts and all(v is Verdict.HOLDS for v in verdicts) else Verdict.OPEN


def yes_or_no(condition: bool) -> Verdict:
    """For facts without noise."""
    return Verdict.HOLDS if condition else Verdict.FAILS
