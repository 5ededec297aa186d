"""A recipe for a population: reference, path, schedule and kernel from pilots; what comes out is frozen."""

import math
from typing import Any

import numpy as np

from ..core import Cost, RandomKey, Stream
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath, Ordered
from ..recipe import Recipe, check_parts
from ..references import Mode, Structure
from ..remarks import Finding, Note, Refusal, Remark
from ..rows import stream_for
from ..schedules import AdaptiveSchedule, FixedSchedule, respace
from . import shares
from .choices import SCANNED
from .compare import DELTAS, compare, num_runs, with_delta
from .pilot import Pilot, run_pilot
from .start import choose_start, modes_of_target
from .weighted import ENOUGH, weights_alone

_HARD = 2.5
"""Length of a path after which another search with more particles is worth more than islands."""
_STEP_LENGTH = 0.5
"""Length of one step of the schedule: an effective sample size of exp(-1/4), about 80 %."""
_ENOUGH_PARTICLES = 16384
"""Particles of all islands, four batches of eight with 512 each, which come before more steps than fresh draws would
need."""
_STUCK = 0.9
"""Share of the path's derivative, left by the moves at the target, beyond which more steps are no cure: particles do
not pass between modes or out of a neck, and the shares of these come from the number of particles."""
_MOST_WEIGHTED = 2.0
"""Length of a path below which weights alone may be better than moves."""
_PROBED = (512, 4096)
"""Draws that tell whether they are: the fewest and the most."""
_LONG = 3.0
"""A barrier above which another q may be worth its pilots."""
_SEEDS, _FEWEST = 2, 32
"""Runs of each candidate in a round of the comparison, and the fewest particles worth running."""


class _Allowance:
    """Return what pilots may still cost."""

    def __init__(self, total: int):
        self.left = total
        self.spent = Cost()

    def spend(self, cost: Cost) -> None:
        self.spent += cost
        self.left -= cost.total


