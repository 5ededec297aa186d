"""The one annealing step, and the loop over it that every annealing algorithm uses."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float, Int

from .._numerics import log_ess, log_mean_exp
from .._types import Point, PRNGKey, Scalar, ScalarLike
from ..estimators import derivative_moments, dominance
from ..kernels import AbstractKernel, Particle
from ..kernels.base import FlatPath
from ..paths import AbstractPath
from ..resampling import offspring_variance, resample
from ..results import Status
from ..schedules import next_beta


class Fault(NamedTuple):
    """The first thing that went wrong: what, at which stage, and at which point."""

    status: Int[Array, ""]
    stage: Int[Array, ""]
    position: Array


class State(NamedTuple):
    """All that a run carries from one beta to the next."""

    beta: Scalar
    stage: Int[Array, ""]
    particles: Particle
    log_weights: Float[Array, " n"]
    """Weights since the last resampling."""
    log_offset: Scalar
    """Log evidence up to the last resampling."""
    ancestors: Int[Array, " n"]
    num_resamplings: Int[Array, ""]
    stage_variance: Scalar
    """Sum over the resampling steps of the relative variance of the mean weight, between independent chains."""
    dominance: Scalar
    """Sum over the resampling steps of the dominance of the heaviest particle."""
    resampling_variance: Scalar
    """Sum over the resampling steps of the variance that resampling alone adds to the shares of the families."""
    params: Any
    """Parameters of the kernel at the current beta."""
    fault: Fault

    @property
    def log_evidence(self) -> Scalar:
        return self.log_offset + log_mean_exp(self.log_weights)


class Population(eqx.Module):
    """How particles are carried from one beta to the next.

    `threshold` is the share of the particles below which the ESS calls for resampling: 1 at every step, 0 never; None
    never either, known beforehand, so that nothing of it is compiled. With `chain_length` P > 1 the run is waste-free
    (Dau and Chopin, 2022): one particle in P is resampled and grows a chain of P states, all of which are kept.
    `chunk_size` bounds how many particles are moved at once; the numbers do not depend on it, because keys are folded
    by stage and particle.
    """

    scheme: str = eqx.field(static=True, default="systematic")
    threshold: ScalarLike | None = 1.0
    chain_length: int = eqx.field(static=True, default=1)
    chunk_size: int | None = eqx.field(static=True, default=None)

    def each(self, function: Any, *arrays: Any) -> Any:
        """`vmap`, in chunks where asked."""
        if self.chunk_size is None or self.chunk_size >= jax.tree.leaves(arrays)[0].shape[0]:
            return jax.vmap(function)(*arrays)
        return jax.lax.map(lambda args: function(*args), arrays, batch_size=self.chunk_size)

    def start(
        self, flat: FlatPath, kernel: AbstractKernel[Any], positions: Float[Array, "n d"], key: PRNGKey, params: Any
    ) -> State:
        """Particles of weight one at the given positions; the kernel is fitted to them where `params` is None."""
        particles = self.each(lambda x: flat.particle(x, with_slopes=kernel.with_slopes), positions)
        base, target = jax.vmap(lambda f: (flat.path.log_density_from(0.0, f), flat.path.log_density_from(1.0, f)))(
            particles.features
        )
        invalid = ~jnp.isfinite(base) | jnp.isnan(target) | (target == jnp.inf)
        num, zero, none = positions.shape[0], jnp.zeros((), base.dtype), jnp.zeros((), int)
        log_weights = jnp.zeros(num, base.dtype)
        fault = first_fault(
            Fault(none, none, jnp.zeros_like(positions[0])), Status.INVALID_START, none, invalid, positions
        )
        if params is None:
            params = kernel.fit(flat, zero, particles, log_weights, key, None)
        return State(zero, none, particles, log_weights, zero, jnp.arange(num), none, zero, zero, zero, params, fault)

    def reweight(self, flat: FlatPath, state: State, new_beta: ScalarLike) -> State:
        """Multiply in the path's own incremental weights."""
        new_beta = jnp.asarray(new_beta, state.beta.dtype)  # float64 betas must not widen a float32 run
        increments = jax.vmap(lambda f: flat.path.log_ratio(state.beta, new_beta, f))(state.particles.features)
        log_weights = jnp.where(state.log_weights == -jnp.inf, -jnp.inf, state.log_weights + increments)
        collapsed = jnp.all(log_weights == -jnp.inf)[None]
        stage = state.stage + 1
        return state._replace(
            beta=new_beta,
            stage=stage,
            log_weights=log_weights,
            fault=first_fault(state.fault, Status.COLLAPSED, stage, collapsed, state.particles.position[:1]),
        )

    def variance_of_mean(self, state: State) -> Scalar:
        """Relative variance of the mean weight between chains; before any resampling every particle is its own."""
        weights = jnp.exp(state.log_weights - log_mean_exp(state.log_weights))
        per_particle = jnp.var(weights, ddof=1) / weights.size
        if self.chain_length == 1:
            return per_particle
        chains = jnp.mean(weights.reshape(-1, self.chain_length), axis=1)
        return jnp.where(state.num_resamplings == 0, per_particle, jnp.var(chains, ddof=1) / chains.size)

    def resample(self, state: State, key: PRNGKey, ess: Scalar) -> State:
        """Resample where the ESS has fallen below the threshold; waste-free runs keep one particle per chain."""
        if self.threshold is None:
            return state
        num = state.log_weights.shape[0] // self.chain_length

        def renew(state: State) -> State:
            indices = resample(self.scheme, key, state.log_weights, num)
            return state._replace(
                particles=jax.tree.map(lambda leaf: leaf[indices], state.particles),
                log_weights=jnp.zeros(num, state.log_weights.dtype),
                log_offset=state.log_evidence,
                ancestors=state.ancestors[indices],
                num_resamplings=state.num_resamplings + 1,
                stage_variance=state.stage_variance + self.variance_of_mean(state),
                dominance=state.dominance + dominance(state.log_weights),
                resampling_variance=state.resampling_variance
                + offspring_variance(self.scheme, state.log_weights, state.ancestors, num),
            )

        if self.chain_length > 1:
            return renew(state)
        # A population without weight cannot be resampled; the fault says so, and the run goes on harmlessly.
        wanted = (ess <= self.threshold * num * (1 + 1e-6)) & (ess > 0) & (self.threshold > 0)
        return jax.lax.cond(wanted, renew, lambda state: state, state)

    def move(
        self, flat: FlatPath, kernel: AbstractKernel[Any], state: State, key: PRNGKey, params: Any
    ) -> tuple[State, Scalar]:
        """Move every particle by the kernel at the current beta; also the mean acceptance."""
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(state.log_weights.shape[0]))
        move = kernel.move if self.chain_length == 1 else functools.partial(kernel.trajectory, num=self.chain_length)
        particles, info = self.each(lambda p, k: move(flat, state.beta, p, k, params), state.particles, keys)
        state = state._replace(
            particles=particles,
            params=params,
            fault=first_fault(state.fault, Status.INVALID_PROPOSAL, state.stage, info.invalid, info.proposal),
        )
        if self.chain_length > 1:
            state = state._replace(
                particles=jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), particles),
                log_weights=jnp.repeat(state.log_weights, self.chain_length),
                ancestors=jnp.repeat(state.ancestors, self.chain_length),
            )
        return state, jnp.mean(info.acceptance)


