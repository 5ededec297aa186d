"""Pilot runs: small populations that measure a path, fit the kernel along it, and are then thrown away."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from .._types import PRNGKey
from ..algorithms import SMC
from ..algorithms.base import Halves, State, advance
from ..algorithms.smc import stack
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..results import Result
from ..schedules import AbstractSchedule

_LEAP = 2.0
"""Length of a step that leaves an effective sample size of 2 %."""
_HURRY = 0.15
"""Effective sample size to which an adaptive schedule steps when evaluations run short, instead of half."""


class Pilot(NamedTuple):
    """A pilot run: its result, its last population, and the kernel frozen at what was fitted at each beta."""

    kernel: FrozenKernel
    state: State
    result: Result

    @property
    def betas(self) -> Float[Array, " num"]:
        return self.kernel.betas

    @property
    def lengths(self) -> Float[Array, " steps"]:
        return self.result.stats["length"]

    @property
    def reached(self) -> bool:
        """Whether it came to beta = 1 without a leap that lost most of the population."""
        return float(jnp.max(self.lengths)) < _LEAP

    @property
    def barrier(self) -> float:
        """The length of the whole path."""
        return float(jnp.sum(self.lengths))


def run_pilot(
    path: AbstractPath[Any],
    schedule: AbstractSchedule,
    kernel: AbstractKernel[Any],
    num_particles: int,
    *,
    key: PRNGKey,
    max_cost: float = math.inf,
) -> Pilot:
    """One run of SMC that keeps the parameters of the kernel at every beta.

    An adaptive schedule takes longer steps once half of `max_cost` evaluations are spent, and where the next step would
    cost more than all of them the rest in one leap: the weights then show how far the population was from the target.
    """
    algorithm = SMC(num_particles, schedule, kernel)
    annealing, state = algorithm.begin(path, key=key)
    params, rows = [_whole(state.params)], list[Any]()
    while algorithm.unfinished(state, rows):
        if annealing.target_ess is not None:
            cost = algorithm.count(len(rows) + 2).cost
            wanted = 0.0 if cost > max_cost else _HURRY if cost > 0.5 * max_cost else annealing.target_ess
            annealing = eqx.tree_at(lambda a: a.target_ess, annealing, jnp.asarray(wanted))
        state, row = advance(annealing, state)
        params.append(_whole(state.params))
        rows.append(row)
    result = algorithm.finish(annealing, state, stack(rows))
    return Pilot(FrozenKernel(kernel, result.betas, stack(params)), state, result)


def _whole(params: Any) -> Any:
    return params.mean if isinstance(params, Halves) else params
