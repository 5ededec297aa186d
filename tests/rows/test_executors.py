"""Evaluation over an executor gives the numbers of an evaluation here, whoever does what and in whatever order."""

import concurrent.futures
import multiprocessing
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.rows import Evaluator, Faults, HostDensities, layout_of, rejecting, spread_over, together, versions
from qpaths.rows import executors as spreading

ROWS = np.random.default_rng(0).standard_normal((300, 3))


class Shuffled:
    """Runs tasks at once, and delivers them in random order from a thread."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.num = 0

    def submit(self, function, *arguments):
        self.num += 1
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            result = function(*arguments)
        except Exception as error:
            threading.Timer(0.01 * self.rng.random(), future.set_exception, [error]).start()
        else:
            threading.Timer(0.01 * self.rng.random(), future.set_result, [result]).start()
        return future


def _log_prob(x):
    return float(-0.5 * np.sum(np.square(x)) + np.log1p(np.exp(x[0])))


def _batched(x):
    return -0.5 * np.sum(np.square(x), axis=-1) + np.log1p(np.exp(x[:, 0]))


def _fails_at_some(x):
    return _log_prob(x) if x[0] > 0 else 1 / 0


def _gradient(x):
    shift = np.zeros(3)
    shift[0] = 1 / (1 + np.exp(-x[0]))
    return shift - x


def _sample(generator):
    return generator.standard_normal(3)


def _numpy_path(target):
    return qp.GeometricPath(qp.Density(_log_prob, _sample, backend="numpy", gradient=_gradient), target)


PATHS = {
    "one point": (_numpy_path(qp.Density(_log_prob, backend="numpy", gradient=_gradient)), False),
    "gradient": (_numpy_path(qp.Density(_log_prob, backend="numpy", gradient=_gradient)), True),
    "batched": (_numpy_path(qp.Density(_batched, backend="numpy", batched=True)), False),
    "jax": (
        qp.GeometricPath(
            qp.MultivariateNormal(jnp.zeros(3), jnp.eye(3)), lambda x: -jnp.sum(x**4) + jnp.log1p(jnp.exp(x[0]))
        ),
        True,
    ),
}


@pytest.fixture
def everything_travels(monkeypatch):
    monkeypatch.setattr(spreading, "_WORTH", -1.0)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("executor", [concurrent.futures.ThreadPoolExecutor(2), Shuffled()], ids=["threads", "order"])
def test_the_numbers_are_those_of_an_evaluation_here(name, executor, everything_travels):
    path, with_slopes = PATHS[name]
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), with_slopes))
    here = evaluator.particles(ROWS, with_slopes=with_slopes)
    with spread_over(executor):
        there = evaluator.particles(ROWS, with_slopes=with_slopes)
        assert spreading.spread_of_call().num_shipped > 2
    assert jax.tree.all(jax.tree.map(np.array_equal, here, there))
    assert spreading.spread_of_call() is None


def test_cheap_points_stay_here_and_dear_ones_travel(monkeypatch):
    seconds = {"base": 1e-5, "target": 4e-3}
    monkeypatch.setattr(spreading, "_timed", lambda f, rows: (f(rows), seconds[f.name] * len(rows)))
    path = _numpy_path(qp.Density(_log_prob, backend="numpy"))
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), False))
    executor = Shuffled()
    with spread_over(executor):
        evaluator.values(ROWS)
        assert executor.num == len(ROWS) - 2, "two calls here tell what a point costs"
        base, target = spreading.spread_of_call().models.values()
        assert base.seconds_each == pytest.approx(1e-5)
        assert target.seconds_each == pytest.approx(4e-3)
        before, executor.num = base._num, 0
        evaluator.values(ROWS)
        assert base._num == before + 1, "what is cheap is one call"
        assert executor.num in (6, 7), "tasks of 0.2 s are 50 points, or 49 by rounding"


def test_the_model_travels_once_to_a_worker(everything_travels, monkeypatch):
    """A worker that does not know the model is a process whose memory of models is another one."""
    sizes = []

    class Elsewhere(Shuffled):
        known: dict = {}  # noqa: RUF012

        def submit(self, function, *arguments):
            sizes.append(0 if arguments[1] is None else len(arguments[1]))
            with monkeypatch.context() as patch:
                patch.setattr(spreading, "_models", spreading.OrderedDict(self.known))
                future = super().submit(function, *arguments)
                self.known.update(spreading._models)
            return future

    data = np.zeros(100_000)
    path = _numpy_path(qp.Density(lambda x: _log_prob(x) + data[0], backend="numpy"))
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), False))
    expected = evaluator.values(ROWS)
    with spread_over(Elsewhere()):
        for _ in range(3):
            assert np.array_equal(evaluator.values(ROWS).log_target, expected.log_target)
        with_data = [size for size in sizes if size > data.nbytes]
    assert 0 < len(with_data) <= len(ROWS), "the first call alone sends the model"
    assert sizes[-1] == 0


def test_another_precision_and_process(everything_travels):
    """A worker computes in the precision of the caller, whatever its own is: here 64 bits, there 32.

    The errors that it meets are counted by the caller.
    """
    failing = _numpy_path(qp.Density(_fails_at_some, backend="numpy"))
    values = Evaluator.of(failing, HostDensities(layout_of(failing), False))
    path, _ = PATHS["jax"]
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), True))
    here = evaluator.particles(ROWS[:5], with_slopes=True)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool, spread_over(pool):
        there = evaluator.particles(ROWS[:5], with_slopes=True)
        with rejecting(Faults()) as faults:
            found = [values.values(ROWS[part]).log_target for part in (slice(0, 30), slice(30, 50))]
    assert jax.tree.all(jax.tree.map(np.array_equal, here, there))
    assert faults.num == np.sum(ROWS[:50, 0] <= 0) == np.sum(np.isneginf(np.concatenate(found)))
    np.testing.assert_array_equal(faults.first[0], ROWS[np.argmax(ROWS[:, 0] <= 0)])


def test_what_cannot_travel_is_named(everything_travels):
    lock = threading.Lock()

    def helper(x):
        with lock:
            return _log_prob(x)

    path = _numpy_path(qp.Density(lambda x: helper(x), backend="numpy"))
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), False))
    with concurrent.futures.ThreadPoolExecutor(1) as pool, spread_over(pool):
        assert np.isfinite(evaluator.values(ROWS).log_target).all(), "threads need no trip"
    spreading.RemoteFunction(lambda rows: None)
    model = spreading.RemoteFunction(lambda rows: helper(rows))
    with pytest.raises(TypeError, match=r"`lock` in `helper`, a _thread\.lock, cannot be pickled .* threads"):
        model.packed  # noqa: B018


def test_a_worker_of_another_version_is_named():
    model = spreading.RemoteFunction(_batched)
    with pytest.raises(
        RuntimeError, match=r"has other versions \(qpaths [\d.]+ there, 99 here\): start it in the same"
    ):
        spreading.evaluate_there("unknown", model.packed, versions() | {"qpaths": "99"}, ROWS)


def test_errors_of_the_user_arrive(everything_travels):
    def wrong(x):
        raise ArithmeticError("no such luck")

    path = _numpy_path(qp.Density(wrong, backend="numpy"))
    with (
        spread_over(Shuffled()),
        pytest.raises(RuntimeError, match=r"target.log_prob` raised ArithmeticError at the point \[.*no such luck"),
    ):
        Evaluator.of(path, HostDensities(layout_of(path), False)).values(ROWS)


def test_runs_at_the_same_time_end_with_the_first_error(everything_travels):
    """Another run that still waits for its workers ends, too."""
    path = _numpy_path(qp.Density(_log_prob, backend="numpy"))
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), False))

    class Never(Shuffled):
        def submit(self, function, *arguments):
            return concurrent.futures.Future()

    def run(item):
        if item == 1:
            raise KeyboardInterrupt
        evaluator.values(ROWS)

    with spread_over(Never()):
        spreading.spread_of_call().num_shipped = 1
        with pytest.raises(KeyboardInterrupt):
            together(run, [0, 1, 0])
        assert not spreading.spread_of_call().workers.is_stopped
