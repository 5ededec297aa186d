"""The dual of the free energy and its divergence, for every q, by quadrature under the escort."""

import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.deformed import log_q_of_exp
from qpaths.families.base import dot
from qpaths.families.nodes import Nodes

EDGE = 0.7 * (2.5 / 0.5) ** 0.5
PAIRS = {
    "normal": (qp.Normal(0.4, 1.3), qp.Normal(-1.0, 0.8), Nodes.line(scale=2.0)),
    "student": (qp.StudentT(1.0, -1.0, 1.5), qp.StudentT(1.0, 2.0, 1.0), Nodes.line(scale=2.0)),
    "light student": (qp.StudentT(9.0, 0.0, 1.0), qp.StudentT(9.0, 1.0, 2.0), Nodes.line(scale=2.0)),
    # Of compact support: the second must cover the first.
    "compact": (
        qp.families.QGaussian(0.5, 1.2, 0.7),
        qp.families.QGaussian(0.5, 1.3, 1.5),
        Nodes.line(1.2 - EDGE, 1.2 + EDGE),
    ),
    "pareto": (
        qp.families.GeneralizedPareto(0.4, 1.0, 2.0),
        qp.families.GeneralizedPareto(0.4, 1.0, 0.6),
        Nodes.line(1.0, scale=2.0),
    ),
    "bounded": (
        qp.families.GeneralizedPareto(-0.3, 1.0, 2.0),
        qp.families.GeneralizedPareto(-0.3, 1.0, 3.0),
        Nodes.line(1.0, 1.0 + 2.0 / 0.3),
    ),
}


def escort_mean(values, member, nodes):
    """The mean of values under the density proportional to member^q."""
    weights = jnp.exp((1 - member.delta) * nodes.log_values(member) + nodes.log_weights)
    return jnp.sum(jnp.where(weights > 0, weights * values, 0)) / jnp.sum(weights)


@pytest.mark.parametrize("name", PAIRS)
def test_the_dual_is_the_expected_q_logarithm_under_the_escort(name):
    member, other, nodes = PAIRS[name]
    dual = other.legendre_dual(member.moments)  # a function of the family: any member knows it
    np.testing.assert_allclose(dual, dot(member.natural, member.moments) - member.free_energy(member.natural))
    log_q = log_q_of_exp(nodes.log_values(member), member.delta)
    np.testing.assert_allclose(dual, escort_mean(log_q, member, nodes), rtol=1e-8)


@pytest.mark.parametrize("name", PAIRS)
def test_the_divergence_is_the_expected_difference_of_q_logarithms(name):
    member, other, nodes = PAIRS[name]
    logs = [log_q_of_exp(nodes.log_values(one), member.delta) for one in (member, other)]
    divergence = member.divergence(other)
    np.testing.assert_allclose(divergence, escort_mean(logs[0] - logs[1], member, nodes), rtol=1e-7)
    assert divergence > 0.01
    np.testing.assert_allclose(member.divergence(member), 0, atol=1e-12)
    if name == "normal":
        np.testing.assert_allclose(divergence, member.kl_divergence(other))


def test_young_and_fenchel():
    """The dual exceeds every tangent, and meets it at its own natural parameters alone."""
    member, other, _ = PAIRS["student"]
    gap = member.legendre_dual(member.moments) + member.free_energy(other.natural)
    np.testing.assert_allclose(gap - dot(other.natural, member.moments), member.divergence(other), rtol=1e-10)


def test_members_of_another_family_are_refused():
    with pytest.raises(ValueError, match=r"must have the same `df`, got 1\.0 and 9\.0"):
        PAIRS["student"][0].divergence(PAIRS["light student"][0])


@pytest.mark.parametrize(("ends", "q"), [("student", 2.0), ("normal", 1.0), ("pareto", 1.8 / 1.4)])
def test_the_q_path_is_a_family_with_its_own_free_energy(ends, q):
    """Paper, appendix B: `base exp_q(theta T - psi_q)` integrates to one and is the normalized path."""
    base, target, nodes = PAIRS[ends]
    path = qp.QPath(base, target, q=q)
    theta, psi = path.free_energy(0.3)
    log_base = nodes.log_values(base)
    statistic = log_q_of_exp(nodes.log_values(target) - log_base, path.delta)
    log_density = log_base + jnp.log(qp.exp_q(theta * statistic - psi, q))
    np.testing.assert_allclose(nodes.integral(log_density), 1.0, rtol=1e-8)
    inside = log_density > -500  # further out the density is below the smallest number
    exact = nodes.log_values(path.at(0.3).member)
    np.testing.assert_allclose(log_density[inside], exact[inside], rtol=1e-6, atol=1e-6)


def test_elsewhere_the_normalizing_constant_must_be_given():
    base, target, nodes = PAIRS["normal"]
    path = qp.QPath(base, target, q=0.7, log_scale=0.4)
    with pytest.raises(ValueError, match="`log_z` must be given, got None"):
        path.free_energy(0.3)
    log_z = jnp.log(nodes.integral(nodes.log_values(path.at(0.3))))
    theta, psi = path.free_energy(0.3, log_z)
    statistic = log_q_of_exp(nodes.log_values(target) - nodes.log_values(base), path.delta)
    density = nodes.log_values(base) + jnp.log(qp.exp_q(theta * statistic - psi, 0.7))
    inside = density > -500
    np.testing.assert_allclose(density[inside], nodes.log_values(path.at(0.3))[inside] - log_z, atol=1e-6)
