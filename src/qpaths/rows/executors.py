"""Evaluation of densities over an executor: chunks of rows go to workers, and what is cheaper than the trip stays here.

The numbers do not depend on who evaluates a chunk, nor on the order in which chunks come back. So a run has the same
numbers with any executor. The model travels to each worker once.
"""

import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import math
import multiprocessing
import os
import threading
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from ..core import PyTree, one_thread
from .workers import Workers, check_versions, versions

BATCH = 32
"""Rows of one call of a batched NumPy density. Always as many, because sums over a batch may depend on its size."""
_WORTH = 0.05
"""Seconds of work that are worth the trip to a worker."""
_TASK = 0.2
"""Seconds of work of one task, where there is enough for all workers."""
_MOST_MODELS = 16
"""Models that a worker keeps, since each may hold data."""
_DEEPEST = 12
"""Parts within parts that are searched for what cannot travel: values may refer to themselves."""
_IMPORTED_IN = os.getpid()
"""The process that imported this module; another number says that a process was forked."""

_models: OrderedDict[str, Callable[[np.ndarray], Any]] = OrderedDict()
"""The models that this process knows, the newest at the end. Threads of the caller find theirs without a trip."""
_lock = threading.Lock()


class RemoteFunction:
    """A function of rows that may travel, and what a row was seen to cost."""

    def __init__(self, function: Callable[[np.ndarray], Any]):
        self.function = function
        self.token = uuid.uuid4().hex
        self._num, self._seconds, self._num_rows = 0, 0.0, 0
        _models[self.token] = function

    @functools.cached_property
    def packed(self) -> bytes:
        return pack(self.function)

    @property
    def seconds_each(self) -> float:
        """Seconds that a row costs; 0 where that is not known."""
        return self._seconds / max(self._num_rows, 1)

    def note(self, seconds: float, num_rows: int) -> None:
        """Learn from a call. The first one may compile or import something, and does not count."""
        self._num += 1
        if self._num > 1:
            self._seconds, self._num_rows = self._seconds + seconds, self._num_rows + num_rows

    def here(self, rows: np.ndarray) -> PyTree:
        found, seconds = _timed(self.function, rows)
        self.note(seconds, len(rows))
        return found


class OverWorkers:
    """Evaluates chunks of rows over some workers."""

    def __init__(self, workers: Workers):
        self.workers = workers
        self.models: dict[Any, RemoteFunction] = {}
        self.num_shipped = 0
        self.num_together = 1.0
        """Runs that share the workers, of which each has some tasks waiting while others run."""
        self._versions = versions()

    def model(self, key: Any, make: Callable[[], Any]) -> RemoteFunction:
        """The model with some key, an `Identity` perhaps; made where it is not there."""
        if key not in self.models:
            self.models[key] = RemoteFunction(make())
        return self.models[key]

    def rows_at_once(self, model: RemoteFunction, num: int) -> int:
        """Rows of a task, of the right size for the workers; single rows where their cost is not known."""
        if 0 < model.seconds_each * num <= _WORTH:
            return num
        num_workers = self.workers.num
        share = num if num_workers is None else math.ceil(num * self.num_together / max(num_workers, 1))
        return 1 if model.seconds_each == 0 else min(max(1, int(_TASK / model.seconds_each)), share)

    def each(self, model: RemoteFunction, chunks: Sequence[np.ndarray]) -> list[Any]:
        """The function of a model at each chunk, in order: here while that is cheap, over the workers otherwise."""
        found: list[Any] = []
        left = sum(map(len, chunks))
        for chunk in chunks:
            if model.seconds_each * left > _WORTH and not self.workers.is_lost:
                break
            found.append(model.here(chunk))
            left -= len(chunk)
        return found + self._ship(model, chunks[len(found) :])

    def _ship(self, model: RemoteFunction, chunks: Sequence[np.ndarray]) -> list[Any]:
        """Chunks over the workers; a worker that does not know the model says so, and gets it."""
        found: list[Any] = [None] * len(chunks)
        places = list(range(len(chunks)))
        for packed in (lambda: None, lambda: model.packed):
            if places:
                content = packed()
                tasks = [(model.token, content, self._versions, chunks[i]) for i in places]
                for place, answer in zip(places, self.workers.ordered(evaluate_there, tasks), strict=True):
                    if answer is not None:
                        found[place], seconds = answer
                        model.note(seconds, len(chunks[place]))
                places = [i for i in places if found[i] is None]
        self.num_shipped += len(chunks)
        return found

    def close(self) -> None:
        self.workers.close()
        with _lock:
            for model in self.models.values():
                _models.pop(model.token, None)


def evaluate_there(
    token: str, packed: bytes | None, wanted: dict[str, str], rows: np.ndarray
) -> tuple[Any, float] | None:
    """The task of a worker: a model at some rows, and the seconds it took; None where the worker lacks the model."""
    function = _models.get(token)
    if function is None:
        if packed is None:
            return None
        check_versions(wanted)
        function = unpack(packed)
        with _lock:
            _models[token] = function
            while len(_models) > _MOST_MODELS:
                _models.popitem(last=False)
    if os.getpid() != _IMPORTED_IN and getattr(function, "is_compiled", False):
        raise RuntimeError(
            "`executor` forks its processes, and JAX cannot run in a fork: give `ProcessPoolExecutor(2, "
            "mp_context=multiprocessing.get_context('spawn'))`."
        )
    return _timed(function, rows)


