"""The Bayes factor of two regressions, with priors as objects; the exact answer is printed below it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import qpaths as qp

x = np.linspace(-1, 1, 20)
y = 0.5 + 0.6 * x + 0.4 * np.random.default_rng(0).standard_normal(20)
designs = {"constant": np.ones((20, 1)), "linear": np.stack([np.ones(20), x], axis=1)}


def log_evidence(design):
    """In closed form: y is normal, and the weights have the prior N(0, 1)."""
    cov = design @ design.T + 0.16 * np.eye(20)
    return -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2 * np.pi * cov)[1])


results = {
    name: qp.evidence(
        prior={"w": dist.Normal(0, 1).expand([design.shape[1]])},
        log_likelihood=lambda p, data: dist.Normal(data[0] @ p["w"], 0.4).log_prob(data[1]).sum(),
        data=(jnp.asarray(design), jnp.asarray(y)),
        key=jax.random.key(0),
    )
    for name, design in designs.items()
}
print(qp.compare(results))
print(f"exact: {log_evidence(designs['linear']) - log_evidence(designs['constant']):.3f}")
