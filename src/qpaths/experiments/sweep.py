"""A sweep does the runs of an experiment that are not in the store yet, here or in worker processes.

A run is a function of its settings and its seed alone, so that runs can be done in any order and in any process. Only
the parent process writes to the store, one row at a time, as soon as a run is finished.
"""

import concurrent.futures
import concurrent.futures.process
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from .environment import describe
from .errors import UserError
from .experiment import Experiment, Run, Settings
from .registry import find
from .store import Store

Result = tuple[Run, dict[str, Any], float]
"""A run, its values, and its seconds."""

Progress = Callable[[int, int, Run | None], None]
"""Called with the number of runs that are done, the number of all runs, and the last run, None at the start."""


def sweep(
    experiment: Experiment, settings: Settings, num_seeds: int, store: Store, *, jobs: int = 1, progress: Progress
) -> None:
    """Do the runs that are missing, and store each row as it finishes.

    Args:
        experiment: What to run. Workers find it by its name.
        settings: The settings of the sweep, digests of its inputs included.
        num_seeds: The seeds are 0 to `num_seeds - 1`.
        store: Where rows are, and where they go.
        jobs: The number of worker processes; 1 runs in this process. The rows do not depend on it.
        progress: Called before the first run and after each one.
    """
    runs = experiment.runs(settings, num_seeds)
    finished = store.keys()
    pending = [run for run in runs if run.key not in finished]
    done = len(runs) - len(pending)
    progress(done, len(runs), None)
    if not pending:
        return
    environment = store.add_environment(describe())
    for run, values, seconds in _results(experiment, pending, jobs):
        store.add(run, values, environment, seconds)
        done += 1
        progress(done, len(runs), run)


def _results(experiment: Experiment, runs: list[Run], jobs: int) -> Iterator[Result]:
    """The result of each run, in the order in which they finish."""
    if jobs > 1:
        yield from _results_of_workers(experiment, runs, min(jobs, len(runs)))
        return
    for run in runs:
        with _named(run):
            values, seconds = _timed(experiment, run)
        yield run, values, seconds


def _results_of_workers(experiment: Experiment, runs: list[Run], jobs: int) -> Iterator[Result]:
    """The result of each run, from worker processes. They end when this generator is closed."""
    context = multiprocessing.get_context("spawn")  # a forked copy of a process that has used jax can hang
    precision = bool(jax.config.read("jax_enable_x64"))
    arguments = (precision, jobs, context.Value("i", 0))
    with concurrent.futures.ProcessPoolExecutor(jobs, context, _start, arguments) as pool:
        futures = {pool.submit(_work, experiment.name, run): run for run in runs}
        try:
            for future in concurrent.futures.as_completed(futures):
                run = futures[future]
                with _named(run):
                    values, seconds = future.result()
                yield run, values, seconds
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _timed(experiment: Experiment, run: Run) -> tuple[dict[str, Any], float]:
    """The values of a run and its seconds."""
    start = time.perf_counter()
    values = experiment.run_one(run.settings, run.seed)
    return values, time.perf_counter() - start


def _start(precision: bool, num_workers: int, num_started: Any) -> None:
    """Set up a new worker: the precision of its parent, a share of the cores, and an end when the parent ends.

    Ctrl-C reaches all processes of a terminal. Workers ignore it, and the parent ends them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    jax.config.update("jax_enable_x64", precision)
    with num_started.get_lock():
        number = num_started.value
        num_started.value += 1
    _take_cores(number, num_workers)
    parent = multiprocessing.parent_process()

    def leave() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _take_cores(number: int, num_workers: int) -> None:
    """Bind a worker to its share of the cores, since threads of several workers on one core wait for each other."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[number::num_workers] or {cores[number % len(cores)]})


def _work(name: str, run: Run) -> tuple[dict[str, Any], float]:
    """One run in a worker, which finds the experiment by its name."""
    return _timed(find(name), run)


@contextlib.contextmanager
def _named(run: Run) -> Iterator[None]:
    """Add to an error of a run which run it was, and that the rows before it are stored."""
    try:
        yield
    except concurrent.futures.process.BrokenProcessPool as error:
        raise UserError(
            "a worker process was killed, perhaps for memory; finished runs are stored. Run the same command again, "
            "with fewer --jobs."
        ) from error
    except (ValueError, RuntimeError, ArithmeticError) as error:
        shown = ", ".join(f"{name} = {value}" for name, value in run.settings.items())
        raise UserError(f"{error} This was the run with {shown}, seed {run.seed}; finished runs are stored.") from error
