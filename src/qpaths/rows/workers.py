"""Tasks for an executor: a pool of threads or processes, a Dask cluster, or anything else with `submit`.

Tasks that were lost with a worker run again. Workers of another version, models that cannot be sent, and clusters
without workers get errors that say what to do.
"""

import concurrent.futures
import contextlib
import importlib
import importlib.metadata
import itertools
import math
import platform
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

PATIENCE = 60.0
"""Seconds for which a cluster may be without workers before a call gives up."""
_POLL = 0.25
"""Seconds between two looks at whether somebody still works."""
_MOST_DEATHS = 5
"""Workers that may die with the same task before the task is blamed."""
_FEWEST_AHEAD, _AHEAD_EACH, _MOST_AHEAD = 32, 4, 4096
"""Tasks in flight: at least so many, so many for each worker, and so many where the number of workers is not known."""
_GLANCE = 1.0
"""Seconds for which the number of workers of a cluster is not asked again."""
_PACKAGES = "jax", "jaxlib", "numpy", "scipy"


class LostWorkersError(RuntimeError):
    """The workers of an executor are gone, and its tasks cannot be finished."""


class OtherVersionError(RuntimeError):
    """A worker runs other versions than the process that gives it work."""


class _StoppedError(RuntimeError):
    """Another thread ended the call to which this one belongs."""


def versions() -> dict[str, str]:
    """Return what must be equal in all processes for equal numbers, and for functions to travel."""
    python = ".".join(platform.python_version_tuple()[:2])
    ours = importlib.import_module(__package__.partition(".")[0]).__version__
    return {"qpaths": ours, "python": python} | {name: importlib.metadata.version(name) for name in _PACKAGES}


def check_versions(wanted: dict[str, str]) -> None:
    """Raise in a worker whose versions are not those of the process that gave it work."""
    found = versions()
    different = [name for name in wanted if found.get(name) != wanted[name]]
    if different:
        shown = ", ".join(f"{name} {found.get(name)} there, {wanted[name]} here" for name in different)
        raise OtherVersionError(
            f"the worker on {platform.node()} has other versions ({shown}): start it in the same environment as the "
            f"process that gives it work."
        )


class _Task(NamedTuple):
    """A task in flight: its place, its arguments, who has it, and how many workers died with it."""

    number: int
    arguments: tuple[Any, ...]
    executor: Any = None
    num_deaths: int = 0


