"""The one annealing step, and the only loop over betas.

Every algorithm makes an `Annealing` and a state and calls `anneal`. Where the numbers are traced the loop is a compiled
scan; elsewhere it is Python's own, around NumPy arithmetic on the host or, on an accelerator, around one compiled step.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..core import (
    AnyArray,
    HostStream,
    Module,
    PyTree,
    Rows,
    Scalar,
    ScalarLike,
    Stream,
    TracedStream,
    is_traced,
    log_ess,
    namespace,
    one_thread,
    quiet,
    segment_sum,
    stack,
    to_host,
)
from ..kernels import AbstractKernel, FrozenKernel
from ..paths import AbstractPath
from ..results import Status
from ..rows import BLOCK, AtMost, Evaluator, any_numpy, evaluator_of, rows_at_once
from ..schedules import AbstractFixedSchedule, AbstractSchedule, AdaptiveSchedule, next_beta, step_length
from ..stats import moments_from
from .population import Population, State

Recorded: TypeAlias = Any
"""A dictionary of numbers about a stage, by their names; of a plain run, those of `Stats`."""


class Annealing(Module):
    """A run under way: everything but the state, which changes.

    Attributes:
        evaluator: Evaluates the path.
        kernel: Moves the particles.
        population: How particles go from one beta to the next.
        betas: All betas; None where the schedule is adaptive.
        target_ess: How an adaptive schedule makes its steps; None otherwise.
        max_num: The most steps of an adaptive schedule.
        stream: The random numbers of the run.

    `qpaths.annealing.begin` makes it. Use it with the state of the same run only. The tutorial [Write an
    algorithm](tutorials/own_algorithm.md) has a complete example.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> annealing, state = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).begin(path, key=jax.random.key(0))
        >>> annealing.num_stages, annealing.betas.tolist()
        (2, [0.0, 0.5, 1.0])
    """

    evaluator: Evaluator
    kernel: AbstractKernel[Any]
    population: Population
    betas: Float[AnyArray, " num"] | None
    target_ess: ScalarLike | None
    max_num: int = eqx.field(static=True)
    stream: Stream

    @property
    def path(self) -> AbstractPath[Any]:
        return self.evaluator.path

    @property
    def num_stages(self) -> int | None:
        """Steps in all, None where they are not known."""
        return None if self.betas is None else self.betas.shape[0] - 1

    def next_beta(self, state: State) -> Scalar:
        """The beta that the schedule has next."""
        if self.betas is not None:
            return self.betas[state.stage + 1]
        assert self.target_ess is not None
        features = state.particles.features
        return next_beta(
            lambda beta: self.evaluator.log_ratio(state.beta, beta, features),
            state.beta,
            state.log_weights,
            self.target_ess,
        )

    @quiet()
    def step(self, state: State, new_beta: ScalarLike, moves: bool = True) -> tuple[State, Recorded]:
        """Go from the state's beta to the next: weights, parameters of the kernel, resampling, moves.

        Without `moves` only the weights change.
        """
        evaluator, kernel, population = self.evaluator, self.kernel, self.population
        xp = evaluator.xp
        fit_stream, resample_stream, move_stream = self.stream.fold(state.stage).split(3)
        new_beta = xp.asarray(new_beta, state.beta.dtype)  # float64 betas must not widen a float32 run
        increments = evaluator.log_ratio(state.beta, new_beta, state.particles.features)
        length = step_length(state.log_weights, increments)
        weighted = population.reweight(state, new_beta, increments)
        ess = xp.exp(log_ess(weighted.log_weights))
        if moves:
            resampled, split = population.resample(weighted, resample_stream, ess)
            params = population.fit(evaluator, kernel, weighted, split, fit_stream)
            state, acceptance = population.move(evaluator, kernel, resampled, move_stream, params)
        else:
            resampled = state = weighted
            params, acceptance = state.params, xp.asarray(xp.nan)
        before = evaluator.derivative(state.beta, resampled.particles.features)
        after, curvature = evaluator.derivatives(state.beta, state.particles.features)
        moments = moments_from(after, curvature, state.log_weights)
        after = xp.mean(after.reshape(before.size, -1), axis=1)  # over the states of a chain
        state = state._replace(lag=state.lag.moved(before, after, resampled.log_weights))
        families = segment_sum(xp.ones_like(state.log_weights), state.ancestors, state.ancestors.size)
        return state, {
            "beta": state.beta,
            "ess": ess,
            "acceptance": acceptance,
            "step_size": kernel.step_size_of(params, resampled.particles.memory),
            "log_evidence": weighted.log_evidence,
            "log_evidence_lag": state.lag.log_evidence,
            "increment": xp.mean(increments),
            "increment_variance": xp.var(increments, ddof=1),
            "length": length,
            "num_ancestors": xp.sum(families > 0),
            "derivative_mean": moments.mean,
            "derivative_variance": moments.variance,
            "derivative_slope": moments.slope,
        }

    def bounded(self, num: int, work: "Callable[[Annealing], Any]") -> "tuple[Annealing, Any]":
        """`work(annealing)` of `num` particles, in smaller chunks where memory runs out, and the annealing of these."""
        size, devices = self.population.chunk_size, self.population.devices
        if size is None and devices is not None:
            size = rows_at_once(num, devices)
        elif size is None:
            size = min(num, BLOCK) if self.evaluator.xp is np else num

        def run(chunk: int) -> "tuple[Annealing, Any]":
            if chunk == size:
                return self, work(self)
            population = dataclasses.replace(self.population, chunk_size=chunk)
            smaller = dataclasses.replace(self, population=population)
            return smaller, work(smaller)

        return AtMost(size, "particles").run(run)

    def is_over(self, state: State, num_done: int) -> bool:
        """Return whether a run outside any transformation has ended; a fault ends it."""
        if float(state.beta) >= 1 or int(state.fault.status) != Status.OK:
            return True
        if self.betas is None and num_done >= self.max_num:
            raise RuntimeError(
                f"the adaptive schedule has not reached beta = 1 in {num_done} steps, it is at {float(state.beta)}: "
                f"take more particles, a lower `target_ess`, or raise `max_num`."
            )
        return False


@functools.partial(jax.jit, static_argnums=3)
def _compiled_step(annealing: Annealing, state: State, new_beta: AnyArray, moves: bool) -> tuple[State, Recorded]:
    return annealing.step(state, new_beta, moves)


@jax.jit
def _compiled_next_beta(annealing: Annealing, state: State) -> Scalar:
    return annealing.next_beta(state)


def find_next(annealing: Annealing, state: State) -> Scalar:
    """The beta that the schedule has next, outside any transformation."""
    return annealing.next_beta(state) if annealing.evaluator.xp is np else _compiled_next_beta(annealing, state)


Record = Callable[[State, Recorded], Recorded]
"""Makes of the state and the statistics after a stage what the loop keeps of it; traced where the run is."""
NextBeta = Callable[[State], Any]
"""Takes the place of the schedule."""
Linger = Callable[[State], bool]
"""Says whether particles that were moved should be moved once more at the same beta."""
Observe = Callable[[State, list[Recorded]], None]
"""Is called after each stage of a run outside any transformation."""


def keep_stats(state: State, stats: Recorded) -> Recorded:
    """The recorder of a plain run."""
    return stats


def anneal(
    annealing: Annealing,
    state: State,
    *,
    record: Record = keep_stats,
    choose: NextBeta | None = None,
    linger: Linger | None = None,
    observe: Observe | None = None,
    rows: list[Recorded] | None = None,
) -> tuple[State, Recorded]:
    """All steps to beta = 1.

    Args:
        annealing: The run.
        state: Its population, as a rule at beta = 0.
        record: What to keep after each step, from the state and the statistics; the statistics by default.
        choose: Takes the place of the schedule; only outside `jax.jit`.
        linger: Asked after each step whether to move once more at the same beta; only outside `jax.jit`.
        observe: Called after each step with the state and the rows so far; only outside `jax.jit`.
        rows: What was recorded in steps that were made before.

    Returns:
        The last state, and what was recorded, stacked along the steps. A run that fails ends early: see `state.fault`.

    Inside `jax.jit` the loop is a compiled scan, and an adaptive schedule is an error. The tutorial [Write an
    algorithm](tutorials/own_algorithm.md) has a complete example.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> annealing, state = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).begin(path, key=jax.random.key(0))
        >>> state, stats = anneal(annealing, state)
        >>> float(state.beta), stats["beta"].tolist()
        (1.0, [0.5, 1.0])
    """
    if is_traced(annealing, state):
        return _scanned(annealing, state, record)
    rows = [] if rows is None else rows
    step = Annealing.step if annealing.evaluator.xp is np else _compiled_step
    with one_thread():
        while True:
            if linger is not None and rows and int(state.fault.status) == Status.OK and linger(state):
                new_beta = state.beta
            elif annealing.is_over(state, len(rows)):
                break
            else:
                new_beta = find_next(annealing, state) if choose is None else choose(state)
            moves = annealing.population.moves_last or bool(new_beta < 1)
            before = state  # of which nothing is lost where memory runs out
            annealing, (state, stats) = annealing.bounded(
                before.log_weights.shape[0],
                lambda annealing: step(annealing, before, new_beta, moves),  # noqa: B023
            )
            rows.append(to_host(record(state, stats)))
            if observe is not None:
                observe(state, rows)
    return state, stack(rows)


def _scanned(annealing: Annealing, state: State, record: Record) -> tuple[State, Recorded]:
    if annealing.betas is None:
        raise ValueError(
            "an adaptive schedule cannot run under `jax.jit` or `jax.vmap`, because its length is not known: "
            "run it once outside and take `FixedSchedule(result.betas)`."
        )

    def step(state: State, moves: bool) -> tuple[State, Recorded]:
        state, stats = annealing.step(state, annealing.next_beta(state), moves)
        return state, record(state, stats)

    def scan(state: State, length: int) -> tuple[State, Recorded]:
        return jax.lax.scan(lambda state, _: step(state, True), state, None, length=length)

    num = annealing.betas.shape[0] - 1
    if annealing.population.moves_last:
        return scan(state, num)
    state, rows = scan(state, num - 1)
    state, last = step(state, False)
    return state, jax.tree.map(lambda rows, last: jnp.concatenate([rows, last[None]]), rows, last)


def begin(
    path: AbstractPath[Any],
    schedule: AbstractSchedule,
    kernel: AbstractKernel[Any],
    population: Population,
    *,
    stream: HostStream | TracedStream,
    draw: tuple[Any, int] | None = None,
    points: PyTree = None,
) -> tuple[Annealing, State]:
    """A run and its population at beta = 0.

    Args:
        path: Any path.
        schedule: A fixed or an adaptive schedule.
        kernel: Moves the particles. It is fitted to the first population.
        population: How particles go from one beta to the next.
        stream: The random numbers of the steps.
        draw: A stream and a number: the population starts at that many exact draws from the base.
        points: The population starts at these points instead. The weights are right only if they are draws from the
            base.

    Returns:
        The run, and its state. The tutorial [Write an algorithm](tutorials/own_algorithm.md) has a complete example.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> first, steps = qp.rows.stream_for(jax.random.key(0), path).split(2)
        >>> parts = qp.LinearSchedule(3), qp.RandomWalk(), Population()
        >>> annealing, state = begin(path, *parts, stream=steps, draw=(first, 20))
        >>> float(state.beta), state.particles.position.shape
        (0.0, (20, 1))
    """
    evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
    if population.devices is not None:
        _check_can_spread(path, evaluator)
    betas = schedule.betas if isinstance(schedule, AbstractFixedSchedule) else None
    target_ess = schedule.target_ess if isinstance(schedule, AdaptiveSchedule) else None
    max_num = schedule.max_num if isinstance(schedule, AdaptiveSchedule) else 0
    if evaluator.xp is np:
        betas, target_ess, kernel, population, points = to_host((betas, target_ess, kernel, population, points))
    elif betas is not None:
        betas = jnp.asarray(betas)
    annealing = Annealing(evaluator, kernel, population, betas, target_ess, max_num, stream)
    positions = None if points is None else evaluator.layout.rows(points)
    start, num = draw or (None, positions.shape[0])  # type: ignore[union-attr]
    if is_traced(annealing, positions, start):
        state = _started(annealing, positions, start, num)
        if betas is not None and is_traced(betas):
            state = state._replace(beta=betas[0].astype(state.beta.dtype))  # not 0 where they descend
        return annealing, state

    def started(annealing: Annealing) -> State:
        if evaluator.xp is not np:
            return _compiled_start(annealing, positions, start, num)
        with one_thread():
            return _started(annealing, positions, start, num)

    return annealing.bounded(num, started)


def _check_can_spread(path: AbstractPath[Any], evaluator: Evaluator) -> None:
    """Raise where particles cannot be spread over devices."""
    if evaluator.xp is not np:
        raise ValueError(
            "`devices` cannot be used under `jax.jit` or `jax.vmap`, because the host makes the steps of such a run: "
            "call `run` outside of them. `evaluate_bounds` and `evaluate_lower` have `devices` of their own."
        )
    if any_numpy((path,)):
        raise TypeError(
            "`devices` needs densities that JAX can compile, and one of the path has `backend='numpy'`: write it with "
            "`jax.numpy`, or leave out `devices`."
        )


def _started(annealing: Annealing, positions: Rows | None, start: Any, num: int) -> State:
    evaluator = annealing.evaluator
    if positions is None:
        # Anew, since a stream of the host gives other numbers when it is used again after memory ran out.
        positions = evaluator.draw(HostStream(start.entropy) if isinstance(start, HostStream) else start, num)
    # The steps fold in their number.
    return annealing.population.start(evaluator, annealing.kernel, positions, annealing.stream.fold(2**32 - 1))


_compiled_start = jax.jit(_started, static_argnums=3)


def anneal_groups(
    annealing: Annealing, state: State, ends: AnyArray, *, add: Record, keep: Callable[[State], Recorded]
) -> tuple[State, Recorded, Recorded]:
    """All steps in groups of neighbors: sums of `add` over each group, and `keep` of the state after it.

    `ends` says after how many steps each group ends. Traced, the number of steps is a number of the program and not a
    shape: with `padded` betas one program serves schedules of all lengths. Traced betas may also descend, for chains
    from the target to the base.
    """
    if not is_traced(annealing, state, ends):
        state, (added, kept) = anneal(annealing, state, record=lambda state, stats: (add(state, stats), keep(state)))
        first = np.minimum(np.append(0, ends[:-1]), len(jax.tree.leaves(added)[0]) - 1)  # a fault ends a run early
        sums = jax.tree.map(lambda leaf: np.add.reduceat(leaf, first, axis=0), added)
        return state, sums, jax.tree.map(lambda leaf: leaf[np.minimum(ends, leaf.shape[0]) - 1], kept)

    def step(state: State) -> tuple[State, Recorded]:
        state, stats = annealing.step(state, annealing.next_beta(state))
        return state, add(state, stats)

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(step, state)[1])

    def one_more(carry: tuple[State, Recorded]) -> tuple[State, Recorded]:
        state, added = step(carry[0])
        return state, jax.tree.map(jnp.add, carry[1], added)

    def group(state: State, end: AnyArray) -> tuple[State, tuple[Recorded, Recorded]]:
        state, sums = jax.lax.while_loop(lambda carry: carry[0].stage < end, one_more, (state, zeros))
        return state, (sums, keep(state))

    state, (sums, kept) = jax.lax.scan(group, state, jnp.asarray(ends))
    return state, sums, kept


def pilot_params(state: State, stats: Recorded) -> Recorded:
    """A recorder that also keeps the kernel's parameters, one set for all particles."""
    return {**stats, "params": one_group(state.params)}


def one_group(params: PyTree) -> PyTree:
    """Parameters for all particles from those of the groups."""
    return jax.tree.map(lambda leaf: namespace(leaf).mean(leaf, axis=0), params)


def frozen(annealing: Annealing, start: State, stats: Recorded) -> tuple[FrozenKernel, Recorded]:
    """The kernel at what was fitted at each beta of a run that `pilot_params` has recorded; and the other records."""
    stats = dict(stats)
    first, rest = one_group(start.params), stats.pop("params")
    xp = namespace(rest)
    params = jax.tree.map(lambda one, many: xp.concatenate([xp.asarray(one)[None], many]), first, rest)
    betas = xp.concatenate([xp.zeros(1, stats["beta"].dtype), stats["beta"]])
    return FrozenKernel(annealing.kernel, betas, params), stats
