# %% [markdown]
# # Your own model: NumPyro, draws, PyMC, NumPy
#
# `qpaths` takes models as they are. Transforms, Jacobians and samplers come with them, and posterior
# draws have the names of your variables.
#
# ## From NumPyro

# %%
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import qpaths as qp
from qpaths.adapters import from_numpyro


def measurements(y):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.deterministic("signal to noise", mu / sigma)
    numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


y = jnp.array([1.1, 0.4, 2.3, 1.7, 0.9, 1.4])
model = from_numpyro(measurements, y)
result = qp.evidence(model, budget=50_000, key=jax.random.key(0))
print(f"{result.log_evidence:.3f} +- {result.log_evidence_se:.3f}, {result.verdict.level}")
print({name: values.shape for name, values in result.samples.items()})

# %% [markdown]
# The samples include the deterministic site. Plates, `scan` and hierarchies work as well: [Your model, by
# name](../your_model.md) lists what models may contain, and `examples/eight_schools.py` is a hierarchical one.
#
# ## From draws that you already have
#
# You ran NUTS and want the evidence of the same model. `evidence_from_draws` fits a distribution to half of the draws
# and compares it with the other half by bridge sampling. The standard error counts the autocorrelation of the chains.

# %%
mcmc = MCMC(NUTS(measurements), num_warmup=300, num_samples=500, progress_bar=False)
mcmc.run(jax.random.key(1), y)
bridged = qp.evidence_from_draws(model, mcmc, key=jax.random.key(2))
print(bridged.summary())


def agree(first, second):
    return abs(first.log_evidence - second.log_evidence) < 4 * np.hypot(first.log_evidence_se, second.log_evidence_se)


assert agree(result, bridged)

# %% [markdown]
# Draws may also be ArviZ's `InferenceData` or `DataTree` (PyMC's traces are), a dictionary of arrays, or an array with
# one row per draw. In place of a model, a function that returns the log of prior times likelihood will do. Bridge
# sampling knows only the modes that the sampler visited: `evidence_from_draws` climbs from the prior to look for
# others, and `evidence` needs no sampler.
#
# ## From PyMC
#
# `from_pymc` compiles the model through PyTensor's JAX backend. PyTensor turns on 64 bits in JAX.

# %%
import pymc as pm

from qpaths.adapters import from_pymc

with pm.Model() as measurements_in_pymc:
    mu = pm.Normal("mu", 0.0, 2.0)
    sigma = pm.HalfNormal("sigma", 1.0)
    pm.Normal("y", mu, sigma, observed=np.array(y))

in_pymc = qp.evidence(from_pymc(measurements_in_pymc), budget=50_000, key=jax.random.key(0))
print(f"{in_pymc.log_evidence:.3f} +- {in_pymc.log_evidence_se:.3f}, {in_pymc.verdict.level}")
assert agree(result, in_pymc)

# %% [markdown]
# ## From NumPy and SciPy
#
# A likelihood that JAX cannot trace is called as it is: NumPy, an ODE solved by SciPy, a simulator in C. Here it is
# logistic growth, observed with errors of 0.03, and the priors are frozen SciPy distributions. Without gradients the
# moves are random walks, and the verdict says so.

# %%
from scipy import stats

times = np.linspace(0, 4, 9)
observed = np.array([0.10, 0.17, 0.26, 0.43, 0.55, 0.72, 0.80, 0.91, 0.92])


def log_likelihood(p):
    growth = 1 / (1 + (1 / p["start"] - 1) * np.exp(-p["rate"] * times))
    return -0.5 * np.sum(((observed - growth) / 0.03) ** 2) - 9 * np.log(0.03 * np.sqrt(2 * np.pi))


in_scipy = qp.evidence(
    prior={"rate": stats.gamma(2), "start": stats.uniform(0, 0.3)},
    log_likelihood=log_likelihood,
    budget=20_000,
    key=jax.random.key(0),
)
print(in_scipy.summary())

# %% [markdown]
# Two variables allow a check on a grid.

# %%
rates, starts = np.linspace(0.9, 1.6, 60), np.linspace(0.05, 0.16, 60)
log_joint = [
    log_likelihood({"rate": rate, "start": start}) + np.log(rate) - rate - np.log(0.3)  # the density of gamma(2)
    for rate in rates
    for start in starts
]
exact = np.logaddexp.reduce(log_joint) + np.log((rates[1] - rates[0]) * (starts[1] - starts[0]))
print(f"on a grid: {exact:.3f}")
assert abs(in_scipy.log_evidence - exact) < 4 * in_scipy.log_evidence_se + 0.01

# %% [markdown]
# Functions of one point work too: `log_prior`, `log_likelihood` and `sample_prior` with `backend="numpy"`. If your
# function can take many points at once, `Density(..., backend="numpy", batched=True, gradient=...)` is faster: see [How
# it runs](../engine.md#densities-that-are-not-jax).
#
# Next: [When the posterior is hard](hard_posteriors.md)
