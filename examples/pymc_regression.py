"""A PyMC model as it stands: the evidence of a regression, through PyMC's JAX backend."""

import jax
import numpy as np
import pymc as pm

import qpaths as qp
from qpaths.adapters import from_pymc

x = np.linspace(-1, 1, 20)
y = 0.5 + 1.5 * x + 0.4 * np.random.default_rng(0).standard_normal(20)

with pm.Model() as regression:
    sigma = pm.HalfNormal("sigma", 1.0)
    intercept = pm.Normal("intercept", 0.0, 2.0)
    slope = pm.Normal("slope", 0.0, 2.0)
    pm.Normal("y", intercept + slope * x, sigma, observed=y)

result = qp.evidence(from_pymc(regression), key=jax.random.key(0))
print(result.summary())
weights = np.exp(result.log_weights - result.log_weights.max())
print(f"slope {np.average(result.samples['slope'], weights=weights):.3f}")
