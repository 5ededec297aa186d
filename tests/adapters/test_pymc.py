"""PyMC models: the log joint is PyMC's own, the same numbers come from every door, and mistakes are named."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import qpaths as qp
from qpaths.adapters import from_pymc

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

Y = np.array([1.2, 0.4, 0.9])


@pytest.fixture(scope="module")
def pm():
    return pytest.importorskip("pymc", reason="PyMC is an extra that takes minutes to install")


@pytest.fixture(scope="module")
def everything(pm):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, np.array(10.0))  # the log of a plain 10 has single precision in PyTensor
        sigma = pm.HalfCauchy("sigma", 2.0)
        pm.Uniform("rate", 0, sigma)
        pm.Dirichlet("w", np.ones(3))
        theta = pm.Normal("theta", mu, sigma, shape=2)
        pm.Deterministic("twice", 2 * theta)
        pm.Normal("y", mu + theta.sum(), sigma, observed=Y)
    return model


def _points(own, key, num=100):
    points = jax.vmap(own.prior.sample)(jax.random.split(key, num))
    return jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(key, leaf.shape), points)


def test_the_log_joint_is_that_of_pymc(everything, key):
    own = from_pymc(everything)
    points = _points(own, key)
    ours = jax.vmap(lambda x: own.prior.log_prob(x) + own.log_likelihood(x, own.data))(points)
    theirs = everything.compile_logp(mode="FAST_COMPILE")
    names = {value.name: rv.name for rv, value in zip(everything.free_RVs, everything.value_vars, strict=True)}
    for i in range(100):
        expected = theirs({value: np.asarray(points[name][i]) for value, name in names.items()})
        np.testing.assert_allclose(ours[i], expected, rtol=1e-11, atol=1e-10)
    again = own.points(own.named(points))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8), again, points)


def test_names_and_prior_draws(everything, key):
    own = from_pymc(everything)
    named = own.named(jax.vmap(own.prior.sample)(jax.random.split(key, 2000)))
    assert set(named) == {"mu", "sigma", "rate", "w", "theta", "twice"}
    np.testing.assert_allclose(named["twice"], 2 * named["theta"])
    ratio = named["rate"] / named["sigma"]
    assert abs(ratio.mean() - 0.5) < 5 * (1 / 12 / 2000) ** 0.5
    assert abs(named["mu"].std() - 10) < 5 * 10 / 4000**0.5
    assert abs(np.corrcoef(named["mu"], named["w"][:, 0])[0, 1]) < 5 / 2000**0.5  # keys of their own
    point = own.prior.sample(key)
    np.testing.assert_allclose(own.pointwise(point)["y"].sum(), own.log_likelihood(point, own.data), rtol=1e-10)


def test_evidence_with_certificate(pm, key):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Normal("y", mu, 1.0, observed=Y)
    own = from_pymc(model)
    result = qp.evidence(own, simulate=own.simulate, budget=40_000, key=key)
    cov = 4 * np.ones((3, 3)) + np.eye(3)
    exact = -0.5 * (Y @ np.linalg.solve(cov, Y) + np.linalg.slogdet(2 * np.pi * cov)[1])
    assert abs(float(result.log_evidence) - exact) < 5 * float(result.log_evidence_se)
    assert any(note.kind.name == "CERTIFICATE" for note in result.verdict.chosen)
    data = own.simulate(key, {"mu": jnp.array(100.0)})["y"]
    assert abs(data - 100).max() < 6


def test_what_cannot_be_handled_is_named(pm):
    def model(**sites):
        with pm.Model() as made:
            for name, site in sites.items():
                site(name)
        return made

    def observed(name):
        pm.Normal(name, 0, 1, observed=Y)

    cases = [
        (model(mu=lambda name: pm.Normal(name)), "no observed variable, only mu"),
        (model(y=observed), "no free variable"),
        (model(a=lambda name: pm.Flat(name), y=observed), "prior of `a` is improper"),
        (model(k=lambda name: pm.Poisson(name, 3), y=observed), "`k` is discrete"),
        (
            model(
                c=lambda name: pm.Normal(
                    name, shape=2, transform=pm.distributions.transforms.ordered, initval=[0.0, 1.0]
                ),
                y=observed,
            ),
            "prior of `c` has the transform `ordered`",
        ),
    ]
    cases.append((model(r=lambda name: pm.LKJCorr(name, n=2, eta=1.0), y=observed), "prior of `r` is an LKJ"))
    scales = pm.HalfNormal.dist(1.0)
    cases.append(
        (model(c=lambda name: pm.LKJCholeskyCov(name, n=2, eta=1.0, sd_dist=scales), y=observed), "`c` is an LKJ")
    )
    for made, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            from_pymc(made)
    with pm.Model() as missing:
        pm.Normal("y", pm.Normal("mu"), 1, observed=pm.Data("rows", Y))
    missing.set_data("rows", np.where(Y > 1, np.nan, Y))
    with pytest.raises(ValueError, match="observed variable `y` has 1 NaN among 3 values"):
        from_pymc(missing)
    with pytest.raises(TypeError, match="must be a PyMC model"):
        from_pymc(3)


@pytest.mark.filterwarnings("ignore:The Wishart distribution")
def test_a_wishart_distribution_is_refused(pm):
    with pm.Model() as model:
        pm.Wishart("odd", 5, np.eye(2))
        pm.Normal("y", 0, 1, observed=Y)
    with pytest.raises(ValueError, match=r"`odd` is a Wishart distribution.*LKJCholeskyCov"):
        from_pymc(model)


def test_without_pymc_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[pymc\]'"):
        from_pymc(None)


def test_no_setting_of_jax_is_left_changed(everything):
    """PyMC asks for a hundred devices when its JAX backend is imported."""
    from_pymc(everything)
    assert "device_count=100" not in os.environ.get("XLA_FLAGS", "")


def _interpolated(pm):
    grid = np.linspace(-3.0, 3.0, 50)
    pm.Interpolated("x", grid, np.exp(-0.5 * grid**2))


HOSTED = {
    "TruncatedNormal": (lambda pm: pm.TruncatedNormal("x", 0.5, 1.0, lower=0.0), lambda x: x > 0),
    "ExGaussian": (lambda pm: pm.ExGaussian("x", mu=0.0, sigma=1.0, nu=1.0), None),
    "Interpolated": (_interpolated, lambda x: abs(x) <= 3),
    "VonMises": (lambda pm: pm.VonMises("x", 0.5, 2.0), lambda x: abs(x) <= np.pi),
    "CustomDist": (
        lambda pm: pm.CustomDist(
            "x",
            0.3,
            logp=lambda x, mu: -0.5 * (x - mu) ** 2 - 0.5 * np.log(2 * np.pi),
            random=lambda mu, rng=None, size=None: rng.normal(mu, 1.0, size=size),
        ),
        None,
    ),
}
"""Priors that PyTensor cannot draw with JAX, or not with a density that fits, and their supports."""


@pytest.mark.parametrize("name", HOSTED)
def test_priors_without_jax_are_drawn_by_pymc_from_their_density(pm, name, key):
    prior, inside = HOSTED[name]
    with pm.Model() as model:
        prior(pm)
        pm.Normal("y", model["x"], 1.0, observed=0.3)
    own = from_pymc(model)
    u = np.linspace(-12.0, 12.0, 1201)
    density = np.exp(np.asarray(jax.jit(jax.vmap(lambda u: own.prior.log_prob({"x": u})))(u)))
    assert abs(np.trapezoid(density, u) - 1) < 1e-3
    draws = np.asarray(jax.jit(jax.vmap(own.prior.sample))(jax.random.split(key, 400))["x"])
    cdf = np.interp(draws, u, np.concatenate([[0.0], np.cumsum(0.5 * np.diff(u) * (density[1:] + density[:-1]))]))
    assert stats.kstest(cdf, "uniform").pvalue > 1e-4
    values = own.named({"x": draws})["x"]
    assert inside is None or inside(values).all()
    np.testing.assert_allclose(own.points({"x": values})["x"], draws, rtol=1e-6, atol=1e-6)


def test_a_likelihood_that_jax_does_not_have_keeps_its_gradient(pm):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Censored("y", pm.Normal.dist(mu, 1.0), lower=-1.0, upper=0.4, observed=np.array([0.3, 0.4]))
    own = from_pymc(model)

    def log_likelihood(mu):
        return own.log_likelihood({"mu": mu}, own.data)

    value, slope = jax.jit(jax.value_and_grad(log_likelihood))(0.2)
    assert float(value) == pytest.approx(stats.norm.logpdf(0.3, 0.2) + stats.norm.logsf(0.4, 0.2))
    assert float(slope) == pytest.approx((float(log_likelihood(0.2 + 1e-6)) - float(log_likelihood(0.2 - 1e-6))) / 2e-6)


def test_a_custom_distribution_without_draws_says_what_to_give(pm):
    with pm.Model() as model:
        x = pm.CustomDist("x", 0.3, logp=lambda x, mu: -0.5 * (x - mu) ** 2)
        pm.Normal("y", x, 1.0, observed=0.3)
    with pytest.raises(ValueError, match="give `random=`"):
        from_pymc(model)
