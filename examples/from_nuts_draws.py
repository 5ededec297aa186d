"""The evidence from draws that are there: NUTS of NumPyro, then bridge sampling, and the full answer to compare."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

import qpaths as qp
from qpaths.adapters import from_numpyro

y = jnp.array([1.1, 0.4, 2.3, 1.7, 0.9, 1.4])


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False)
mcmc.run(jax.random.key(0), y)

own = from_numpyro(model, y)
print(qp.evidence_from_draws(own, mcmc, key=jax.random.key(1)).summary())
print(qp.evidence(own, key=jax.random.key(2)).summary().splitlines()[0])
