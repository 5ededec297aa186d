"""Annealed importance sampling."""

from typing import Any

import equinox as eqx
from jaxtyping import Float

from ..annealing import Annealing, Population, State, anneal, begin, frozen, pilot_params
from ..core import AnyArray, Cost, Point, RandomKey, Scalar, Stream, check_chunk_size, check_num, log_mean_exp
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..recipe import check_parts
from ..results import Result, Stats
from ..rows import Devices, as_devices, check_shares, on_host, stream_for
from ..schedules import AbstractFixedSchedule, AbstractSchedule
from ..stats import importance_log_evidence
from .base import AbstractAnnealer, raise_fault

_PILOT_PARTICLES = 64, 512
"""Fewest and most particles of a pilot: enough to fit a kernel, and no more than costs little beside the run."""


def check_chains(
    num_chains: int,
    schedule: AbstractSchedule,
    kernel: AbstractKernel[Any],
    chunk_size: int | None,
    devices: Devices = None,
) -> None:
    """Raise where independent chains cannot run with these settings: AIS and BDMC share the check."""
    check_num("num_chains", num_chains)
    check_parts(kernel, schedule)
    check_chunk_size(chunk_size)
    check_shares("num_chains", num_chains, devices)
    if not isinstance(schedule, AbstractFixedSchedule):
        raise ValueError(
            f"`schedule` must be fixed for AIS, got {type(schedule).__name__}: run SMC with it and take "
            f"`FixedSchedule(result.betas)`."
        )


