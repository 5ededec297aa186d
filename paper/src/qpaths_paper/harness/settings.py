"""Settings of a sweep: changes from the command line, their checks, and old names."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import UserError, nearest
from .experiment import Experiment, Settings

RENAMED = {"orders": "q", "num_deltas": "num_q"}
"""Old names of settings, with their present names. Folders that were stored under an old name stay readable."""

_TYPES = {int: "a whole number", float: "a number", str: "a word"}


def with_changes(defaults: Settings, changes: Sequence[str]) -> dict[str, Any]:
    """Apply changes of the form `key=value` to the default settings.

    A value must read as the type of the default. A list is separated by commas.

        with_changes({"moves": [1, 3], "num_particles": 10}, ["moves=5"])  # {"moves": [5], "num_particles": 10}
    """
    settings = dict(defaults)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise UserError(f"`--set` takes key=value, got {change!r}.")
        if key not in defaults:
            raise _unknown(key, defaults)
        settings[key] = _parse(key, text, defaults[key])
    return settings


def _unknown(key: str, defaults: Settings) -> UserError:
    """The error for a setting that does not exist, with its present name or a similar one."""
    if RENAMED.get(key) in defaults:
        return UserError(f"the setting {key!r} is now called {RENAMED[key]!r}: give `--set {RENAMED[key]}=...`.")
    hint = nearest(key, defaults)
    return UserError(f"there is no setting {key!r}{hint or '.'} The settings are: {', '.join(defaults)}.")


def _parse(key: str, text: str, default: Any) -> Any:
    """Read a value as the type of its default."""
    if isinstance(default, list):
        return [_parse(key, part, default[0]) for part in text.split(",")]
    kind = type(default)
    try:
        value = kind(text)
    except ValueError:
        raise UserError(f"setting {key!r} must be {_TYPES[kind]}, got {text!r}.") from None
    if text == "" or (kind is float and not math.isfinite(value)):
        raise UserError(f"setting {key!r} must be {_TYPES[kind]}, got {text!r}.")
    return value


def under_present_names(settings: Settings, defaults: Settings) -> dict[str, Any]:
    """Stored settings under the names that this version uses; see `RENAMED`."""

    def present(name: str) -> str:
        return RENAMED[name] if name not in defaults and RENAMED.get(name) in defaults else name

    return {present(name): value for name, value in settings.items()}


def rehearsed(experiment: Experiment, settings: Settings, num_seeds: int) -> list[str]:
    """Names of the settings that make a sweep a rehearsal of the paper's.

    These are settings that differ from the defaults and are not `free`, and `seeds` if there are too few of them. The
    order of a list is the order of the runs, and does not matter.
    """
    changed = [
        name
        for name, value in settings.items()
        if name not in experiment.free and not _same_runs(value, experiment.settings.get(name))
    ]
    return [*changed, "seeds"] if num_seeds < (experiment.num_seeds or 1) else changed


def _same_runs(value: Any, default: Any) -> bool:
    """Tell whether two values of a setting are equal, lists up to their order."""
    if isinstance(value, list) and isinstance(default, list):
        return sorted(value, key=str) == sorted(default, key=str)
    return bool(value == default)


def checks(
    words: Mapping[str, Iterable[str]] | None = None,
    least: Mapping[str, int] | None = None,
    most: Mapping[str, int] | None = None,
) -> Callable[[Settings], None]:
    """Make `Experiment.check`: raise if a setting, or a value of its list, is an unknown word or out of bounds."""

    def check(settings: Settings) -> None:
        for name, known in (words or {}).items():
            check_words(settings, name, known)
        for name, low in (least or {}).items():
            check_numbers(settings, low, name, high=(most or {}).get(name))

    return check


def check_words(settings: Settings, name: str, known: Iterable[str]) -> None:
    """Raise if a setting, or one value of a list, is not a known word."""
    known = list(known)
    for value in _values(settings, name):
        if value not in known:
            raise UserError(f"`{name}` must be among {', '.join(known)}, got {value!r}{nearest(value, known) or '.'}")


def check_numbers(settings: Settings, low: int, *names: str, high: int | None = None) -> None:
    """Raise if one of these settings, or one value of a list, is below `low` or above `high`."""
    for name in names:
        for value in _values(settings, name):
            if value < low or (high is not None and value > high):
                wanted = f"be at least {low}" if high is None else f"lie between {low} and {high}"
                raise UserError(f"`{name}` must {wanted}, got {value}.")


def _values(settings: Settings, name: str) -> list[Any]:
    """The values of a setting, as a list also where there is only one."""
    return settings[name] if isinstance(settings[name], list) else [settings[name]]
