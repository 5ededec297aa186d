"""A sweep does the runs of an experiment that are not in the store yet, here or on a Dask cluster.

A run is a function of its settings and its seed alone, so that runs can be done in any order and in any process. Only
the process of the sweep writes to the store. It writes what is finished at once: one row where runs are slow, many in
one transaction where they come faster than the disk can confirm them.
"""

import contextlib
import functools
import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import jax

from qpaths.rows import LostWorkersError, OtherVersionError, Workers, check_versions, versions

from .cluster import open_cluster
from .environment import describe
from .errors import UserError
from .experiment import Experiment, Run, Settings, canonical
from .registry import VARIABLE, find
from .store import Store

_TASK, _RATE = 0.25, 400
"""Seconds of a task of a cluster, and tasks that a scheduler handles in a second. Shorter runs go in groups, which are
larger where there are more workers."""
_MOST = 5000
"""Runs of a group."""


class Finished(NamedTuple):
    """A run that is done: its values, its seconds, and the environment that did it."""

    run: Run
    values: dict[str, Any]
    seconds: float
    environment: dict[str, Any]


Batches = Generator[list[Finished], None, None]
"""Runs that are done, as they come in."""

Progress = Callable[[int, int, Run | None], None]
"""Called with the number of runs that are done, the number of all runs, and the last run, None at the start."""


def sweep(
    experiment: Experiment,
    settings: Settings,
    num_seeds: int,
    store: Store,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress,
) -> None:
    """Do the runs that are missing, and store each row as it finishes.

    Args:
        experiment: What to run. Workers find it by its name.
        settings: The settings of the sweep, digests of its inputs included.
        num_seeds: The seeds are 0 to `num_seeds - 1`.
        store: Where rows are, and where they go.
        jobs: The number of worker processes; 1 runs in this process. The rows do not depend on it.
        cluster: The address of a Dask scheduler, whose workers do the runs.
        progress: Called before the first run and after each one, or after several that came in together.
    """
    runs = experiment.runs(settings, num_seeds)
    finished = store.keys()
    pending = [run for run in runs if run.key not in finished]
    done = len(runs) - len(pending)
    progress(done, len(runs), None)
    if not pending:
        return
    store.check()
    environments: dict[str, int] = {}
    with contextlib.closing(_results(experiment, pending, min(jobs, len(pending)), cluster)) as results:
        for batch in results:
            store.add_all([(*one[:3], _number(store, environments, one.environment)) for one in batch])
            done += len(batch)
            progress(done, len(runs), batch[-1].run)


def _number(store: Store, numbers: dict[str, int], environment: dict[str, Any]) -> int:
    """The number of an environment in the store. Workers that differ only in when they started have the same."""
    key = canonical({name: value for name, value in environment.items() if name != "started"})
    if key not in numbers:
        numbers[key] = store.add_environment(environment)
    return numbers[key]


def _results(experiment: Experiment, runs: list[Run], jobs: int, cluster: str | None) -> Batches:
    """Runs that are done, in the order in which they finish."""
    if jobs > 1 or cluster is not None:
        yield from _results_of_cluster(experiment, runs, jobs, cluster)
        return
    environment = describe()
    for run in runs:
        yield [Finished(run, *_timed(experiment, run), environment)]


def _results_of_cluster(experiment: Experiment, runs: list[Run], jobs: int, address: str | None) -> Batches:
    """Do what `_results` does, by the workers of a cluster."""
    pace = _Pace()
    settings = _Process(
        bool(jax.config.read("jax_enable_x64")),
        0 if address else jobs,
        os.environ.get(VARIABLE, ""),
        versions(),
    )
    with open_cluster(jobs, address) as client:
        workers = Workers(client)
        pending = deque(runs)

        def tasks() -> Iterator[tuple[Any, ...]]:
            while pending:
                size = pace.size(len(pending), workers.num or 1)
                yield settings, experiment.name, [pending.popleft() for _ in range(size)]

        try:
            for batch in workers.completed(_work, tasks()):
                found = [one for _, group in batch for one in group]
                pace.note(found)
                yield found
        except (LostWorkersError, OtherVersionError) as error:
            raise UserError(f"{error} Finished runs are stored, and the same command does the others.") from error


class _Pace:
    """The time that a run takes, and how many runs make a task."""

    def __init__(self) -> None:
        self.num, self.seconds = 0, 0.0

    def note(self, finished: list[Finished]) -> None:
        self.num += len(finished)
        self.seconds += sum(one.seconds for one in finished)

    def size(self, num_left: int, num_workers: int) -> int:
        """Runs of the next task: as many as the scheduler needs, but no more than a part of a worker's share."""
        if not self.num:
            return 1
        wanted = max(_TASK, num_workers / _RATE) * self.num / max(self.seconds, 1e-9)
        return max(1, min(int(wanted), num_left // (4 * num_workers), _MOST))


class _Process(NamedTuple):
    """Return what a worker must know of the process of the sweep."""

    precision: bool
    num_here: int
    """The number of workers that share the cores of this machine; 0 for workers elsewhere."""
    packages: str
    versions: dict[str, str]


def _work(settings: _Process, name: str, runs: list[Run]) -> list[Finished]:
    """Some runs in a worker, which finds the experiment by its name."""
    environment = _settle(settings.precision, settings.num_here, settings.packages, canonical(settings.versions))
    experiment = find(name)
    return [Finished(run, *_timed(experiment, run), environment) for run in runs]


@functools.lru_cache(maxsize=1)
def _settle(precision: bool, num_here: int, packages: str, wanted: str) -> dict[str, Any]:
    """Make a worker ready, once: the same versions and precision, the same experiments, and a share of the cores."""
    from distributed import get_worker

    check_versions(json.loads(wanted))
    if packages:
        os.environ[VARIABLE] = packages
    jax.config.update("jax_enable_x64", precision)
    if num_here:
        _take_cores(int(get_worker().name), num_here)
    return describe()


def _take_cores(number: int, num_workers: int) -> None:
    """Bind a worker to its share of the cores, since threads of several workers on one core wait for each other."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number::num_workers] or {cores[number % len(cores)]})


def _timed(experiment: Experiment, run: Run) -> tuple[dict[str, Any], float]:
    """The values of a run and its seconds. An error says which run it was."""
    start = time.perf_counter()
    try:
        values = experiment.run_one(run.settings, run.seed)
    except (ValueError, RuntimeError, ArithmeticError) as error:
        shown = ", ".join(f"{name} = {value}" for name, value in run.settings.items())
        raise UserError(f"{error} This was the run with {shown}, seed {run.seed}; finished runs are stored.") from error
    return values, time.perf_counter() - start
