"""A world of a few states in which everything about an annealing run is plain matrix algebra."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from .._types import PRNGKey, ScalarLike
from ..algorithms.base import Annealing, Population, begin, complete, points_of
from ..densities import Density
from ..kernels import AbstractKernel, Particle
from ..kernels.base import Evaluations, FlatPath, Info, accept
from ..paths import AbstractPath


class GridWorld(eqx.Module):
    """States 0, 1, ..., n - 1 in a row, with tables for the base (normalised) and the target (not).

    The default target has two modes, is skewed, and is `-inf` on some states. `log_evidence` is exact.
    """

    log_base: Float[Array, " n"]
    log_target: Float[Array, " n"]

    def __init__(self, log_base: Any = None, log_target: Any = None):
        states = np.arange(25)
        if log_base is None:
            log_base = -0.5 * ((states - 6) / 4.0) ** 2
        if log_target is None:
            log_target = np.logaddexp(2 - 0.8 * np.abs(states - 16), 1 - 0.5 * np.abs(states - 4))
            log_target = np.where(np.isin(states, [0, 9, 24]), -np.inf, log_target)
        self.log_base = jax.nn.log_softmax(jnp.asarray(log_base, float))
        self.log_target = jnp.asarray(log_target, float)

    @property
    def log_evidence(self) -> Float[Array, ""]:
        return jax.nn.logsumexp(self.log_target)

    @property
    def base(self) -> Density:
        """A point is a vector whose first entry is the state."""
        return Density(
            jax.tree_util.Partial(_look_up, self.log_base),
            jax.tree_util.Partial(lambda table, key: jax.random.categorical(key, table)[None] * 1.0, self.log_base),
        )

    @property
    def target(self) -> Density:
        return Density(jax.tree_util.Partial(_look_up, self.log_target))

    def transition_matrix(self, path: AbstractPath[Any], beta: ScalarLike) -> Float[Array, "n n"]:
        """The matrix of `GridMetropolis` at `beta`: propose a neighbour, accept by the path's density."""
        num = self.log_base.size
        states = jnp.arange(num, dtype=float)[:, None]
        log_density = jax.vmap(lambda x: path.log_density(beta, x))(states)
        rows = jnp.arange(num)
        matrix = jnp.zeros((num, num))
        for step in (-1, 1):
            to = rows + step
            possible = (to >= 0) & (to < num)
            ratio = log_density[jnp.clip(to, 0, num - 1)] - log_density
            probability = jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
            matrix = matrix.at[rows, jnp.clip(to, 0, num - 1)].add(jnp.where(possible, 0.5 * probability, 0.0))
        return matrix + jnp.diag(1 - jnp.sum(matrix, axis=1))

    def weight_moments(self, path: AbstractPath[Any], betas: Any) -> tuple[Array, Array]:
        """Mean and variance of the AIS weight along `path`, by matrix algebra."""
        states = jnp.arange(self.log_base.size, dtype=float)[:, None]
        features = jax.vmap(path.features)(states)
        first = second = jnp.exp(self.log_base)
        for beta, new_beta in itertools.pairwise(betas):
            ratio = jnp.exp(jax.vmap(lambda f, b=beta, n=new_beta: path.log_ratio(b, n, f))(features))
            ratio = jnp.where(jnp.isnan(ratio), 0.0, ratio)
            matrix = self.transition_matrix(path, new_beta)
            first, second = (first * ratio) @ matrix, (second * ratio**2) @ matrix
        mean = jnp.sum(first)
        return mean, jnp.sum(second) - mean**2

    def expected_weight(self, path: AbstractPath[Any], betas: Any, kernel: AbstractKernel[Any] | None = None) -> Array:
        """The expected AIS weight, from the library's own annealing run over every possible trajectory.

        Nothing is random: the chains run through all sequences of states, the kernel reports the probability of each
        move, and the weights are summed with the probabilities. It must be `exp(log_evidence)` for every path.
        """
        betas = jnp.asarray(betas)
        num, num_moves = self.log_base.size, betas.size - 2  # the last move is after the last weight
        trajectories = np.array(list(itertools.product(range(num), repeat=num_moves + 1)), float)
        points = jnp.column_stack([trajectories[:, 0], np.arange(len(trajectories)), np.zeros(len(trajectories))])
        kernel = _Scripted(1, jnp.asarray(trajectories)) if kernel is None else kernel
        annealing = Annealing(
            path,
            kernel,
            Population(threshold=0.0),
            betas,
            None,
            (jnp.arange(betas.size - 1), betas[:-1]),
            jnp.zeros(3),
            jax.random.key(0),
        )
        state = complete(annealing, begin(annealing, points))[0]
        end = points_of(annealing, state)
        start = self.log_base[trajectories[:, 0].astype(int)]
        return jnp.sum(jnp.exp(start + end[:, 2] + state.log_weights))


