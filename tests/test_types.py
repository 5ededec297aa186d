"""Short runs of every algorithm in both worlds, with the shapes and types of all functions checked."""

import subprocess
import sys

PROGRAM = """
from jaxtyping import install_import_hook

install_import_hook("qpaths", "beartype.beartype")

import jax
import jax.numpy as jnp
import numpy as np
import qpaths as qp

base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
target = qp.Density(lambda x: jnp.where(x[0] > -1.0, -2.0 * jnp.sum((x - 1.0) ** 2), -jnp.inf))
q_path = qp.QPath(base, target, q=0.9, log_scale=1.0)
of_family = qp.MomentPath(base, qp.MultivariateNormal(jnp.ones(2), jnp.eye(2)))
walk, hmc = qp.RandomWalk(2), qp.HMC(1, 2, preconditioner="diagonal")
schedule, key = qp.LinearSchedule(3), jax.random.key(0)
qp.SMC(16, qp.AdaptiveSchedule(), hmc).run(q_path, key=key)
qp.AIS(8, schedule, hmc).run(of_family, key=key)
for resampling in ("systematic", "stratified", "multinomial", "residual"):
    qp.SMC(16, schedule, walk, resampling=resampling, threshold=0.9).run(q_path, key=key)
qp.SMC(16, schedule, walk, chain_length=4, chunk_size=3).run(q_path, key=key)
qp.BDMC(8, schedule, hmc).run(q_path, jnp.ones(2), key=key)
qp.ParallelTempering(3, 2, walk).run(q_path, key=key)
qp.ThermodynamicIntegration(qp.SMC(8, schedule, walk)).run(q_path, key=key)
qp.choose_q(q_path, key=key, num_particles=16, deltas=[0.0, 0.1], kernel=walk)
qp.equalize(q_path, key=key, num_particles=32, num_rounds=1)
qp.evidence(base, target, key=key, budget=20_000)
jax.jit(lambda key: qp.SMC(16, schedule, hmc, chunk_size=5).run(q_path, key=key))(key)
print("checked")
"""


def test_shapes_and_types_of_all_functions():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout == "checked\n", done.stderr[-3000:]
