"""Divergences against closed forms and mpmath, and the variational representations that are the paper's section 5."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import qpaths as qp
from qpaths.families.divergences import (
    alpha_divergence,
    escort_expectation,
    jensen_shannon_divergence,
    kl_divergence,
    log_bhattacharyya,
    mixed_divergence,
)
from qpaths.families.nodes import Nodes

BASE, TARGET = qp.Normal(-1.0, 3.0**0.5), qp.Normal(1.5, 0.8)
MEAN, COV = jnp.array([0.4, -0.3]), jnp.array([[1.0, 0.4], [0.4, 0.7]])
LINE = Nodes.line(scale=2.0, num=1001)
SKEWED = qp.Density(lambda x: jnp.where(x > 0, 1.3 + 0.7 * jnp.log(x) - x, -jnp.inf))


def on_line(*densities):
    return [LINE.log_values(density) for density in densities]


@pytest.mark.parametrize(
    ("nodes", "member"),
    [
        (LINE, BASE),
        (LINE, qp.StudentT(0.5, -4.0, 1.7)),
        (Nodes.line(0.0, scale=3.0), qp.families.Gamma(0.3, 0.5)),
        (Nodes.line(1.0), qp.families.GeneralizedPareto(0.7, 1.0, 2.0)),
        (Nodes.line(-np.inf, 0.0), qp.Density(lambda x: x)),
        (Nodes.line(-(3**0.5), 3**0.5), qp.families.QGaussian(0.0, 0.0, 1.0)),
        (Nodes.line(-((7 / 5) ** 0.5), (7 / 5) ** 0.5), qp.families.QGaussian(-4.0, 0.0, 1.0)),
        (Nodes.product(*[Nodes.line(num=151)] * 2), qp.MultivariateNormal(MEAN, COV)),
        (Nodes.product(*[Nodes.line(num=301)] * 2), qp.MultivariateStudentT(3.0, MEAN, COV)),
    ],
)
def test_quadrature_integrates_densities_to_one(nodes, member):
    np.testing.assert_allclose(nodes.integral(nodes.log_values(member)), 1.0, rtol=1e-10)


def test_kl_of_normals():
    log_p, log_r = on_line(BASE, TARGET)
    np.testing.assert_allclose(kl_divergence(log_p, log_r, LINE), BASE.kl_divergence(TARGET), rtol=1e-12)
    np.testing.assert_allclose(kl_divergence(log_r, log_p, LINE), TARGET.kl_divergence(BASE), rtol=1e-12)
    # With masses a and b: a KL + a log(a/b) - a + b.
    a, b = 2.5, 0.4
    scaled = kl_divergence(log_p + np.log(a), log_r + np.log(b), LINE)
    np.testing.assert_allclose(scaled, a * BASE.kl_divergence(TARGET) + a * np.log(a / b) - a + b, rtol=1e-12)


@pytest.mark.parametrize("alpha", [-3.0, -1.0, -1 + 1e-9, -0.4, 0.0, 0.5, 1 - 1e-9, 1.0, 1.4])
def test_alpha_divergence_against_high_precision(alpha):
    """Between a light and a heavy tail, in the order that keeps the divergence finite, with a mass other than one."""
    normal, student, mass = qp.Normal(0.2, 1.0), qp.StudentT(4.0, -0.5, 1.3), 1.8

    def integrand(x):
        light = mp.exp(-((x - mp.mpf(0.2)) ** 2) / 2) / mp.sqrt(2 * mp.pi)
        z = (x + mp.mpf(0.5)) / mp.mpf(1.3)
        heavy = mp.mpf(mass) * mp.mpf(3) / 8 / mp.mpf(1.3) * (1 + z**2 / 4) ** mp.mpf(-2.5)
        p, r = (light, heavy) if alpha < 0 else (heavy, light)
        q = (1 + mp.mpf(alpha)) / 2
        if q == 0:
            return p * mp.log(p / r) - p + r
        if q == 1:
            return r * mp.log(r / p) - r + p
        return ((1 - q) * p + q * r - p ** (1 - q) * r**q) / (q * (1 - q))

    with mp.workdps(40):
        exact = mp.quad(integrand, [-1e6, -1e3, -30, -8, -2, 0, 2, 8, 30, 1e3, 1e6])
    log_p, log_r = LINE.log_values(normal), LINE.log_values(student) + np.log(mass)
    if alpha >= 0:
        log_p, log_r = log_r, log_p
    value = alpha_divergence(log_p, log_r, alpha, LINE)
    np.testing.assert_allclose(value, float(exact), rtol=1e-10)
    np.testing.assert_allclose(alpha_divergence(log_r, log_p, -alpha, LINE), value, rtol=1e-14)


def test_limits_of_alpha_are_the_two_kl_divergences():
    log_p, log_r = on_line(BASE, TARGET)
    for eps in (1e-5, 1e-9, 1e-13):
        for sign, limit in ((-1, kl_divergence(log_p, log_r, LINE)), (1, kl_divergence(log_r, log_p, LINE))):
            value = alpha_divergence(log_p, log_r, sign * (1 - eps), LINE)
            assert abs(value - limit) < 100 * eps + 1e-12


def test_zero_mass():
    log_p, log_r = on_line(SKEWED, BASE)
    assert kl_divergence(log_p, log_r, LINE) < jnp.inf
    assert kl_divergence(log_r, log_p, LINE) == jnp.inf
    assert jnp.isfinite(alpha_divergence(log_p, log_r, 0.0, LINE))
    assert alpha_divergence(log_p, log_p, 0.3, LINE) == 0


def test_two_dimensions():
    plane = Nodes.product(*[Nodes.line(num=201, scale=1.5)] * 2)
    p = qp.MultivariateNormal(MEAN, COV)
    r = qp.MultivariateNormal(-2 * MEAN, 0.5 * COV + jnp.eye(2))
    log_p, log_r = plane.log_values(p), plane.log_values(r)
    np.testing.assert_allclose(kl_divergence(log_p, log_r, plane), p.kl_divergence(r), rtol=1e-10)
    # The integral of p^(1-q) r^q is the mass of a geometric path.
    log_affinity = qp.GeometricPath(p, r).at(0.75).log_mass
    exact = (1 - jnp.exp(log_affinity)) / (0.75 * 0.25)
    np.testing.assert_allclose(alpha_divergence(log_p, log_r, 0.5, plane), exact, rtol=1e-10)


def test_monte_carlo(key):
    proposal = qp.Normal(0.0, 3.0)
    num = 20_000
    nodes = Nodes.monte_carlo(proposal, num, key=key)
    log_p, log_r = nodes.log_values(BASE), nodes.log_values(TARGET)
    for value, term in (
        (kl_divergence(log_p, log_r, nodes), lambda p, r: jnp.exp(p) * (p - r) - jnp.exp(p) + jnp.exp(r)),
        (alpha_divergence(log_p, log_r, 0.0, nodes), lambda p, r: 2 * (jnp.exp(p / 2) - jnp.exp(r / 2)) ** 2),
    ):
        # An average of independent terms: the tolerance is five of their standard errors, from the quadrature.
        line = Nodes.line(-20.0, 20.0)
        log_0, log_1, log_proposal = (line.log_values(density) for density in (BASE, TARGET, proposal))
        terms = term(log_0, log_1)
        mean = jnp.sum(jnp.exp(line.log_weights) * terms)
        second = jnp.sum(jnp.exp(line.log_weights - log_proposal) * terms**2)
        assert abs(value - mean) < 5 * jnp.sqrt((second - mean**2) / num)


def test_jensen_shannon():
    log_p, log_r = on_line(BASE, TARGET)
    mixture = jnp.logaddexp(log_p, log_r) - jnp.log(2)
    half = 0.5 * kl_divergence(log_p, mixture, LINE) + 0.5 * kl_divergence(log_r, mixture, LINE)
    np.testing.assert_allclose(jensen_shannon_divergence(log_p, log_r, 0.5, -1.0, LINE), half, rtol=1e-13)
    # The least KL mixture is 1 minus the mass of the geometric mean, for normalized ends.
    geometric = 1 - jnp.exp(qp.GeometricPath(BASE, TARGET).at(0.3).log_mass)
    np.testing.assert_allclose(jensen_shannon_divergence(log_p, log_r, 0.3, 1.0, LINE), geometric, rtol=1e-12)
    wide = Nodes.line(scale=20.0, num=2001)
    apart = [wide.log_values(qp.Normal(m, 1.0)) for m in (-40.0, 40.0)]
    np.testing.assert_allclose(jensen_shannon_divergence(*apart, 0.5, -1.0, wide), np.log(2), rtol=1e-10)


def test_bhattacharyya_and_escort_expectation():
    log_p, log_r = on_line(BASE, TARGET)
    exact = qp.GeometricPath(BASE, TARGET).at(0.5).log_mass
    np.testing.assert_allclose(log_bhattacharyya(log_p, log_r, LINE), exact, rtol=1e-12)
    student = qp.StudentT(2.5, 0.7, 1.4)
    moments = escort_expectation(student.sufficient_statistics, student, student.q, LINE)
    np.testing.assert_allclose(moments, student.moments, rtol=1e-10)


# The variational representations. Along r (1 + t h) the objective has derivative 0 and second derivative the integral
# of r h^2, whatever alpha is: its functional Hessian at the minimum is 1/r.


def directions(key, num):
    """Smooth random functions on the line, bounded by one."""
    phases, frequencies = jax.random.normal(key, (2, num, 5))
    waves = jnp.sin(LINE.points * frequencies[..., None] + 3 * phases[..., None])
    return jnp.mean(waves, axis=1)


@jax.jit
def behavior(log_base, log_target, log_r, beta, alpha, directions):
    """Slope, curvature and the values at both sides along r (1 + t h), for every direction h."""

    def along(h, t):
        return mixed_divergence(log_base, log_target, log_r + jnp.log1p(t * h), beta, alpha, LINE)

    def of_one(h):
        slope = jax.grad(along, argnums=1)
        return slope(h, 0.0), jax.grad(slope, argnums=1)(h, 0.0), along(h, 0.3), along(h, -0.3)

    return jax.vmap(of_one)(directions)


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(
    ("q", "target"),
    [
        (0.0, TARGET),
        (0.3, TARGET),
        (0.9, TARGET),
        (1.0, TARGET),
        (1.4, TARGET),
        (0.0, SKEWED),
        (0.3, SKEWED),
        (0.9, SKEWED),
    ],
)
def test_q_path_minimises_the_mixed_alpha_divergences(q, beta, target, key):
    """From a normal to a normal, and to a target of mass other than one that vanishes on a half line."""
    log_base, log_target = on_line(BASE, target)
    log_r = LINE.log_values(qp.QPath(BASE, target, q=q).at(beta))
    h = directions(key, 25)
    slope, curvature, plus, minus = behavior(log_base, log_target, log_r, beta, 2 * q - 1, h)
    np.testing.assert_allclose(slope, 0, atol=1e-10 * float(LINE.integral(log_r)))
    np.testing.assert_allclose(curvature, jnp.sum(jnp.exp(log_r + LINE.log_weights) * h**2, axis=1), rtol=1e-8)
    least = mixed_divergence(log_base, log_target, log_r, beta, 2 * q - 1, LINE)
    assert (jnp.minimum(plus, minus) > least).all()


def test_another_path_does_not_minimize(key):
    """What the test above must reject: the path of another q."""
    log_base, log_target = on_line(BASE, TARGET)
    log_r = LINE.log_values(qp.QPath(BASE, TARGET, q=0.5).at(0.5))
    slope, *_ = behavior(log_base, log_target, log_r, 0.5, 0.2, directions(key, 25))
    assert jnp.abs(slope).max() > 1e-4


def test_moment_path_minimises_the_reversed_kl_mixture_within_the_family(key):
    beta = 0.2
    log_base, log_target = on_line(BASE, TARGET)

    @jax.jit
    def objective(theta):
        member = BASE.with_natural(theta)
        return mixed_divergence(log_base, log_target, jax.vmap(member.log_prob)(LINE.points), beta, -1.0, LINE)

    theta = qp.MomentPath(BASE, TARGET).at(beta).natural
    np.testing.assert_allclose(jax.jit(jax.grad(objective))(theta), 0, atol=1e-10)
    fisher = jax.jit(jax.hessian(BASE.log_partition))(theta)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8), jax.jit(jax.hessian(objective))(theta), fisher
    )
    least = objective(theta)
    for step in 0.1 * jax.random.normal(key, (25, 2)):
        assert objective((theta[0] + step[0], theta[1] * jnp.exp(step[1]))) > least
    # Over all densities the mixture does better.
    mixture = LINE.log_values(qp.ArithmeticPath(BASE, TARGET).at(beta))
    assert mixed_divergence(log_base, log_target, mixture, beta, -1.0, LINE) < least


def test_bad_input():
    with pytest.raises(ValueError, match="`low` must be less than `high`, got 2"):
        Nodes.line(2.0, 1.0)


def test_a_multiplier_for_the_mass_leads_to_the_mixture_and_not_to_the_moment_path():
    """Appendix C.1: `J[r] + multiplier (1 - mass)` has no slope at the mixture; elsewhere no multiplier removes it."""
    beta, weights = 0.2, jnp.exp(LINE.log_weights)
    ends, shares = jnp.stack(on_line(BASE, TARGET)), jnp.array([1 - beta, beta])
    mixture = jax.nn.logsumexp(ends, axis=0, b=shares[:, None])

    def functional(log_r):
        """`J` up to the constant that does not depend on r (eq. functional)."""
        return -jnp.sum(weights * jnp.exp(mixture) * log_r)

    whole = shares @ jnp.stack([kl_divergence(end, mixture, LINE) for end in ends])
    constant = shares @ jnp.sum(weights * jnp.exp(ends) * ends, axis=1)
    np.testing.assert_allclose(constant + functional(mixture), whole, rtol=1e-10)
    for log_r, is_stationary in ((mixture, True), (LINE.log_values(qp.MomentPath(BASE, TARGET).at(beta)), False)):
        slope, mass = jax.grad(functional)(log_r), weights * jnp.exp(log_r)
        multiplier = -jnp.sum(slope * mass) / jnp.sum(mass**2)
        assert bool(jnp.max(jnp.abs(slope + multiplier * mass)) < 1e-12) == is_stationary
