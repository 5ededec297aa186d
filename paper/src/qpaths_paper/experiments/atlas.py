"""The atlas of where q helps: small problems, each hard in one way, with more and more of the sampler tuned.

This is not in the paper, which tunes neither kernel, schedule nor reference. Every problem has a known log evidence
(`parts/atlas_problems.py`). Sequential Monte Carlo runs along paths of many orders q, also along paths whose q changes
from the base to the target, and every run of a problem makes the same number of evaluations. q is chosen by the mean
estimate of the log evidence, a lower bound that needs no truth; for each seed the other seeds choose.

Settings:
    problems: Which problems.
    tuned: What is tuned before q is compared: nothing, schedule, kernel, both, reference (with both).
    q: Values of q that stay the same along the path; 1 must be among them.
    varying: Values of q at the base and at the target, with a colon between them.
    budget: Evaluations of a run, a gradient counted as two.
    num_distributions, moves: Of the schedule, and random-walk moves at each distribution if the kernel is not tuned.
    num_pilot: Particles of a pilot.

Rows:
    log_evidence: An estimate for each q, and then for each varying q; null where no particle reached the target.
    num_particles: As many as the budget pays for.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from qpaths.algorithms import SMC
from qpaths.core import to_host
from qpaths.densities import DensityLike
from qpaths.kernels import HMC, AbstractKernel, RandomWalk
from qpaths.paths import AbstractPath, QPath
from qpaths.recipe import Recipe
from qpaths.schedules import LinearSchedule
from qpaths.search import equalize, tune
from qpaths.search.pilot import run_pilot

from ..harness.errors import UserError
from ..harness.experiment import Experiment, Settings, product
from ..harness.settings import check_numbers, check_words
from ..parts.atlas_figures import TUNED, claims, pictures, sheets
from ..parts.atlas_problems import PROBLEMS, atlas_problem
from ..parts.varying import VaryingQPath

_PILOT_ROUNDS = 2
_REFERENCE_BUDGET = 200_000


def _candidates(settings: Settings) -> tuple[tuple[float, float], ...]:
    """1 - q at the base and at the target, for each column of a row."""
    pairs = [(q, q) for q in settings["q"]] + [_pair(text) for text in settings["varying"]]
    return tuple((1 - first, 1 - last) for first, last in pairs)


def _pair(text: str) -> tuple[float, float]:
    """The two values of a varying q."""
    try:
        first, last = (float(part) for part in str(text).split(":"))
    except ValueError:
        raise UserError(
            f"`varying` must hold pairs such as 0.9:1, got {text!r}: give q at the base and at the target."
        ) from None
    return first, last


def _path(base: DensityLike, target: DensityLike, deltas: tuple[float, float]) -> AbstractPath[Any]:
    """The path of one candidate."""
    first, last = deltas
    if first == last:
        return to_host(QPath(base, target, delta=first))
    return to_host(VaryingQPath(base, target, first, last))


@functools.cache
def _base(problem: str, with_reference: bool) -> DensityLike:
    """The base of a problem, or the reference that `tune` fits to its target."""
    base, target, _ = atlas_problem(problem)
    if not with_reference:
        return base
    path = QPath(base, target, delta=jnp.asarray(0.0))
    return tune(path, key=jax.random.key(0), kernel=HMC(num_leapfrog=5), budget=_REFERENCE_BUDGET).path.base


@functools.cache
def _recipe(
    problem: str, tuned: str, deltas: tuple[float, float], num_distributions: int, moves: int, num_pilot: int
) -> Recipe | None:
    """The recipe of a candidate, the same for all seeds; None where its pilots do not reach the target."""
    parts = TUNED[tuned]
    path = _path(_base(problem, "reference" in parts), atlas_problem(problem).target, deltas)
    kernel: AbstractKernel[Any] = HMC(num_leapfrog=5) if "kernel" in parts else RandomWalk(moves)
    schedule: Any = LinearSchedule(num_distributions)  # type: ignore[call-arg]
    keys = jax.random.split(jax.random.key(1), 2)
    try:
        if "kernel" in parts:
            kernel = run_pilot(path, schedule, kernel, num_pilot, key=keys[0]).kernel
        if "schedule" in parts:
            sizes = {"num_particles": num_pilot, "num_rounds": _PILOT_ROUNDS}
            schedule = equalize(path, key=keys[1], schedule=schedule, kernel=kernel, **sizes).schedule
    except (FloatingPointError, RuntimeError):
        return None
    return Recipe(path, schedule, kernel)


def _check(settings: Settings) -> None:
    """Raise if a name is unknown, a number is too small, or the geometric path is missing."""
    check_words(settings, "problems", PROBLEMS)
    check_words(settings, "tuned", TUNED)
    check_numbers(settings, 1, "moves")
    check_numbers(settings, 3, "num_distributions")
    check_numbers(settings, 16, "num_pilot")
    check_numbers(settings, 64 * settings["num_distributions"] * max(10, settings["moves"]), "budget")
    _candidates(settings)
    if 1.0 not in settings["q"]:
        raise UserError(f"`q` must hold 1, the geometric path that all are compared with, got {settings['q']}.")


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """One run of every candidate, all with the same key and the same cost."""
    sizes = tuple(settings[name] for name in ("num_distributions", "moves", "num_pilot"))
    problem, tuned = settings["problem"], settings["tuned"]
    kernel: AbstractKernel[Any] = HMC(num_leapfrog=5) if "kernel" in TUNED[tuned] else RandomWalk(settings["moves"])
    plain = Recipe(None, LinearSchedule(settings["num_distributions"]), kernel)  # type: ignore[call-arg]
    num_particles = settings["budget"] // plain.cost_per_particle.total
    found = []
    for deltas in _candidates(settings):
        recipe = _recipe(problem, tuned, deltas, *sizes)
        found.append(None if recipe is None else _estimate(recipe, num_particles, seed))
    return {"log_evidence": found, "truth": atlas_problem(problem).log_evidence, "num_particles": num_particles}


def _estimate(recipe: Recipe, num_particles: int, seed: int) -> float | None:
    """The log evidence of one run; None where no particle has weight."""
    try:
        value = float(recipe.run(SMC, num_particles, key=jax.random.key(seed)).log_evidence)
    except (FloatingPointError, RuntimeError):
        return None
    return value if abs(value) < float("inf") else None


EXPERIMENT = Experiment(
    name="atlas",
    title="where q helps: problems that are hard in different ways, with more and more of the sampler tuned",
    paper=None,
    duration="12 min",
    about="Sequential Monte Carlo on small problems with a known log evidence, at equal numbers of evaluations. "
    "Not tuned: the prior as base, 12 distributions at equal distances in beta, 5 random-walk moves. Tuned: a schedule "
    "of equal steps, found for each q; HMC with the covariance and step size of a pilot; a reference fitted to the "
    "target. q is chosen by the mean estimate of the log evidence; for each seed the other seeds choose.",
    settings={
        "problems": list(PROBLEMS),
        "tuned": ["nothing", "schedule", "both", "reference"],
        "q": [0.0, 0.9, 0.99, 0.999, 1.0, 1.1, 2.0],
        "varying": ["0.9:1", "1:0.9"],
        "budget": 30_000,
        "num_distributions": 12,
        "moves": 5,
        "num_pilot": 200,
    },
    smoke={
        "problems": ["heavy target", "hard bounds"],
        "tuned": ["nothing", "schedule"],
        "q": [0.9, 1.0],
        "varying": ["0.9:1"],
        "budget": 8000,
        "num_pilot": 64,
    },
    runs=product(problem="problems", tuned="tuned"),
    run_one=_run_one,
    check=_check,
    pictures=pictures,
    sheets=sheets,
    claims=claims,
    num_seeds=6,
    smoke_seeds=4,
)