class AIS(AbstractAnnealer):
    """Annealed importance sampling (Neal, 2001): independent chains, each with an unbiased weight.

    The kernel is fitted at each beta to a separate pilot population, and then frozen. So the mean weight is exactly
    unbiased for the evidence, and the mean log weight is a lower bound of the log evidence in expectation
    (`qpaths.algorithms.lower_bound`). A kernel without anything to fit has no pilot.

    Args:
        num_chains: Chains that run side by side.
        schedule: A fixed schedule. Run SMC with an adaptive one and take `FixedSchedule(result.betas)`.
        kernel: Moves each chain at each beta.
        chunk_size: The most chains that are moved at once, for memory. The numbers do not depend on it.
        devices: How many devices share the chains, or the devices themselves, such as `jax.devices()`. Their number
            must divide that of the chains. The numbers do not depend on it.

    On a long path a few chains carry all the weight; `SMC` with as many particles is usually more accurate.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.AIS(200, qp.LinearSchedule(10), qp.HMC(num_leapfrog=3)).run(path, key=jax.random.key(0))
        >>> bool(abs(result.log_evidence - -2.4094) < 4 * result.log_evidence_se)
        True
    """

    num_chains: int = eqx.field(static=True)
    schedule: AbstractSchedule
    kernel: AbstractKernel[Any]
    chunk_size: int | None = eqx.field(static=True, default=None)
    devices: Devices = eqx.field(static=True, default=None, converter=as_devices)

    def __check_init__(self) -> None:
        check_chains(self.num_chains, self.schedule, self.kernel, self.chunk_size, self.devices)

    def begin(self, path: AbstractPath[Any], *, key: RandomKey) -> tuple[Annealing, State]:
        """The frozen settings of the run and its population at beta = 0."""
        pilot, start, run = stream_for(key, path, self, pilots=self.devices is not None).split(3)
        annealing, state = self.begin_at(path, None, self.fitted(path, pilot), start, run)
        raise_fault(annealing.evaluator, state.fault, self.betas)
        return annealing, state

    def begin_at(
        self,
        path: AbstractPath[Any],
        points: Point | None,
        kernel: AbstractKernel[Any],
        start: Stream | None,
        run: Stream,
    ) -> tuple[Annealing, State]:
        """The run of a kernel that needs no fit, from the given points or from draws from the base.

        `start` is the stream of the draws and `run` that of the steps. BDMC starts its reverse chains here.
        """
        population = Population(threshold=None, chunk_size=self.chunk_size, devices=self.devices)
        draw = None if points is not None else (start, self.num_chains)
        return begin(path, self.schedule, kernel, population, stream=run, draw=draw, points=points)

    def fitted(self, path: AbstractPath[Any], stream: Stream) -> AbstractKernel[Any]:
        """The kernel frozen at what a small population fits at each beta; the kernel itself where nothing is fitted."""
        if not self.kernel.needs_fit:
            return self.kernel
        start, run = stream.split(2)
        annealing, state = begin(
            path, self.schedule, self.kernel, self._pilot, stream=run, draw=(start, self.num_pilot)
        )
        raise_fault(annealing.evaluator, state.fault, self.betas)
        end, stats = anneal(annealing, state, record=pilot_params)
        raise_fault(annealing.evaluator, end.fault, self.betas)
        return frozen(annealing, state, stats)[0]

    def finish(self, annealing: Annealing, state: State, stats: Stats, *, with_pilot: bool = True) -> Result:
        """The result of the steps that were made, all of them unless the run was interrupted.

        `with_pilot=False` leaves out the evaluations of the pilot, where another run has counted them.
        """
        num_steps = stats["beta"].shape[0]
        raise_fault(annealing.evaluator, state.fault, self.betas)
        log_evidence, standard_error = importance_log_evidence(state.log_weights)
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=standard_error,
            samples=annealing.evaluator.layout.points(on_host(state.particles.position)),
            log_weights=state.log_weights,
            betas=self.betas[: num_steps + 1],
            stats=stats,
            status=state.fault.status,
            num_evaluations=self.count(num_steps, with_pilot),
            algorithm="AIS",
        )

    @property
    def _pilot(self) -> Population:
        """A population that is resampled, so that few particles are enough to fit a kernel."""
        return Population(threshold=0.5, chunk_size=self.chunk_size)

    @property
    def betas(self) -> Float[AnyArray, " num"]:
        """Those of the schedule."""
        return self.schedule.betas  # type: ignore[attr-defined]

    @property
    def num_pilot(self) -> int:
        """Particles of the pilot: as many as chains, but at least 64 and at most 512."""
        low, high = _PILOT_PARTICLES
        return min(max(self.num_chains, low), high)

    @property
    def num_evaluations(self) -> Cost:
        """Cost of a run, its pilot included."""
        return self.count(self.betas.shape[0] - 1)

    def count(self, num_steps: int, with_pilot: bool = True) -> Cost:
        """Return what the first `num_steps` steps cost; the pilot has made all of its steps before the first."""
        moves = self.num_chains * num_steps * self.kernel.num_steps * self.kernel.cost
        total = self.kernel.start_cost(self.num_chains) + moves
        if with_pilot and self.kernel.needs_fit:
            total += self._pilot.cost(self.kernel, self.num_pilot, self.betas.shape[0] - 1)
        return total


def lower_bound(log_weights: Float[AnyArray, " n"], num_samples: int = 1) -> Scalar:
    """Stochastic lower bound on the log evidence from the weights of independent chains.

    Args:
        log_weights: Those of an `AIS` result.
        num_samples: 1 is the mean log weight. More average that many weights under the log, which is tighter (Burda,
            Grosse and Salakhutdinov, 2016). Chains that do not fill a group are left out.

    Its expectation is below the log evidence, a single value need not be.

    Returns:
        The bound, one number.

    Examples:
        >>> import numpy as np
        >>> float(lower_bound(np.log([1.0, 4.0])))  # the mean of the logs
        0.6931471805599453
    """
    num = log_weights.shape[0]
    if not 1 <= num_samples <= num:
        raise ValueError(f"`num_samples` must lie between 1 and the number of chains, {num}, got {num_samples}.")
    groups = log_weights[: num // num_samples * num_samples].reshape(-1, num_samples)
    return log_mean_exp(groups).mean()
