"""Models with known answers, and results of them that cost nothing: weighted draws of the prior."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import multivariate_normal

import qpaths as qp

SCALE = 2.0


def normal_model(y):
    """Observations with standard deviation 1 around a mean with prior N(0, 2^2)."""
    norm = jax.scipy.stats.norm.logpdf
    return {"prior": {"mu": qp.Normal(0.0, SCALE)}, "log_likelihood": lambda p, y: norm(y, p["mu"]).sum(), "data": y}


def log_evidence(y, scale=SCALE):
    y = np.asarray(y)
    return multivariate_normal(np.zeros(y.size), np.eye(y.size) + scale**2).logpdf(y)


def posterior(y, scale=SCALE):
    """Mean and standard deviation."""
    y = np.asarray(y)
    variance = 1 / (y.size + 1 / scale**2)
    return variance * y.sum(), variance**0.5


def weighted(model, key, islands=8, num=500):
    """A result as `evidence` makes it, of draws of the prior with the likelihood as weight."""
    own = qp.adapters.from_prior(**model)
    points = jax.vmap(own.prior.sample)(jax.random.split(key, islands * num))
    log_weights = np.asarray(jax.vmap(lambda x: own.log_likelihood(x, own.data))(points))
    of_islands = np.log(np.mean(np.exp(log_weights.reshape(islands, num)), axis=1))
    value = np.log(np.mean(np.exp(log_weights)))
    error = np.std(np.exp(log_weights - value)) / log_weights.size**0.5
    none = np.full(1, np.nan)
    result = qp.Result(
        log_evidence=np.asarray(value),
        log_evidence_se=np.asarray(error),
        samples=jax.tree.map(np.asarray, own.named(points)),
        log_weights=log_weights,
        betas=np.array([0.0, 1.0]),
        stats={"beta": np.ones(1), "ess": none, "acceptance": none, "step_size": none, "log_evidence": none},
        status=np.asarray(0),
        num_evaluations=qp.core.Cost(),
        algorithm="Evidence",
        islands={"log_evidence": of_islands, "log_evidence_se": np.full(islands, error)},
        unconstrained=jax.tree.map(np.asarray, points),
    )
    return qp.with_model(result, **model)


def data(key, num=8):
    return jax.random.normal(key, (num,)) + jnp.asarray(1.0)
