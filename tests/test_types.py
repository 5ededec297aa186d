"""Short runs of every algorithm and kernel in both worlds, with the shapes and types of all functions checked."""

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
paths = [qp.GeometricPath(base, target), qp.QPath(base, target, q=0.9, log_scale=1.0)]
paths += [qp.paths.GelmanMengPath(base, target, -1.0), qp.GeneralizedMeanPath(base, target, jnp.exp, jnp.log)]
paths.append(qp.MomentPath(base, qp.MultivariateNormal(jnp.ones(2), jnp.eye(2))))
kernels = [qp.RandomWalk(2), qp.IndependentMH(1), qp.MALA(1), qp.HMC(1, 2), qp.HMC(1, 2, preconditioner="diagonal")]
schedule, key = qp.LinearSchedule(3), jax.random.key(0)
for path in paths:
    qp.SMC(16, qp.AdaptiveSchedule() if path is paths[1] else schedule, kernels[-2]).run(path, key=key)
for kernel in kernels:
    qp.AIS(8, schedule, kernel).run(paths[1], key=key)
for resampling in ("systematic", "stratified", "multinomial", "residual"):
    qp.SMC(16, schedule, kernels[0], resampling=resampling, threshold=0.9).run(paths[0], key=key)
qp.SMC(16, schedule, kernels[0], chain_length=4, chunk_size=3).run(paths[0], key=key)
qp.BDMC(8, schedule, kernels[3]).run(paths[0], jnp.ones(2), key=key)
qp.ParallelTempering(3, 2, kernels[3]).run(paths[1], key=key)
qp.ThermodynamicIntegration(qp.SMC(8, schedule, kernels[0])).run(paths[1], key=key)
qp.choose_q(paths[0], key=key, num_particles=16, deltas=[0.0, 0.1], kernel=kernels[0])
qp.equalize(paths[0], key=key, num_particles=32, num_rounds=1)
qp.evidence(*(paths[0].base, paths[0].target), key=key, budget=20_000)
jax.jit(lambda key: qp.SMC(16, schedule, kernels[3], chunk_size=5).run(paths[1], key=key))(key)
print("checked")
"""


def test_shapes_and_types_of_all_functions():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout == "checked\n", done.stderr[-3000:]
