"""NumPyro models: the log joint is NumPyro's own, names come back, and what cannot be handled is named."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.handlers import reparam
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import potential_energy

import qpaths as qp
from qpaths.adapters import from_numpyro

Y = jnp.array([1.2, 0.4, 0.9])


def everything(y):
    """Positive, interval with an end that depends on another site, simplex, correlation, ordered and vector sites."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.0))
    numpyro.sample("rate", dist.Uniform(0, sigma))
    numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("chol", dist.LKJCholesky(3, 2.0))
    ordered = dist.transforms.OrderedTransform()
    numpyro.sample("cuts", dist.TransformedDistribution(dist.Normal(0, 1).expand([3]).to_event(1), ordered))
    with numpyro.plate("groups", 2):
        theta = numpyro.sample("theta", dist.Normal(mu, sigma))
    numpyro.deterministic("twice", 2 * theta)
    numpyro.sample("y", dist.Normal(mu + theta.sum(), sigma), obs=y)


def random_walk(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))

    def step(carry, observed):
        x = numpyro.sample("x", dist.Normal(carry, scale))
        numpyro.sample("y", dist.Normal(x, 0.5), obs=observed)
        return x, None

    scan(step, 0.0, y)


def with_reparam(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    theta = numpyro.sample("theta", dist.Normal(mu, 2.0))
    numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)


def with_factor(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.factor("likelihood", dist.Normal(mu, 1.0).log_prob(y).sum())


MODELS = [
    everything,
    random_walk,
    reparam(with_reparam, config={"theta": LocScaleReparam(0)}),
    with_factor,
]


@pytest.mark.parametrize("model", MODELS, ids=["everything", "scan", "reparam", "factor"])
def test_the_log_joint_is_that_of_numpyro(model, key):
    own = from_numpyro(model, Y)
    log_joint = jax.jit(jax.vmap(lambda x: own.prior.log_prob(x) + own.log_likelihood(x, *own.observed)))
    theirs = jax.jit(jax.vmap(lambda x: -potential_energy(model, (Y,), {}, x)))
    points = jax.jit(jax.vmap(own.prior.sample))(jax.random.split(key, 100))
    points = jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(key, leaf.shape), points)
    np.testing.assert_allclose(log_joint(points), theirs(points), rtol=1e-11, atol=1e-10)
    again = own.points(own.named(points))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), again, points)


def test_names_shapes_and_deterministics(key):
    own = from_numpyro(everything, Y)
    assert list(own.variables) == ["mu", "sigma", "rate", "w", "chol", "cuts", "theta"]
    named = own.constrain(own.prior.sample(key))
    np.testing.assert_allclose(named["twice"], 2 * named["theta"])
    assert 0 < named["rate"] < named["sigma"]
    assert "y" not in named
    pointwise = own.pointwise(own.prior.sample(key))["y"]
    np.testing.assert_allclose(pointwise.sum(), own.log_likelihood(own.prior.sample(key), own.data), rtol=1e-10)


def test_prior_draws_follow_the_model(key):
    """Of `rate`, uniform up to sigma: the ratio is uniform, with mean 1/2 and variance 1/12 (5 sigma)."""
    own = from_numpyro(everything, Y)
    named = own.named(jax.jit(jax.vmap(own.prior.sample))(jax.random.split(key, 2000)))
    ratio = named["rate"] / named["sigma"]
    assert abs(ratio.mean() - 0.5) < 5 * (1 / 12 / 2000) ** 0.5
    assert abs(np.median(named["sigma"]) - 2.0) < 0.5  # the median of a half-Cauchy distribution is its scale


def test_sites_that_are_drawn_without_bounds_share_no_key_with_others(key):
    """With one key for both, the log of a scale and a mean that came later were the same number in all draws."""

    def model():
        for name in ("a", "b", "c"):
            numpyro.sample(f"free_{name}", dist.LogNormal(0.0, 1.0))
            numpyro.sample(name, dist.Normal(0.0, 1.0))
        numpyro.factor("y", 0.0)

    sample = jax.vmap(from_numpyro(model).prior.sample)
    draws = np.array(list(sample(jax.random.split(key, 400)).values())).reshape(6, -1)
    correlations = np.corrcoef(draws) - np.eye(6)
    assert np.abs(correlations).max() < 5 / 400**0.5


