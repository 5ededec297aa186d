"""How a run starts: its evaluator, and its population at beta = 0."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import HostStream, Rows, TracedStream, is_traced, one_thread, to_host
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..rows import Evaluator, any_numpy, evaluator_of
from ..schedules import AbstractFixedSchedule, AbstractSchedule, AdaptiveSchedule
from .loop import Annealing
from .population import Population, State


def begin(
    path: AbstractPath[Any],
    schedule: AbstractSchedule,
    kernel: AbstractKernel[Any],
    population: Population,
    *,
    stream: HostStream | TracedStream,
    draw: tuple[Any, int] | None = None,
    points: Any = None,
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
    return annealing.bounded(num, lambda annealing: _begin(annealing, positions, start, num))


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


def _begin(annealing: Annealing, positions: Rows | None, start: Any, num: int) -> State:
    if annealing.evaluator.xp is np:
        with one_thread():
            return _started(annealing, positions, start, num)
    return _compiled_start(annealing, positions, start, num)


def _started(annealing: Annealing, positions: Rows | None, start: Any, num: int) -> State:
    evaluator = annealing.evaluator
    if positions is None:
        # Anew, since a stream of the host gives other numbers when it is used again after memory ran out.
        positions = evaluator.draw(HostStream(start.entropy) if isinstance(start, HostStream) else start, num)
    # The steps fold in their number.
    return annealing.population.start(evaluator, annealing.kernel, positions, annealing.stream.fold(2**32 - 1))


_compiled_start = jax.jit(_started, static_argnums=3)
