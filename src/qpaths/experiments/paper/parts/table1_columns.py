"""The columns of Table 1: ways to choose the path, and with it perhaps the schedule, the kernel and the particles.

Three columns are the paper's, and differ in q alone. The fourth takes everything from `qpaths.tune`. To add a column,
write its `plan` and put it into `COLUMNS`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax

from ...._types import PRNGKey
from ....densities import Density
from ....kernels import RandomWalk
from ....recipe import Recipe
from ....schedules import AbstractSchedule
from ....tuning import choose_q, tune
from ...experiment import Settings
from .datasets import load, logistic_regression
from .published import delta_grid
from .regression import q_path, schedule_of

_ADAPTIVE_STEPS = {"pima": 14, "sonar": 20}
"""Steps that the adaptive schedule takes on the geometric path: they set the evaluations of the tuned column."""


class Plan(NamedTuple):
    """What is run, and the number of likelihood evaluations that the choice took."""

    recipe: Recipe
    num_particles: int
    spent: int = 0


@dataclass(frozen=True)
class Column:
    """A column of the table: a way to choose the path, and perhaps the schedule, the kernel and the particles.

    `deltas(settings)` lists the values of 1 - q that it runs; the table shows the best of them. A column that chooses
    for itself runs a single one, and `plan` may do with it as it likes. `paper` is the column's name in the paper's
    table, None for one of ours.
    """

    name: str
    label: str
    paper: str | None
    deltas: Callable[[Settings], list[float]]
    plan: Callable[[Settings, int], Plan]


@functools.cache
def _problem(dataset: str) -> tuple[Density, Density]:
    """Prior and posterior of logistic regression on a data set."""
    return logistic_regression(load(dataset))


def _protocol(settings: Settings, seed: int) -> Plan:
    """The protocol of the paper: a given q, its schedule, and random-walk moves."""
    schedule = schedule_of(settings["schedule"], settings["num_distributions"])
    path = q_path(*_problem(settings["dataset"]), settings["delta"])
    return Plan(Recipe(path, schedule, RandomWalk(settings["moves"])), settings["num_particles"])


def _by_ess(settings: Settings, seed: int) -> Plan:
    """The protocol of the paper with q by its ESS heuristic, from as many draws of the prior as there are particles."""
    (_, schedule, kernel), num, _ = _protocol(settings, seed)
    delta = _ess_delta(settings["dataset"], schedule, num, seed)
    return Plan(Recipe(q_path(*_problem(settings["dataset"]), delta), schedule, kernel), num, spent=num)


def _by_tuning(settings: Settings, seed: int) -> Plan:
    """Everything from pilots, with as many particles as the evaluations of the line's geometric run pay for.

    The pilots are not part of that budget; the table gives their cost.
    """
    tuned = _tuned(settings["dataset"], settings["tuning_budget"], seed)
    linear = settings["schedule"] == "linear"
    num_steps = settings["num_distributions"] - 1 if linear else _ADAPTIVE_STEPS[settings["dataset"]]
    evaluations = settings["num_particles"] * (1 + num_steps * settings["moves"])
    return Plan(tuned, evaluations // tuned.cost_per_particle.total, tuned.num_evaluations.total)


@functools.cache
def _ess_delta(dataset: str, schedule: AbstractSchedule, num_particles: int, seed: int) -> float:
    """1 - q by the ESS heuristic.

    The number of moves does not enter, so that lines that differ in it alone share the choice.
    """
    path = q_path(*_problem(dataset), 0.0)
    # With a kernel that needs no gradients, so that the draws are weighed by the program that moves them.
    found = choose_q(
        path,
        key=_choice_key(seed),
        method="ess",
        schedule=schedule,
        kernel=RandomWalk(),
        num_particles=num_particles,
    )
    return float(found.delta)


@functools.cache
def _tuned(dataset: str, budget: int, seed: int) -> Recipe:
    """What `tune` chooses, shared by all lines of a data set."""
    return tune(q_path(*_problem(dataset), 0.0), key=_choice_key(seed), budget=budget)


def _choice_key(seed: int) -> PRNGKey:
    """A key for choices, apart from that of the run."""
    return jax.random.fold_in(jax.random.key(seed), 1)


COLUMNS = [
    Column("geometric", "geometric", "geometric", lambda settings: [0.0], _protocol),
    Column("ess", "q-path, ESS heuristic", "q_ess_heuristic", lambda settings: [0.0], _by_ess),
    Column("grid", "q-path, grid", "q_grid", lambda settings: delta_grid(settings["num_q"]), _protocol),
    Column("tuned", "tuned", None, lambda settings: [0.0], _by_tuning),
]
