"""A path of one's own: it runs in every algorithm, and `check_path` looks for mistakes."""

import equinox as eqx
import jax
import jax.numpy as jnp

import qpaths as qp
from qpaths.densities import DensityLike, endpoint
from qpaths.testing import check_path


class SlowStart(qp.paths.AbstractPointwisePath):
    """The geometric path with beta (1 + beta) / 2 in place of beta: smaller steps at the base."""

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    def interpolate(self, beta, log_base, log_target):
        share = jnp.where((beta >= 0) & (beta <= 1), beta * (1 + beta) / 2, jnp.nan)
        inside = (1 - share) * log_base + share * log_target
        return jnp.where(beta == 0, log_base, jnp.where(beta == 1, log_target, inside))  # 0 * inf would be NaN

    def derivative(self, beta, log_base, log_target):
        return jnp.where((beta >= 0) & (beta <= 1), (0.5 + beta) * (log_target - log_base), jnp.nan)


base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
path = SlowStart(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
check_path(path)  # an AssertionError lists what is wrong
print(qp.SMC(1000, qp.AdaptiveSchedule(), qp.HMC(num_leapfrog=5)).run(path, key=jax.random.key(0)).summary())
print(qp.evidence(path=path, key=jax.random.key(0), budget=100_000).summary())
print("exact: -2.4094")
