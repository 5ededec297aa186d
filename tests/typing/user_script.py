"""What a user writes, in a few lines: type checkers must accept it, mypy in strict mode and pyright."""

import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp

key = jax.random.key(0)
base = qp.MultivariateNormal(np.zeros(2), np.eye(2))
path = qp.QPath(base, lambda x: -jnp.sum((x - 1.0) ** 2), q=0.99)
result = qp.SMC(500, qp.AdaptiveSchedule(), qp.HMC(num_leapfrog=5)).run(path, key=key)
print(float(result.log_evidence), float(result.stats["ess"].min()), result.summary())
recipe = qp.tune(path, key=key, budget=100_000)
bounds = qp.BDMC(16, recipe.schedule, recipe.kernel).run(recipe.path, jnp.ones(2), key=key)
print(float(bounds.gap))
answer = qp.evidence(base, path.target, key=key)
if answer.verdict is not None and answer.verdict.level == "sound":
    print(answer.log_evidence + 1.0, answer.num_evaluations.total)
geometric = qp.GeometricPath(base, qp.Density(lambda x: -jnp.sum(x**2)))
print(geometric.log_density(0.5, jnp.ones(2)), qp.choose_q(geometric, key=key).q)
