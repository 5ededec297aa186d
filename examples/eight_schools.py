"""A NumPyro model as it stands: the evidence of the eight schools (Rubin, 1981), and whether they differ at all."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

import qpaths as qp
from qpaths.adapters import from_numpyro

effects = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
errors = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def schools_differ(errors, effects):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("effects", dist.Normal(theta, errors), obs=effects)


def schools_agree(errors, effects):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    numpyro.sample("effects", dist.Normal(mu, errors), obs=effects)


models = {"differ": schools_differ, "agree": schools_agree}
results = {
    name: qp.evidence(from_numpyro(model, errors, effects), key=jax.random.key(0)) for name, model in models.items()
}
print(results["differ"].summary())
print(qp.compare(results))
