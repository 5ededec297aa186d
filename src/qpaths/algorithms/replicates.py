"""Independent runs: replicates of one problem, and chains of many problems in one program.

Problems have a leading axis, and `path_of(problem)` makes the path of one. The random numbers are those of `AIS` and
`BDMC` with the same key.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax import Array

from ..annealing import State, anneal_groups
from ..core import AnyArray, HostStream, Point, PRNGKey, PyTree, Stream, TracedStream, is_traced, stack
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..rows import evaluator_of, layout_of, together
from ..schedules import FixedSchedule
from .ais import AIS
from .bdmc import REVERSE, one_per_chain

Found = TypeVar("Found")


def replicate(
    run: Callable[..., Found],
    algorithm: Any,
    path: AbstractPath[Any],
    num: int,
    stream: Stream,
    *,
    at_once: int | None,
) -> Found:
    """Return what `run(algorithm, path, stream)` returns for `num` independent streams, with an axis of runs in front.

    Args:
        run: Makes one run. It is part of the compiled program, so give a function of a module.
        algorithm: Passed on to `run`.
        path: Passed on to `run`.
        num: How many runs.
        stream: Random numbers of all runs. On the host the runs follow each other; otherwise they are one program.
        at_once: How many runs a compiled program makes at the same time, more than one; None for one after the other.
    """
    if isinstance(stream, HostStream):
        return stack(together(lambda one: run(algorithm, path, one), stream.split(num)))
    loop = _in_program if is_traced(algorithm, path, stream) else _in_own_program
    return loop(run, num, at_once, algorithm, path, stream)


def _in_program(
    run: Callable[..., Found],
    num: int,
    at_once: int | None,
    algorithm: Any,
    path: AbstractPath[Any],
    stream: TracedStream,
) -> Found:
    def one(key: Array) -> Found:
        return run(algorithm, path, TracedStream(key))

    keys = jax.random.split(stream.key, num)
    return jax.vmap(one)(keys) if at_once == num else jax.lax.map(one, keys, batch_size=at_once)


_in_own_program = jax.jit(_in_program, static_argnums=(0, 1, 2))


def run_many(
    path_of: Callable[..., AbstractPath[Any]],
    kernel: AbstractKernel[Any],
    betas: AnyArray,
    ends: AnyArray,
    problems: PyTree,
    points: Point,
    streams: PyTree,
    *,
    add: Callable[..., Any],
    keep: Callable[..., Any],
    is_fitted: bool = False,
    chunk_size: int | None = None,
) -> PyTree:
    """Return the last state of AIS for each of many problems, with sums and states of groups of steps.

    It is meant for a compiled program. The betas, the number of steps and the parameters of the kernel are no shapes:
    runs of all lengths share the program.

    Args:
        path_of: Makes the path of one problem.
        kernel: A kernel that needs no fit: one for all problems or, with `is_fitted`, one for each.
        betas: Padded to the longest length (`schedules.padded`).
        ends: Last steps of the groups, as for `anneal_groups`.
        problems: Data with a leading axis of problems.
        points: Where the chains of each problem start.
        streams: Random numbers of each problem.
        add: What is summed over a group, as for `anneal_groups`.
        keep: What is kept at its end.
        is_fitted: Whether each problem has its own kernel.
        chunk_size: The most chains of a problem that are moved at once.
    """

    def one(
        kernel: AbstractKernel[Any], problem: PyTree, points: Point, stream: Stream
    ) -> tuple[State, PyTree, PyTree]:
        num_chains = jax.tree.leaves(points)[0].shape[0]
        algorithm = AIS(num_chains, FixedSchedule(betas), kernel, chunk_size)
        annealing, state = algorithm.begin_at(path_of(problem), points, kernel, None, stream)
        return anneal_groups(annealing, state, ends, add=add, keep=keep)

    return jax.vmap(one, in_axes=(0 if is_fitted else None, 0, 0, 0))(kernel, problems, points, streams)


@eqx.filter_jit
def at_bases(
    path_of: Callable[..., AbstractPath[Any]], num_chains: int, problems: PyTree, keys: Array, to_fit: AIS | None = None
) -> tuple[Point, Any, Any]:
    """Return draws from the base of each problem, streams of its chains, and the kernel of `to_fit` fitted to it."""

    def one(problem: PyTree, key: PRNGKey) -> tuple[Point, Any, Any]:
        path = path_of(problem)
        pilot, start, run = TracedStream(key).split(3)
        evaluator = evaluator_of(path, run, with_slopes=True)
        points = evaluator.layout.points(evaluator.draw(start, num_chains))
        return points, run, None if to_fit is None else to_fit.fitted(path, pilot)

    return jax.vmap(one)(problems, keys)


@eqx.filter_jit
def at_targets(
    path_of: Callable[..., AbstractPath[Any]], num_chains: int, problems: PyTree, target_samples: Point, keys: Array
) -> tuple[Point, Any]:
    """Return the exact draw of each problem, once for each chain, and the streams of the chains from there."""

    def one(problem: PyTree, sample: Point, key: PRNGKey) -> tuple[Point, Any]:
        return one_per_chain(sample, layout_of(path_of(problem)), num_chains), TracedStream(key).fold(REVERSE)

    return jax.vmap(one)(problems, target_samples, keys)
