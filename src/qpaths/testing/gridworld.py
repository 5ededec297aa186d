"""A world of a few states in which everything about an annealing run is plain matrix algebra."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ..annealing import Annealing, Population, State, anneal
from ..core import (
    AnyArray,
    Cost,
    Features,
    PRNGKey,
    PyTree,
    RealLike,
    Rows,
    Scalar,
    ScalarLike,
    Stream,
    StreamRows,
    Vector,
    namespace,
    quiet,
    stream_of,
    to_host,
)
from ..densities import Density
from ..kernels import AbstractKernel, Cloud, Info, accept
from ..paths import AbstractPath
from ..rows import Evaluator, HostDensities, Layout, Particles, TracedDensities


class GridWorld(eqx.Module):
    """States 0, 1, ..., n - 1 in a row, with tables for the base (normalized) and the target (not).

    The default target has two modes, is skewed, and is `-inf` on some states. `log_evidence` is exact.

    Args:
        log_base: Log probabilities of the states under the base, up to a constant.
        log_target: Log masses under the target; `-inf` is none.

    Everything about a run of annealed importance sampling (Neal, 2001) is matrix algebra here, so that tests need no
    tolerance for noise. It has one dimension and a fixed kernel.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> world = GridWorld()
        >>> path = qp.GeometricPath(world.base, world.target)
        >>> mean, _ = world.weight_moments(path, [0.0, 0.3, 1.0])
        >>> bool(abs(mean / np.exp(world.log_evidence) - 1) < 1e-4)  # weights are unbiased
        True
    """

    log_base: Float[Array, " n"]
    log_target: Float[Array, " n"]

    def __init__(self, log_base: AnyArray | None = None, log_target: AnyArray | None = None):
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
        return Density(jax.tree_util.Partial(_look_up, self.log_base), jax.tree_util.Partial(_draw, self.log_base))

    @property
    def target(self) -> Density:
        return Density(jax.tree_util.Partial(_look_up, self.log_target))

    def _features(self, path: AbstractPath[Any]) -> Features:
        states = jnp.arange(self.log_base.size, dtype=float)[:, None]
        return to_host(jax.vmap(path.features)(states))

    @quiet()
    def transition_matrix(self, path: AbstractPath[Any], beta: ScalarLike) -> Float[AnyArray, "n n"]:
        """The matrix of `GridMetropolis` at `beta`: propose a neighbor, accept by the path's density."""
        num = self.log_base.size
        log_density = np.asarray(path.log_density_from(beta, self._features(path)))
        matrix = np.zeros((num, num))
        for step in (-1, 1):
            here = np.arange(num)[max(0, -step) : num - max(0, step)]
            ratio = log_density[here + step] - log_density[here]
            matrix[here, here + step] = 0.5 * np.where(np.isnan(ratio), 0.0, np.exp(np.minimum(ratio, 0.0)))
        return matrix + np.diag(1 - np.sum(matrix, axis=1))

    @quiet()
    def weight_moments(self, path: AbstractPath[Any], betas: Sequence[float] | AnyArray) -> tuple[Scalar, Scalar]:
        """Mean and variance of the AIS weight along `path`, by matrix algebra."""
        features = self._features(path)
        first = second = np.exp(self.log_base)
        for beta, new_beta in itertools.pairwise(betas):
            ratio = np.exp(path.log_ratio(beta, new_beta, features))
            ratio = np.where(np.isnan(ratio), 0.0, ratio)
            matrix = self.transition_matrix(path, new_beta)
            first, second = (first * ratio) @ matrix, (second * ratio**2) @ matrix
        mean = np.sum(first)
        return mean, np.sum(second) - mean**2

    def expected_weight(
        self,
        path: AbstractPath[Any],
        betas: Sequence[float] | AnyArray,
        kernel: AbstractKernel[Any] | None = None,
        *,
        traced: bool = False,
    ) -> Scalar:
        """The expected AIS weight, from the library's own annealing run over every possible trajectory.

        Nothing is random: the chains run through all sequences of states, the kernel reports the probability of each
        move, and the weights are summed with the probabilities. It must be `exp(log_evidence)` for every path, on the
        host and in one compiled program.
        """
        betas = np.asarray(betas)
        num_moves = betas.size - 2  # the last move is after the last weight
        trajectories = np.array(list(itertools.product(range(self.log_base.size), repeat=num_moves + 1)), float)
        positions = np.column_stack([trajectories[:, 0], np.arange(len(trajectories)), np.zeros(len(trajectories))])
        kernel = Scripted(1, trajectories) if kernel is None else kernel
        run = jax.jit(_run, static_argnums=2) if traced else _run
        state = run((path, kernel, betas, positions), jax.random.key(0), traced)
        start = np.asarray(self.log_base)[trajectories[:, 0].astype(int)]
        return np.sum(np.exp(start + state.particles.position[:, 2] + state.log_weights))


