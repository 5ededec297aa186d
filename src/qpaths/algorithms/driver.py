"""Long runs, stepped from Python: progress, a file to go on from, and a partial result when interrupted."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._types import PRNGKey
from ..paths import AbstractPath
from ..results import Result, Status
from .ais import AIS
from .base import Annealing, State, advance
from .checkpoint import Run, check_densities, check_folder, read_checkpoint, settings_of, stacked, write_checkpoint
from .progress import Clock, Show, display, line_of, stages_left
from .smc import SMC


def drive(
    algorithm: AIS | SMC,
    path: AbstractPath[Any],
    *,
    key: PRNGKey,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Result:
    """`algorithm.run(path, key=key)`, step by step: the same numbers for the same key.

    With `checkpoint`, the run is written to that file after each stage, and a second call with the same arguments goes
    on from there with the numbers of an uninterrupted run; at most the stage under way is lost. Ctrl-C returns what
    there is, with `status` UNFINISHED and samples at the last beta that was reached. `progress` shows each stage on
    standard error.
    """
    if not isinstance(algorithm, AIS | SMC):
        raise TypeError(f"`drive` steps AIS and SMC, got {type(algorithm).__name__}: call its `run`.")
    keeper = _Keeper(checkpoint, {} if checkpoint is None else settings_of(algorithm, path, key))
    if checkpoint is not None and Path(checkpoint).exists():
        stored = read_checkpoint(checkpoint, keeper.settings, _template(algorithm, path, key))
        annealing = _resume(algorithm, path, key, stored)
        check_densities(checkpoint, annealing, stored)
        return _go_on(algorithm, annealing, stored, keeper, progress)
    if checkpoint is not None:
        check_folder(checkpoint)
    annealing, state = algorithm.begin(path, key=key)
    run = Run(annealing.params, _strong(state), [])
    keeper.keep(run)
    return _go_on(algorithm, annealing, run, keeper, progress)


@dataclasses.dataclass(frozen=True)
class _Keeper:
    """Keeps a run in a file, where there is one; a run that has met a fault is not worth going on from."""

    checkpoint: str | os.PathLike[str] | None
    settings: dict[str, str]

    def keep(self, run: Run) -> None:
        if self.checkpoint is not None and int(run.state.fault.status) == Status.OK:
            write_checkpoint(self.checkpoint, self.settings, run)

    @property
    def advice(self) -> str:
        if self.checkpoint is None:
            return "give `checkpoint=` to be able to go on"
        return f"call `drive` again with the same arguments to go on from {os.fspath(self.checkpoint)}"


def _template(algorithm: AIS | SMC, path: AbstractPath[Any], key: PRNGKey) -> Run:
    """Shapes of a run, found without running anything."""

    def begin() -> Run:
        annealing, state = algorithm.begin(path, key=key)
        return Run(annealing.params, state, [])

    return jax.eval_shape(begin)


def _resume(algorithm: AIS | SMC, path: AbstractPath[Any], key: PRNGKey, stored: Run) -> Annealing:
    """The settings of a stored run, whose pilot need not run again."""
    if isinstance(algorithm, AIS):
        return algorithm.begin(path, key=key, params=stored.params)[0]
    return algorithm.begin(path, key=key)[0]


def _strong(state: State) -> State:
    """Without the weak types of Python numbers, which a file does not keep and which would compile a step twice."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), state)


def _go_on(algorithm: AIS | SMC, annealing: Annealing, run: Run, keeper: _Keeper, progress: bool) -> Result:
    clock = Clock()
    try:
        with display(progress) as show:
            while algorithm.unfinished(run.state, run.rows):
                # One assignment, so that an interrupt finds the run before the stage or after it, nothing between.
                run = _step(annealing, run)
                keeper.keep(run)
                _report(show, clock, annealing, run)
    except KeyboardInterrupt:
        keeper.keep(run)
        if algorithm.unfinished(run.state, run.rows):
            return _partial(algorithm, annealing, run, keeper)
    return algorithm.finish(annealing, run.state, _stats(annealing, run))


def _partial(algorithm: AIS | SMC, annealing: Annealing, run: Run, keeper: _Keeper) -> Result:
    where = f"after stage {len(run.rows)}, at beta = {float(run.state.beta):.4g}"
    print(f"interrupted {where}: {keeper.advice}.", file=sys.stderr)
    result = algorithm.finish(annealing, run.state, _stats(annealing, run))
    return eqx.tree_at(lambda r: r.status, result, jnp.full_like(result.status, Status.UNFINISHED))


def _step(annealing: Annealing, run: Run) -> Run:
    """One stage, waited for."""
    state, row = jax.block_until_ready(advance(annealing, run.state))
    return Run(run.params, _strong(state), [*run.rows, {name: np.asarray(value)[()] for name, value in row.items()}])


def _stats(annealing: Annealing, run: Run) -> dict[str, Array]:
    if run.rows:
        return jax.tree.map(jnp.asarray, stacked(run.rows))
    row = jax.eval_shape(lambda state: annealing.step(state)[1], run.state)
    return jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape), leaf.dtype), row)


def _report(show: Show, clock: Clock, annealing: Annealing, run: Run) -> None:
    stage, row = len(run.rows), run.rows[-1]
    num_stages = None if annealing.betas is None else annealing.betas.shape[0] - 1
    beta_before = 0.0 if stage == 1 else float(run.rows[-2]["beta"])
    num_left = stages_left(stage, num_stages, beta_before, float(row["beta"]))
    line = line_of(stage, num_stages, row, run.state.log_weights.shape[0], clock.seconds_left(num_left))
    show(line, None if num_left is None else stage / (stage + num_left))
