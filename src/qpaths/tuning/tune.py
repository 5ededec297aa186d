"""Reference, path, schedule and kernel together, from pilots; what comes out is frozen."""

import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..algorithms.checks import check_num, check_parts
from ..arrays import RandomKey
from ..densities import as_pytree
from ..evaluation import stream_for
from ..kernels import HMC, AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..results import NumEvaluations
from ..schedules import AdaptiveSchedule, FixedSchedule, respace
from .candidates import choose_start
from .chains import FIRST_ACCEPTANCE, Problems, Search, Settings, num_pilot_gradients, rough_settings, tune_chains
from .choices import describe
from .choose import compare, num_runs, with_delta
from .pilot import Pilot, run_pilot

_PILOT_SHARE = 0.25
"""Of the budget, for all pilots together."""
_STEP_LENGTH = 0.5
"""Of one step of the schedule: an effective sample size of exp(-1/4), about 80 %."""
_ONE_STEP = 0.8
"""Length of a path below which weights alone, an effective sample size of a half, are better than moves."""
_LONG = 3.0
"""A barrier above which another q may be worth its pilots."""
_DELTAS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
_SEEDS, _FEWEST = 2, 32
"""Runs of each candidate in a round of the comparison, and the fewest particles worth running."""


class Tuned(eqx.Module):
    """Settings that were chosen in pilots and stay as they are: `path, schedule, kernel = tune(...)`.

    `notes` say what was chosen and why, `warnings` what looks unreliable, `barrier` is the length of the path,
    `num_evaluations` what the pilots cost.
    """

    path: Any
    schedule: FixedSchedule
    kernel: FrozenKernel
    barrier: float = eqx.field(static=True)
    notes: tuple[str, ...] = eqx.field(static=True)
    warnings: tuple[str, ...] = eqx.field(static=True)
    num_evaluations: NumEvaluations = eqx.field(static=True)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.path, self.schedule, self.kernel)

    @property
    def cost_per_particle(self) -> int:
        """Evaluations of one particle of a run with these settings, a gradient counted as two."""
        each = self.kernel.evaluations.values + 2 * self.kernel.evaluations.gradients
        steps = self.schedule.betas.shape[0] - 2  # nothing moves at the last beta
        return (2 if self.kernel.with_slopes else 1) + steps * self.kernel.num_steps * each


def tune(
    path: Any,
    *,
    key: RandomKey,
    budget: int = 1_000_000,
    kernel: AbstractKernel[Any] | None = None,
    reference: bool = True,
    num_gradients: int | None = None,
    num_chains: int = 10,
    num_leapfrog: int | None = None,
    q: float | None = None,
    problems: Any = None,
    target_samples: Any = None,
) -> Tuned:
    """Choose reference, q, schedule and kernel for a run of `budget` evaluations, a gradient counted as two.

    The pilots cost at most a quarter of the budget, or some 10,000 evaluations if that is more. The first anneals
    adaptively from the base. A Student-t distribution fitted to where it ends is the new base if the path from there is
    much shorter and finds no less mass, and if the target looks like one mode without heavy tails and hard bounds
    (`reference=False` keeps the base). On a path that is still long a few values of q are compared by the bound that
    they reach. All settings are frozen: with them AIS and SMC are unbiased.

    With `num_gradients` the run is made of chains of that many gradients each (AIS, BDMC). Then the split between
    distributions and leapfrog steps, the acceptance rate and q are chosen by what such chains reach, unless
    `num_leapfrog` or `q` is given, and the budget is that of `num_chains` chains. Many problems can share such
    settings: with `problems`, a tree of arrays with a leading axis, `path` is a function that makes the path of one of
    them. A few problems can stand for many: `num_chains` then is the number of chains of the run over that of the
    problems given. `target_samples`, where there are exact draws from the targets (one per problem: simulated data),
    make the schedule equal in the forward-reverse discrepancy.
    """
    check_num("num_chains", num_chains, smallest=1)
    if num_gradients is not None:
        search = Search()
        if num_leapfrog is not None:
            check_num("num_leapfrog", num_leapfrog, smallest=1)
            search = search._replace(leapfrogs=(num_leapfrog,))
        if q is not None:
            search = search._replace(deltas=())
        delta = None if q is None else 1 - q
        stream = stream_for(key, path, problems, target_samples, pilots=True)
        return _tune_chains(
            path, stream, kernel, reference, num_gradients, num_chains, problems, target_samples, delta, search
        )
    if any(value is not None for value in (problems, target_samples, num_leapfrog, q)):
        raise ValueError(
            "`problems`, `target_samples`, `num_leapfrog` and `q` need `num_gradients`, the length of the chains, "
            "got None."
        )
    if not budget > 0:
        raise ValueError(f"`budget` must be positive, got {budget}: it counts evaluations.")
    return _tune_population(path, stream_for(key, path, pilots=True), budget, kernel, reference)