def test_evidence_of_a_regression_with_certificate(key):
    """Normal prior and noise: closed form. The certificate uses data that the model simulates itself."""
    x = np.linspace(-1, 1, 12)
    y = 0.5 + 1.5 * x + 0.3 * np.sin(9 * x)

    def regression(x, y):
        w = numpyro.sample("w", dist.Normal(0, 2).expand([2]).to_event(1))
        numpyro.sample("y", dist.Normal(w[0] + w[1] * x, 0.5), obs=y)

    own = from_numpyro(regression, x, y=jnp.asarray(y))
    result = qp.evidence(own, simulate=own.simulate, budget=60_000, key=key)
    design = np.stack([np.ones_like(x), x], axis=1)
    cov = 4 * design @ design.T + 0.25 * np.eye(len(x))
    exact = -0.5 * (y @ np.linalg.solve(cov, y) + np.linalg.slogdet(2 * np.pi * cov)[1])
    assert abs(float(result.log_evidence) - exact) < 5 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.02
    assert result.samples["w"].shape[1:] == (2,)
    notes = [note for note in result.verdict.chosen if note.kind.name == "CERTIFICATE"]
    assert notes
    assert notes[0].lower < notes[0].upper + 5 * (notes[0].lower_se + notes[0].upper_se)


def test_simulated_data_follow_the_model(key):
    """Data depend on earlier data where the model says so: an observed site that feeds another one."""

    def chain(first, second):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        first = numpyro.sample("first", dist.Normal(mu, 1e-3), obs=first)
        numpyro.sample("second", dist.Normal(first + 5, 1e-3), obs=second)

    own = from_numpyro(chain, jnp.array(0.0), jnp.array(0.0))
    data = own.simulate(key, {"mu": jnp.array(2.0)})
    np.testing.assert_allclose([data["first"], data["second"]], [2.0, 7.0], atol=0.02)
    assert from_numpyro(with_factor, Y).simulate is None


def _no_data():
    numpyro.sample("mu", dist.Normal(0, 1))


def _no_latent(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def _site(fn):
    def model(y):
        numpyro.sample("site", fn)
        numpyro.sample("y", dist.Normal(0, 1), obs=y)

    return model


def _subsampled(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", 3, subsample_size=2) as index:
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[index])


def _scaled(y):
    with numpyro.handlers.scale(scale=2.0):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1), obs=y)


def _branch(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu if mu > 0 else 0.0, 1), obs=y)


@pytest.mark.parametrize(
    ("model", "args", "message"),
    [
        (_no_data, (), "no observed site, only mu"),
        (_no_latent, (Y,), "no latent site"),
        (_site(dist.ImproperUniform(dist.constraints.real, (), ())), (Y,), "prior of `site` is improper"),
        (_site(dist.Geometric(0.3)), (Y,), r"`site` is discrete \(Geometric"),
        (_site(dist.Bernoulli(0.3).mask(False)), (Y,), "`site` is masked"),
        (_site(dist.Poisson(3.0)), (Y,), r"`site` is discrete \(Poisson"),
        (_site(dist.Normal(0, 1).mask(False)), (Y,), "`site` is masked"),
        (_branch, (Y,), "value of a site in a Python `if`"),
        (_subsampled, (Y,), "plate `rows` takes 2 of 3 rows"),
        (_scaled, (Y,), "prior of `mu` is scaled"),
        (everything, (Y.at[1].set(jnp.nan),), "observed site `y` has 1 NaN among 3 values"),
        (3, (), "must be a NumPyro model, which is a function, got 3"),
    ],
)
def test_what_cannot_be_handled_is_named(model, args, message):
    with pytest.raises((TypeError, ValueError), match=message):
        from_numpyro(model, *args)


def test_without_numpyro_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[numpyro\]'"):
        from_numpyro(everything, Y)
