"""The columns of Table 1: ways to choose the path, and with it perhaps the schedule, the kernel and the particles.

The paper's columns differ in q alone. Two of them come in two protocols, because the released code is not what the text
says; the page shows both. The last column takes everything from `qpaths.tune`. To add a column, write its `plan` and
put it into `COLUMNS`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from qpaths.core import PRNGKey
from qpaths.densities import Density
from qpaths.kernels import RandomWalk
from qpaths.recipe import Recipe
from qpaths.schedules import AdaptiveSchedule
from qpaths.search import choose_q, tune

from ..harness.experiment import Settings
from .datasets import load, logistic_regression
from .published import delta_grid
from .regression import SCHEDULES, ReleasedPath, cost_of_particle, q_path, schedule_of

PROTOCOLS = {"text": "as the text says", "code": "as the released code does"}
"""Two ways to run the q-paths of the paper.

The text lets the path's own weights decide the next beta, and fixes the first beta of a linear schedule in the ESS
heuristic. The released code takes the next beta from the weights of the geometric path, lets beta free in the heuristic
on either schedule and drops it, and weighs the first step with q = 1 when the heuristic sets q.
"""
_ADAPTIVE_STEPS = {"pima": 14, "sonar": 20}
"""Steps that the adaptive schedule takes on the geometric path: they set the evaluations of the tuned column."""
_LARGEST_AS_RELEASED = 3e-3


class Plan(NamedTuple):
    """The run, and the number of likelihood evaluations that the choice took."""

    recipe: Recipe
    num_particles: int
    spent: int = 0
    as_released: bool = False


@dataclass(frozen=True)
class Column:
    """A column of the table: a way to choose the path, and perhaps the schedule, the kernel and the particles.

    `deltas(settings)` lists the values of 1 - q that it runs; the table shows the best of them. A column that chooses
    for itself runs a single one, and `plan` may do with it as it likes. `paper` is the column's name in the paper's
    table, None for one of ours. `protocol` is one of `PROTOCOLS`. On a schedule that is not among `schedules` the
    column is the same as that of the text, whose rows it shares.
    """

    name: str
    label: str
    paper: str | None
    deltas: Callable[[Settings], list[float]]
    plan: Callable[[Settings, int], Plan]
    protocol: str = "text"
    schedules: tuple[str, ...] = SCHEDULES


@functools.cache
def _problem(dataset: str) -> tuple[Density, Density]:
    """Prior and posterior of logistic regression on a data set.

    In single precision: near the posterior the rounding is below 1e-4 nats, and all other arithmetic is in double.
    """
    return logistic_regression(load(dataset), dtype=np.float32)


def _protocol(settings: Settings, seed: int) -> Plan:
    """The protocol of the paper: a given q, its schedule, and random-walk moves."""
    schedule = schedule_of(settings["schedule"], settings["num_distributions"])
    path = q_path(*_problem(settings["dataset"]), settings["delta"])
    return Plan(Recipe(path, schedule, RandomWalk(settings["moves"])), settings["num_particles"])


def _as_released(settings: Settings, seed: int) -> Plan:
    """The same with the next beta of the released code."""
    return _protocol(settings, seed)._replace(as_released=True)


def _by_ess(settings: Settings, seed: int) -> Plan:
    """The protocol of the paper with q by its ESS heuristic, from as many draws of the prior as there are particles."""
    (_, schedule, kernel), num, *_ = _protocol(settings, seed)
    first = "linear" if settings["schedule"] == "linear" else "free"
    delta = _ess_delta(settings["dataset"], first, settings["num_distributions"], num, seed)
    path = q_path(*_problem(settings["dataset"]), delta)
    return Plan(Recipe(path, schedule, kernel), num, spent=num)


def _by_ess_as_released(settings: Settings, seed: int) -> Plan:
    """With beta free in the heuristic and the first step weighted with q = 1, on either schedule."""
    (_, schedule, kernel), num, *_ = _protocol(settings, seed)
    delta = _ess_delta(settings["dataset"], "free", settings["num_distributions"], num, seed)
    path = ReleasedPath(*_problem(settings["dataset"]), delta=jnp.asarray(delta))  # type: ignore[call-arg]
    return Plan(Recipe(path, schedule, kernel), num, num, as_released=True)


def _by_tuning(settings: Settings, seed: int) -> Plan:
    """Everything from pilots, and as many particles as the evaluations of the line's geometric run then still pay for.

    The pilots are part of that budget, so that the tuned column costs what the others cost.
    """
    linear = settings["schedule"] == "linear"
    num_steps = settings["num_distributions"] - 1 if linear else _ADAPTIVE_STEPS[settings["dataset"]]
    budget = settings["num_particles"] * (1 + (num_steps - 1) * settings["moves"])
    tuned = _tuned(settings["dataset"], budget, seed)
    spent = tuned.num_evaluations.total
    return Plan(tuned, max(2, (budget - spent) // cost_of_particle(tuned)), spent)


@functools.cache
def _ess_delta(dataset: str, first: str, num_distributions: int, num_particles: int, seed: int) -> float:
    """1 - q by the ESS heuristic, with the first beta of the linear schedule or a free one.

    The number of moves does not enter, so that lines that differ in it alone share the choice.
    """
    path = q_path(*_problem(dataset), 0.0)
    # With a kernel that needs no gradients, so that the draws are weighed by the program that moves them.
    found = choose_q(
        path,
        key=_choice_key(seed),
        method="ess",
        schedule=AdaptiveSchedule() if first == "free" else schedule_of("linear", num_distributions),
        kernel=RandomWalk(),
        num_particles=num_particles,
    )
    return float(found.delta)


@functools.cache
def _tuned(dataset: str, budget: int, seed: int) -> Recipe:
    """Return what `tune` chooses for a budget."""
    return tune(q_path(*_problem(dataset), 0.0), key=_choice_key(seed), budget=budget)


def _choice_key(seed: int) -> PRNGKey:
    """A key for choices, apart from that of the run."""
    return jax.random.fold_in(jax.random.key(seed), 1)


def _geometric(settings: Settings) -> list[float]:
    return [0.0]


def _grid(settings: Settings) -> list[float]:
    return delta_grid(settings["num_q"])


def _grid_as_released(settings: Settings) -> list[float]:
    """Without the values above 3e-3, of which none is the best in the paper's adaptive lines.

    There the geometric weights ask for more and more steps, because the q-path keeps the particles near the prior: 801
    steps at 1 - q = 0.1 on Pima, where the path's own weights ask for 2.
    """
    return [delta for delta in _grid(settings) if delta <= _LARGEST_AS_RELEASED]


COLUMNS = [
    Column("geometric", "geometric", "geometric", _geometric, _protocol),
    Column("ess", "q-path, ESS heuristic", "q_ess_heuristic", _geometric, _by_ess),
    Column("ess_code", "q-path, ESS heuristic", "q_ess_heuristic", _geometric, _by_ess_as_released, "code"),
    Column("grid", "q-path, grid", "q_grid", _grid, _protocol),
    Column("grid_code", "q-path, grid", "q_grid", _grid_as_released, _as_released, "code", ("adaptive",)),
    Column("tuned", "tuned", None, _geometric, _by_tuning),
]


def column_of(name: str) -> Column:
    """Return the column of that name."""
    return next(column for column in COLUMNS if column.name == name)
