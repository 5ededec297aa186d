"""Priors as objects: density, sampler and transform belong together, and mistakes are named."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from scipy.special import gammaln

import qpaths as qp
from qpaths.adapters import from_prior
from qpaths.adapters.distributions import Bounded, Simplex
from qpaths.families import Gamma, GeneralizedPareto, Poisson
from qpaths.front_door.problem import named_model

DATA = jnp.array([0.4, 1.7, 0.9])
EVERYTHING = {
    "mu": dist.Normal(0, 10),
    "sigma": dist.HalfCauchy(2.0),
    "rate": lambda p: dist.Uniform(0, p["sigma"]),
    "w": dist.Dirichlet(jnp.ones(3)),
    "chol": dist.LKJCholesky(3, 2.0),
    "cuts": dist.TransformedDistribution(dist.Normal(0, 1).expand([3]).to_event(1), dist.transforms.OrderedTransform()),
    "theta": lambda p: dist.Normal(p["mu"], p["sigma"]).expand([2, 2]).to_event(1),
    "cov": dist.InverseWishart(5.0, jnp.eye(2)) if hasattr(dist, "InverseWishart") else dist.Wishart(5.0, jnp.eye(2)),
}


def _loglik(p):
    return dist.Normal(p["mu"] + jnp.sum(p["theta"]), p["sigma"]).log_prob(DATA).sum() + p["rate"] * p["w"][0]


def test_the_density_is_that_of_the_draws(key):
    """By the change of variables, one coordinate at a time: the density of u is that of x times |dx/du|."""
    model = from_prior(EVERYTHING, _loglik)
    for one in jax.random.split(key, 3):
        point = model.prior.sample(one)
        named = model.constrain(point)
        expected = 0.0
        for name, part in EVERYTHING.items():
            own = part(named) if not hasattr(part, "log_prob") else part
            transform = dist.biject_to(own.support)
            expected += own.log_prob(named[name]).sum()
            expected += transform.log_abs_det_jacobian(point[name], named[name]).sum()
        np.testing.assert_allclose(model.prior.log_prob(point), expected, rtol=1e-12)
        np.testing.assert_allclose(model.log_likelihood(point), _loglik(named), rtol=1e-12)
        again = model.unconstrain(named)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8), again, point)


@pytest.mark.parametrize(
    ("part", "inside"),
    [
        (Gamma(2.0, 3.0), lambda x: x > 0),
        (GeneralizedPareto(0.3, 1.0, 2.0), lambda x: x > 1),
        (GeneralizedPareto(-0.5, 1.0, 2.0), lambda x: (x > 1) & (x < 5)),
        (qp.Normal(1.0, 2.0), np.isfinite),
        (scipy.stats.uniform(-1, 3), lambda x: (x > -1) & (x < 2)),
        (scipy.stats.gamma(2.0), lambda x: x > 0),
        (scipy.stats.weibull_max(2.0), lambda x: x < 0),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_variable_integrates_to_one_and_stays_inside(part, inside):
    model = from_prior({"x": part}, lambda p: 0.0)
    u = np.linspace(-40, 40, 40_001)
    if model.prior.backend == "numpy":
        with np.errstate(all="ignore"):
            log_prob = np.nan_to_num(model.prior.log_prob({"x": u}), nan=-np.inf)
        x = model.named({"x": u[18_000:22_000:100]})["x"]
    else:
        log_prob = jax.jit(jax.vmap(lambda u: model.prior.log_prob({"x": u})))(jnp.asarray(u))
        x = model.named({"x": u[18_000:22_000:100]})["x"]
    assert inside(x).all()
    np.testing.assert_allclose(np.trapezoid(np.exp(log_prob), u), 1.0, rtol=1e-5)


def test_sticks_are_those_of_numpyro(key):
    u = np.asarray(jax.random.normal(key, (5, 3)))
    ours, theirs = Simplex(), dist.transforms.StickBreakingTransform()
    x = ours(u)
    np.testing.assert_allclose(x, theirs(u), rtol=1e-10)
    np.testing.assert_allclose(ours.log_abs_det_jacobian(u, x), theirs.log_abs_det_jacobian(u, theirs(u)), rtol=1e-10)
    np.testing.assert_allclose(ours.inv(x), u, rtol=1e-8)


def test_bounds_in_some_coordinates_are_refused():
    with pytest.raises(ValueError, match="`x` is bounded in some coordinates only"):
        Bounded.between("x", [0.0, -np.inf], np.inf)


def test_gamma_poisson_by_name(key):
    counts = jnp.array([3.0, 5.0, 2.0, 4.0])
    result = qp.evidence(
        prior={"rate": dist.Gamma(2.0, 0.5)},
        log_likelihood=lambda p, y: dist.Poisson(p["rate"]).log_prob(y).sum(),
        data=counts,
        budget=60_000,
        key=key,
    )
    total, num = float(counts.sum()), len(counts)
    exact = gammaln(2 + total) - gammaln(2) + 2 * np.log(0.5) - (2 + total) * np.log(0.5 + num)
    exact -= gammaln(np.asarray(counts) + 1).sum()
    assert abs(float(result.log_evidence) - exact) < 5 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.05
    assert (result.samples["rate"] > 0).all()
    np.testing.assert_allclose(np.log(result.samples["rate"]), result.unconstrained["rate"], rtol=1e-10)
    mean = np.average(result.samples["rate"], weights=np.exp(result.log_weights - result.log_weights.max()))
    assert abs(mean - (2 + total) / (0.5 + num)) < 0.1
    assert len(result.data) == 1


def test_beta_binomial_with_scipy(key):
    """A NumPy likelihood and frozen distributions; the prior takes all rows at once."""
    with pytest.warns(
        UserWarning, match="nothing has looked for further modes"
    ):  # of few evaluations none is left for it
        result = qp.evidence(
            prior={"p": scipy.stats.beta(2, 3), "w": scipy.stats.dirichlet([1.0, 2.0, 3.0])},
            log_likelihood=lambda v: np.log(120) + 7 * np.log(v["p"]) + 3 * np.log1p(-v["p"]) + np.log(v["w"][2]),
            budget=20_000,
            key=key,
        )
    exact = np.log(120) + gammaln(9) + gammaln(6) - gammaln(15) - (gammaln(2) + gammaln(3) - gammaln(5)) + np.log(0.5)
    assert abs(float(result.log_evidence) - exact) < 5 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.1
    np.testing.assert_allclose(result.samples["w"].sum(axis=1), 1.0)


def test_hierarchy_with_scipy(key):
    prior = {"mu": scipy.stats.norm(0, 1), "x": lambda p: scipy.stats.norm(p["mu"], 2.0)}
    model = from_prior(prior, lambda p: 0.0)
    point = model.prior.sample(np.random.default_rng(0))
    expected = scipy.stats.norm(0, 1).logpdf(point["mu"]) + scipy.stats.norm(point["mu"], 2).logpdf(point["x"])
    np.testing.assert_allclose(model.prior.log_prob(point), expected)


def test_discrete_variables_are_summed_out(key):
    weights = jnp.array([0.2, 0.3, 0.5])
    prior = {"mu": dist.Normal(0, 1), "which": dist.Categorical(weights), "flip": dist.Bernoulli(0.25)}
    shifts = jnp.array([-2.0, 0.0, 1.0])

    def log_likelihood(p):
        return dist.Normal(p["mu"] + shifts[p["which"]] + 3 * p["flip"], 0.5).log_prob(0.7)

    model = from_prior(prior, log_likelihood)
    mu = 0.3
    density = [
        (0.25 if flip else 0.75) * w * np.exp(scipy.stats.norm(mu + s + 3 * flip, 0.5).logpdf(0.7))
        for w, s in zip(weights, shifts, strict=True)
        for flip in (0, 1)
    ]
    np.testing.assert_allclose(model.log_likelihood({"mu": jnp.asarray(mu)}), np.log(sum(density)), rtol=1e-6)
    assert list(model.variables) == ["mu"]


def test_a_discrete_vector_is_summed_out():
    """Two switches with shares of their own: four combinations."""
    prior = {"mu": dist.Normal(0, 1), "on": dist.Bernoulli(jnp.array([0.2, 0.7]))}
    model = from_prior(prior, lambda p: dist.Normal(p["mu"] + p["on"] @ jnp.array([1.0, 3.0]), 0.5).log_prob(0.7))
    density = [
        (0.2 if first else 0.8) * (0.7 if second else 0.3) * scipy.stats.norm(0.3 + first + 3 * second, 0.5).pdf(0.7)
        for first in (0, 1)
        for second in (0, 1)
    ]
    np.testing.assert_allclose(model.log_likelihood({"mu": jnp.asarray(0.3)}), np.log(sum(density)), rtol=1e-6)


def test_the_same_prior_compiles_once():
    prior = {"mu": dist.Normal(0, 1)}

    def log_likelihood(p):
        return -(p["mu"] ** 2)

    first, second = (from_prior(prior, log_likelihood) for _ in range(2))
    assert jax.tree.structure(first.prior) == jax.tree.structure(second.prior)
    other = from_prior({"mu": dist.Normal(0, 2)}, log_likelihood)
    assert jax.tree.structure(first.prior) != jax.tree.structure(other.prior)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({}, "dictionary of distributions by name"),
        ({"mu": 3.0}, "prior of `mu` must be a distribution, got 3.0"),
        ({"mu": dist.Normal}, "call it with its parameters"),
        ({"mu": dist.ImproperUniform(dist.constraints.real, (), ())}, "`mu` is improper"),
        ({"n": dist.Poisson(3.0)}, r"`n` is discrete \(Poisson"),
        ({"n": Poisson(3.0)}, r"`n` is discrete \(Poisson"),
        ({"n": scipy.stats.poisson(3.0)}, r"`n` is discrete \(poisson"),
        ({"n": dist.Multinomial(3, jnp.ones(2) / 2)}, r"`n` is discrete \(Multinomial"),
        ({"a": dist.Normal(0, 1), "n": dist.Bernoulli(jnp.full(20, 0.5))}, "`n` has 1,048,576 values"),
        ({"k": dist.Categorical(jnp.ones(2) / 2)}, "no continuous variable, got k"),
        ({"x": dist.Normal(0, 1).mask(False)}, "`x` is masked"),
        ({"x": dist.Delta(1.0)}, "`x` is a single value"),
        ({"a": dist.Normal(0, 1), "b": scipy.stats.norm()}, r"mixes SciPy \(`b`\) with JAX \(`a`\)"),
        ({"b": lambda p: dist.Normal(p["a"], 1), "a": dist.Normal(0, 1)}, "put 'a' above 'b'"),
        ({"a": dist.Normal(0, 1), "b": lambda p: dist.Normal(p["c"], 1)}, "no variable of that name, only a, b"),
        ({"a": dist.Normal(0, 1), "b": lambda p: 2 * p["a"]}, "prior of `b` must be a distribution"),
        ({"k": dist.Bernoulli(0.5), "b": lambda p: dist.Normal(p["k"], 1)}, "discrete variable, which is summed out"),
        ({"v": scipy.stats.wishart(3, np.eye(2))}, "SciPy's `wishart`"),
    ],
)
def test_mistakes_are_named(prior, message):
    with pytest.raises((TypeError, ValueError), match=message):
        from_prior(prior, lambda p: 0.0)


def test_too_many_values(key):
    prior = {"x": dist.Normal(0, 1)} | {f"k{i}": dist.Categorical(jnp.ones(6) / 6) for i in range(5)}
    with pytest.raises(ValueError, match="7,776 values together"):
        from_prior(prior, lambda p: 0.0).log_likelihood({"x": jnp.zeros(())})


def test_a_likelihood_that_asks_for_another_name(key):
    with pytest.raises(ValueError, match="`log_likelihood` asks for 'sigma', and the prior has mu"):
        qp.evidence(prior={"mu": dist.Normal(0, 1)}, log_likelihood=lambda p: p["sigma"], key=key)


def test_what_belongs_together(key):
    prior = {"mu": dist.Normal(0, 1)}
    with pytest.raises(ValueError, match="got also sample_prior"):
        qp.evidence(prior=prior, log_likelihood=lambda p: 0.0, sample_prior=lambda key: 0.0, key=key)
    with pytest.raises(ValueError, match="`log_likelihood` must be given with `prior`"):
        qp.evidence(prior=prior, key=key)
    with pytest.raises(ValueError, match="a model is all that is needed, got also prior"):
        qp.evidence(from_prior(prior, lambda p: 0.0), prior=prior, key=key)
    others = {"target": None}
    for given in ((None, prior, lambda p: 0.0), (from_prior(prior, lambda p: 0.0), None, None)):
        assert named_model(*given, None, others) is not None
    assert others == {"target": None}  # the caller's own is not changed
    with pytest.raises(TypeError, match="must take the variables and the data"):
        qp.evidence(prior=prior, log_likelihood=lambda p: 0.0, data=DATA, key=key)
