"""The optimal path of Gelman and Meng: a great circle, so its length is known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.families.divergences import log_bhattacharyya
from qpaths.families.nodes import Nodes

LINE = Nodes.line(scale=4.0, num=801)
NORMALS = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)
STUDENTS = qp.StudentT(1.0, -4.0, 3.0**0.5), qp.StudentT(1.0, 4.0, 1.0)


def student_path():
    log_coefficient = log_bhattacharyya(*(LINE.log_values(end) for end in STUDENTS), LINE)
    return qp.paths.GelmanMengPath(*STUDENTS, log_coefficient)


@jax.jit
def speeds(path, betas):
    """Square root of the Fisher information in beta, by quadrature."""
    features = jax.vmap(path.features)(LINE.points)

    def speed(beta):
        log_density = path.log_density_from(beta, features)
        weights = jax.nn.softmax(log_density + LINE.log_weights)
        derivative = jnp.where(weights > 0, path.derivative_from(beta, features), 0)
        mean = jnp.sum(weights * derivative)
        return jnp.sqrt(jnp.sum(weights * (derivative - mean) ** 2))

    return jax.vmap(speed)(betas)


@pytest.mark.parametrize("path", [qp.paths.GelmanMengPath(*NORMALS), student_path()], ids=["normal", "student"])
def test_normalized_and_of_constant_speed(path):
    betas = jnp.array([0.0, 1e-6, 0.2, 0.5, 0.9, 1.0])
    log_density = jax.jit(jax.vmap(jax.vmap(path.log_density, (None, 0)), (0, None)))(betas, LINE.points)
    np.testing.assert_allclose(jax.vmap(LINE.integral)(log_density), 1.0, rtol=1e-10)
    coefficient = jnp.exp(path.log_coefficient)
    np.testing.assert_allclose(path.length, 2 * jnp.arccos(coefficient), rtol=1e-12)
    np.testing.assert_allclose(speeds(path, betas), path.length, rtol=1e-9)


def test_shortest():
    """Gauss-Legendre in beta: the length of the optimal path to all digits, and more for every other path."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    betas, weights = jnp.asarray((nodes + 1) / 2), weights / 2
    best = qp.paths.GelmanMengPath(*NORMALS)
    np.testing.assert_allclose(weights @ speeds(best, betas), best.length, rtol=1e-9)
    for path in (qp.GeometricPath(*NORMALS), qp.MomentPath(*NORMALS), qp.QPath(*NORMALS, q=0.9)):
        assert weights @ speeds(path, betas) > best.length + 0.5
    # The power mean of q = 1/2 runs through the same densities at another speed.
    power_mean = qp.QPath(*NORMALS, q=0.5)
    np.testing.assert_allclose(weights @ speeds(power_mean, betas), best.length, rtol=1e-6)
    assert np.ptp(speeds(power_mean, betas)) > 0.1


def test_closed_form_of_the_coefficient():
    path = qp.paths.GelmanMengPath(*NORMALS)
    by_quadrature = log_bhattacharyya(*(LINE.log_values(end) for end in NORMALS), LINE)
    np.testing.assert_allclose(path.log_coefficient, by_quadrature, rtol=1e-11)


def test_sine_squared_schedule_when_the_endpoints_part():
    """No overlap: sin^2(pi beta / 2) of the mass has moved."""
    path = qp.paths.GelmanMengPath(qp.Normal(-60.0, 1.0), qp.Normal(60.0, 1.0))
    np.testing.assert_allclose(path.length, np.pi, rtol=1e-12)
    moved = path.log_density(0.3, 60.0) - path.target.log_prob(60.0)
    np.testing.assert_allclose(jnp.exp(moved), np.sin(0.15 * np.pi) ** 2, rtol=1e-12)


def test_equal_endpoints():
    path = qp.paths.GelmanMengPath(NORMALS[0], NORMALS[0])
    assert path.length < 1e-7
    np.testing.assert_allclose(path.log_density(0.3, 1.0), NORMALS[0].log_prob(1.0), rtol=1e-12)
    near = qp.paths.GelmanMengPath(qp.Normal(0.0, 1.0), qp.Normal(1e-5, 1.0), -(1e-10) / 8)
    # Fisher-Rao distance of normals with means 1e-5 apart; arccos of the coefficient would keep no digit of it.
    np.testing.assert_allclose(near.length, 1e-5, rtol=1e-9)


def test_zero_mass():
    path = qp.paths.GelmanMengPath(qp.families.Gamma(2.0, 1.0), qp.families.Gamma(5.0, 1.0))
    assert path.log_density(0.3, -1.0) == -jnp.inf
    assert not jnp.isnan(path.derivative(0.3, -jnp.inf, -jnp.inf))
    assert path.interpolate(0.3, -jnp.inf, 0.0) > -jnp.inf
