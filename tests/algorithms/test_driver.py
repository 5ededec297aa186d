"""Driven runs: the numbers of `run`, whatever interrupts them, and files that are never lost or mistaken."""

import functools
import io
import itertools
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.algorithms import driver
from qpaths.annealing import Annealing
from qpaths.core import cost

KEY = jax.random.key(3)


def _normals(dtype):
    base = qp.MultivariateNormal(jnp.zeros(2, dtype), jnp.eye(2, dtype=dtype))
    return qp.QPath(base, qp.MultivariateNormal(jnp.ones(2, dtype), 0.2 * jnp.eye(2, dtype=dtype)), q=0.9)


def _named_point():
    def sample(key):
        return {"a": jax.random.normal(key), "b": (jax.random.normal(jax.random.fold_in(key, 1), (2,)),)}

    def log_prob(x):
        return -0.5 * (x["a"] ** 2 + jnp.sum(x["b"][0] ** 2))

    # A target that is a Python number has a weak type, which a file does not keep.
    return qp.GeometricPath(qp.Density(log_prob, sample), lambda x: -1.0)


FIXED = qp.SMC(16, qp.LinearSchedule(4), qp.RandomWalk())
CASES = {
    "fixed": (FIXED, _normals(jnp.float64)),
    "adaptive in float32": (qp.SMC(16, qp.AdaptiveSchedule(0.6), qp.RandomWalk(), threshold=0.8), _normals("float32")),
    "momenta that are kept": (
        qp.SMC(16, qp.LinearSchedule(4), qp.HMC(1, 2, persistence=0.7)),
        _normals(jnp.float64),
    ),
    "AIS with a pilot": (qp.AIS(16, qp.LinearSchedule(4), qp.MALA(step_size=0.5)), _named_point()),
}
quiet = functools.partial(qp.drive, key=KEY, progress=False)


@functools.cache
def _uninterrupted(case):
    algorithm, path = CASES[case]
    return algorithm.run(path, key=KEY)


def _assert_equal(result, expected, tolerance=0.0):
    assert jax.tree.structure(result) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def _interrupt_at(monkeypatch, stage):
    """Ctrl-C in the middle of a stage, counted from 0; those of a pilot of AIS do not count."""
    calls = itertools.count()

    def step(annealing, state, new_beta, *moves):
        is_pilot = annealing.population.threshold == 0.5
        if not is_pilot and next(calls) == stage:
            raise KeyboardInterrupt
        return original(annealing, state, new_beta, *moves)

    original = Annealing.step
    monkeypatch.setattr(Annealing, "step", step)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.npz"


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_run(case):
    algorithm, path = CASES[case]
    expected = _uninterrupted(case)
    _assert_equal(quiet(algorithm, path), expected)


@pytest.mark.parametrize("case", CASES)
def test_interrupted_at_every_stage_and_resumed_is_uninterrupted(case, tmp_path, capsys):
    algorithm, path = CASES[case]
    expected = quiet(algorithm, path)
    num = len(expected.betas) - 1
    assert num >= 3
    for stage in range(num):
        file = tmp_path / f"{stage}.npz"
        with pytest.MonkeyPatch.context() as monkeypatch:
            _interrupt_at(monkeypatch, stage)
            partial = quiet(algorithm, path, checkpoint=file)
        assert f"interrupted after stage {stage}, at beta" in (message := capsys.readouterr().err)
        assert str(file) in message
        assert int(partial.status) == qp.Status.UNFINISHED
        assert "interrupted before the end" in partial.summary()
        np.testing.assert_array_equal(partial.betas, expected.betas[: stage + 1])
        for name, values in partial.stats.items():
            np.testing.assert_array_equal(values, expected.stats[name][:stage])
            assert values.dtype == expected.stats[name].dtype
        so_far = expected.stats["log_evidence"][stage - 1] if stage else 0.0
        np.testing.assert_allclose(partial.log_evidence, so_far, rtol=1e-5, atol=1e-6)
        assert partial.num_evaluations.total < expected.num_evaluations.total
        _assert_equal(quiet(algorithm, path, checkpoint=file), expected)


def test_a_finished_file_gives_the_result_again(file, monkeypatch):
    algorithm, path = CASES["AIS with a pilot"]
    first = quiet(algorithm, path, checkpoint=file)
    _interrupt_at(monkeypatch, 0)
    fitted = qp.AIS.fitted

    def without_pilot(self, path, stream):
        assert not self.kernel.needs_fit, "the pilot ran again"
        return fitted(self, path, stream)

    monkeypatch.setattr(qp.AIS, "fitted", without_pilot)
    _assert_equal(quiet(algorithm, path, checkpoint=file), first)


