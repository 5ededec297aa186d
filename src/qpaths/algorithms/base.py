"""The one annealing step, and the loop over it that every annealing algorithm uses."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from .._numerics import log_ess
from .._types import Point, PRNGKey, ScalarLike
from ..estimators import derivative_moments, step_length
from ..kernels import AbstractKernel
from ..kernels.base import FlatPath
from ..paths import AbstractPath
from ..schedules import next_beta
from .population import Fault as Fault
from .population import Halves as Halves
from .population import Population as Population
from .population import State as State
from .population import first_fault as first_fault


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
    new_beta = jnp.asarray(new_beta, state.beta.dtype)  # float64 betas must not widen a float32 run
    increments = jax.vmap(lambda f: flat.path.log_ratio(state.beta, new_beta, f))(state.particles.features)
    length = step_length(state.log_weights, increments)
    weighted = population.reweight(state, new_beta, increments)
    ess = jnp.exp(log_ess(weighted.log_weights))
    resampled, split = population.resample(weighted, resample_key, ess)
    if params is None:
        params = population.fit(flat, kernel, weighted, split, fit_key)
    state, acceptance = population.move(flat, kernel, resampled, move_key, params)
    before, after = _derivatives(flat, resampled), _derivatives(flat, state)
    after = jnp.mean(after.reshape(before.size, -1), axis=1)  # over the states of a chain
    state = state._replace(lag=state.lag.moved(before, after, resampled.log_weights))
    moments = derivative_moments(flat.path, state.beta, state.particles.features, state.log_weights)
    return state, {
        "beta": state.beta,
        "ess": ess,
        "acceptance": acceptance,
        "step_size": _step_size(kernel, params),
        "log_evidence": weighted.log_evidence,
        "log_evidence_lag": state.lag.log_evidence,
        "increment": jnp.mean(increments),
        "increment_variance": jnp.var(increments, ddof=1),
        "length": length,
        "num_ancestors": jnp.sum(jnp.zeros(state.ancestors.size, int).at[state.ancestors].set(1)),
        "derivative_mean": moments.mean,
        "derivative_variance": moments.variance,
        "derivative_slope": moments.slope,
    }


def _derivatives(flat: FlatPath, state: State) -> Float[Array, " n"]:
    return jax.vmap(lambda f: flat.path.derivative_from(state.beta, f))(state.particles.features)


def _step_size(kernel: AbstractKernel[Any], params: Any) -> Array:
    if isinstance(params, Halves):
        return jnp.mean(jax.vmap(kernel.step_size_of)(params.params))
    return kernel.step_size_of(params)


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
