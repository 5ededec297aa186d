"""The protocol of the code released with the paper, whose kernel adapts inside the weighted run."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from .._numerics import log_ess, log_mean_exp
from .._types import Point, PRNGKey
from ..algorithms.ais import AIS
from ..algorithms.bdmc import bounds_of, one_per_chain
from ..algorithms.checks import count, draw_points, example_of
from ..estimators import importance_log_evidence
from ..kernels import HMC
from ..kernels.base import FlatPath, Particle
from ..kernels.gradient import LeapfrogParams
from ..paths import AbstractPath, Reversed
from ..results import BoundsResult, Result, Status
from ..schedules import AbstractFixedSchedule

_FIRST_STEP, _SMALLEST_STEP, _LARGEST_STEP = 0.01, 1e-4, 0.5
_FACTOR, _WANTED_ACCEPTANCE = 0.02, 0.65


class ReleasedProtocol(eqx.Module):
    """Forward and reverse annealing as in the released code: compare with it, and use `BDMC` for bounds.

    Hamiltonian Monte Carlo with unit masses. Each chain has a step size of its own, 0.01 at first, which after each
    transition is multiplied by 1.02 if more than 65 % of the chain's proposals so far were accepted and by 0.98 if not,
    and kept within [1e-4, 0.5]. The reverse run starts at 0.01 again. Because the kernel at a beta depends on the
    chain's past it does not leave the density there invariant, so the mean weight is biased and the bounds are not
    exact.
    """

    num_chains: int = eqx.field(static=True)
    schedule: AbstractFixedSchedule
    num_leapfrog: int = eqx.field(static=True, default=10)

    def __check_init__(self) -> None:
        AIS(self.num_chains, self.schedule, self.kernel)  # its checks are ours

    @property
    def kernel(self) -> HMC:
        return HMC(1, self.num_leapfrog, step_size=_FIRST_STEP, preconditioner="none", jitter=0.0)

    def run(self, path: AbstractPath[Any], target_samples: Point, *, key: PRNGKey) -> BoundsResult:
        """As `BDMC.run`."""
        points = one_per_chain(target_samples, example_of(path, key), self.num_chains)
        reverse = self.anneal(Reversed(path), points, key=jax.random.split(key)[1])
        return bounds_of(self.forward(path, key=key), reverse)

    def forward(self, path: AbstractPath[Any], *, key: PRNGKey) -> Result:
        """The chains from the base to the target alone, as they are in `run` with the same key."""
        forward_key = jax.random.split(key)[0]
        return self.anneal(path, draw_points(path, forward_key, self.num_chains), key=forward_key)

    def anneal(self, path: AbstractPath[Any], points: Point, *, key: PRNGKey) -> Result:
        """Chains from exact draws of the base, through the betas of the schedule or, for `Reversed`, back through."""
        betas = self.schedule.betas
        if isinstance(path, Reversed):
            betas = 1 - betas[::-1]
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(self.num_chains))
        chain = jax.vmap(lambda point, key: _chain(path, self.kernel, betas, point, key))
        samples, log_weights, accepted, step_sizes = chain(points, keys)
        log_evidence, standard_error = importance_log_evidence(log_weights[:, -1])
        stats = {
            "beta": betas[1:],
            "ess": jnp.exp(log_ess(log_weights, axis=0)),
            "acceptance": jnp.mean(accepted, axis=0),
            "step_size": jnp.mean(step_sizes, axis=0),
            "log_evidence": log_mean_exp(log_weights, axis=0),
        }
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=standard_error,
            samples=samples,
            log_weights=log_weights[:, -1],
            betas=betas,
            stats=stats,
            status=jnp.full((), int(Status.OK)),
            num_evaluations=count(self.kernel, self.num_chains, betas.shape[0] - 1, num_fits=0),
            algorithm="released protocol",
        )


def _chain(
    path: AbstractPath[Any], kernel: HMC, betas: Float[Array, " num"], point: Point, key: PRNGKey
) -> tuple[Point, Array, Array, Array]:
    """One chain: its end, and after each step its log weight, whether it moved, and its step size."""
    position, unravel = ravel_pytree(point)
    flat = FlatPath(path, unravel)
    betas = betas.astype(position.dtype)

    def step(carry: tuple[Particle, Array, Array, Array], stage: Array) -> Any:
        particle, log_weight, num_accepted, step_size = carry
        beta = betas[stage]
        log_weight = log_weight + path.log_ratio(betas[stage - 1], beta, particle.features)
        params = LeapfrogParams(jnp.ones_like(position), step_size)
        new, _ = kernel.move(flat, beta, particle, jax.random.fold_in(key, stage), params)
        accepted = jnp.any(new.position != particle.position)
        num_accepted = num_accepted + accepted
        grows = num_accepted > _WANTED_ACCEPTANCE * stage
        step_size = jnp.clip(step_size * jnp.where(grows, 1 + _FACTOR, 1 - _FACTOR), _SMALLEST_STEP, _LARGEST_STEP)
        step_size = step_size.astype(position.dtype)
        return (new, log_weight, num_accepted, step_size), (log_weight, accepted, step_size)

    particle = flat.particle(position, with_slopes=True)
    log_weight = jnp.zeros_like(path.log_density_from(0.0, particle.features))
    start = particle, log_weight, jnp.zeros((), int), jnp.full((), _FIRST_STEP, position.dtype)
    end, (log_weights, accepted, step_sizes) = jax.lax.scan(step, start, jnp.arange(1, betas.shape[0]))
    return unravel(end[0].position), log_weights, accepted, step_sizes
