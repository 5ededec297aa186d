"""Tasks over executors: results in order, lost tasks run again, and errors that say what to do."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading
import time

import pytest

from qpaths.rows import LostWorkersError, OtherVersionError, Workers, check_versions, versions, workers

SPAWN = multiprocessing.get_context("spawn")


def _double(x):
    return 2 * x


def _die_once(folder, x):
    """Ends its process, but only the first time that it gets this task."""
    mark = os.path.join(folder, str(x))
    if x % 5 == 0 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * x


def _die(x):
    os.kill(os.getpid(), signal.SIGKILL)


class Backwards:
    """Finishes the tasks that it has in the reverse of the order in which they came."""

    _max_workers = 4

    def __init__(self):
        self.tasks = []
        self.lock = threading.Lock()

    def submit(self, function, *arguments):
        future = concurrent.futures.Future()
        with self.lock:
            self.tasks.append((future, function, arguments))
        threading.Timer(0.02, self._finish).start()
        return future

    def _finish(self):
        with self.lock:
            future, function, arguments = self.tasks.pop()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)


def test_results_are_in_the_order_of_the_tasks():
    given = Workers(Backwards())
    seen = [number for batch in given.completed(_double, [(i,) for i in range(40)]) for number, _ in batch]
    assert sorted(seen) == list(range(40))
    assert seen != sorted(seen)
    assert given.ordered(_double, [(i,) for i in range(40)]) == [2 * i for i in range(40)]


def test_no_more_tasks_are_in_flight_than_workers_need():
    executor = Backwards()
    most = 0
    for _ in Workers(executor).completed(_double, ((i,) for i in range(200))):
        most = max(most, len(executor.tasks))
    assert most <= 32


def test_tasks_of_a_dead_process_run_again(tmp_path):
    with concurrent.futures.ProcessPoolExecutor(2, SPAWN) as pool:
        given = Workers(pool)
        try:
            found = given.ordered(_die_once, [(str(tmp_path), i) for i in range(12)])
        finally:
            given.close()
    assert found == [2 * i for i in range(12)]
    assert len(list(tmp_path.iterdir())) == 3, "no process died"


def test_a_task_that_kills_every_process_is_blamed(monkeypatch):
    monkeypatch.setattr(workers, "_MOST_DEATHS", 2)
    with concurrent.futures.ProcessPoolExecutor(1, SPAWN) as pool:
        given = Workers(pool)
        try:
            with pytest.raises(LostWorkersError, match="2 workers died with the same task"):
                given.ordered(_die, [(1,)])
        finally:
            given.close()


def test_closing_cancels_what_has_not_begun():
    begun = []

    def slow(x):
        begun.append(x)
        time.sleep(0.05)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        tasks = Workers(pool).completed(slow, [(i,) for i in range(20)])
        next(tasks)
        tasks.close()
    assert len(begun) <= 3


def test_a_closed_executor_says_so():
    pool = concurrent.futures.ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(LostWorkersError, match="takes no more work"):
        Workers(pool).ordered(_double, [(1,)])


@pytest.mark.parametrize("wrong", [4, "cluster", concurrent.futures.ThreadPoolExecutor])
def test_what_is_no_executor(wrong):
    with pytest.raises(TypeError, match="`executor` must have `submit`"):
        Workers(wrong)


class Empty:
    """As a Dask client whose cluster has no workers."""

    asynchronous = False
    status = "running"

    class scheduler:  # noqa: N801
        address = "tcp://nowhere:8786"

    def get_executor(self, pure):
        return self

    def submit(self, function, *arguments):
        return concurrent.futures.Future()

    def nthreads(self):
        return {}


def test_a_cluster_without_workers_is_an_error(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    given = Workers(Empty())
    with pytest.raises(LostWorkersError, match=r"nowhere:8786 has had no workers .* start some \(`dask worker tcp"):
        given.ordered(_double, [(1,)])
    assert given.is_lost


def test_versions():
    check_versions(versions())
    with pytest.raises(OtherVersionError, match=r"numpy [\d.]+ there, 1.0 here"):
        check_versions(versions() | {"numpy": "1.0"})
