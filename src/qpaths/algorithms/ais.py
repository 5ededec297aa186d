"""Annealed importance sampling."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from .._numerics import log_mean_exp
from .._types import Point, PRNGKey
from ..estimators import importance_log_evidence
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..results import NumEvaluations, Result
from ..schedules import AbstractFixedSchedule, AbstractSchedule
from .base import Annealing, Population, State, begin, complete, points_of
from .checks import check_chunk_size, check_num, check_parts, count, draw_points, example_of, raise_fault

_PILOT_PARTICLES = 64, 512


class AIS(eqx.Module):
    """Annealed importance sampling (Neal, 2001): independent chains, each with an unbiased weight.

    The parameters of the kernel (covariance, step size) are fitted at each beta to a pilot population with keys of its
    own and then frozen, so that the mean weight is exactly unbiased for the evidence and the mean log weight is a lower
    bound of the log evidence. A kernel without anything to fit has no pilot.
    """

    num_chains: int = eqx.field(static=True)
    schedule: AbstractSchedule
    kernel: AbstractKernel[Any]
    chunk_size: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_num("num_chains", self.num_chains)
        check_parts(self.kernel, self.schedule)
        check_chunk_size(self.chunk_size)
        if not isinstance(self.schedule, AbstractFixedSchedule):
            raise ValueError(
                f"`schedule` must be fixed for AIS, got {type(self.schedule).__name__}: run SMC with it and take "
                f"`FixedSchedule(result.betas)`."
            )

    def run(self, path: AbstractPath[Any], *, key: PRNGKey) -> Result:
        """Anneal `num_chains` independent chains from the base to the target."""
        annealing, state = self.begin(path, key=key)
        state, stats, _ = complete(annealing, state)
        return self.finish(annealing, state, stats)

    def begin(self, path: AbstractPath[Any], *, key: PRNGKey, params: Any = None) -> tuple[Annealing, State]:
        """The frozen settings of the run and its population at beta = 0; with the `params` of a pilot, without one."""
        example = example_of(path, key)
        pilot_key, start_key, run_key = jax.random.split(key, 3)
        if params is None:
            params = self.pilot(path, example, key=pilot_key)
        points = draw_points(path, start_key, self.num_chains)
        annealing, state = self.begin_at(path, points, example, params, key=run_key)
        raise_fault(annealing, state.fault, 0.0)
        return annealing, state

    def pilot(self, path: AbstractPath[Any], example: Point, *, key: PRNGKey) -> Any:
        """Parameters of the kernel for each step, fitted to a small population; None where there is nothing to fit."""
        if not self.kernel.needs_fit:
            return None
        start_key, run_key = jax.random.split(key)
        population = Population(threshold=0.5, chunk_size=self.chunk_size)
        annealing = Annealing(path, self.kernel, population, self.betas, None, None, example, run_key)
        state = begin(annealing, draw_points(path, start_key, self.num_pilot))
        state, _, params = complete(annealing, state, keep_params=True)
        raise_fault(annealing, state.fault, self.betas[state.fault.stage])
        return params

    def begin_at(
        self, path: AbstractPath[Any], points: Point, example: Point, params: Any, *, key: PRNGKey
    ) -> tuple[Annealing, State]:
        """As `begin`, from given draws of the base and parameters of the kernel; a fault is left to the caller."""
        population = Population(threshold=None, chunk_size=self.chunk_size)
        annealing = Annealing(path, self.kernel, population, self.betas, None, params, example, key)
        return annealing, begin(annealing, points)

    def unfinished(self, state: State, rows: list[Any]) -> bool:
        """Whether there are steps left; a fault ends the run."""
        return float(state.beta) < 1 and int(state.fault.status) == 0

    def finish(self, annealing: Annealing, state: State, stats: dict[str, Array], *, with_pilot: bool = True) -> Result:
        """The result of the steps that were made, all of them unless the run was interrupted.

        `with_pilot=False` leaves out the evaluations of the pilot, where another run has counted them.
        """
        assert annealing.betas is not None
        num_steps = stats["beta"].shape[0]
        raise_fault(annealing, state.fault, annealing.betas[state.fault.stage])
        log_evidence, standard_error = importance_log_evidence(state.log_weights)
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=standard_error,
            samples=points_of(annealing, state),
            log_weights=state.log_weights,
            betas=annealing.betas[: num_steps + 1],
            stats=stats,
            status=state.fault.status,
            num_evaluations=self._count(num_steps, with_pilot),
            algorithm="AIS",
        )

    @property
    def betas(self) -> Float[Array, " num"]:
        return self.schedule.betas  # type: ignore[attr-defined]

    @property
    def num_pilot(self) -> int:
        """Particles of the pilot."""
        low, high = _PILOT_PARTICLES
        return min(max(self.num_chains, low), high)

    @property
    def num_evaluations(self) -> NumEvaluations:
        """Of a run, its pilot included."""
        return self._count(self.betas.shape[0] - 1, with_pilot=True)

    def _count(self, num_steps: int, with_pilot: bool) -> NumEvaluations:
        """After some steps; the pilot has made all of them before the first."""
        total = count(self.kernel, self.num_chains, num_steps, num_fits=0)
        if with_pilot and self.kernel.needs_fit:
            total += count(self.kernel, self.num_pilot, self.betas.shape[0] - 1, num_fits=1)
        return total


def lower_bound(log_weights: Float[Array, " n"], num_samples: int = 1) -> Float[Array, ""]:
    """Stochastic lower bound on the log evidence from the weights of independent chains.

    `num_samples = 1` is the mean log weight; more average that many weights under the log, which is tighter (Burda,
    Grosse and Salakhutdinov, 2016). Chains that do not fill a group are left out.
    """
    num = log_weights.shape[0]
    if not 1 <= num_samples <= num:
        raise ValueError(f"`num_samples` must lie between 1 and the number of chains, {num}, got {num_samples}.")
    groups = log_weights[: num // num_samples * num_samples].reshape(-1, num_samples)
    return jnp.mean(log_mean_exp(groups))
