"""Ctrl-C and SIGTERM: an exit code, a true line about what is stored, and the same command goes on."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import qpaths as qp
from qpaths.cli import app

MODEL = """
import time
import jax, jax.numpy as jnp
import numpy as np
def log_prior(x): return jnp.sum(jax.scipy.stats.norm.logpdf(x))
def log_likelihood(x): return -2.0 * jnp.sum((x - 1.0) ** 2)
def sample_prior(key): return jax.random.normal(key, (2,))
"""
ENDLESS = """
def log_likelihood(x):
    print("endless", flush=True)
    while True:
        pass
"""


def _start(*arguments):
    code = "from qpaths.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _read_until(process, words):
    """The lines up to the first that has some words."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def _evidence(model, out):
    return ["evidence", str(model), "--budget", "400000", "--out", str(out)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The result without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "model.py").write_text(MODEL)
    done = CliRunner().invoke(app, _evidence(folder / "model.py", folder))
    assert done.exit_code == 0, done.output
    return qp.load_result(folder / "result.npz")


@pytest.mark.parametrize(("number", "words"), [(signal.SIGINT, "pilots"), (signal.SIGTERM, "8 islands")])
def test_interrupted_evidence_goes_on_to_the_same_answer(tmp_path, number, words, whole):
    model, out = tmp_path / "model.py", tmp_path / "out"
    model.write_text(MODEL)
    process = _start(*_evidence(model, out))
    _read_until(process, words)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, output
    if "is stored yet" in output:
        assert not (out / "checkpoint.npz").exists()
    else:
        assert re.search(r"are stored in .*checkpoint.npz, and the same command goes on", output), output
        with np.load(out / "checkpoint.npz") as arrays:
            assert json.loads(str(arrays["header"]))["kind"] == "evidence"
    assert list(out.glob(".*")) == []
    process = _start(*_evidence(model, out))
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert float(qp.load_result(out / "result.npz").log_evidence) == float(whole.log_evidence)


def test_an_endless_loop_in_a_density_can_be_interrupted(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(MODEL + ENDLESS)
    process = _start("evidence", model, "--out", tmp_path / "out")
    _read_until(process, "endless")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, output
    assert "nothing is stored yet" in output


def test_an_endless_loop_in_a_numpy_density_can_be_interrupted():
    """In a program of one's own Ctrl-C is the exception that it is everywhere in Python."""
    code = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
import jax, numpy as np, qpaths as qp
def endless(x):
    print("endless", flush=True)
    while True:
        pass
try:
    qp.evidence(log_prior=lambda x: -0.5 * np.sum(x**2), log_likelihood=endless, backend="numpy",
                sample_prior=lambda g: g.normal(size=2), key=jax.random.key(0))
except KeyboardInterrupt:
    raise SystemExit(7)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        _read_until(process, "endless")
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 7
