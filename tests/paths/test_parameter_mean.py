"""Generalized means of natural parameters: known paths are special cases, and any other h is what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp

NORMALS = qp.Normal(-1.0, 1.5), qp.Normal(2.0, 1.0)
STUDENTS = qp.StudentT(3.0, -1.0, 1.5), qp.StudentT(3.0, 2.0, 1.0)
BETA = 0.3


def close(one, other):
    np.testing.assert_allclose([one.loc, one.scale], [other.loc, other.scale], rtol=1e-9)


def test_the_identity_is_the_geometric_path():
    """Between normals. The q-path between Student-t mixes theta of densities that are not normalized: another path."""
    mean = qp.paths.ParameterMeanPath(*NORMALS, lambda theta: theta, lambda theta: theta)
    close(mean.at(BETA), qp.GeometricPath(*NORMALS).at(BETA).member)
    mean = qp.paths.ParameterMeanPath(*STUDENTS, lambda theta: theta, lambda theta: theta)
    assert abs(mean.at(BETA).scale - qp.QPath(*STUDENTS, q=1.5).at(BETA).member.scale) > 0.01


def test_the_moments_are_the_moment_path():
    for ends, path in (
        (NORMALS, qp.MomentPath(*NORMALS)),
        (STUDENTS, qp.EscortMomentPath(*STUDENTS, exact=True)),
    ):
        eta = lambda theta, base=ends[0]: jax.grad(base.free_energy)(theta)  # noqa: E731
        close(qp.paths.ParameterMeanPath(*ends, eta).at(BETA), path.at(BETA))  # inverted by Newton's method
        inverse = lambda moments, base=ends[0]: base.with_moments(moments).natural  # noqa: E731
        close(qp.paths.ParameterMeanPath(*ends, eta, inverse).at(BETA), path.at(BETA))


def test_another_function():
    """The inverse variances mix by their logarithms and theta_1 by its cube, both known in closed form."""
    path = qp.paths.ParameterMeanPath(*NORMALS, lambda theta: (theta[0] ** 3, jnp.log(-theta[1])))
    (a, b), (c, d) = (end.natural for end in NORMALS)
    member = path.at(BETA)
    np.testing.assert_allclose(
        member.natural, [np.cbrt(0.7 * a**3 + 0.3 * c**3), -np.exp(0.7 * np.log(-b) + 0.3 * np.log(-d))], rtol=1e-9
    )
    assert path.at(0.0) is NORMALS[0]


def test_bad_input():
    with pytest.raises(ValueError, match="`base` must be a member of an exponential or q-exponential family"):
        qp.paths.ParameterMeanPath(qp.Density(lambda x: x), NORMALS[0], lambda theta: theta)
    with pytest.raises(ValueError, match="must be members of one family, got Normal and StudentT"):
        qp.paths.ParameterMeanPath(NORMALS[0], STUDENTS[0], lambda theta: theta)