def first_fault(fault: Fault, status: Status, stage: Array, wrong: Bool[Array, " n"], positions: Array) -> Fault:
    """The fault already there, or else the first of `wrong`."""
    is_new = (fault.status == Status.OK) & jnp.any(wrong)
    new = Fault(jnp.full((), int(status)), stage, positions[jnp.argmax(wrong)])
    return jax.tree.map(lambda a, b: jnp.where(is_new, a, b), new, fault)


def anneal_step(
    flat: FlatPath,
    kernel: AbstractKernel[Any],
    population: Population,
    state: State,
    new_beta: ScalarLike,
    key: PRNGKey,
    params: Any = None,
) -> tuple[State, dict[str, Array]]:
    """From one beta to the next: weights, parameters of the kernel, resampling, moves.

    `params` are frozen parameters of the kernel; without them it is fitted to the weighted particles. Returns the state
    and the statistics of the stage.
    """
    fit_key, resample_key, move_key = jax.random.split(jax.random.fold_in(key, state.stage), 3)
    state = population.reweight(flat, state, new_beta)
    ess = jnp.exp(log_ess(state.log_weights))
    log_evidence = state.log_evidence
    if params is None:
        params = kernel.fit(flat, state.beta, state.particles, state.log_weights, fit_key, state.params)
    state = population.resample(state, resample_key, ess)
    state, acceptance = population.move(flat, kernel, state, move_key, params)
    moments = derivative_moments(flat.path, state.beta, state.particles.features, state.log_weights)
    return state, {
        "beta": state.beta,
        "ess": ess,
        "acceptance": acceptance,
        "step_size": kernel.step_size_of(params),
        "log_evidence": log_evidence,
        "derivative_mean": moments.mean,
        "derivative_variance": moments.variance,
        "derivative_slope": moments.slope,
    }