def _tune_population(
    path: AbstractPath[Any], stream: Any, budget: int, kernel: AbstractKernel[Any] | None, reference: bool
) -> Tuned:
    kernel = HMC(num_leapfrog=5) if kernel is None else kernel
    check_parts(kernel)
    allowance = _Allowance(int(_PILOT_SHARE * budget))
    num_particles = int(np.clip(budget // 2500, 64, 2000))
    keys = stream.split(3)
    notes, warnings = [], []
    if reference:
        choice = choose_start(path, kernel, num_particles, keys[0], float(allowance.left))
        path, pilot = choice.path, choice.pilot
        allowance.spend_all(choice.num_evaluations)
        notes.append(describe(choice))
    else:
        pilot = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=keys[0], max_cost=float(allowance.left))
        allowance.spend(pilot)
    if not pilot.reached:
        warnings.append(
            f"the pilot did not come from the base to the target in {pilot.result.num_evaluations.cost:,} evaluations"
        )
    if pilot.reached and pilot.barrier > _LONG:
        path, pilot, note = _with_best_q(path, pilot, kernel, keys[2], allowance)
        notes.append(note)
    betas = pilot.betas
    if pilot.reached:
        num_steps = 1 if pilot.barrier < _ONE_STEP else math.ceil(pilot.barrier / _STEP_LENGTH)
        betas = respace(betas, pilot.lengths, 1 + num_steps)
    notes.append(f"{betas.size} distributions at equal distances on a path of length {pilot.barrier:.2f}")
    return Tuned(
        path, FixedSchedule(betas), pilot.kernel, pilot.barrier, tuple(notes), tuple(warnings), allowance.spent
    )


def _tune_chains(
    path: Any,
    stream: Any,
    kernel: AbstractKernel[Any] | None,
    reference: bool,
    num_gradients: int,
    num_chains: int,
    problems: Any,
    target_samples: Any,
    delta: float | None,
    search: Search,
) -> Tuned:
    if kernel is None:
        kernel = HMC(num_leapfrog=5, preconditioner="dense" if problems is None else "diagonal")
    if not isinstance(kernel, HMC):
        raise TypeError(f"`kernel` must be HMC where `num_gradients` is given, got {type(kernel).__name__}.")
    if num_gradients < 16:
        raise ValueError(f"`num_gradients` must be at least 16, got {num_gradients}: it is the length of one chain.")
    if problems is not None and (isinstance(path, AbstractPath) or not callable(path)):
        raise TypeError(
            f"`path` must be a function that makes the path of one of the `problems`, got {type(path).__name__}: "
            f"give `lambda problem: QPath(...)`."
        )
    start_stream, stream = stream.split(2)
    if problems is None:
        tuned = _tune_population(path, start_stream, 8 * num_chains * num_gradients, kernel, reference)
        group = Problems(lambda _: tuned.path, None, target_samples, 1)
        start = Settings(np.asarray(_delta_of(tuned.path)), tuned.schedule.betas, tuned.kernel, FIRST_ACCEPTANCE)
        notes, warnings, spent = tuned.notes[:-1], tuned.warnings, tuned.num_evaluations
    else:
        group = Problems(path, problems, target_samples, 1)
        start = rough_settings(group, kernel)
        notes, warnings, spent = (), (), NumEvaluations(0, 0, 0, 0)
    if delta is not None:
        start = eqx.tree_at(lambda settings: settings.delta, start, np.asarray(delta))
    allowed = _PILOT_SHARE * group.num * num_chains * num_gradients * group.num_directions
    made = num_pilot_gradients(start, num_gradients, group.num_directions, search)
    group = group.with_pilot_chains(int(allowed / made))
    settings, measured = tune_chains(group, start, num_gradients, search, stream)
    made *= group.num * group.num_chains
    barrier = float(np.sum(np.sqrt(np.maximum(measured.variance, 0))))
    notes += (
        f"{settings.betas.size} distributions and {settings.num_leapfrog} leapfrog steps at each, "
        f"{settings.target_acceptance:.0%} of the moves accepted",
        f"q = {1 - float(settings.delta):.6g}"
        + (", since no other was better" if settings.delta == 0 and search.deltas else ""),
        f"single chains then fall short of the log evidence by about {measured.shortfall:.3f} nats",
    )
    chosen: Any
    if problems is None:
        chosen = with_delta(tuned.path, settings.delta)
    else:
        # An array, so that another value does not compile again; of a Python number, so that it does not widen float32.
        chosen = Chosen(as_pytree(path), jnp.asarray(float(settings.delta)))
    return Tuned(
        chosen,
        FixedSchedule(settings.betas),
        settings.kernel,
        barrier,
        notes,
        warnings,
        spent + NumEvaluations(0, 0, made, made),
    )


class Chosen(eqx.Module):
    """Makes the q-path of one of many problems."""

    path_of: Any
    delta: Any

    def __call__(self, problem: Any) -> AbstractPath[Any]:
        return with_delta(self.path_of(problem), self.delta)


def _delta_of(path: AbstractPath[Any]) -> Any:
    return getattr(path, "delta", 0.0)


class _Allowance:
    """What pilots may still cost."""

    def __init__(self, cost: int):
        self.left = cost
        self.spent = NumEvaluations(0, 0, 0, 0)

    def spend(self, pilot: Pilot) -> None:
        self._add(pilot.result.num_evaluations)

    def spend_all(self, num: NumEvaluations) -> None:
        self._add(num)

    def spend_cost(self, cost: int, kernel: AbstractKernel[Any]) -> None:
        """Evaluations that were not counted one by one, of the kind that the kernel makes."""
        self._add(
            NumEvaluations(0, 0, cost // 2, cost // 2) if kernel.with_slopes else NumEvaluations(cost, cost, 0, 0)
        )

    def _add(self, num: NumEvaluations) -> None:
        self.spent += num
        self.left -= num.cost


def _with_best_q(
    path: AbstractPath[Any], pilot: Pilot, kernel: AbstractKernel[Any], stream: Any, allowance: _Allowance
) -> tuple[AbstractPath[Any], Pilot, str]:
    """The q-path whose bound is best and its pilot, or what was given; and why."""
    num_particles = pilot.state.log_weights.shape[0]
    cost_per_particle = pilot.result.num_evaluations.cost / num_particles
    # The winner needs a pilot of its own; the comparison may have the rest.
    left = allowance.left - pilot.result.num_evaluations.cost
    num_judged = int(left / cost_per_particle / num_runs(len(_DELTAS), _SEEDS))
    if num_judged < _FEWEST:
        return (
            path,
            pilot,
            "q = 1, the geometric path: to compare others would have cost more than a quarter of the budget",
        )
    compare_stream, pilot_stream = stream.split(2)
    winner = compare(path, np.array(_DELTAS), None, kernel, num_judged, _SEEDS, key=compare_stream)
    allowance.spend_cost(int(num_runs(len(_DELTAS), _SEEDS) * num_judged * cost_per_particle), kernel)
    lost = f" ({winner.num_dropped} of {len(_DELTAS)} did not reach the target)" if winner.num_dropped else ""
    if winner.delta == 0:
        return path, pilot, f"q = 1, the geometric path: no other q was better beyond noise{lost}"
    path = with_delta(path, winner.delta)
    best = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=pilot_stream, max_cost=float(allowance.left))
    allowance.spend(best)
    return (
        path,
        best,
        (
            f"q = {1 - winner.delta:.6g}, whose bound on the log evidence was {winner.gain:.2f} +- "
            f"{winner.gain_se:.2f} nats above that of the geometric path in the pilots{lost}"
        ),
    )
