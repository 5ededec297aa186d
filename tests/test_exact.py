"""What must agree bit for bit, with the usual settings of the compiler; the other tests have others."""

import os
import subprocess
import sys

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import qpaths as qp
from qpaths.models import GaussianDecoder, DecoderProblem, ReleasedProtocol, evaluate_bounds, evaluate_lower, simulate
from qpaths.models.networks import Network

key = jax.random.key(0)
base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
path = qp.QPath(base, qp.Density(lambda x: -2.0 * jnp.sum((x - 1.0) ** 2)), q=0.95)
schedule, kernel = qp.LinearSchedule(5), qp.HMC(1, 2, step_size=0.3, preconditioner="none")
algorithms = qp.AIS(50, schedule, kernel), qp.SMC(50, schedule, kernel, threshold=0.0)
on_host = [a.run(path, key=key) for a in algorithms]
compiled = [jax.jit(lambda path, key, a=a: a.run(path, key=key))(path, key) for a in algorithms]
for ais, smc in (on_host, compiled):
    np.testing.assert_array_equal(ais.log_weights, smc.log_weights)
    np.testing.assert_array_equal(ais.samples, smc.samples)
    assert ais.log_evidence == smc.log_evidence

decoder = GaussianDecoder(Network.random(key, [2, 4]), 0.5)
z, x = simulate(decoder, 8, key=key)
problem = DecoderProblem(decoder, q=0.99)
for both, forward in (
    (qp.BDMC(4, schedule, kernel), qp.AIS(4, schedule, kernel)),
    (ReleasedProtocol(4, schedule, num_leapfrog=2), ReleasedProtocol(4, schedule, num_leapfrog=2)),
):
    bounds = evaluate_bounds(problem, x, z, both, key=key)
    alone = evaluate_lower(problem, x, forward, key=key, batch_size=5 if forward is not both else None)
    np.testing.assert_array_equal(alone.forward, bounds.forward)
    np.testing.assert_array_equal(alone.lower, bounds.lower)
"""


def test_forward_chains_agree_bit_for_bit():
    environment = {**os.environ, "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