class Annealing(eqx.Module):
    """A run under way: everything but the state, which changes.

    `betas` is None where the schedule is adaptive, and `target_ess` then says how. `params`, stacked along the steps,
    are frozen parameters of the kernel; None has it fitted on the way. `example` fixes the shape of a point.
    """

    path: AbstractPath[Any]
    kernel: AbstractKernel[Any]
    population: Population
    betas: Float[Array, " num"] | None
    target_ess: ScalarLike | None
    params: Any
    example: Point
    key: PRNGKey

    @property
    def flat(self) -> FlatPath:
        return FlatPath(self.path, ravel_pytree(self.example)[1])

    def params_at(self, step: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[step], self.params)

    def step(self, state: State) -> tuple[State, dict[str, Array]]:
        """From the state's beta to the next."""
        if self.betas is None:
            features = state.particles.features
            new_beta = next_beta(
                lambda b: jax.vmap(lambda f: self.path.log_ratio(state.beta, b, f))(features),
                state.beta,
                state.log_weights,
                self.target_ess,
            )
        else:
            new_beta = self.betas[state.stage + 1]
        params = self.params_at(state.stage)
        return anneal_step(self.flat, self.kernel, self.population, state, new_beta, self.key, params)


@jax.jit
def begin(annealing: Annealing, points: Point) -> State:
    """The population at exact draws from the base."""
    positions = jax.vmap(lambda point: ravel_pytree(point)[0])(points)
    key = jax.random.fold_in(annealing.key, 2**32 - 1)  # the steps fold in their number
    return annealing.population.start(annealing.flat, annealing.kernel, positions, key, annealing.params_at(0))


@jax.jit
def advance(annealing: Annealing, state: State) -> tuple[State, dict[str, Array]]:
    """One step, for loops in Python."""
    return annealing.step(state)


@functools.partial(jax.jit, static_argnames="keep_params")
def complete(annealing: Annealing, state: State, keep_params: bool = False) -> tuple[State, dict[str, Array], Any]:
    """All steps of a fixed schedule; with `keep_params`, also the kernel's parameters at each of them."""
    assert annealing.betas is not None

    def step(state: State, _: None) -> tuple[State, tuple[dict[str, Array], Any]]:
        state, stats = annealing.step(state)
        return state, (stats, state.params if keep_params else None)

    state, (stats, params) = jax.lax.scan(step, state, None, length=annealing.betas.shape[0] - 1)
    return state, stats, params


@jax.jit
def points_of(annealing: Annealing, state: State) -> Point:
    """The particles as the user's points."""
    return jax.vmap(annealing.flat.unravel)(state.particles.position)
