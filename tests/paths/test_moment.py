"""The moment-averaging path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp

BETA = 0.3


def scatter(seed, dimension):
    factor = np.random.default_rng(seed).normal(size=(dimension, dimension))
    return factor @ factor.T + 0.3 * np.eye(dimension)


@pytest.mark.parametrize("dimension", [2, 5])
def test_between_multivariate_normals(dimension):
    means = np.random.default_rng(0).normal(size=(2, dimension))
    covs = scatter(1, dimension), scatter(2, dimension)
    path = qp.MomentPath(*(qp.MultivariateNormal(*ends) for ends in zip(means, covs, strict=True)))
    member = path.at(BETA)
    gap = means[1] - means[0]
    np.testing.assert_allclose(member.mean, 0.7 * means[0] + 0.3 * means[1], rtol=1e-12)
    np.testing.assert_allclose(member.cov, 0.7 * covs[0] + 0.3 * covs[1] + 0.21 * np.outer(gap, gap), rtol=1e-12)


@pytest.mark.parametrize(
    ("base", "target"),
    [
        (qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)),
        (qp.families.Gamma(0.3, 2.0), qp.families.Gamma(40.0, 0.5)),
        (qp.families.Gamma(3e4, 2.0), qp.families.Gamma(5e5, 0.5)),
        (qp.families.Poisson(0.7), qp.families.Poisson(12.0)),
        (qp.families.Bernoulli(jnp.array([0.1, 0.5])), qp.families.Bernoulli(jnp.array([0.6, 0.01]))),
        (qp.families.Categorical(jnp.array([0.2, 0.3, 0.5])), qp.families.Categorical(jnp.array([0.6, 0.2, 0.2]))),
    ],
)
def test_moments_mix_linearly(base, target):
    found = qp.MomentPath(base, target).at(BETA).moments
    mixed = jax.tree.map(lambda a, b: 0.7 * a + 0.3 * b, base.moments, target.moments)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), found, mixed)


def test_digits_survive_means_far_from_zero():
    """Second moments would be 1e16, and their difference from the squared mean would have no digits."""
    member = qp.MomentPath(qp.Normal(1e8, 1.0), qp.Normal(1e8 + 2.0, 3.0)).at(0.5)
    np.testing.assert_allclose(member.scale, 6.0**0.5, rtol=1e-14)


def test_gap_of_exact_annealing_is_the_symmetric_kl_over_the_number_of_steps():
    """Grosse et al., 2013: the same for the geometric and the moment path as the steps become short."""
    path = qp.MomentPath(qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0))
    num = 2001
    members = jax.jit(jax.vmap(path.member))(jnp.linspace(0, 1, num))
    before, after = (jax.tree.map(lambda leaf: leaf[cut], members) for cut in (slice(None, -1), slice(1, None)))
    gaps = jax.jit(jax.vmap(lambda a, b: a.kl_divergence(b) + b.kl_divergence(a)))(before, after)
    np.testing.assert_allclose(jnp.sum(gaps) * (num - 1), 130 / 3, rtol=1e-4)
