"""Long runs, stepped from Python: progress, a file to go on from, and a partial result when interrupted."""

import dataclasses
import os
import sys
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..annealing import Annealing, Recorded, State, anneal
from ..core import Clock, PRNGKey, Show, display, line_of, stack, stages_left, to_host
from ..io import Checkpoint, Codec, by_name, classes_around, parts_of
from ..kernels import FrozenKernel
from ..paths import AbstractPath
from ..results import Result, Status
from .base import AbstractAnnealer


class StoredRun(NamedTuple):
    """A run as far as it has come."""

    kernel: FrozenKernel | None
    """The kernel that a pilot has fitted, if there was one."""
    state: State
    rows: list[dict[str, Any]]
    """Statistics of each stage."""


def drive(
    algorithm: AbstractAnnealer,
    path: AbstractPath[Any],
    *,
    key: PRNGKey,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Result:
    """`algorithm.run(path, key=key)`, step by step: the same numbers for the same key.

    Args:
        algorithm: `SMC`, `AIS`, or any other annealer.
        path: The path of the run.
        key: The key of the run.
        checkpoint: A file that is written after each stage. A second call with the same arguments continues from it,
            with the numbers of an uninterrupted run. At most the stage in progress is lost.
        progress: Whether to show each stage on standard error.

    Returns:
        The result. After Ctrl-C it is partial: its `status` is UNFINISHED, and its samples belong to the last beta.

    Raises:
        ValueError: If the file belongs to another run, or to other densities.

    See [Files and long runs](files.md). It does not run under `jax.jit`, and `ParallelTempering` is not an annealer.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> smc = qp.SMC(200, qp.LinearSchedule(5), qp.RandomWalk(2))

        >>> driven = qp.drive(smc, path, key=jax.random.key(0), progress=False)
        >>> same = smc.run(path, key=jax.random.key(0))
        >>> bool(driven.log_evidence == same.log_evidence)
        True
    """
    if not isinstance(algorithm, AbstractAnnealer):
        raise TypeError(
            f"`drive` steps algorithms such as AIS and SMC, got {type(algorithm).__name__}: call its `run`."
        )
    file = checkpoint_of(algorithm, path, key, checkpoint)
    stored = file.read()
    if stored is None:
        annealing, state = algorithm.begin(path, key=key)
        run = StoredRun(_fitted(algorithm, annealing), state, [])
        keep(file, run)
    else:
        annealing, run = _begin_again(algorithm, path, key, file, stored)
    return _go_on(algorithm, annealing, run, file, progress)


def checkpoint_of(
    algorithm: Any, path: AbstractPath[Any], key: PRNGKey, name: str | os.PathLike[str] | None
) -> Checkpoint:
    """Return the file of a run, which knows everything that determines its numbers.

    What a plain function closes over cannot be compared here; `_begin_again` compares its values instead.
    """
    fields = {field.name: getattr(algorithm, field.name) for field in dataclasses.fields(algorithm)}
    for field in ("chunk_size", "devices"):  # the numbers do not depend on them, and another machine needs others
        fields.pop(field, None)
    settings = {"algorithm": type(algorithm).__name__, **fields, "path": path, "key": key}
    parts = parts_of(kernel=algorithm.kernel)
    return Checkpoint(name, "checkpoint", settings, Codec((FrozenKernel, *classes_around(*parts.values())), parts))


def keep(file: Checkpoint, run: StoredRun) -> None:
    """Write a run. One that has met a fault is not kept: the file then holds the last good stage."""
    if file.path is not None and int(run.state.fault.status) == Status.OK:
        stats = {name: np.array([row[name] for row in run.rows]) for name in run.rows[0]} if run.rows else {}
        file.write({"kernel": run.kernel, "state": by_name(run.state), "rows": stats})


def _fitted(algorithm: Any, annealing: Annealing) -> FrozenKernel | None:
    """Return the kernel that a pilot has fitted, if there was one."""
    kernel = annealing.kernel
    if not (algorithm.kernel.needs_fit and isinstance(kernel, FrozenKernel)):
        return None
    return dataclasses.replace(kernel, kernel=algorithm.kernel)


def _begin_again(
    algorithm: Any, path: AbstractPath[Any], key: PRNGKey, file: Checkpoint, stored: dict[str, Any]
) -> tuple[Annealing, StoredRun]:
    """Return a stored run, without its pilot; raise if its numbers do not fit or the densities are others."""
    if stored["kernel"] is not None:
        algorithm = dataclasses.replace(algorithm, kernel=stored["kernel"])
    annealing, fresh = algorithm.begin(path, key=key)
    state, stats = file.filled(fresh, stored["state"]), stored["rows"]
    first = jax.tree.map(lambda leaf: np.asarray(leaf)[:1], state.particles)
    now = annealing.evaluator.particles(first.position, with_slopes=False).features
    file.check_features(first.features, to_host(now))
    rows = [{name: stats[name][i] for name in stats} for i in range(int(state.stage))]
    return annealing, StoredRun(stored["kernel"], state, rows)


def _go_on(
    algorithm: AbstractAnnealer, annealing: Annealing, run: StoredRun, file: Checkpoint, progress: bool
) -> Result:
    """All stages that are left, each with progress and a checkpoint; a partial result after Ctrl-C."""
    clock = Clock()
    latest = run
    num_per_stage = _num_evaluations(algorithm, 2) - _num_evaluations(algorithm, 1)
    try:
        with display(progress) as show:

            def observe(state: State, rows: list[Recorded]) -> None:
                nonlocal latest
                # One assignment, so that an interrupt finds the run before the stage or after it, nothing between.
                latest = StoredRun(run.kernel, state, list(rows))
                keep(file, latest)
                _report(show, clock, annealing, latest, num_per_stage)

            state, stats = anneal(annealing, run.state, observe=observe, rows=list(run.rows))
    except KeyboardInterrupt:
        keep(file, latest)
        if not annealing.is_over(latest.state, len(latest.rows)):
            return _partial(algorithm, annealing, latest, file)
        state, stats = latest.state, stack(latest.rows)
    return algorithm.finish(annealing, state, stats)


def _num_evaluations(algorithm: AbstractAnnealer, num_stages: int) -> int:
    """Evaluations of the target after some stages."""
    count = algorithm.count(num_stages)
    return count.target + count.target_gradient


def _partial(algorithm: AbstractAnnealer, annealing: Annealing, run: StoredRun, file: Checkpoint) -> Result:
    """The result of an interrupted run, with status UNFINISHED, and a line on how to continue."""
    where = f"after stage {len(run.rows)}, at beta = {float(run.state.beta):.4g}"
    advice = "give `checkpoint=` to be able to go on"
    if file.path is not None:
        advice = f"call `drive` again with the same arguments to go on from {os.fspath(file.path)}"
    print(f"interrupted {where}: {advice}.", file=sys.stderr)
    stats = stack(run.rows) if run.rows else _no_stats(annealing, run.state)
    result = algorithm.finish(annealing, run.state, stats)
    return eqx.tree_at(lambda r: r.status, result, np.asarray(int(Status.UNFINISHED)))


def _no_stats(annealing: Annealing, state: State) -> Recorded:
    """The statistics of no stage at all, under their names."""
    _, stats = annealing.step(state, state.beta)
    return jax.tree.map(lambda leaf: np.zeros((0, *np.shape(leaf)), np.result_type(leaf)), stats)


def _report(show: Show, clock: Clock, annealing: Annealing, run: StoredRun, num_per_stage: int) -> None:
    """Show one stage: beta, ESS, acceptance, speed, and an estimate of the time left."""
    stage, row = len(run.rows), run.rows[-1]
    beta_before = 0.0 if stage == 1 else float(run.rows[-2]["beta"])
    num_left = stages_left(stage, annealing.num_stages, beta_before, float(row["beta"]))
    seconds, rate = clock.seconds_left(num_left), clock.per_second(num_per_stage)
    line = line_of(stage, annealing.num_stages, row, run.state.log_weights.shape[0], seconds, rate)
    show(line, None if num_left is None else stage / (stage + num_left))
