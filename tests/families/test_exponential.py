"""Exponential families: densities against scipy, duality against differentiation, the numerical inverse."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

import qpaths as qp
from qpaths.families import AbstractExponentialFamily
from qpaths.families.base import dot


def covariance(seed, dimension):
    factor = np.random.default_rng(seed).normal(size=(dimension, dimension))
    return factor @ factor.T + 0.3 * np.eye(dimension)


def normal(seed, dimension):
    return qp.MultivariateNormal(np.random.default_rng(seed).normal(size=dimension), covariance(seed, dimension))


PAIRS = {
    "normal": (qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)),
    "normal2": (normal(0, 2), normal(1, 2)),
    "normal5": (normal(2, 5), normal(3, 5)),
    "gamma": (qp.families.Gamma(0.3, 2.0), qp.families.Gamma(40.0, 0.5)),
    "poisson": (qp.families.Poisson(0.7), qp.families.Poisson(12.0)),
    "bernoulli": (
        qp.families.Bernoulli(jnp.array([0.1, 0.5, 0.9])),
        qp.families.Bernoulli(jnp.array([0.6, 0.01, 0.3])),
    ),
    "categorical": (
        qp.families.Categorical(jnp.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])),
        qp.families.Categorical(jnp.array([[0.6, 0.2, 0.2], [0.25, 0.5, 0.25]])),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_density_is_the_exponential_of_theta_phi_minus_psi(name, key):
    for member in PAIRS[name]:
        theta = member.natural
        for k in jax.random.split(key, 5):
            x = member.sample(k)
            value = dot(theta, member.sufficient_statistics(x)) - member.log_partition(theta)
            np.testing.assert_allclose(member.log_prob(x), value + member.log_base_measure(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_moments_are_the_gradient_of_the_log_partition_function(name):
    for member in PAIRS[name]:
        gradient = jax.grad(member.log_partition)(member.natural)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), gradient, member.moments)


@pytest.mark.parametrize("name", PAIRS)
def test_both_parametrisations_can_be_inverted(name):
    first, second = PAIRS[name]
    for member in (first.with_natural(second.natural), first.with_moments(second.moments)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), member, second)


def test_log_densities_against_scipy():
    x = np.array([0.02, 1.0, 3.0, 80.0])
    gamma = jax.vmap(qp.families.Gamma(2.5, 0.3).log_prob)(x)
    np.testing.assert_allclose(gamma, stats.gamma(2.5, scale=1 / 0.3).logpdf(x), rtol=1e-12)
    counts = np.array([0.0, 1.0, 30.0])
    np.testing.assert_allclose(
        jax.vmap(qp.families.Poisson(3.5).log_prob)(counts), stats.poisson(3.5).logpmf(counts), rtol=1e-12
    )
    assert qp.families.Gamma(2.5, 0.3).log_prob(-1.0) == qp.families.Gamma(2.5, 0.3).log_prob(0.0) == -jnp.inf
    assert qp.families.Poisson(3.5).log_prob(1.5) == qp.families.Poisson(3.5).log_prob(-1.0) == -jnp.inf
    bits, probs = np.array([1.0, 0.0, 1.0]), np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(qp.families.Bernoulli(probs).log_prob(bits), stats.bernoulli(probs).logpmf(bits).sum())
    assert qp.families.Bernoulli(probs).log_prob(np.array([1.0, 0.5, 0.0])) == -jnp.inf
    rows = qp.families.Categorical(np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]))
    np.testing.assert_allclose(rows.log_prob(np.array([[0, 1, 0], [0, 0, 1]])), np.log(0.3 * 0.8))
    assert rows.log_prob(np.array([[0, 1, 1], [0, 0, 1]])) == -jnp.inf


def test_draws_follow_the_density(key):
    keys = jax.random.split(key, 10_000)
    gamma = jax.jit(jax.vmap(qp.families.Gamma(2.5, 0.3).sample))(keys)
    assert stats.kstest(gamma, stats.gamma(2.5, scale=1 / 0.3).cdf).pvalue > 1e-6  # one in a million by chance
    for member in (PAIRS["poisson"][0], PAIRS["bernoulli"][0], PAIRS["categorical"][0]):
        draws = jax.jit(jax.vmap(lambda k: member.sufficient_statistics(member.sample(k))[0]))(keys)
        mean = member.moments[0]
        deviation = jnp.sqrt((mean if isinstance(member, qp.families.Poisson) else mean * (1 - mean)) / keys.size)
        # Five standard deviations of the mean of a Poisson or Bernoulli variable.
        assert (jnp.abs(draws.mean(0) - mean) < 5 * deviation).all()
        assert all(member.log_prob(member.sample(k)) > -jnp.inf for k in keys[:3])


@pytest.mark.parametrize("concentration", [1e-3, 0.04, 1.0, 15.9, 16.1, 300.0, 1e5])
def test_gamma_inverse_against_high_precision(concentration):
    """The concentration from the two moments, which are given to the last digit of float64."""
    with mp.workdps(30):
        a, rate = mp.mpf(concentration), mp.mpf(3)
        log_mean, mean = float(mp.digamma(a) - mp.log(rate)), float(a / rate)
        found = qp.families.Gamma(1.0, 1.0).with_moments((jnp.asarray(log_mean), jnp.asarray(mean)))
        residual = abs(mp.digamma(mp.mpf(float(found.concentration))) - mp.log(mp.mpf(float(found.rate))) - log_mean)
    assert residual < 1e-10 * max(1, abs(log_mean))
    # log E[x] - E[log x] is 1/(2a) for large a: of its sixteen digits so many are lost.
    np.testing.assert_allclose(found.concentration, concentration, rtol=1e-13 + 1e-14 * concentration)


class Beta(AbstractExponentialFamily):
    """A family that a user might add: no inverse of the moments is given."""

    a: jax.Array
    b: jax.Array

    def log_prob(self, x):
        return (self.a - 1) * jnp.log(x) + (self.b - 1) * jnp.log1p(-x) - self.log_partition(self.natural)

    def sample(self, key):
        return jax.random.beta(key, self.a, self.b)

    def sufficient_statistics(self, x):
        return jnp.log(x), jnp.log1p(-x)

    def log_partition(self, natural):
        a, b = 1 + natural[0], 1 + natural[1]
        value = jax.lax.lgamma(a) + jax.lax.lgamma(b) - jax.lax.lgamma(a + b)
        return jnp.where((a > 0) & (b > 0), value, jnp.nan)

    @property
    def natural(self):
        return self.a - 1, self.b - 1

    def with_natural(self, natural):
        return Beta(1 + natural[0], 1 + natural[1])


@pytest.mark.parametrize("target", [(0.05, 3.0), (7.0, 0.4), (60.0, 80.0)])
def test_newton_on_the_convex_dual(target):
    a, b = target
    moments = tuple(jnp.asarray(special.digamma(v) - special.digamma(a + b)) for v in target)
    start = Beta(jnp.asarray(1.0), jnp.asarray(1.0))
    found = jax.jit(lambda eta: start.with_moments(eta))(moments)
    np.testing.assert_allclose([found.a, found.b], [a, b], rtol=1e-10)
    np.testing.assert_allclose(found.moments, moments, atol=1e-10)


def test_a_users_family_has_a_moment_path():
    path = qp.MomentPath(Beta(jnp.asarray(2.0), jnp.asarray(5.0)), Beta(jnp.asarray(9.0), jnp.asarray(1.5)))
    mixed = [(1 - 0.3) * a + 0.3 * b for a, b in zip(path.base.moments, path.target.moments, strict=True)]
    np.testing.assert_allclose(path.at(0.3).moments, mixed, rtol=1e-10)


def test_kl_divergence_in_closed_form():
    base, target = PAIRS["normal"]
    exact = np.log(1 / 3**0.5) + (3 + 64) / 2 - 0.5
    np.testing.assert_allclose(base.kl_divergence(target), exact, rtol=1e-12)
    # Of the reference figures: gaps of exponential families with K equal steps are this sum over K.
    np.testing.assert_allclose(base.kl_divergence(target) + target.kl_divergence(base), 130 / 3, rtol=1e-12)
    poisson = qp.families.Poisson(0.7).kl_divergence(qp.families.Poisson(12.0))
    np.testing.assert_allclose(poisson, 0.7 * np.log(0.7 / 12.0) - 0.7 + 12.0, rtol=1e-12)


def test_members_are_pytrees_under_transformations():
    x = jnp.linspace(0.1, 3.0, 4)
    values = jax.jit(jax.vmap(lambda a, x: qp.families.Gamma(a, 2 * a).log_prob(x)))(x, x)
    np.testing.assert_allclose(values, stats.gamma(x, scale=1 / (2 * x)).logpdf(x), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qp.Normal(0.0, float("nan")), "`scale` must be positive, got nan"),
        (lambda: qp.Normal(float("inf"), 1.0), "`loc` must be finite, got inf"),
        (lambda: qp.Normal(0.0, float("inf")), "`scale` must be finite, got inf"),
        (lambda: qp.Normal(0.0, 1.0).with_natural((jnp.ones(()), jnp.ones(()))), r"`-natural\[1\]` must be positive"),
        (
            lambda: qp.Normal(0.0, 1.0).with_moments((jnp.ones(()), jnp.ones(()))),
            "must be positive, got 0",
        ),
        (lambda: qp.MultivariateNormal(jnp.zeros(2), jnp.diag(jnp.array([1.0, -1.0]))), "`cov` must be symmetric and"),
        (lambda: qp.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.5], [0.0, 1.0]])), "`cov` must be symmetric"),
        (lambda: normal(0, 2).with_natural((jnp.zeros(2), jnp.eye(2))), r"`-natural\[1\]` must be symmetric and pos"),
        (lambda: qp.families.Gamma(-1.0, 1.0), "`concentration` must be positive, got -1.0"),
        (lambda: qp.families.Gamma(1.0, 0.0), "`rate` must be positive, got 0.0"),
        (
            lambda: qp.families.Gamma(1.0, 1.0).with_moments((jnp.asarray(1.0), jnp.asarray(2.0))),
            "must be positive, got -0.3",
        ),
        (lambda: qp.families.Poisson(-2.0), "`rate` must be positive, got -2.0"),
        (lambda: qp.families.Bernoulli(jnp.array([0.2, 1.0])), r"`probs` must lie in \(0, 1\)"),
        (lambda: qp.families.Categorical(jnp.array([0.5, 0.6])), "`probs` must sum to 1"),
        (lambda: qp.families.Categorical(jnp.array([0.0, 1.0])), "`probs` must be positive"),
        (
            lambda: qp.Normal(0.0, 1.0).kl_divergence(qp.families.Poisson(1.0)),
            "`self` and `other` must be members of one",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
