"""Sequential Monte Carlo."""

from typing import Any

import equinox as eqx

from ..annealing import Annealing, Population, State, begin
from ..core import (
    Cost,
    RandomKey,
    Scalar,
    ScalarLike,
    check_chunk_size,
    check_num,
    is_concrete,
    is_traced,
    namespace,
    quiet,
)
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..recipe import check_parts
from ..resampling import check_scheme
from ..results import Result, Stats
from ..rows import Devices, as_devices, check_shares, on_host, stream_for
from ..schedules import AbstractSchedule
from ..stats import dominance, genealogy_se
from .base import AbstractAnnealer, raise_fault


class SMC(AbstractAnnealer):
    """Sequential Monte Carlo (Del Moral, Doucet and Jasra, 2006): a population that is reweighted, resampled and moved.

    Args:
        num_particles: Particles of the population.
        schedule: A fixed schedule, or `AdaptiveSchedule`, which cannot run under `jax.jit`.
        kernel: Moves the particles at each beta.
        resampling: `"systematic"`, `"stratified"`, `"residual"` or `"multinomial"`.
        threshold: Resample where the effective sample size is at most this share of the particles; 1 is at every step.
        chain_length: P > 1 makes the run waste-free (Dau and Chopin, 2022). One particle in P is resampled, and all P
            states of the chain that it grows are kept, `num_steps` transitions apart.
        chunk_size: The most particles that are moved at once, for memory. The numbers do not depend on it.
        cross_fit: Whether the kernel that moves one half of the particles is fitted to the other half. A kernel that is
            fitted to the particles that it moves biases the evidence, by about the number of its parameters over the
            number of particles. All particles are used if their number is odd, or if a half has an ESS below twice the
            dimension. False always uses all, as most published runs do.
        moves_last: False ends a run without moves at beta = 1. The samples are then weighted, and the evidence is the
            same at a lower cost.
        devices: A number, or the devices themselves, which share the particles; see `AIS`.

    With a fixed schedule and cross-fitting the estimate of the evidence is unbiased. Too few moves leave the particles
    behind the path; `stats["log_evidence_lag"]` estimates by how much.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.SMC(500, qp.AdaptiveSchedule(), qp.HMC(num_leapfrog=3)).run(path, key=jax.random.key(0))
        >>> bool(abs(result.log_evidence - -2.4094) < 4 * result.log_evidence_se)
        True
    """

    num_particles: int = eqx.field(static=True)
    schedule: AbstractSchedule
    kernel: AbstractKernel[Any]
    resampling: str = eqx.field(static=True, default="systematic")
    threshold: ScalarLike = 1.0
    chain_length: int = eqx.field(static=True, default=1)
    chunk_size: int | None = eqx.field(static=True, default=None)
    cross_fit: bool = eqx.field(static=True, default=True)
    moves_last: bool = eqx.field(static=True, default=True)
    devices: Devices = eqx.field(static=True, default=None, converter=as_devices)

    def __check_init__(self) -> None:
        check_num("num_particles", self.num_particles)
        check_parts(self.kernel, self.schedule)
        check_chunk_size(self.chunk_size)
        check_num("chain_length", self.chain_length, smallest=1)
        check_scheme(self.resampling)
        if self.num_particles % self.chain_length or self.num_particles < 2 * self.chain_length:
            raise ValueError(
                f"`chain_length` must divide `num_particles` and leave two chains, got {self.chain_length} and "
                f"{self.num_particles}."
            )
        check_shares("num_particles", self.num_particles, self.devices, self.chain_length)
        if is_concrete(self.threshold):
            if not 0 <= self.threshold <= 1:
                raise ValueError(
                    f"`threshold` must lie in [0, 1], got {self.threshold}: it is a share of the particles."
                )
            if self.chain_length > 1 and self.threshold != 1:
                raise ValueError(
                    f"`threshold` must be 1 for a waste-free run, got {self.threshold}: it always resamples."
                )

    @property
    def population(self) -> Population:
        return Population(
            self.resampling,
            self.threshold,
            self.chain_length,
            self.chunk_size,
            self.cross_fit,
            self.moves_last,
            self.devices,
        )

    def begin(self, path: AbstractPath[Any], *, key: RandomKey) -> tuple[Annealing, State]:
        """The settings of the run and its population at beta = 0."""
        _, start, run = stream_for(key, path, self, pilots=self.devices is not None).split(
            3
        )  # as AIS, so that SMC that never resamples is AIS
        annealing, state = begin(
            path, self.schedule, self.kernel, self.population, stream=run, draw=(start, self.num_particles)
        )
        raise_fault(annealing.evaluator, state.fault, [0.0])
        return annealing, state

    def finish(self, annealing: Annealing, state: State, stats: Stats) -> Result:
        """The result of a run that has reached its last beta, or a fault."""
        xp = namespace(stats["beta"], state.beta)
        betas = xp.concatenate([xp.zeros(1, state.beta.dtype), stats["beta"]])
        raise_fault(annealing.evaluator, state.fault, betas)
        return Result(
            log_evidence=state.log_evidence,
            log_evidence_se=_standard_error(annealing.population, state),
            samples=annealing.evaluator.layout.points(on_host(state.particles.position)),
            log_weights=state.log_offset + state.log_weights,
            betas=betas,
            stats=stats,
            status=state.fault.status,
            num_evaluations=self.population.cost(
                self.kernel, self.num_particles, betas.shape[0] - 1, is_over=is_traced(betas) or bool(betas[-1] >= 1)
            ),
            algorithm="SMC",
        )

    def count(self, num_steps: int) -> Cost:
        """Evaluations of a run that reaches beta = 1 with its last step."""
        return self.population.cost(self.kernel, self.num_particles, num_steps)


@quiet()
def _standard_error(population: Population, state: State) -> Scalar:
    """From the families, and from the lag where that says more; a collapse of the weights comes on top of either."""
    xp = namespace(state.log_weights)
    stage_variance = state.stage_variance + population.variance_of_mean(state)
    families = genealogy_se(state.log_weights, state.ancestors, state.resampling_variance, stage_variance)
    collapse = xp.sqrt(state.dominance + dominance(state.log_weights))
    return xp.hypot(xp.maximum(families, state.lag.standard_error(stage_variance)), collapse)
