"""Long runs, stepped from Python: progress, a file to go on from, and a partial result when interrupted."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._types import PRNGKey
from ..annealing import Annealing, State, anneal
from ..annealing.loop import Recorded
from ..arrays import stack
from ..checkpoints import check_folder
from ..kernels import FrozenKernel
from ..paths import AbstractPath
from ..progress import Clock, Show, display, line_of, stages_left
from ..results import Result, Status
from ..rows import layout_of
from .base import AbstractAnnealer
from .checkpoint import StoredRun, check_densities, read_checkpoint, settings_of, write_checkpoint


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
    keeper = _Keeper(checkpoint, {} if checkpoint is None else settings_of(algorithm, path, key))
    if checkpoint is not None and Path(checkpoint).exists():
        stored = read_checkpoint(checkpoint, keeper.settings)
        annealing, fresh = _begin_again(algorithm, path, key, stored.kernel)
        run = stored.like(checkpoint, fresh)
        check_densities(checkpoint, annealing, run)
        return _go_on(algorithm, annealing, run, keeper, progress)
    if checkpoint is not None:
        check_folder(checkpoint)
    annealing, state = algorithm.begin(path, key=key)
    run = StoredRun(algorithm.pilot_arrays(annealing), state, [])
    keeper.keep(run)
    return _go_on(algorithm, annealing, run, keeper, progress)


@dataclasses.dataclass(frozen=True)
class _Keeper:
    """Keeps a run in a file, where there is one.

    A run that has met a fault is not kept: the file then holds the last good stage.
    """

    checkpoint: str | os.PathLike[str] | None
    settings: dict[str, str]

    def keep(self, run: StoredRun) -> None:
        if self.checkpoint is not None and int(run.state.fault.status) == Status.OK:
            write_checkpoint(self.checkpoint, self.settings, run)

    @property
    def advice(self) -> str:
        """What to do after an interruption, for the user."""
        if self.checkpoint is None:
            return "give `checkpoint=` to be able to go on"
        return f"call `drive` again with the same arguments to go on from {os.fspath(self.checkpoint)}"


def _begin_again(
    algorithm: AbstractAnnealer, path: AbstractPath[Any], key: PRNGKey, arrays: dict[str, Any] | None
) -> tuple[Annealing, State]:
    """The run of a checkpoint without its pilot: the kernel is made from what the pilot had fitted.

    The state at beta = 0 serves as a template for the stored one.
    """
    if arrays is None:
        return algorithm.begin(path, key=key)
    with_pilot: Any = algorithm
    kernel = FrozenKernel.from_arrays(with_pilot.kernel, arrays, layout_of(path).dimension)
    return dataclasses.replace(with_pilot, kernel=kernel).begin(path, key=key)


def _go_on(
    algorithm: AbstractAnnealer, annealing: Annealing, run: StoredRun, keeper: _Keeper, progress: bool
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
                keeper.keep(latest)
                _report(show, clock, annealing, latest, num_per_stage)

            state, stats = anneal(annealing, run.state, observe=observe, rows=list(run.rows))
    except KeyboardInterrupt:
        keeper.keep(latest)
        if not annealing.is_over(latest.state, len(latest.rows)):
            return _partial(algorithm, annealing, latest, keeper)
        state, stats = latest.state, stack(latest.rows)
    return algorithm.finish(annealing, state, stats)


def _num_evaluations(algorithm: AbstractAnnealer, num_stages: int) -> int:
    """Evaluations of the target after some stages."""
    count = algorithm.count(num_stages)
    return count.target + count.target_gradient


def _partial(algorithm: AbstractAnnealer, annealing: Annealing, run: StoredRun, keeper: _Keeper) -> Result:
    """The result of an interrupted run, with status UNFINISHED, and a line on how to continue."""
    where = f"after stage {len(run.rows)}, at beta = {float(run.state.beta):.4g}"
    print(f"interrupted {where}: {keeper.advice}.", file=sys.stderr)
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