class Workers:
    """An executor that runs lost tasks again, and says what is wrong where it cannot.

    Args:
        executor: An executor of `concurrent.futures`, a Dask `Client`, or an object whose `submit(function, *args)`
            returns a future of `concurrent.futures`.
    """

    def __init__(self, executor: Any):
        if not callable(getattr(executor, "submit", None)) or isinstance(executor, type):
            raise TypeError(
                f"`executor` must have `submit`, as a `concurrent.futures.ProcessPoolExecutor(2)` or a Dask `Client`, "
                f"got {executor!r}."
            )
        self._client = executor if hasattr(executor, "get_executor") else None
        if self._client is not None and self._client.asynchronous:
            raise ValueError("`executor` is an asynchronous Dask client: give a `Client` without `asynchronous=True`.")
        self._executor = executor if self._client is None else self._client.get_executor(pure=False)
        self._lock = threading.Lock()
        self._renewed: list[Any] = []
        self._looked = self._seen = -math.inf
        self._num: int | None = None
        self.is_lost = False
        """Return whether all workers were lost, so that nothing should be submitted any more."""
        self.is_stopped = False
        """Set by one thread to end the calls of `completed` in all others."""

    def close(self) -> None:
        """End the pools that were made here in place of broken ones."""
        for pool in self._renewed:
            pool.shutdown(wait=False, cancel_futures=True)

    @property
    def num(self) -> int | None:
        """Tasks that can run at the same time, as of a moment ago; None where that is not known."""
        if self._client is None:
            return getattr(self._executor, "_max_workers", None)
        with self._lock:
            now = time.monotonic()
            if now - self._looked > _GLANCE:
                self._num = _num_threads(self._client)
                self._looked = time.monotonic()
                self._seen = self._looked if self._num or math.isinf(self._seen) else self._seen
            return self._num

    def ordered(self, function: Callable[..., Any], tasks: list[tuple[Any, ...]]) -> list[Any]:
        """`function(*task)` for all tasks, in their order."""
        results: list[Any] = [None] * len(tasks)
        for finished in self.completed(function, tasks):
            for number, result in finished:
                results[number] = result
        return results

    def completed(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[list[tuple[int, Any]]]:
        """`function(*task)` for all tasks: lists of numbers and results, as they come in.

        What came in while the caller was busy is one list. Tasks are submitted shortly before workers need them. An
        exception of the function is raised here. Closing the generator cancels what has not begun.
        """
        numbered = itertools.starmap(_Task, enumerate(tasks))
        waiting: dict[Any, _Task] = {}
        finished: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def start(task: _Task) -> None:
            future, executor = self._submit(function, task.arguments)
            waiting[future] = task._replace(executor=executor)
            future.add_done_callback(finished.put)

        try:
            while True:
                for task in itertools.islice(numbered, max(0, self._num_ahead - len(waiting))):
                    start(task)
                if not waiting:
                    return
                results = []
                for future in self._next(finished):
                    task = waiting.pop(future)
                    try:
                        results.append((task.number, future.result()))
                    except _lost_errors() as error:
                        start(self._again(task, error))
                if results:
                    yield results
        finally:
            for future in waiting:
                future.cancel()

    @property
    def _num_ahead(self) -> int:
        """Tasks to have in flight."""
        num = self.num
        return _MOST_AHEAD if num is None else max(_FEWEST_AHEAD, _AHEAD_EACH * num)

    def _next(self, finished: "queue.SimpleQueue[Any]") -> list[Any]:
        """The futures that are done: at least one, unless nothing happened for a moment."""
        if self.is_stopped:
            raise _StoppedError("another thread ended this call")
        try:
            done = [finished.get(timeout=_POLL)]
        except queue.Empty:
            self._check_alive()
            return []
        with contextlib.suppress(queue.Empty):
            while True:
                done.append(finished.get_nowait())
        return done

    def _check_alive(self) -> None:
        """Raise where a cluster has had no workers for too long."""
        if self._client is None or self.num or time.monotonic() - self._seen < PATIENCE:
            return
        address = getattr(self._client.scheduler, "address", "an unknown address")
        raise self._lost(
            f"the cluster at {address} has had no workers for {PATIENCE:.0f} s: start some (`dask worker {address}`)"
        )

    def _lost(self, words: str) -> LostWorkersError:
        self.is_lost = True
        return LostWorkersError(f"{words}, and make the same call again.")

    def _submit(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
        """The future of a task, and the executor that has it."""
        while True:
            executor = self._executor
            try:
                return executor.submit(function, *arguments), executor
            except concurrent.futures.BrokenExecutor as error:
                self._renew(executor, error)
            except Exception as error:
                if self._client is not None and self._client.status == "running":
                    raise
                raise self._lost(f"`executor` takes no more work ({error}): give one that is open") from error

    def _again(self, task: _Task, error: BaseException) -> _Task:
        """A task that was lost, to be submitted anew; an error where that makes no sense."""
        if isinstance(error, concurrent.futures.CancelledError):
            raise self._lost("the executor was shut down, or its scheduler is gone: start it anew") from error
        if task.num_deaths + 1 >= _MOST_DEATHS:
            raise LostWorkersError(
                f"{_MOST_DEATHS} workers died with the same task ({error}): they may have too little memory, or the "
                f"function ends its process. Call it in a single process to see."
            ) from error
        if isinstance(error, concurrent.futures.BrokenExecutor):
            self._renew(task.executor, error)
        return task._replace(num_deaths=task.num_deaths + 1)

    def _renew(self, broken: Any, error: BaseException) -> None:
        """Put a new pool of processes in the place of a broken one: the death of one process breaks the whole pool."""
        with self._lock:
            if self._executor is not broken:
                return
            if not isinstance(broken, concurrent.futures.ProcessPoolExecutor):
                raise self._lost(f"`executor` is broken ({error}): give a new one") from error
            old: Any = broken
            self._executor = concurrent.futures.ProcessPoolExecutor(
                old._max_workers, old._mp_context, old._initializer, old._initargs
            )
            self._renewed.append(self._executor)


def _num_threads(client: Any) -> int:
    """Threads of all workers of a Dask cluster; 0 where its scheduler does not answer."""
    if client.status != "running":
        return 0
    try:
        return sum(client.nthreads().values())
    except Exception:
        return 0


def _lost_errors() -> tuple[type[BaseException], ...]:
    """Errors that speak of the worker, not of the task."""
    dask = sys.modules.get("distributed")
    known = concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError
    return known if dask is None else (*known, dask.KilledWorker)