def _timed(function: Callable[[np.ndarray], Any], rows: np.ndarray) -> tuple[Any, float]:
    """A model at some rows, and the seconds it took.

    Linear algebra has one thread, because the order of its sums depends on the number of threads.
    """
    begun = time.perf_counter()
    with one_thread():
        found = function(rows)
    return found, time.perf_counter() - begun


_current: contextvars.ContextVar[OverWorkers | None] = contextvars.ContextVar("qpaths_spread", default=None)


def spread_of_call() -> OverWorkers | None:
    """Return what spreads the current call's evaluations; None where it does them here."""
    return _current.get()


@contextlib.contextmanager
def spread_over(executor: Any) -> Iterator[None]:
    """Evaluate the densities of all runs inside this context over an executor; None evaluates them here.

    A number starts that many processes, once.
    """
    if executor is None:
        yield
        return
    if isinstance(executor, int):
        # A fork needs no `if __name__ == "__main__"` in the script of the user. NumPy functions run in one.
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
            with concurrent.futures.ProcessPoolExecutor(executor, mp_context=context) as own, spread_over(own):
                yield
        return
    spread = OverWorkers(Workers(executor))
    token = _current.set(spread)
    try:
        yield
    finally:
        _current.reset(token)
        spread.close()


def together(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """`function(item)` for all items, in order.

    Where evaluations go to workers, the items run at the same time, each in a thread that mostly waits. The
    function must not depend on the order.
    """
    spread = _current.get()
    if spread is None or not spread.num_shipped or spread.workers.is_lost:
        return [function(item) for item in items]
    try:
        spread.num_together = max(1.0, len(items) / 2)
        # A limit on threads belongs to the process: the one around all threads here is the last to be lifted.
        with one_thread(), concurrent.futures.ThreadPoolExecutor(len(items)) as pool:
            futures = [pool.submit(contextvars.copy_context().run, function, item) for item in items]
            try:
                concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION)
                failed = [future for future in futures if future.done() and future.exception()]
                return [future.result() for future in failed or futures]
            except BaseException:
                spread.workers.is_stopped = True
                raise
    finally:
        spread.workers.is_stopped, spread.num_together = False, 1.0


# Models as bytes, and errors that name the part that cannot travel.


def pack(value: Any) -> bytes:
    """A function with all that it needs, as bytes.

    Functions of modules that workers can import go by name, all others by content, with the data they close over.

    Raises:
        TypeError: If some part cannot travel; it names the part.
    """
    try:
        return _dumps(value)
    except Exception as error:
        raise TypeError(
            f"the model cannot be sent to the workers of `executor`: {_culprit(value)} cannot be pickled ({error}). "
            f"Make it inside the function, or give an executor of threads."
        ) from error


def unpack(content: bytes) -> Any:
    """The inverse of `pack`, in a worker."""
    import cloudpickle

    try:
        return cloudpickle.loads(content)
    except ImportError as error:
        raise RuntimeError(
            f"a worker cannot import what the model needs ({error}): install it where the workers run, or start them "
            f"in the same environment and folder."
        ) from error


def _dumps(value: Any) -> bytes:
    import cloudpickle

    return cloudpickle.dumps(value)


def _culprit(value: Any, name: str = "", depth: int = 0) -> str:
    """The innermost part that cannot be pickled, with the names that lead to it."""
    for label, part in _parts(value) if depth < _DEEPEST else ():
        if not _can_travel(part):
            return _culprit(part, label if not name else f"{label} in {name}", depth + 1)
    kind = f"a {type(value).__module__}.{type(value).__qualname__}"
    return f"{name}, {kind}," if name else kind


def _can_travel(part: Any) -> bool:
    try:
        _dumps(part)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a value consists of, with names that its author knows."""
    if isinstance(value, functools.partial | jax.tree_util.Partial):
        yield f"`{getattr(value.func, '__name__', 'a function')}`", value.func
        yield from ((f"argument {i}", part) for i, part in enumerate(value.args))
        yield from ((f"`{name}`", part) for name, part in value.keywords.items())
    elif inspect.isfunction(value):
        found = inspect.getclosurevars(value)
        yield from ((f"`{name}`", part) for name, part in {**found.nonlocals, **found.globals}.items())
    elif inspect.ismethod(value):
        yield f"`{type(value.__self__).__name__}`", value.__self__
    elif isinstance(value, dict):
        yield from ((f"`{name}`", part) for name, part in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        yield from ((f"`{name}`", part) for name, part in value._asdict().items())
    elif isinstance(value, tuple | list):
        yield from ((f"element {i}", part) for i, part in enumerate(value))
    elif hasattr(value, "__dict__"):
        yield from ((f"`{name}`", part) for name, part in vars(value).items())
