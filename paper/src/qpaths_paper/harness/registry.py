"""Finds experiments: each module of a package that has an `EXPERIMENT` is one, and no list names them.

The package is `qpaths_paper.experiments`. The environment variable `QPATHS_EXPERIMENTS` adds packages of your own, with
commas between their names. A module and its experiment have the same name, so that one experiment can be imported
without the others.
"""

import functools
import importlib
import os
import pkgutil
from types import ModuleType

from .errors import UserError, nearest
from .experiment import DataSet, Experiment

VARIABLE = "QPATHS_EXPERIMENTS"


def packages() -> tuple[str, ...]:
    """Names of the packages that are searched, the paper's first."""
    added = (name.strip() for name in os.environ.get(VARIABLE, "").split(","))
    return "qpaths_paper.experiments", *(name for name in added if name)


def modules() -> dict[str, str]:
    """The modules that may hold an experiment: the full name of each by its short name.

    Packages inside a package hold what experiments share, and are passed over.
    """
    found: dict[str, str] = {}
    for package in packages():
        for module in pkgutil.iter_modules(_import_package(package).__path__):
            if not module.ispkg:
                found.setdefault(module.name, f"{package}.{module.name}")
    return found


def _import_package(name: str) -> ModuleType:
    """Import a package, or say which name of `QPATHS_EXPERIMENTS` is wrong."""
    try:
        package = importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"{VARIABLE} names {name!r}, which cannot be imported ({error}).") from error
    if not hasattr(package, "__path__"):
        raise UserError(f"{VARIABLE} names {name!r}, which is a module: name the package that holds it.")
    return package


def _experiment_in(module: str) -> Experiment | None:
    """The experiment of a module, None if it has none."""
    experiment: Experiment | None = getattr(importlib.import_module(module), "EXPERIMENT", None)
    if experiment and experiment.name != module.rpartition(".")[2]:
        raise UserError(f"the module {module} holds the experiment {experiment.name!r}: give both the same name.")
    return experiment


def find_all() -> dict[str, Experiment]:
    """Every experiment by name, in alphabetical order. Imports all of them."""
    return _find_all(packages())


@functools.cache
def _find_all(searched: tuple[str, ...]) -> dict[str, Experiment]:
    """The experiments of the packages searched; the argument makes another environment another entry of the cache."""
    found = [experiment for module in modules().values() if (experiment := _experiment_in(module))]
    return {experiment.name: experiment for experiment in sorted(found, key=lambda one: one.name)}


def find(name: str) -> Experiment:
    """The experiment of that name. Imports no other."""
    module = modules().get(name)
    experiment = _experiment_in(module) if module else None
    if experiment is None:
        known = find_all()
        hint = nearest(name, known) or ":"
        raise UserError(f"there is no experiment {name!r}{hint} `qpaths list` shows all {len(known)}.")
    return experiment


def find_data_sets() -> dict[str, DataSet]:
    """Every data set that an experiment needs and that does not ship with qpaths, by name."""
    return {name: data for experiment in find_all().values() for name, data in experiment.data_sets.items()}
