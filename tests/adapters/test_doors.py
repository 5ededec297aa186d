"""The same model through every door has the same log joint: by hand, prior objects, NumPyro and PyMC.

It has positive, interval, simplex, correlation-Cholesky, ordered and vector variables.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.special import betaln
from jax.scipy.stats import norm

from qpaths.adapters import from_numpyro, from_prior, from_pymc

Y = np.array([1.2, 0.4, 0.9])
PRIOR = {
    "mu": dist.Normal(0, 10),
    "sigma": dist.HalfCauchy(2.0),
    "rate": lambda p: dist.Uniform(0, p["sigma"]),
    "w": dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])),
    "chol": dist.LKJCholesky(3, 2.0),
    "cuts": dist.TransformedDistribution(dist.Normal(0, 1).expand([3]).to_event(1), dist.transforms.OrderedTransform()),
    "theta": lambda p: dist.Normal(p["mu"], p["sigma"]).expand([2]),
}


def by_hand(p):
    """Written out in the variables' own units, with the data in every part of the model."""
    value = norm.logpdf(p["mu"], 0, 10) + jnp.log(2 / (jnp.pi * 2)) - jnp.log1p((p["sigma"] / 2) ** 2)
    value += -jnp.log(p["sigma"])  # rate is uniform up to sigma
    value += jnp.log(60.0) + jnp.log(p["w"][1]) + 2 * jnp.log(p["w"][2])  # 5! / (0! 1! 2!)
    value += jnp.sum(norm.logpdf(p["theta"], p["mu"], p["sigma"]))
    # LKJ with concentration 2: powers of the diagonal over Beta functions (Lewandowski, Kurowicka and Joe, 2009).
    diagonal = jnp.diag(p["chol"])
    value += 3 * jnp.log(diagonal[1]) + 2 * jnp.log(diagonal[2])
    value -= 2 * betaln(2.5, 2.5) + betaln(2.0, 2.0) + jnp.log(2.0) * (2 * 4 + 3)
    steps = jnp.log(jnp.diff(p["cuts"]))
    value += norm.logpdf(p["cuts"][0]) + jnp.sum(norm.logpdf(steps) - steps)
    return value + jnp.sum(norm.logpdf(Y, _mean(p), p["sigma"]))


def _mean(p):
    return p["mu"] + p["theta"].sum() + p["rate"] * p["w"][0] + p["chol"][2, 1] + p["cuts"][1]


def _numpyro(y):
    p = {}
    for name, part in PRIOR.items():
        p[name] = numpyro.sample(name, part if hasattr(part, "log_prob") else part(p))
    numpyro.sample("y", dist.Normal(_mean(p), p["sigma"]), obs=y)


def _pymc():
    """The correlation by partial correlations and the ordered vector by steps: PyMC does not normalize its own."""
    pm = pytest.importorskip("pymc", reason="PyMC is an extra that takes minutes to install")
    import pytensor.tensor as pt

    p = {}
    with pm.Model() as model:
        p["mu"] = pm.Normal("mu", 0, np.array(10.0))  # the log of a plain 10 has single precision in PyTensor
        p["sigma"] = pm.HalfCauchy("sigma", 2.0)
        p["rate"] = pm.Uniform("rate", 0, p["sigma"])
        p["w"] = pm.Dirichlet("w", np.array([1.0, 2.0, 3.0]))
        p["theta"] = pm.Normal("theta", p["mu"], p["sigma"], shape=2)
        shape = np.array([2.5, 2.5, 2.0])
        a, b, c = 2 * pm.Beta("partial", shape, shape) - 1
        rows = [
            [1.0, 0.0, 0.0],
            [a, pt.sqrt(1 - a**2), 0.0],
            [b, c * pt.sqrt(1 - b**2), pt.sqrt((1 - b**2) * (1 - c**2))],
        ]
        p["chol"] = pm.Deterministic("chol", pt.stack([pt.stack(row) for row in rows]))
        first, steps = pm.Normal("first", 0, 1), pm.LogNormal("steps", 0, 1, shape=2)
        p["cuts"] = pm.Deterministic("cuts", first + pt.concatenate([[0.0], pt.cumsum(steps)]))
        pm.Normal("y", _mean(p), p["sigma"], observed=Y)
    return from_pymc(model)


DOORS = {
    "prior objects": lambda: from_prior(PRIOR, lambda p: dist.Normal(_mean(p), p["sigma"]).log_prob(Y).sum()),
    "NumPyro": lambda: from_numpyro(_numpyro, jnp.asarray(Y)),
    "PyMC": _pymc,
}


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("door", DOORS)
def test_the_log_joint_is_the_one_by_hand(door, key):
    """At 100 random points, in the variables' own units: without the Jacobian of the door's map to them."""
    own = DOORS[door]()

    def log_joint(point):
        flat, unravel = jax.flatten_util.ravel_pytree(point)

        def free(flat):
            """As many numbers as the point has: the others follow from them."""
            named = own.constrain(unravel(flat))
            parts = {name: named[name] for name in PRIOR}
            parts |= {"w": parts["w"][:-1], "chol": parts["chol"][jnp.tril_indices(3, -1)]}
            return jax.flatten_util.ravel_pytree(parts)[0]

        log_jacobian = jnp.linalg.slogdet(jax.jacobian(free)(flat))[1]
        return own.prior.log_prob(point) + own.log_likelihood(point, *own.observed) - log_jacobian

    points = jax.vmap(own.prior.sample)(jax.random.split(key, 100))
    points = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(key, leaf.shape), points)
    named = jax.tree.map(jnp.asarray, own.named(points))
    expected = jax.jit(jax.vmap(by_hand))(named)
    np.testing.assert_allclose(jax.jit(jax.vmap(log_joint))(points), expected, rtol=1e-10, atol=1e-10)