def _look_up(table: Float[Array, " n"], x: Float[Array, " k"]) -> Float[Array, ""]:
    state = x[0].astype(int)
    return jnp.where((x[0] >= 0) & (x[0] < table.size), table[state], -jnp.inf)


class GridMetropolis(AbstractKernel[None]):
    """Metropolis on the grid: a neighbour on either side, with equal probability."""

    num_steps: int = eqx.field(static=True, default=1)

    with_slopes = False
    needs_fit = False
    evaluations = Evaluations(values=1, gradients=0)

    def fit(self, path: Any, beta: Any, particles: Any, log_weights: Any, key: Any, previous: Any) -> None:
        return None

    def randomness(self, key: PRNGKey, position: Float[Array, " k"], num: int) -> tuple[Array, Array]:
        direction_key, uniform_key = jax.random.split(key)
        return jax.random.rademacher(direction_key, (num,), float), jax.random.uniform(uniform_key, (num,))

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: None
    ) -> tuple[Particle, Info]:
        step, uniform = randomness
        proposal = path.particle(particle.position.at[0].add(step), with_slopes=False)
        return accept(uniform, path, beta, particle, proposal, 0.0)


class _Scripted(AbstractKernel[tuple[Array, Array]]):
    """Follows the trajectory named in the second entry of the position and adds up its log probability in the third.

    `params` are the number of the step and the beta before it (which only a wrong kernel would use).
    """

    num_steps: int = eqx.field(static=True)
    trajectories: Float[Array, "m steps"]

    with_slopes = False
    needs_fit = False
    evaluations = Evaluations(values=1, gradients=0)

    def fit(self, path: Any, beta: Any, particles: Any, log_weights: Any, key: Any, previous: Any) -> Any:
        raise AssertionError("the script is given")

    def randomness(self, key: PRNGKey, position: Float[Array, " k"], num: int) -> Array:
        return jnp.zeros(num)

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: tuple[Array, Array]
    ) -> tuple[Particle, Info]:
        state, index, log_probability = particle.position
        step = params[0]
        last = step + 1 >= self.trajectories.shape[1]
        new_state = self.trajectories[index.astype(int), jnp.minimum(step + 1, self.trajectories.shape[1] - 1)]
        log_move = _log_metropolis(path, beta, particle, state, new_state)
        position = jnp.array([jnp.where(last, state, new_state), index, log_probability + jnp.where(last, 0, log_move)])
        moved = path.particle(position, with_slopes=False)
        return moved, Info(jnp.ones(()), jnp.zeros((), bool), position)


def _log_metropolis(path: FlatPath, beta: ScalarLike, particle: Particle, state: Array, new_state: Array) -> Array:
    """Log probability of the move of `GridMetropolis` from one state to another."""
    here = path.log_density(beta, particle)

    def probability(to: Array) -> Array:
        there = path.log_density(beta, path.particle(particle.position.at[0].set(to), with_slopes=False))
        return 0.5 * jnp.where(jnp.isnan(there - here), 0.0, jnp.exp(jnp.minimum(there - here, 0.0)))

    down, up = probability(state - 1), probability(state + 1)
    difference = new_state - state
    choices = [difference == -1, difference == 1, difference == 0]
    return jnp.log(jnp.select(choices, [down, up, 1 - down - up], 0.0))