def _run(parts: PyTree, key: Array, traced: bool) -> State:
    path, kernel, betas, positions = parts
    layout, stream = Layout.of(positions[0]), stream_of(key, host=not traced)
    evaluator = Evaluator.of(path, TracedDensities(layout) if traced else HostDensities(layout, with_slopes=False))
    population = Population(threshold=None)
    annealing = Annealing(evaluator, kernel, population, betas, None, 0, stream)
    return anneal(annealing, population.start(evaluator, kernel, positions, stream))[0]


def _look_up(table: Float[AnyArray, " n"], x: Float[AnyArray, " k"]) -> Scalar:
    state = x[0].astype(int)
    return jnp.where((x[0] >= 0) & (x[0] < table.size), jnp.asarray(table)[state], -jnp.inf)


def _draw(table: Float[AnyArray, " n"], key: PRNGKey) -> Float[AnyArray, " 1"]:
    return jax.random.categorical(key, table)[None] * 1.0


class GridMetropolis(AbstractKernel[None]):
    """Metropolis on the grid: a neighbor on either side, with equal probability."""

    num_steps: int = eqx.field(static=True, default=1)

    with_slopes = False
    needs_fit = False
    cost = Cost.values(1)

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> tuple[AnyArray, AnyArray]:
        uniform = rows.draw(position.shape[0], num, 0, 2, dtype=position.dtype)[1]
        return namespace(uniform).where(uniform[..., 1] < 0.5, -1.0, 1.0), uniform[..., 0]

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: None
    ) -> tuple[Particles, Info]:
        step, uniform = randomness
        proposal = evaluator.particles(_stepped(particles.position, step), with_slopes=False)
        return accept(uniform, evaluator, beta, particles, proposal, evaluator.xp.zeros_like(uniform))


class Script(NamedTuple):
    """Place of a scripted run: the number of the step, the beta before it and its own."""

    step: AnyArray
    before: AnyArray
    beta: AnyArray


class Scripted(AbstractKernel[Script]):
    """Follows the trajectory named in the second entry of the position and adds up its log probability in the third.

    The beta before that of the step is there for a wrong kernel to use.
    """

    num_steps: int = eqx.field(static=True)
    trajectories: Float[AnyArray, "m steps"]

    with_slopes = False
    needs_fit = False
    cost = Cost.values(1)

    def fit(self, cloud: Cloud, stream: Stream, previous: Script | None) -> Script:
        if previous is None:
            return Script(cloud.evaluator.xp.asarray(-1), cloud.beta, cloud.beta)
        return Script(previous.step + 1, previous.beta, cloud.beta)

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> AnyArray:
        return namespace(position).zeros((num, position.shape[0]))

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: Script
    ) -> tuple[Particles, Info]:
        xp = evaluator.xp
        state, index, log_probability = particles.position.T
        following, num = params.step[0] + 1, self.trajectories.shape[1]
        last = following >= num
        new_state = xp.asarray(self.trajectories)[index.astype(int), xp.minimum(following, num - 1)]
        log_move = _log_metropolis(evaluator, beta, particles, new_state - state)
        position = xp.stack(
            [xp.where(last, state, new_state), index, log_probability + xp.where(last, 0.0, log_move)], axis=1
        )
        moved, no = evaluator.particles(position, with_slopes=False), xp.zeros(state.shape, bool)
        return moved, Info(xp.ones_like(state), no, no, position)


def _stepped(position: Rows, step: AnyArray) -> Rows:
    """Positions one or more states further."""
    return namespace(position).concatenate([position[:, :1] + step.reshape(-1, 1), position[:, 1:]], axis=1)


@quiet()
def _log_metropolis(evaluator: Evaluator, beta: RealLike, particles: Particles, difference: Vector) -> Vector:
    """Log probability of the move of `GridMetropolis` by some states."""
    xp = evaluator.xp
    here = evaluator.log_density(beta, particles.features)

    def probability(step: float) -> AnyArray:
        there = evaluator.particles(_stepped(particles.position, xp.full_like(here, step)), with_slopes=False)
        ratio = evaluator.log_density(beta, there.features) - here
        return 0.5 * xp.where(xp.isnan(ratio), 0.0, xp.exp(xp.minimum(ratio, 0.0)))

    down, up = probability(-1.0), probability(1.0)
    choices = [difference == -1, difference == 1, difference == 0]
    return xp.log(xp.select(choices, [down, up, 1 - down - up], 0.0))