@pytest.mark.parametrize("stage", [1, 3])
def test_an_interrupt_while_the_file_is_written(stage, file, monkeypatch):
    """At the last stage nothing is missing, and the result is the finished one."""
    writes = itertools.count()

    def write(file, run):
        if next(writes) == stage:
            raise KeyboardInterrupt
        original(file, run)

    original = driver.keep
    monkeypatch.setattr(driver, "keep", write)
    result = quiet(*CASES["fixed"], checkpoint=file)
    assert int(result.status) == (qp.Status.UNFINISHED if stage == 1 else qp.Status.OK)
    assert len(result.betas) == stage + 1
    _assert_equal(quiet(*CASES["fixed"], checkpoint=file), quiet(*CASES["fixed"]))


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_an_interrupted_run_counts_all_its_moves(stage, monkeypatch):
    """Only at beta = 1, which it has not reached, would `moves_last=False` have saved some."""
    _interrupt_at(monkeypatch, stage)
    algorithm = qp.SMC(16, qp.LinearSchedule(4), qp.RandomWalk(2), moves_last=False)
    assert quiet(algorithm, CASES["fixed"][1]).num_evaluations.target == 16 * (1 + 2 * stage)


def test_without_a_file_an_interrupt_says_how_to_have_one(monkeypatch, capsys):
    _interrupt_at(monkeypatch, 2)
    assert len(quiet(*CASES["fixed"]).betas) == 3
    assert "give `checkpoint=`" in capsys.readouterr().err


PROGRAM = """
import time, jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp, qpaths as qp
from qpaths.annealing import Annealing

step = Annealing.step
def slow(annealing, state, *arguments):
    if int(state.stage) == 2:
        print("under way", flush=True)
        time.sleep(60)
    return step(annealing, state, *arguments)
Annealing.step = slow
base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
path = qp.QPath(base, qp.MultivariateNormal(jnp.ones(2), 0.2 * jnp.eye(2)), q=0.9)
algorithm = qp.SMC(16, qp.LinearSchedule(4), qp.RandomWalk())
qp.drive(algorithm, path, key=jax.random.key(3), checkpoint={file!r})
"""


def test_a_killed_process_loses_only_the_stage_under_way(file, capsys):
    killed = subprocess.Popen([sys.executable, "-c", PROGRAM.format(file=str(file))], stdout=subprocess.PIPE)
    try:
        assert killed.stdout.readline() == b"under way\n"
    finally:
        killed.kill()
        killed.communicate()
    result = qp.drive(*CASES["fixed"], key=KEY, checkpoint=file)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["stage 3/3"]
    _assert_equal(result, quiet(*CASES["fixed"]))


