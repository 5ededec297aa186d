"""The escort moment-averaging path, as published and exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.families.divergences import escort_expectation
from qpaths.families.nodes import Nodes

BETA = 0.3
LINE = Nodes.line(scale=4.0, num=801)
STUDENTS = qp.StudentT(1.0, -4.0, 3.0**0.5), qp.StudentT(1.0, 4.0, 1.0)
NORMALS = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)


def scatter(seed, dimension):
    factor = np.random.default_rng(seed).normal(size=(dimension, dimension))
    return factor @ factor.T + 0.3 * np.eye(dimension)


@pytest.mark.parametrize("df", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_closed_form_of_the_paper(dimension, df):
    means = np.random.default_rng(0).normal(size=(2, dimension))
    scales = scatter(1, dimension), scatter(2, dimension)
    ends = [qp.MultivariateStudentT(df, *end) for end in zip(means, scales, strict=True)]
    gap = means[1] - means[0]
    for exact, factor in ((False, (df + 2) / df), (True, 1.0)):
        member = qp.EscortMomentPath(*ends, exact=exact).at(BETA)
        sigma = 0.7 * scales[0] + 0.3 * scales[1] + factor * 0.21 * np.outer(gap, gap)
        assert member.df == df
        np.testing.assert_allclose(member.mean, 0.7 * means[0] + 0.3 * means[1], rtol=1e-12)
        np.testing.assert_allclose(member.scale_matrix, sigma, rtol=1e-12)


def test_one_dimension_and_the_q_gaussian_agree():
    for exact in (False, True):
        student = qp.EscortMomentPath(*STUDENTS, exact=exact).at(BETA)
        sigma = 0.7 * 3 + 0.3 + (1 if exact else 3) * 0.21 * 64
        np.testing.assert_allclose([student.loc, student.scale], [-1.6, sigma**0.5], rtol=1e-13)
        ends = [qp.families.QGaussian(2.0, end.loc, end.scale) for end in STUDENTS]
        other = qp.EscortMomentPath(*ends, exact=exact).at(BETA)
        np.testing.assert_allclose([other.loc, other.scale], [student.loc, student.scale], rtol=1e-13)


@pytest.mark.parametrize(
    ("base", "target", "nodes"),
    [
        (*STUDENTS, LINE),
        (qp.StudentT(4.5, -1.0, 0.5), qp.StudentT(4.5, 2.0, 1.5), LINE),
        (qp.families.GeneralizedPareto(0.4, 1.0, 2.0), qp.families.GeneralizedPareto(0.4, 1.0, 0.3), Nodes.line(1.0)),
    ],
)
def test_escort_moments_mix_linearly_by_quadrature(base, target, nodes):
    member = qp.EscortMomentPath(base, target, exact=True).at(BETA)
    ends = [escort_expectation(end.sufficient_statistics, end, end.q, nodes) for end in (base, target)]
    mixed = jax.tree.map(lambda a, b: 0.7 * a + 0.3 * b, *ends)
    found = escort_expectation(member.sufficient_statistics, member, member.q, nodes)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), found, mixed)


def test_published_path_does_not_mix_escort_moments():
    """Its second moment takes the scale matrix of the escort for the covariance: off by 2/nu of the spread."""
    member = qp.EscortMomentPath(*STUDENTS).at(BETA)
    second = escort_expectation(jnp.square, member, member.q, LINE)
    mixed = 0.7 * STUDENTS[0].moments[1] + 0.3 * STUDENTS[1].moments[1]
    np.testing.assert_allclose(second - mixed, 2 * 0.21 * 64, rtol=1e-9)


def test_both_tend_to_the_moment_path():
    limit = qp.MomentPath(*NORMALS).at(BETA)
    for exact in (False, True):
        ends = [qp.StudentT(1e9, end.loc, end.scale) for end in NORMALS]
        member = qp.EscortMomentPath(*ends, exact=exact).at(BETA)
        np.testing.assert_allclose([member.loc, member.scale], [limit.loc, limit.scale], rtol=1e-8)


@jax.jit
def gap(path, betas):
    """Gap of bidirectional annealing with exact transitions: symmetric divergences of neighbors, summed."""
    log_density = jax.vmap(jax.vmap(path.log_density, (None, 0)), (0, None))(betas, LINE.points)
    log_density = log_density - jax.nn.logsumexp(log_density + LINE.log_weights, axis=1, keepdims=True)
    density = jnp.exp(log_density + LINE.log_weights)
    steps = jnp.diff(density, axis=0) * jnp.nan_to_num(jnp.diff(log_density, axis=0))
    return jnp.sum(steps)


@pytest.mark.parametrize(
    ("path", "num", "reference"),
    [
        (qp.EscortMomentPath(*STUDENTS), 3, 3.43691),
        (qp.EscortMomentPath(*STUDENTS), 9, 1.86534),
        (qp.EscortMomentPath(*STUDENTS), 101, 0.29356),
        (qp.QPath(*STUDENTS, q=0.9), 9, 0.58771),
        (qp.QPath(*STUDENTS, q=2.0), 61, 0.18462),
        (qp.QPath(*NORMALS, q=0.9), 9, 2.95849),
        (qp.MomentPath(*NORMALS), 9, 5.42598),
        (qp.GeometricPath(*NORMALS), 9, 5.40835),
    ],
)
def test_gaps_of_the_papers_toy_experiment(path, num, reference):
    """The reference is Monte Carlo with 2,500 draws and differs from quadrature by up to three per cent."""
    np.testing.assert_allclose(gap(path, jnp.linspace(0, 1, num)), reference, rtol=0.035)


def test_exact_path_has_another_gap():
    assert gap(qp.EscortMomentPath(*STUDENTS, exact=True), jnp.linspace(0, 1, 9)) < 1.3


def test_gap_of_the_geometric_path_telescopes():
    """The symmetric divergence of the endpoints over the number of steps, in closed form between Cauchy densities."""
    scales = 3.0**0.5, 1.0
    symmetric = 2 * np.log((sum(scales) ** 2 + 64) / (4 * scales[0] * scales[1]))
    np.testing.assert_allclose(gap(qp.GeometricPath(*STUDENTS), jnp.linspace(0, 1, 9)), symmetric / 8, rtol=1e-4)
