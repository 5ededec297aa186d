"""The particles of a run: reweighted, resampled, and moved by a kernel that is fitted to them."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from ..core import (
    AnyArray,
    Cost,
    Count,
    Module,
    PyTree,
    Rows,
    Scalar,
    ScalarLike,
    Stream,
    StreamRows,
    TracedRows,
    TracedStream,
    Vector,
    cond,
    log_ess,
    log_mean_exp,
    map_rows,
    namespace,
    quiet,
)
from ..kernels import AbstractKernel, Cloud, Info, grouped
from ..paths import AbstractPath
from ..resampling import offspring_variance, resample
from ..results import Status
from ..rows import (
    COMPILED,
    DerivedDensity,
    Evaluator,
    OnDevices,
    Particles,
    ShardedRows,
    evaluator_of,
    faults_of_call,
    gathered,
    in_blocks,
    in_pieces,
    portable,
    taken,
)
from ..stats import Lag, dominance


class Fault(NamedTuple):
    """The first thing that went wrong: what, at which stage, and at which point."""

    status: Count
    stage: Count
    position: AnyArray


class State(NamedTuple):
    """All that a run carries from one beta to the next.

    Take weights from here or from `path.log_ratio`, and from nowhere else. The tutorial [Write an
    algorithm](tutorials/own_algorithm.md) has a complete example.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> annealing, state = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).begin(path, key=jax.random.key(0))
        >>> float(state.beta), float(state.log_evidence), state.log_weights.shape
        (0.0, 0.0, (20,))
    """

    beta: Scalar
    """The beta of the particles."""
    stage: Count
    """Steps so far."""
    particles: Particles
    """Positions with what was computed about them."""
    log_weights: Vector
    """Weights since the last resampling."""
    increments: Vector
    """Log incremental weights of the last step."""
    log_offset: Scalar
    """Log evidence up to the last resampling."""
    ancestors: Int[AnyArray, " n"]
    """The first particle that each one descends from."""
    num_resamplings: Count
    """Number of resampling steps."""
    stage_variance: Scalar
    """Sum over the resampling steps of the relative variance of the mean weight, between independent chains."""
    dominance: Scalar
    """Sum over the resampling steps of the dominance of the heaviest particle."""
    resampling_variance: Scalar
    """Sum over the resampling steps of the variance that resampling alone adds to the shares of the families."""
    lag: Lag
    """Estimated lag of the particles behind the path."""
    params: PyTree
    """Parameters of the kernel at the current beta, with a leading axis of groups of particles."""
    fault: Fault
    """The first problem of the run."""

    @property
    def log_evidence(self) -> Scalar:
        return self.log_offset + log_mean_exp(self.log_weights)


class Population(Module):
    """Settings by which particles are carried from one beta to the next.

    Args:
        scheme: The resampling scheme, as in `SMC`.
        threshold: The share of the particles below which the ESS calls for resampling: 1 at every step, 0 never. None
            is never as well, and compiles nothing for it.
        chain_length: P > 1 makes the run waste-free (Dau and Chopin, 2022): one particle in P is resampled and grows a
            chain of P states, all of which are kept.
        chunk_size: The most particles that are moved at once. The numbers do not depend on it.
        cross_fit: Whether the kernel that moves one half of the particles is fitted to the other. Otherwise a particle
            steers its own moves, which biases the evidence by about the number of fitted parameters over the number of
            particles. An odd number of particles is fitted as a whole.
        moves_last: False leaves the particles as they are at beta = 1, neither resampled nor moved: the evidence does
            not depend on moves there.
        devices: Devices that share the particles; the host then makes the steps.

    Examples:
        >>> import qpaths as qp
        >>> Population(threshold=None).cost(qp.RandomWalk(2), 100, 5).target  # 100 + 5 100 2
        1100
    """

    scheme: str = eqx.field(static=True, default="systematic")
    threshold: ScalarLike | None = 1.0
    chain_length: int = eqx.field(static=True, default=1)
    chunk_size: int | None = eqx.field(static=True, default=None)
    cross_fit: bool = eqx.field(static=True, default=False)
    moves_last: bool = eqx.field(static=True, default=True)
    devices: Any = eqx.field(static=True, default=None)

    def num_fits(self, kernel: AbstractKernel[Any], num_particles: int) -> int:
        """Return how often the kernel is fitted at each beta: to both halves of the particles, or to all."""
        even = num_particles // self.chain_length % 2 == 0
        return 2 if self.cross_fit and kernel.needs_fit and even else 1

    def cost(self, kernel: AbstractKernel[Any], num_particles: int, num_stages: int, *, is_over: bool = True) -> Cost:
        """Count a run: an evaluation at the start of each particle, then the fits and moves of the kernel.

        `is_over` says that the last stage is at beta = 1.
        """
        num_stages = num_stages if self.moves_last or not is_over else num_stages - 1
        num_moves = num_particles // self.chain_length * max(1, self.chain_length - 1) * kernel.num_steps
        total = kernel.start_cost(num_particles) + num_stages * num_moves * kernel.cost
        if not kernel.needs_fit:
            return total
        first, later = (kernel.fit_cost(num_particles, again) for again in (False, True))
        return total + first + num_stages * self.num_fits(kernel, num_particles) * later

    def start(self, evaluator: Evaluator, kernel: AbstractKernel[Any], positions: Rows, stream: Stream) -> State:
        """Particles of weight one at the given positions, and the kernel fitted to them."""
        xp = evaluator.xp
        particles = self._evaluated(evaluator, kernel, positions)
        memory = kernel.first_memory(particles.position, stream)
        if self.devices is not None:
            memory = jax.tree.map(particles.position.like, memory)
        particles = particles._replace(memory=memory)
        invalid = invalid_draws(evaluator, particles)
        dtype = evaluator.log_density(0.0, particles.features).dtype
        num, zero, none = positions.shape[0], xp.zeros((), dtype), xp.zeros((), int)
        fault = first_fault(
            Fault(none, none, xp.zeros_like(positions[0])), Status.INVALID_START, none, invalid, positions
        )
        families, lag = xp.arange(num), Lag(zero, zero, zero, zero, zero)
        log_weights = xp.zeros(num, dtype)
        state = State(
            zero, none, particles, log_weights, log_weights, zero, families, none, zero, zero, zero, lag, None, fault
        )
        params = kernel.fit(Cloud(evaluator, state.beta, particles, log_weights), stream, None)
        # Nothing moves at the base: one fit is enough for all groups, whatever it is fitted to.
        repeats = self.num_fits(kernel, num)
        params = jax.tree.map(lambda leaf: xp.repeat(leaf[None], repeats, axis=0), params)
        return state._replace(params=params)

    def _evaluated(self, evaluator: Evaluator, kernel: AbstractKernel[Any], positions: Rows) -> Particles:
        """In chunks where asked; on the host evaluation is chunked by itself."""
        if self.devices is not None:
            return evaluated_on_devices(evaluator, kernel, positions, self.devices, self.chunk_size)
        evaluate = functools.partial(evaluator.particles, with_slopes=kernel.with_slopes)
        if evaluator.xp is np:
            return evaluate(positions)
        return in_pieces(evaluate, positions, self.chunk_size, COMPILED)

    @quiet()
    def reweight(self, state: State, new_beta: Scalar, increments: Vector) -> State:
        """Multiply in the incremental weights."""
        xp = namespace(state.log_weights)
        log_weights = xp.where(state.log_weights == -xp.inf, -xp.inf, state.log_weights + increments)
        collapsed = xp.all(log_weights == -xp.inf)[None]
        stage = state.stage + 1
        return state._replace(
            beta=new_beta,
            stage=stage,
            log_weights=log_weights,
            increments=increments,
            lag=state.lag.step(new_beta - state.beta),
            fault=first_fault(state.fault, Status.COLLAPSED, stage, collapsed, state.particles.position[:1]),
        )

    @quiet()
    def variance_of_mean(self, state: State) -> Scalar:
        """Relative variance of the mean weight between chains; before any resampling every particle is its own."""
        xp = namespace(state.log_weights)
        weights = xp.exp(state.log_weights - log_mean_exp(state.log_weights))
        per_particle = xp.var(weights, ddof=1) / weights.size
        if self.chain_length == 1:
            return per_particle
        chains = xp.mean(weights.reshape(-1, self.chain_length), axis=1)
        return xp.where(state.num_resamplings == 0, per_particle, xp.var(chains, ddof=1) / chains.size)

    def resample(self, state: State, stream: Stream, ess: Scalar) -> tuple[State, AnyArray]:
        """Resample where the ESS has fallen below the threshold; waste-free runs keep one particle per chain.

        Also the number of the old particle with which the second half of the new ones begins.
        """
        xp = namespace(state.log_weights)
        num = state.log_weights.shape[0] // self.chain_length
        if self.threshold is None:
            return state, xp.asarray(num // 2, int)

        def renew(state: State) -> tuple[State, AnyArray]:
            indices = resample(self.scheme, stream, state.log_weights, num)
            return state._replace(
                particles=taken(state.particles, indices),
                log_weights=xp.zeros(num, state.log_weights.dtype),
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
        return cond(xp, wanted, renew, lambda state: (state, xp.asarray(num // 2, int)), state)

    def fit(
        self, evaluator: Evaluator, kernel: AbstractKernel[Any], state: State, split: AnyArray, stream: Stream
    ) -> PyTree:
        """Parameters of the kernel from the weighted particles; with `cross_fit` from those on each side of `split`.

        Copies of a particle are neighbors, so that a cut keeps families together; where the second half of the
        resampled particles begins, it leaves half of the weight on each side.
        """
        xp = evaluator.xp
        num = state.log_weights.shape[0]

        def fit(log_weights: Vector, stream: Stream, previous: PyTree) -> PyTree:
            return kernel.fit(Cloud(evaluator, state.beta, state.particles, log_weights), stream, previous)

        if self.num_fits(kernel, num) == 1:
            previous = jax.tree.map(lambda leaf: leaf[0], state.params)
            return grouped(fit(state.log_weights, stream, previous))

        def fit_to(inputs: PyTree) -> PyTree:
            number, chosen, previous = inputs
            log_weights = xp.where(chosen, state.log_weights, -xp.inf)
            # After a collapse of the weights half of them would tell too little, and bias is the least of the troubles.
            enough = xp.exp(log_ess(log_weights)) > 2 * state.particles.position.shape[1]
            return fit(xp.where(enough, log_weights, state.log_weights), stream.fold(number), previous)

        is_late = xp.arange(num) >= split
        # One after the other: together they would hold twice the memory.
        return map_rows(xp, fit_to, (xp.arange(2), xp.stack([is_late, ~is_late]), state.params))

    def move(
        self, evaluator: Evaluator, kernel: AbstractKernel[Any], state: State, stream: Stream, params: PyTree
    ) -> tuple[State, Scalar]:
        """Move every particle by the kernel at the current beta; also the mean acceptance."""
        num = state.log_weights.shape[0]
        move = kernel.move if self.chain_length == 1 else functools.partial(kernel.trajectory, num=self.chain_length)

        def move_by(particles: Particles, rows: StreamRows, params: PyTree) -> tuple[Particles, Info]:
            return move(evaluator, state.beta, particles, rows, params)

        if self.devices is not None:
            particles, info = moved_on_devices(
                evaluator, kernel, state.beta, state.particles, stream, params, self.chain_length, self.chunk_size
            )
        else:
            particles, info = in_blocks(self.chunk_size, move_by, state.particles, stream.rows(num), params)
        state = state._replace(
            particles=particles,
            params=params,
            fault=first_fault(state.fault, Status.INVALID_PROPOSAL, state.stage, info.invalid, info.proposal),
        )
        if self.chain_length > 1:
            xp = evaluator.xp
            state = state._replace(
                log_weights=xp.repeat(state.log_weights, self.chain_length),
                ancestors=xp.repeat(state.ancestors, self.chain_length),
            )
        return state, evaluator.xp.mean(info.acceptance)


def invalid_draws(evaluator: Evaluator, draws: Particles) -> Bool[AnyArray, " n"]:
    """At which exact draws from the base an endpoint is not what it must be there.

    A draw of a fitted reference may lie so far out that neither density is a number there: it has no mass, and that is
    no fault of the user's functions. The same holds for all draws where the call rejects points at which they fail.
    """
    xp = evaluator.xp
    base, target = (evaluator.log_density(beta, draws.features) for beta in (0.0, 1.0))
    wrong = ~xp.isfinite(base) | xp.isnan(target) | (target == xp.inf)
    if isinstance(evaluator.path.base, DerivedDensity) or faults_of_call() is not None:
        return wrong & ~((base == -xp.inf) & (target == -xp.inf))
    return wrong


def first_fault(fault: Fault, status: Status, stage: Count, wrong: Bool[AnyArray, " n"], positions: AnyArray) -> Fault:
    """The fault already there, or else the first of `wrong`."""
    xp = namespace(wrong, positions)
    is_new = (fault.status == Status.OK) & xp.any(wrong)
    if xp is np and not is_new:
        return fault
    new = Fault(xp.full((), int(status)), stage, positions[xp.argmax(wrong)])
    return jax.tree.map(lambda a, b: xp.where(is_new, a, b), new, fault)


# Particles that lie on several devices: positions and slopes stay there, and what the loop weighs comes to the host.


def evaluated_on_devices(
    evaluator: Evaluator,
    kernel: AbstractKernel[Any],
    positions: Rows,
    devices: tuple[Any, ...],
    chunk_size: int | None,
) -> Particles:
    """Particles at the given positions, which every process has, with all that the kernel needs of them."""
    rows = ShardedRows.of(positions, devices, jax.dtypes.canonicalize_dtype(evaluator.layout.dtype))
    work, shared = _Evaluate(kernel.with_slopes), portable(evaluator.path, rows.dtype)
    return _on_both(in_pieces(work, rows.array, chunk_size, OnDevices(devices, shared)))


def moved_on_devices(
    evaluator: Evaluator,
    kernel: AbstractKernel[Any],
    beta: Scalar,
    particles: Particles,
    stream: Any,
    params: PyTree,
    chain_length: int,
    chunk_size: int | None,
) -> tuple[Particles, Info]:
    """The particles after the kernel's moves, or all states of the chains that they begin.

    Particle i has the key `fold_in(key, i)` of the stage.
    """
    position = particles.position
    devices, dtype = position.devices, position.dtype

    def cast(leaf: AnyArray) -> AnyArray:
        is_real = np.issubdtype(np.result_type(leaf), np.floating)
        return np.asarray(leaf, dtype) if is_real else np.asarray(leaf)

    rows = jax.tree.map(lambda leaf: leaf.array if isinstance(leaf, ShardedRows) else leaf, particles)
    features = jax.tree.map(lambda leaf: ShardedRows.of(leaf, devices, dtype).array, particles.features)
    params = jax.tree.map(cast, params)
    shared = portable((evaluator.path, kernel), dtype), cast(beta), stream.key_data(), params
    work = _Move(chain_length)
    found, info = in_pieces(work, rows._replace(features=features), chunk_size, OnDevices(devices, shared))
    acceptance, accepted, invalid = gathered(info[:3])
    return _on_both(found), Info(acceptance, accepted, invalid, ShardedRows(info.proposal))


def _on_both(particles: Particles) -> Particles:
    """Features on the host in 64 bits, as everything there, and the rest on the devices."""
    features = jax.tree.map(lambda leaf: np.asarray(leaf, float), gathered(particles.features))
    rest = jax.tree.map(ShardedRows, particles._replace(features=None))
    return rest._replace(features=features)


@dataclasses.dataclass(frozen=True)
class _Evaluate:
    """Evaluate new particles on a device."""

    with_slopes: bool

    def __call__(self, path: AbstractPath[Any], numbers: AnyArray, before: AnyArray, positions: AnyArray) -> Particles:
        evaluator = _traced(path, self.with_slopes)
        return evaluator.particles(positions, with_slopes=self.with_slopes)


@dataclasses.dataclass(frozen=True)
class _Move:
    """Move particles on a device."""

    chain_length: int

    def __call__(self, shared: PyTree, numbers: AnyArray, before: AnyArray, particles: Any) -> tuple[Particles, Info]:
        (path, kernel), beta, key_data, params = shared

        def of_group(leaf: AnyArray) -> AnyArray:
            return leaf[jnp.floor(before * leaf.shape[0] + 1e-6).astype(int)][None]

        own = jax.tree.map(of_group, params)
        key = jax.random.wrap_key_data(key_data)
        draws = TracedRows(jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers))
        evaluator = _traced(path, kernel.with_slopes)
        if self.chain_length == 1:
            return kernel.move(evaluator, beta, particles, draws, own)
        return kernel.trajectory(evaluator, beta, particles, draws, own, num=self.chain_length)


def _traced(path: AbstractPath[Any], with_slopes: bool) -> Evaluator:
    return evaluator_of(path, TracedStream(jnp.zeros(())), with_slopes=with_slopes)