def _other_runs():
    path = CASES["fixed"][1]
    other = qp.QPath(path.base, qp.MultivariateNormal(jnp.full(2, 1.1), 0.2 * jnp.eye(2)), q=0.9)
    return {
        "key": (FIXED, path, jax.random.key(4)),
        "num_particles": (qp.SMC(32, FIXED.schedule, FIXED.kernel), path, KEY),
        "schedule": (qp.SMC(16, qp.FixedSchedule([0, 0.4, 0.7, 1]), FIXED.kernel), path, KEY),
        "kernel": (qp.SMC(16, FIXED.schedule, qp.RandomWalk(scale=2.0)), path, KEY),
        "path": (FIXED, other, KEY),
        "algorithm": (qp.AIS(16, FIXED.schedule, FIXED.kernel), path, KEY),
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The bytes of a checkpoint of the first case."""
    file = tmp_path_factory.mktemp("finished") / "run.npz"
    quiet(*CASES["fixed"], checkpoint=file)
    return file.read_bytes()


@pytest.mark.parametrize("name", _other_runs())
def test_the_file_of_another_run_is_refused_and_kept(name, finished, file):
    file.write_bytes(finished)
    algorithm, path, key = _other_runs()[name]
    with pytest.raises(ValueError, match=f"belongs to another run: `{name}` was .*, and is "):
        qp.drive(algorithm, path, key=key, checkpoint=file, progress=False)
    assert file.read_bytes() == finished


def test_the_chunk_size_may_change(finished, file):
    file.write_bytes(finished)
    smaller = qp.SMC(16, FIXED.schedule, FIXED.kernel, chunk_size=4)
    _assert_equal(quiet(smaller, CASES["fixed"][1], checkpoint=file), quiet(*CASES["fixed"]))


def test_other_data_behind_the_same_function_is_noticed(file):
    def path_of(data):
        return qp.GeometricPath(CASES["fixed"][1].base, lambda x: -jnp.sum((x - data) ** 2))

    quiet(FIXED, path_of(1.0), checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match="belongs to other densities"):
        quiet(FIXED, path_of(1.001), checkpoint=file)
    assert file.read_bytes() == before


def test_files_that_are_no_checkpoints_are_refused_and_kept(finished, file):
    _uninterrupted("fixed").save(file)
    result = file.read_bytes()
    for contents, message in [
        (result, "holds a result, and checkpoint is wanted here: read it with `qpaths.load_result`"),
        (finished[:-100], "damaged or cut short"),
        (b"some notes", "not a file of qpaths"),
        (b"", "it is empty"),
    ]:
        file.write_bytes(contents)
        with pytest.raises(ValueError, match=message):
            quiet(*CASES["fixed"], checkpoint=file)
        assert file.read_bytes() == contents
    file.write_bytes(finished)
    with pytest.raises(ValueError, match="holds a checkpoint"):
        qp.load_result(file)
    with pytest.raises(FileNotFoundError, match="folder that does not exist"):
        quiet(*CASES["fixed"], checkpoint=file.parent / "missing" / "run.npz")


def test_states_of_another_version_or_precision_are_refused(finished, file):
    file.write_bytes(finished)
    algorithm, path = CASES["fixed"]
    state = algorithm.begin(path, key=KEY)[1]
    checkpoint = driver.checkpoint_of(algorithm, path, KEY, file)
    stored = checkpoint.read()["state"]
    with pytest.raises(ValueError, match=r"another version of qpaths, whose runs held other numbers \(params\)"):
        checkpoint.filled(state._replace(params=None), stored)
    single = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), state)
    with pytest.raises(ValueError, match=r"holds float64\[\] for beta, and this run needs float32\[\]"):
        checkpoint.filled(single, stored)


def test_a_fault_raises_and_leaves_the_last_good_stage(file):
    base = qp.Density(
        lambda x: jnp.where(jnp.abs(x) < 1, -jnp.log(2.0), -jnp.inf), lambda key: jax.random.uniform(key, minval=-1)
    )
    path = qp.GeometricPath(base, lambda x: jnp.where(jnp.abs(x) < 1, -(x**2), jnp.nan))
    for _ in range(2):
        with pytest.raises(FloatingPointError, match=r"`target.log_prob` is nan at stage 1 \(beta = 0.333333\)"):
            quiet(FIXED, path, checkpoint=file)
        stored = driver.checkpoint_of(FIXED, path, KEY, file).read()
        assert int(stored["state"]["fault/status"]) == qp.Status.OK


def test_only_what_has_stages_can_be_driven():
    bdmc = qp.BDMC(16, FIXED.schedule, FIXED.kernel)
    unchecked = getattr(qp.drive, "__wrapped__", qp.drive)
    with pytest.raises(TypeError, match="got BDMC: call its `run`"):
        unchecked(bdmc, CASES["fixed"][1], key=KEY)


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_where_there_is_no_terminal(capsys):
    qp.drive(*CASES["fixed"], key=KEY)
    qp.drive(*CASES["adaptive in float32"], key=KEY)
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == 3 + len(_uninterrupted("adaptive in float32").betas) - 1
    assert lines[0].startswith("stage 1/3: beta 0.3333, ESS ")
    assert all(word in lines[1] for word in ("acceptance", "log evidence", " evaluations/s", " left"))
    assert lines[3].startswith("stage 1: beta 0.")


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    monkeypatch.setenv("COLUMNS", "150")
    qp.drive(*CASES["fixed"], key=KEY)
    assert "\x1b[" in terminal.getvalue()
    assert "stage 3/3: beta 1, ESS" in terminal.getvalue()


def test_lines_on_a_terminal_without_rich(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := _Terminal())
    monkeypatch.setitem(sys.modules, "rich.console", None)
    qp.drive(*CASES["fixed"], key=KEY)
    assert len(terminal.getvalue().splitlines()) == 3
    assert "\x1b[" not in terminal.getvalue()


def test_many_stages_do_not_flood_the_log(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = cost.Lines()
    for stage in range(1, 10_001):
        now += 0.1
        lines(f"stage {stage}", stage / 10_000)
    shown = capsys.readouterr().err.splitlines()
    assert shown[:10] == [f"stage {stage}" for stage in range(1, 11)]
    assert shown[-1] == "stage 10000"
    assert len(shown) < 450


def test_time_left(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = cost.Clock()
    assert clock.seconds_left(10.0) is None
    now = 2.0
    assert clock.seconds_left(None) is None
    now = 4.0
    assert clock.seconds_left(8.0) == 16
    assert cost.stages_left(3, 10, 0.2, 0.3) == 7
    assert cost.stages_left(1, None, 0.0, 0.3) is None
    assert cost.stages_left(4, None, 0.5, 1.0) == 0
    assert cost.stages_left(2, None, 0.0625, 0.125) == pytest.approx(3)