def tune_population(
    path: AbstractPath[Any],
    *,
    key: RandomKey,
    budget: int = 1_000_000,
    kernel: AbstractKernel[Any] | None = None,
    reference: bool = True,
    known: tuple[Mode, ...] = (),
    structure: Structure | None = None,
) -> Recipe:
    """Choose reference, q, schedule and kernel for a population. `qpaths.tune` calls it.

    The pilots cost at most a quarter of the budget, or some 10,000 evaluations if that is more. Where they leave a long
    path, a second search with more particles may cost another third. Ascents climb to the
    modes of the target, or a first pilot anneals there from the base. A distribution with the curvature of the modes,
    or fitted to the draws of a pilot, becomes the new base (the reference) if the path from there is shorter and finds
    no less mass. Short runs from there refine it. Where a few coordinates drive the scales of all others, it is fitted
    to optima and curvature at many values of these. If draws from the reference are good enough with weights alone, the
    schedule has a single step. On a path that is still long a few values of q are compared by the bound that they
    reach.

    Args:
        path: The path. One without an order q stays as it is, and one that is not pointwise also keeps its base.
        key: The key of the pilots.
        budget: Evaluations of the pilots and of the run that will follow; a gradient counts as two.
        kernel: The kind of kernel; HMC by default, a random walk without gradients.
        reference: False keeps the base.
        known: Optima of the target that are known already. A reference with all of them is tried first.
        structure: Groups of coordinates that belong together; names and shapes suggest them unless given.

    Returns:
        A `Recipe` with everything frozen. [What it does](evidence.md#what-it-does) has the details. A mode that no
        ascent and no pilot finds is not in it.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> recipe = tune_population(path, key=jax.random.key(0), budget=10_000)
        >>> recipe.kernel.needs_fit  # frozen
        False
    """
    if not budget > 0:
        raise ValueError(f"`budget` must be positive, got {budget}: it counts evaluations.")
    kernel = HMC(num_leapfrog=5) if kernel is None else kernel
    check_parts(kernel)
    reference = reference and path.is_pointwise
    allowance = _Allowance(int(shares.PILOTS * budget))
    num_particles = int(np.clip(budget // 2500, 64, 2000))
    streams = stream_for(key, path, pilots=True).split(4)
    notes: list[Remark] = []
    findings: tuple[Remark, ...] = ()
    if reference:
        choice = choose_start(path, kernel, num_particles, streams[0], float(allowance.left), known, structure)
        allowance.spend(choice.cost)
        if choice.pilot.barrier > _HARD or not choice.pilot.reached:
            allowance.left += int(shares.AGAIN * budget)
            again = choose_start(path, kernel, 2 * num_particles, streams[3], float(allowance.left), known, structure)
            allowance.spend(again.cost)
            choice = choice.or_better(again)
        path, pilot = choice.path, choice.pilot
        notes, findings, modes = list(choice.notes), choice.findings, choice.known
    else:
        max_cost = float(allowance.left)
        pilot = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=streams[0], max_cost=max_cost)
        allowance.spend(pilot.cost)
        climbed, cost = modes_of_target(path, kernel, streams[3], shares.MODES_OF_BASE * allowance.left, structure)
        allowance.spend(cost)
        modes = climbed.known
        if climbed.refusal is Refusal.NO_GRADIENT and pilot.state.particles.position.shape[1] > SCANNED:
            findings += (Finding.NOT_SEARCHED(),)
    if not pilot.reached:
        findings += (Finding.PILOT_FELL_SHORT(cost=pilot.cost.total),)
    elif pilot.barrier > _LONG:
        path, pilot, note = _with_best_q(path, pilot, kernel, streams[2], allowance)
        notes.append(note)
    betas = pilot.betas
    if pilot.reached:
        num_steps = _num_steps(pilot, kernel, (1 - shares.CHECKS) * budget - allowance.spent.total)
        if pilot.barrier < _MOST_WEIGHTED and path.is_pointwise:
            num = int(np.clip(shares.PROBED * allowance.left, *_PROBED))
            ess = weights_alone(path, kernel, streams[1], num)
            allowance.spend(Cost.values(num))
            fewest = _fewest_steps(pilot.barrier)
            if ess > ENOUGH or _moves_error(pilot.barrier, fewest, kernel) * ess > 1 - ess:
                num_steps = 1
                notes.append(Note.WEIGHTS(ess=ess))
        betas = np.unique(respace(betas, pilot.lengths, 1 + num_steps))  # two may be one, next to beta = 1
    if betas.size > 2:
        notes.append(Note.EQUAL_STEPS(num=int(betas.size), length=pilot.barrier))
    schedule = FixedSchedule(betas)
    return Recipe(path, schedule, pilot.kernel, pilot.barrier, tuple(notes), findings, allowance.spent, modes)


def _fewest_steps(barrier: float) -> int:
    """Steps of a path where every move is a fresh draw."""
    return max(2, math.ceil(barrier / _STEP_LENGTH))


def _num_steps(pilot: Pilot, kernel: AbstractKernel[Any], left: float) -> int:
    """Steps of equal length, with `left` evaluations for the islands.

    K steps add about `l^2 tau / K` to the relative variance where the path is l long and a move is worth 1 / tau of a
    draw. So many steps are made that slow moves add no more than fresh draws would, as far as enough particles remain:
    a larger budget buys distributions first, and islands after that.
    """
    fewest = _fewest_steps(pilot.barrier)
    if pilot.kept[-1] > _STUCK:
        return fewest
    wanted = fewest * float(pilot.slowness @ pilot.lengths) / max(pilot.barrier, 1e-12)
    per_step = kernel.num_steps * kernel.cost.total
    affordable = (left / _ENOUGH_PARTICLES - kernel.start_cost(1).total) / per_step
    return max(fewest, math.floor(min(wanted, affordable)))


def _moves_error(barrier: float, num_steps: int, kernel: AbstractKernel[Any]) -> float:
    """Relative variance of an estimate with moves, times its cost: that of steps of equal length and perfect moves."""
    variance = num_steps * math.expm1((barrier / num_steps) ** 2)
    return variance * (kernel.start_cost(1) + (num_steps - 1) * kernel.num_steps * kernel.cost).total


def _with_best_q(
    path: AbstractPath[Any], pilot: Pilot, kernel: AbstractKernel[Any], stream: Stream, allowance: _Allowance
) -> tuple[AbstractPath[Any], Pilot, Remark]:
    """The q-path whose bound is best and its pilot, or what was given; and why."""
    if not isinstance(path, Ordered):
        return path, pilot, Note.OWN_PATH(name=type(path).__name__)
    num_particles = pilot.state.log_weights.shape[0]
    cost_per_particle = pilot.cost.total / num_particles
    # The winner needs a pilot of its own; the comparison may have the rest.
    left = allowance.left - pilot.cost.total
    num_judged = int(left / cost_per_particle / num_runs(len(DELTAS), _SEEDS))
    if num_judged < _FEWEST:
        return path, pilot, Note.NOT_COMPARED(q=float(1 - path.delta))
    compare_stream, pilot_stream = stream.split(2)
    winner = compare(path, np.array(DELTAS), None, kernel, num_judged, _SEEDS, key=compare_stream)
    allowance.spend(winner.cost)
    if winner.delta == 0:
        return path, pilot, Note.KEPT(q=1.0, num_dropped=winner.num_dropped or None)
    path = with_delta(path, winner.delta)
    best = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=pilot_stream, max_cost=float(allowance.left))
    allowance.spend(best.cost)
    dropped = winner.num_dropped or None
    if winner.gain == 0:
        return path, best, Note.KEPT(q=1 - winner.delta, num_dropped=dropped)
    return path, best, Note.BETTER(q=1 - winner.delta, gain=winner.gain, gain_se=winner.gain_se, num_dropped=dropped)
