"""A likelihood that is not JAX: an ODE solved by SciPy, with frozen SciPy distributions as priors."""

import jax
import numpy as np
from scipy import stats
from scipy.integrate import odeint

import qpaths as qp

times = np.linspace(0, 4, 9)
observed = np.array([0.10, 0.17, 0.26, 0.43, 0.55, 0.72, 0.80, 0.91, 0.92])


def log_likelihood(p):
    """Logistic growth with measurement errors of 0.03."""
    growth = odeint(lambda x, t: p["rate"] * x * (1 - x / p["capacity"]), p["start"], times)[:, 0]
    return stats.norm.logpdf(observed, growth, 0.03).sum()


result = qp.evidence(
    prior={"rate": stats.gamma(2), "capacity": stats.lognorm(0.5), "start": stats.uniform(0, 0.3)},
    log_likelihood=log_likelihood,
    budget=20_000,
    key=jax.random.key(0),
)
print(result.summary())
weights = np.exp(result.log_weights - result.log_weights.max())
print({name: round(float(np.average(values, weights=weights)), 2) for name, values in result.samples.items()})
