"""Pilot runs: small populations that measure a path, fit the kernel along it, and are then thrown away."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from ..algorithms import SMC
from ..annealing import Annealing, State, anneal, find_next, frozen, pilot_params
from ..core import AnyArray, Cost, Rows, to_host
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..references import Reference
from ..results import Result
from ..schedules import AbstractSchedule
from . import shares

_LEAP = 2.0
"""Length of a step that leaves an effective sample size of 2 %."""
_HURRY = 0.15
"""Effective sample size to which an adaptive schedule steps when evaluations run short, instead of half."""
_KEPT, _MOST_MOVES = 0.5, 8
"""Share of the path's derivative that moves at a beta may leave, and moves after which there is no other there."""
_SLOWEST = 0.98
"""The largest share that so few particles tell from all of it."""


class Pilot(NamedTuple):
    """A pilot run: its result, its last population, and the kernel frozen at what was fitted at each beta."""

    kernel: FrozenKernel
    state: State
    result: Result
    annealing: Annealing
    lengths: Float[AnyArray, " steps"]
    """Lengths of the steps between its betas."""
    num_moves: Float[AnyArray, " steps"]
    """Number of moves of the particles after each of them."""
    kept: Float[AnyArray, " steps"]
    """Share of the path's derivative that all these moves have left."""

    @property
    def betas(self) -> Float[AnyArray, " num"]:
        return self.kernel.betas

    @property
    def cost(self) -> Cost:
        return self.result.num_evaluations

    @property
    def reached(self) -> bool:
        """Return whether it came to beta = 1 without a leap that lost most of the population."""
        return float(np.max(self.lengths)) < _LEAP

    @property
    def barrier(self) -> float:
        """The length of the whole path."""
        return float(np.sum(self.lengths))

    @property
    def slowness(self) -> Float[AnyArray, " steps"]:
        """Moves that are worth one independent draw, for each step: `(1 + rho) / (1 - rho)` where one move leaves rho.

        The mean of both ends of the step counts. Draws from the base are independent.
        """
        rho = np.clip(self.kept, 0.0, _SLOWEST) ** (1 / self.num_moves)
        ends = np.append(1.0, (1 + rho) / (1 - rho))
        return 0.5 * (ends[:-1] + ends[1:])

    @property
    def draws(self) -> tuple[Rows, Rows | None]:
        """Positions of the last particles, and the target's scores there if the kernel has them."""
        particles, evaluator = self.state.particles, self.annealing.evaluator
        scores = None if particles.slopes is None else evaluator.score(1.0, particles)
        return to_host(evaluator.in_points(particles.position, scores))

    @property
    def mass(self) -> tuple[float, float]:
        """The log evidence that it found, and its standard error."""
        return float(self.result.log_evidence), float(self.result.log_evidence_se)


def run_pilot(
    path: AbstractPath[Any],
    schedule: AbstractSchedule,
    kernel: AbstractKernel[Any],
    num_particles: int,
    *,
    key: Any,
    max_cost: float = math.inf,
) -> Pilot:
    """One run of SMC that keeps the parameters of the kernel at every beta.

    The particles stay at a beta until its moves have renewed half of the path's derivative. An adaptive schedule takes
    longer steps once half of `max_cost` evaluations are spent, and where the next step would cost more than all of them
    the rest in one leap: the weights then show how far the population was from the target.
    """
    algorithm = SMC(num_particles, schedule, kernel)
    annealing, start = algorithm.begin(path, key=key)

    def choose(state: State) -> Any:
        if annealing.target_ess is None:
            return find_next(annealing, state)
        cost = algorithm.count(int(state.stage) + 2).total
        if cost > max_cost:
            return 1.0
        wanted = _HURRY if cost > 0.5 * max_cost else annealing.target_ess
        return find_next(eqx.tree_at(lambda a: a.target_ess, annealing, wanted), state)

    moved: list[float] = []

    def linger(state: State) -> bool:
        moved.append(float(state.beta))
        affordable = algorithm.count(int(state.stage) + 1).total < shares.LINGERING * max_cost
        return affordable and moved.count(moved[-1]) < _MOST_MOVES and float(state.lag.kept) > _KEPT

    may_linger = annealing.target_ess is not None  # the betas of a fixed schedule are counted by stages

    def record(state: State, stats: Any) -> Any:
        return {**pilot_params(state, stats), "kept": state.lag.kept}

    state, stats = anneal(annealing, start, record=record, choose=choose, linger=linger if may_linger else None)
    kept = stats.pop("kept")
    plain: Any = {name: values for name, values in stats.items() if name != "params"}
    result = algorithm.finish(annealing, state, plain)
    firsts = np.flatnonzero(np.diff(stats["beta"], prepend=0.0) > 0)
    lasts = np.append(firsts[1:], stats["beta"].size) - 1
    fitted, stats = frozen(annealing, start, jax.tree.map(lambda values: values[lasts], stats))
    betas, params = to_host((fitted.betas, fitted.params))
    if isinstance(path.base, Reference) and path.base.share < 1:
        # At beta = 0 a few draws come from the base, and moves that are fitted to all would be far too wide. They have
        # no weight at the next beta.
        params = jax.tree.map(lambda leaf: np.concatenate([leaf[1:2], leaf[1:]]), params)
    return Pilot(
        FrozenKernel(kernel, betas, params),
        state,
        result,
        annealing,
        result.stats["length"][firsts],
        1 + lasts - firsts,
        to_host(kept[lasts]),
    )
