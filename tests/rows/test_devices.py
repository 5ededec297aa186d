"""Runs over several devices and processes: the same numbers to the last bit, and errors that say what to do."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.annealing import population
from qpaths.core.arrays import HostStream
from qpaths.core.cost import Cost
from qpaths.kernels import AbstractKernel
from qpaths.kernels.base import Info
from qpaths.rows import ShardedRows, evaluator_of

WORKER = Path(__file__).with_name("worker.py")
BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: -2.0 * jnp.sum((x - 1.0) ** 2))
PATH = qp.GeometricPath(BASE, TARGET)
FIXED = qp.HMC(1, 2, step_size=0.3, preconditioner="none")


def _digests(output):
    (line,) = (line for line in output.splitlines() if line.startswith("DIGESTS"))
    return json.loads(line.removeprefix("DIGESTS"))


@pytest.fixture(scope="module")
def alone():
    """Digests of the runs in one process with four devices."""
    run = subprocess.run([sys.executable, WORKER, "4"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return _digests(run.stdout)


def test_numbers_do_not_depend_on_the_number_of_devices(alone):
    assert alone.keys() == {"smc", "waste_free", "bdmc", "lower"}
    for name, digests in alone.items():
        assert len(set(digests)) == 1, f"{name}: {digests}"


def test_two_processes_that_form_a_cluster_find_the_same_numbers(alone):
    """With two devices each, so that rows change devices and processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    commands = [[sys.executable, WORKER, "2", str(rank), "2", str(port)] for rank in range(2)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    try:
        outputs = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (output, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
        assert _digests(output) == {name: alone[name][:1] for name in ("smc", "lower")}


def test_the_evidence_is_right(key):
    result = qp.SMC(512, qp.AdaptiveSchedule(), qp.HMC(1, 3), devices=1).run(PATH, key=key)
    np.testing.assert_allclose(result.log_evidence, np.log(2 * np.pi / 4), atol=5 * float(result.log_evidence_se))
    assert float(result.log_evidence_se) < 0.1
    assert isinstance(result.samples, np.ndarray)


class _Shift(AbstractKernel):
    """Moves every particle by the parameters of its group."""

    num_steps: int = eqx.field(static=True, default=1)
    with_slopes = False
    needs_fit = True
    cost = Cost.values(1)

    def randomness(self, rows, position, num):
        return rows.draw(position.shape[0], num, 1, 0, dtype=position.dtype)[0]

    def transition(self, evaluator, beta, particles, randomness, params):
        moved = particles.position + params[:, None]
        new = evaluator.particles(moved, with_slopes=False)
        return new, Info(randomness[:, 0], moved[:, 0] > 0, moved[:, 0] > np.inf, moved)


@pytest.mark.parametrize("groups", [1, 2])
def test_each_particle_has_the_parameters_of_its_group(key, groups):
    evaluator, devices = evaluator_of(PATH, HostStream((1,)), with_slopes=False), tuple(jax.devices()[:1])
    positions, params = np.arange(24.0).reshape(12, 2), 100.0 * np.arange(1, groups + 1)
    particles = population.evaluated_on_devices(evaluator, _Shift(), positions, devices, None)
    np.testing.assert_allclose(particles.features.log_target, [TARGET.log_prob(row) for row in positions])
    found = [
        population.moved_on_devices(evaluator, _Shift(), 0.5, particles, HostStream((2,)), params, 1, size)
        for size in (None, 2)
    ]
    for moved, info in found:
        np.testing.assert_allclose(moved.position, positions + np.repeat(params, 12 // groups)[:, None])
        # Every particle has random numbers of its own, whatever the size of chunks.
        assert np.unique(info.acceptance).size == 12
        np.testing.assert_array_equal(info.acceptance, found[0][1].acceptance)


def test_a_checkpoint_goes_on_with_another_number_of_devices(key, tmp_path, monkeypatch):
    algorithm = qp.SMC(64, qp.LinearSchedule(4), qp.RandomWalk(1), devices=1)
    whole = algorithm.run(PATH, key=key)
    file = tmp_path / "run.npz"
    steps, resample = [], population.moved_on_devices

    def interrupted(*arguments):
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return resample(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(population, "moved_on_devices", interrupted)
        partial = qp.algorithms.drive(algorithm, PATH, key=key, checkpoint=file, progress=False)
    assert partial.status == qp.Status.UNFINISHED
    other = qp.SMC(64, qp.LinearSchedule(4), qp.RandomWalk(1), devices=jax.devices()[:1], chunk_size=7)
    result = qp.algorithms.drive(other, PATH, key=key, checkpoint=file, progress=False)
    np.testing.assert_allclose(result.samples, whole.samples, rtol=1e-12)


def test_a_number_of_devices_that_does_not_divide(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: [_Fake(i) for i in range(8)])
    words = r"`devices` must divide `num_chains`, got 8 devices for 100: take `num_chains=96 or 104`, or `devices=5`"
    with pytest.raises(ValueError, match=words):
        qp.AIS(100, qp.LinearSchedule(3), FIXED, devices=8)
    words = r"got 8 devices for 100 in chains of 5: take `num_particles=80 or 120`, or `devices=5`"
    with pytest.raises(ValueError, match=words):
        qp.SMC(100, qp.LinearSchedule(3), FIXED, chain_length=5, devices=8)
    with pytest.raises(ValueError, match=r"take `num_chains=8`, or `devices=4`"):
        qp.BDMC(4, qp.LinearSchedule(3), FIXED, devices=8)


class _Fake:
    """A device of which only the number counts."""

    platform = "cpu"
    process_index = 0

    def __init__(self, number):
        self.id = number


def test_devices_that_are_not_there():
    num = len(jax.devices())
    words = rf"between 1 and {num}, which JAX sees, got {num + 1}.*xla_force_host_platform_device_count={num + 1}"
    with pytest.raises(ValueError, match=words):
        qp.SMC(64, qp.LinearSchedule(3), FIXED, devices=num + 1)
    with pytest.raises(ValueError, match=r"must be different devices out of `jax\.devices"):
        qp.SMC(64, qp.LinearSchedule(3), FIXED, devices=[])
    with pytest.raises(ValueError, match="must be different devices"):
        qp.SMC(64, qp.LinearSchedule(3), FIXED, devices=jax.devices()[:1] * 2)


def test_devices_where_they_cannot_be(key):
    algorithm = qp.AIS(16, qp.LinearSchedule(3), FIXED, devices=1)
    with pytest.raises(ValueError, match=r"`devices` cannot be used under `jax.jit`"):
        jax.jit(lambda key: algorithm.run(PATH, key=key))(key)
    target = qp.Density(lambda x: -np.sum(x**2), backend="numpy")
    with pytest.raises(TypeError, match="`devices` needs densities that JAX can compile"):
        qp.SMC(16, qp.LinearSchedule(3), qp.RandomWalk(1), devices=1).run(qp.GeometricPath(BASE, target), key=key)


def test_a_spread_array_is_an_array_for_numpy():
    rows = np.arange(12.0).reshape(4, 3)
    spread = ShardedRows.of(rows, tuple(jax.devices()[:1]))
    assert (spread.shape, spread.ndim, spread.dtype) == ((4, 3), 2, np.dtype(float))
    np.testing.assert_array_equal(np.mean(spread, axis=0), rows.mean(axis=0))
    np.testing.assert_array_equal(spread[..., 1:], rows[..., 1:])
