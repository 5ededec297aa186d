"""Runs whose numbers must not depend on devices or processes; prints a digest of each as JSON.

python worker.py DEVICES [RANK PROCESSES PORT]
"""

import hashlib
import json
import os
import sys
import time

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={sys.argv[1]}"

import jax

rank, num_processes, port = map(int, sys.argv[2:5] or (0, 1, 0))
if num_processes > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes, rank)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)

import qpaths as qp  # noqa: E402
from qpaths.models import evaluate_lower  # noqa: E402
from qpaths.rows import ShardedRows, taken  # noqa: E402

KEY = jax.random.key(1)
BASE = qp.MultivariateNormal(jnp.zeros(2), 9 * jnp.eye(2))
TARGET = qp.Density(lambda x: -2.0 * jnp.sum((x - jnp.array([1.0, 2.0])) ** 2) - jnp.log(jnp.cosh(x[0])))
PATH = qp.QPath(BASE, TARGET, q=0.95)
FIXED = qp.HMC(1, 2, step_size=0.3, preconditioner="none", persistence=0.5)


def digest(*trees):
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(trees)]
    return hashlib.sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()[:16]


def smc(devices):
    """Fitted to both halves, resampled at every step, far from the first particles: many rows change devices."""
    found = qp.SMC(64, qp.LinearSchedule(4), qp.RandomWalk(2), devices=devices).run(PATH, key=KEY)
    return digest(found.samples, found.log_weights, found.log_evidence, found.log_evidence_se, found.stats)


def waste_free(devices):
    algorithm = qp.SMC(
        96, qp.AdaptiveSchedule(), qp.RandomWalk(1), resampling="residual", chain_length=3, devices=devices
    )
    found = algorithm.run(PATH, key=KEY)
    return digest(found.samples, found.log_weights, found.log_evidence_se, found.betas)


def bdmc(devices):
    found = qp.BDMC(48, qp.LinearSchedule(4), FIXED, devices=devices).run(PATH, jnp.array([1.0, 2.0]), key=KEY)
    return digest(found.forward.log_weights, found.reverse.log_weights, found.forward.samples, found.upper_se)


def path_of(x):
    return qp.QPath(BASE, qp.Density(jax.tree_util.Partial(lambda x, z: -jnp.sum((z - x) ** 2), x)), q=0.98)


def lower(devices):
    algorithm = qp.AIS(4, qp.LinearSchedule(3), qp.HMC(1, 1, step_size=0.3, preconditioner="none"))
    return digest(evaluate_lower(path_of, np.linspace(-1.0, 2.0, 20), algorithm, key=KEY, devices=devices))


def check_rows(devices):
    """Rows are those that NumPy would take, for any numbers; moments are those of NumPy."""
    rng = np.random.default_rng(0)
    rows, other = rng.normal(size=(48, 3)), rng.integers(100, size=48)
    weights = rng.dirichlet(np.ones(48))
    spread = {"a": ShardedRows.of(rows, devices), "b": ShardedRows.of(other, devices), "host": rows}
    for numbers in (np.arange(48)[::-1], np.full(24, 47), np.sort(rng.integers(48, size=96)), rng.permutation(48)):
        found = taken(spread, numbers)
        np.testing.assert_array_equal(found["a"], rows[numbers])
        np.testing.assert_array_equal(found["b"], other[numbers])
        np.testing.assert_array_equal(found["host"], rows[numbers])
        assert isinstance(found["a"], ShardedRows)
        assert found["a"].devices == devices
    for index in (5, slice(1), np.array([47, 0, 13, 13])):
        np.testing.assert_array_equal(spread["a"][index], rows[index])
    mean, covariance = spread["a"].moments(weights)
    np.testing.assert_allclose(mean, weights @ rows, rtol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(rows.T, aweights=weights, ddof=0), rtol=1e-12)


if num_processes > 1:
    cases = {smc: [len(jax.devices())], lower: [len(jax.devices())]}
else:
    # One program serves any number of devices, and each device compiles it once.
    cases = {smc: [1, 2, 4], waste_free: [1, 2], bdmc: [1, 2], lower: [1, 2]}
    check_rows(tuple(jax.devices()))
found = {}
for case, counts in cases.items():
    start = time.process_time()
    found[case.__name__] = [case(num) for num in counts]
    print(case.__name__, f"{time.process_time() - start:.1f} CPU s", file=sys.stderr)
print("DIGESTS", json.dumps(found), flush=True)
