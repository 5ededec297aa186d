"""The gains of a tuned kernel, schedule, q and reference: each alone, all together, and all but one.

This is not in the paper. Plain parts are those of Table 1. A variant replaces some of them by tuned ones, and every run
makes the same number of likelihood evaluations. Each variant is tuned once and run with every seed, because the pilots
are not what is compared.

Settings:
    problems: The toy between two normals, and data sets.
    variants: What is tuned: none, "PART alone", "all but PART", all.
    budget: Likelihood evaluations of a run, a gradient counted as two.
    num_distributions, moves: Of the plain schedule and the plain kernel.
    num_pilot: Particles of a pilot.

Rows: as in `fig4`, and `num_particles`, as many as the budget pays for.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np

from qpaths.densities import DensityLike
from qpaths.families import Normal
from qpaths.kernels import HMC, AbstractKernel, RandomWalk
from qpaths.recipe import Recipe
from qpaths.schedules import AbstractFixedSchedule
from qpaths.search import choose_q, equalize, tune
from qpaths.search.pilot import run_pilot

from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, Sheet, group, product
from ..harness.judging import above, smaller
from ..harness.settings import check_numbers, check_words
from ..harness.statistics import Estimate, in_words, median, median_deviation, median_difference
from ..parts.datasets import load, logistic_regression
from ..parts.published import PILOT_DELTAS, TRUTHS
from ..parts.regression import cost_of_particle, q_path, run_smc, schedule_of

_PARTS = ("kernel", "schedule", "q", "reference")
"""Parts that can be tuned."""
_ABOVE_ONE = "q above 1"
"""In the place of q: the best of some values of q > 1, with which the paper found no benefit."""


def _variants() -> dict[str, frozenset[str]]:
    """The parts that are tuned in each variant, by its name."""
    every = frozenset(_PARTS)
    alone = {f"{part} alone": frozenset([part]) for part in (*_PARTS, _ABOVE_ONE)}
    without = {f"all but {part}": every - {part} for part in _PARTS}
    return {"none": frozenset(), **alone, **without, "all": every}


_VARIANTS = _variants()


class _Problem(NamedTuple):
    """Endpoints, and the log evidence with its standard error."""

    base: DensityLike
    target: DensityLike
    log_evidence: float
    standard_error: float


@functools.cache
def _problem(name: str) -> _Problem:
    """The toy, two normals with log evidence 0, or logistic regression on a data set."""
    if name == "toy":
        return _Problem(Normal(-4.0, 3.0**0.5), Normal(4.0, 1.0), 0.0, 0.0)
    return _Problem(*logistic_regression(load(name)), TRUTHS[name].log_evidence, TRUTHS[name].standard_error)


@functools.cache
def _recipe(problem: str, variant: str, num_distributions: int, moves: int, num_pilot: int) -> Recipe:
    """Tune the parts of a variant, the same for all seeds.

    The others are plain, as in Table 1: the prior as base, the geometric path, the linear schedule, and a random walk.
    The order is that of `qpaths.tune`: first the reference, then q, the schedule, and at last the kernel's parameters.
    """
    tuned = _VARIANTS[variant]
    base, target, *_ = _problem(problem)
    keys = jax.random.split(jax.random.key(0), 4)
    kernel: AbstractKernel[Any] = HMC(num_leapfrog=5) if "kernel" in tuned else RandomWalk(moves)
    linear = schedule_of("linear", num_distributions)
    assert isinstance(linear, AbstractFixedSchedule)
    path = q_path(base, target, 0.0)
    if "reference" in tuned:
        chosen = tune(path, key=keys[0], kernel=kernel, budget=1000 * num_pilot)
        path = q_path(chosen.path.base, target, 0.0)
    schedule = linear
    if tuned & {"q", _ABOVE_ONE}:
        path = choose_q(
            path,
            key=keys[1],
            schedule=None if "schedule" in tuned else linear,
            kernel=kernel,
            num_particles=num_pilot,
            deltas=PILOT_DELTAS if "q" in tuned else [-delta for delta in PILOT_DELTAS if delta > 0],
        )
        path = q_path(path.base, target, float(path.delta))
    if "schedule" in tuned:
        schedule = equalize(path, key=keys[2], kernel=kernel, num_particles=num_pilot).schedule
    if "kernel" in tuned:
        kernel = run_pilot(path, schedule, kernel, num_pilot, key=keys[3]).kernel
    return Recipe(path, schedule, kernel)


def _check(settings: Settings) -> None:
    """Raise if a name is unknown or a number is too small.

    The smallest budget pays for two particles of the plain parts. What tuned parts cost is known after the pilots only.
    """
    check_words(settings, "problems", ("toy", *TRUTHS))
    check_words(settings, "variants", _VARIANTS)
    check_numbers(settings, 1, "moves")
    check_numbers(settings, 2, "num_distributions", "num_pilot")
    check_numbers(settings, 2 * (1 + (settings["num_distributions"] - 1) * settings["moves"]), "budget")


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """One run of SMC with as many particles as the budget pays for."""
    recipe = _recipe(
        settings["problem"],
        settings["variant"],
        settings["num_distributions"],
        settings["moves"],
        settings["num_pilot"],
    )
    num_particles = settings["budget"] // cost_of_particle(recipe)
    values = run_smc(recipe, num_particles, key=jax.random.key(seed))
    return {**values, "num_particles": num_particles}


class _Errors:
    """Absolute errors of the log evidence in nats, by problem and variant."""

    def __init__(self, rows: list[Row]):
        self.rows = group(rows, "problem", "variant")
        self.problems = [name for name in ("toy", *TRUTHS) if any(key[0] == name for key in self.rows)]

    def variants(self, problem: str) -> list[str]:
        """The variants that have rows."""
        return [variant for variant in _VARIANTS if (problem, variant) in self.rows]

    def of(self, problem: str, variant: str) -> list[float]:
        """The error of each seed."""
        truth = _problem(problem).log_evidence
        return [abs(row["log_evidence"] - truth) for row in self.rows.get((problem, variant), [])]

    def compare(self, problem: str, variant: str, other: str) -> Estimate | None:
        """The median error of a variant minus that of another, with the uncertainty of the truth."""
        first, second = self.of(problem, variant), self.of(problem, other)
        if not first or not second:
            return None
        difference = median_difference(first, second)
        error = float(np.hypot(difference.standard_error, _problem(problem).standard_error))
        return Estimate(difference.value, error)


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """All tuned parts against none and each alone; then against all but one; then q above 1 alone."""
    errors = _Errors(rows)
    alone = ["none", *(f"{part} alone" for part in _PARTS)]
    statements = {
        "all parts tuned have a smaller error than none, and than each alone": alone,
        "no part can be left out: without it the error is larger": [f"all but {part}" for part in _PARTS],
    }
    for statement, others in statements.items():
        for problem in errors.problems:
            found = {other: e for other in others if (e := errors.compare(problem, "all", other))}
            yield from smaller(f"{problem}: {statement}", "ours", found, functools.partial(_closest, errors, problem))
    for problem in errors.problems:
        if difference := errors.compare(problem, f"{_ABOVE_ONE} alone", "none"):
            yield Claim(
                f"{problem}: q > 1 brings no benefit, its error is not smaller than that of q = 1",
                "we did not find benefit to increasing q > 1 (appendix D.2)",
                in_words(difference, "nats"),
                above([difference]),
            )


def _closest(errors: _Errors, problem: str, variant: str, least: str) -> str:
    ratio = np.median(errors.of(problem, variant)) / np.median(errors.of(problem, "all"))
    return f"closest is {variant!r}, with {ratio:.3g} times the error"


def _pictures(rows: list[Row]) -> list[Picture]:
    """Errors by variant, a panel for each problem."""
    errors = _Errors(rows)
    figure, axes = plt.subplots(
        1, len(errors.problems), figsize=(3.0 * len(errors.problems) + 1.2, 3.4), layout="constrained", sharey=True
    )
    names = list(_VARIANTS)[::-1]
    for ax, problem in zip(np.atleast_1d(axes), errors.problems, strict=True):
        for place, variant in enumerate(names):
            found = errors.of(problem, variant)
            if found:
                ax.plot(found, [place] * len(found), "o", color="C0", alpha=0.3, markersize=4)
                ax.plot(np.median(found), place, "|", color="C3", markersize=14, markeredgewidth=2.5)
        ax.set(xscale="log", title=problem, xlabel="|error| in nats")
        ax.set_yticks(range(len(names)), names)
        ax.grid(axis="y", color="0.9")
        ax.spines[["top", "right"]].set_visible(False)
    return [Picture("errors", "Error of each seed (dots) and their median (bars), by what was tuned.", figure)]


def _sheets(rows: list[Row]) -> list[Sheet]:
    """A line for each problem and variant: the error, and what was run."""
    errors, lines = _Errors(rows), []
    for problem in errors.problems:
        for variant in errors.variants(problem):
            found, first = errors.of(problem, variant), errors.rows[problem, variant][0]
            lines.append(
                [
                    problem,
                    variant,
                    f"{median(found)}",
                    f"{median_deviation(found):.2g}",
                    f"{1 - first['delta_used']:.6g}",
                    str(first["num_steps"] + 1),
                    f"{first['num_particles']:,}",
                    f"{np.mean([row['log_evidence_se'] for row in errors.rows[problem, variant]]):.2g}",
                ]
            )
    columns = ["problem", "tuned", "median |error|", "deviation", "q", "distributions", "particles", "reported se"]
    note = (
        "In nats. Every run makes the same number of likelihood evaluations, a gradient counted as two; pilots are not "
        "counted. Equal rows mean that tuning left the part as it was: q = 1 was best, or a random walk, which follows "
        "no gradient, led to no reference. With two distributions nothing is moved, and a kernel without gradients "
        "pays for twice the particles."
    )
    return [Sheet("Error by what was tuned", columns, lines, note)]


EXPERIMENT = Experiment(
    name="ablation",
    title="what the kernel, the schedule, q and the reference give, alone and together",
    paper=None,
    duration="6 min",
    about="Sequential Monte Carlo at equal numbers of evaluations. Plain parts are those of Table 1: the prior as "
    "base, the geometric path, 10 distributions at equal distances in beta, 5 random-walk moves. Tuned parts: HMC with "
    "the covariance and the step size of a pilot at each beta; a schedule of equal steps, as many as the path asks "
    "for; q by the best bound of pilots; the reference of qpaths.tune with the kernel of the variant. Each variant is "
    "tuned once and run with every seed. Where q is above 1 it is the best of seven values from 1.0001 to 1.1.",
    settings={
        "problems": ["toy", "pima", "sonar"],
        "variants": list(_VARIANTS),
        "budget": 300_000,
        "num_distributions": 10,
        "moves": 5,
        "num_pilot": 1000,
    },
    smoke={
        "problems": ["toy"],
        "variants": ["none", "schedule alone", "q above 1 alone", "all"],
        "budget": 5000,
        "num_pilot": 50,
    },
    runs=product(problem="problems", variant="variants"),
    run_one=_run_one,
    check=_check,
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=10,
    smoke_seeds=2,
    version=2,
)
