"""PyMC models: the log joint is PyMC's own, the same numbers come from every door, and mistakes are named."""

import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def test_a_variable_that_jax_cannot_compile(pm):
    with pm.Model() as model:
        pm.PolyaGamma("odd", 1.0, 0.0)
        pm.Normal("y", 0, 1, observed=Y)
    with pytest.raises(ValueError, match=r"cannot compile .* for JAX"):
        from_pymc(model)


def test_without_pymc_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[pymc\]'"):
        from_pymc(None)


def test_no_setting_of_jax_is_left_changed(everything):
    """PyMC asks for a hundred devices when its JAX backend is imported."""
    from_pymc(everything)
    assert "device_count=100" not in os.environ.get("XLA_FLAGS", "")
