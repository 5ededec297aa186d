"""A mixture whose labels can be exchanged: all modes count, and the evidence says how many components there are."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import qpaths as qp

y = jnp.array([-2.1, -1.9, -2.4, -1.6, 1.8, 2.2, 2.5, 1.9, 2.1])


def log_likelihood(p, y):
    """Each observation comes from one of the components, which are summed out."""
    return jax.nn.logsumexp(jnp.log(p["w"]) + dist.Normal(p["mu"], p["sigma"]).log_prob(y[:, None]), axis=1).sum()


def prior(num):
    return {
        "w": dist.Dirichlet(jnp.ones(num)),
        "mu": dist.Normal(0, 3).expand([num]),
        "sigma": dist.HalfNormal(1.0),
    }


one = {"mu": dist.Normal(0, 3), "sigma": dist.HalfNormal(1.0)}
results = {
    "one": qp.evidence(
        prior=one,
        log_likelihood=lambda p, y: dist.Normal(p["mu"], p["sigma"]).log_prob(y).sum(),
        data=y,
        key=jax.random.key(0),
    ),
    "two": qp.evidence(prior=prior(2), log_likelihood=log_likelihood, data=y, key=jax.random.key(0)),
}
print(qp.compare(results))
