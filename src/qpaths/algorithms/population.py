"""The particles of a run: reweighted, resampled, and moved by a kernel that is fitted to them."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from .._numerics import log_ess, log_mean_exp
from .._types import PRNGKey, Scalar, ScalarLike
from ..estimators import Lag, dominance
from ..kernels import AbstractKernel, Particle
from ..kernels.base import FlatPath
from ..resampling import offspring_variance, resample
from ..results import Status


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
    lag: Lag
    """How far the particles lag behind the path."""
    params: Any
    """Parameters of the kernel at the current beta; `Halves` where the halves of the particles have their own."""
    fault: Fault

    @property
    def log_evidence(self) -> Scalar:
        return self.log_offset + log_mean_exp(self.log_weights)


class Halves(NamedTuple):
    """Parameters of the kernel for the first and for the second half of the particles, along the first axis."""

    params: Any

    @property
    def mean(self) -> Any:
        """One set of parameters for all particles."""
        return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), self.params)


class Population(eqx.Module):
    """How particles are carried from one beta to the next.

    `threshold` is the share of the particles below which the ESS calls for resampling: 1 at every step, 0 never; None
    never either, known beforehand, so that nothing of it is compiled. With `chain_length` P > 1 the run is waste-free
    (Dau and Chopin, 2022): one particle in P is resampled and grows a chain of P states, all of which are kept.
    `chunk_size` bounds how many particles are moved at once; the numbers do not depend on it, because keys are folded
    by stage and particle.

    With `cross_fit` the kernel that moves one half of the particles is fitted to the other: a particle that steers its
    own moves biases the evidence, by about the number of fitted parameters over the number of particles. An odd
    number of particles is fitted as a whole.
    """

    scheme: str = eqx.field(static=True, default="systematic")
    threshold: ScalarLike | None = 1.0
    chain_length: int = eqx.field(static=True, default=1)
    chunk_size: int | None = eqx.field(static=True, default=None)
    cross_fit: bool = eqx.field(static=True, default=False)

    def num_fits(self, kernel: AbstractKernel[Any], num_particles: int) -> int:
        """How often the kernel is fitted at each beta: to both halves of the particles, or to all."""
        even = num_particles // self.chain_length % 2 == 0
        return 2 if self.cross_fit and kernel.needs_fit and even else 1

    def each(self, function: Any, *arrays: Any) -> Any:
        """`vmap`, in chunks where asked."""
        if self.chunk_size is None or self.chunk_size >= jax.tree.leaves(arrays)[0].shape[0]:
            return jax.vmap(function)(*arrays)
        return jax.lax.map(lambda args: function(*args), arrays, batch_size=self.chunk_size)

    def each_half(self, function: Any, params: Any, *arrays: Any) -> Any:
        """`function(params, *arrays)` on both halves of the arrays with their own parameters, in chunks where asked."""
        half = jax.tree.leaves(arrays)[0].shape[0] // 2
        # Where chunks fill the halves they are all made in one loop: a loop in a loop would hold its results twice.
        num_parts = 1 if self.chunk_size is None or half % self.chunk_size else half // self.chunk_size
        parts = jax.tree.map(lambda leaf: leaf.reshape(2 * num_parts, -1, *leaf.shape[1:]), arrays)

        def of_part(inputs: Any) -> Any:
            number, arrays = inputs
            return function(jax.tree.map(lambda leaf: leaf[number], params), *arrays)

        if self.chunk_size is None:
            results = jax.vmap(function)(params, *parts)
        else:
            results = jax.lax.map(of_part, (jnp.repeat(jnp.arange(2), num_parts), parts))
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)

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
        families, lag = jnp.arange(num), Lag(zero, zero, zero, zero)
        state = State(zero, none, particles, log_weights, zero, families, none, zero, zero, zero, lag, params, fault)
        if params is not None:
            return state
        return state._replace(params=self.fit(flat, kernel, state, jnp.asarray(num // 2), key))

    def reweight(self, state: State, new_beta: Scalar, increments: Float[Array, " n"]) -> State:
        """Multiply in the incremental weights."""
        log_weights = jnp.where(state.log_weights == -jnp.inf, -jnp.inf, state.log_weights + increments)
        collapsed = jnp.all(log_weights == -jnp.inf)[None]
        stage = state.stage + 1
        return state._replace(
            beta=new_beta,
            stage=stage,
            log_weights=log_weights,
            lag=state.lag.step(new_beta - state.beta),
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

    def resample(self, state: State, key: PRNGKey, ess: Scalar) -> tuple[State, Array]:
        """Resample where the ESS has fallen below the threshold; waste-free runs keep one particle per chain.

        Also the number of the old particle with which the second half of the new ones begins.
        """
        num = state.log_weights.shape[0] // self.chain_length
        if self.threshold is None:
            return state, jnp.asarray(num // 2, int)

        def renew(state: State) -> tuple[State, Array]:
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
            ), indices[num // 2]

        if self.chain_length > 1:
            return renew(state)
        # A population without weight cannot be resampled; the fault says so, and the run goes on harmlessly.
        wanted = (ess <= self.threshold * num * (1 + 1e-6)) & (ess > 0) & (self.threshold > 0)
        return jax.lax.cond(wanted, renew, lambda state: (state, jnp.asarray(num // 2, int)), state)

    def fit(self, flat: FlatPath, kernel: AbstractKernel[Any], state: State, split: Array, key: PRNGKey) -> Any:
        """Parameters of the kernel from the weighted particles; with `cross_fit` from those on each side of `split`.

        Copies of a particle are neighbours, so that a cut keeps families together; where the second half of the
        resampled particles begins, it leaves half of the weight on each side.
        """

        def fit(log_weights: Array, key: PRNGKey, previous: Any) -> Any:
            return kernel.fit(flat, state.beta, state.particles, log_weights, key, previous)

        def fit_to(inputs: Any) -> Any:
            chosen, key, previous = inputs
            log_weights = jnp.where(chosen, state.log_weights, -jnp.inf)
            # After a collapse of the weights half of them would tell too little, and bias is the least of the troubles.
            enough = jnp.exp(log_ess(log_weights)) > 2 * state.particles.position.shape[1]
            return fit(jnp.where(enough, log_weights, state.log_weights), key, previous)

        num = state.log_weights.shape[0]
        if self.num_fits(kernel, num) == 1:
            return fit(state.log_weights, key, state.params)
        is_late = jnp.arange(num) >= split
        previous = None if state.params is None else state.params.params
        # One after the other: together they would hold twice the memory.
        return Halves(jax.lax.map(fit_to, (jnp.stack([is_late, ~is_late]), jax.random.split(key), previous)))

    def move(
        self, flat: FlatPath, kernel: AbstractKernel[Any], state: State, key: PRNGKey, params: Any
    ) -> tuple[State, Scalar]:
        """Move every particle by the kernel at the current beta; also the mean acceptance."""
        keys = jax.random.split(key, state.log_weights.shape[0])
        move = kernel.move if self.chain_length == 1 else functools.partial(kernel.trajectory, num=self.chain_length)

        def move_by(params: Any, particles: Particle, keys: Array) -> Any:
            return self.each(lambda p, k: move(flat, state.beta, p, k, params), particles, keys)

        if isinstance(params, Halves):
            particles, info = self.each_half(move_by, params.params, state.particles, keys)
        else:
            particles, info = move_by(params, state.particles, keys)
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
