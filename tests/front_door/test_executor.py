"""`evidence` over executors: the same numbers, and nothing lost where workers are."""

import concurrent.futures
import multiprocessing
import os
import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.results import Status
from qpaths.rows import LostWorkersError, workers
from qpaths.rows import executors as spreading

BUDGET = 20_000


def _log_prior(x):
    return -0.5 * np.sum(np.square(x), axis=-1) - np.log(2 * np.pi)


def _log_joint(x):
    return _log_prior(x) - 30 * np.square(x[..., 0] - np.square(x[..., 1]))


def _sample(generator):
    return generator.standard_normal(2)


def _numpy(log_joint=_log_joint):
    prior = qp.Density(_log_prior, _sample, backend="numpy", batched=True)
    return {"base": prior, "target": qp.Density(log_joint, backend="numpy", batched=True)}


def _jax():
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    return {"base": base, "target": lambda x: base.log_prob(x) - 3 * jnp.square(x[0] - jnp.square(x[1]))}


def _evidence(model, executor=None, **options):
    return qp.evidence(**model, key=jax.random.key(0), budget=BUDGET, executor=executor, **options)


def _equal(one, other):
    parts = [(r.log_evidence, r.log_evidence_se, r.samples, r.log_weights, r.betas, r.stats) for r in (one, other)]
    same = jax.tree.map(lambda a, b: np.array_equal(a, b, equal_nan=True), *parts)
    return jax.tree.all(same) and one.num_evaluations == other.num_evaluations


@pytest.fixture(autouse=True)
def _everything_travels(monkeypatch):
    monkeypatch.setattr(spreading, "_WORTH", -1.0)


@pytest.fixture(scope="module")
def alone():
    return {"numpy": _evidence(_numpy()), "jax": _evidence(_jax())}


@pytest.mark.parametrize(("name", "num"), [("numpy", 1), ("numpy", 16), ("jax", 3)])
def test_the_same_numbers_with_any_number_of_workers(alone, name, num):
    with concurrent.futures.ThreadPoolExecutor(num) as pool:
        assert _equal(alone[name], _evidence({"numpy": _numpy, "jax": _jax}[name](), pool))


class Dying:
    """A cluster of Dask, as far as it matters here, that loses its workers after some tasks."""

    asynchronous = False
    status = "running"

    class scheduler:  # noqa: N801
        address = "tcp://gone:8786"

    def __init__(self, num):
        self.num = num
        self.lock = threading.Lock()

    def get_executor(self, pure):
        return self

    def nthreads(self):
        return {"one": 1} if self.num > 0 else {}

    def submit(self, function, *arguments):
        future = concurrent.futures.Future()
        with self.lock:
            self.num -= 1
        if self.num > 0:
            future.set_result(function(*arguments))
        return future


def test_a_cluster_that_loses_all_workers(alone, tmp_path, monkeypatch):
    """Finished islands are the answer, the file has them, and the same call with other workers ends as if alone."""
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    monkeypatch.setattr(workers, "_GLANCE", 0.05)
    whole = Dying(10**9)
    _evidence(_numpy(), whole)
    num_tasks = 10**9 - whole.num
    with pytest.raises(LostWorkersError, match="tcp://gone:8786 has had no workers"):
        _evidence(_numpy(), Dying(num_tasks // 20))
    with pytest.warns(UserWarning, match="This is what the finished islands say"):
        result = _evidence(_numpy(), Dying(int(0.8 * num_tasks)), checkpoint=tmp_path / "run")
    assert int(result.status) == Status.UNFINISHED
    assert 0 < result.islands["log_evidence"].size < alone["numpy"].islands["log_evidence"].size
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert _equal(alone["numpy"], _evidence(_numpy(), pool, checkpoint=tmp_path / "run"))


def test_interrupted_and_continued(alone, tmp_path):
    """Ctrl-C while islands wait for workers."""

    class Interrupted(Dying):
        def submit(self, function, *arguments):
            future = super().submit(function, *arguments)
            if self.num == 0:
                future.set_exception(KeyboardInterrupt())
            return future

    whole = Dying(10**9)
    _evidence(_numpy(), whole)
    late = int(0.95 * (10**9 - whole.num))
    result = _evidence(_numpy(), Interrupted(late), checkpoint=tmp_path / "run")
    assert int(result.status) == Status.UNFINISHED
    assert _equal(alone["numpy"], _evidence(_numpy(), checkpoint=tmp_path / "run"))


def _killed(x):
    """Ends its process, once."""
    mark = os.environ["QPATHS_TEST_MARK"]
    if multiprocessing.parent_process() is not None and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return _log_joint(x)


def test_a_process_that_dies(alone, tmp_path, monkeypatch):
    monkeypatch.setenv("QPATHS_TEST_MARK", str(tmp_path / "mark"))
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert _equal(alone["numpy"], _evidence(_numpy(_killed), pool))
    assert (tmp_path / "mark").exists()
