"""Derivatives in beta at both ends of every path and of its reversal, and NaN outside [0, 1]."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths import paths
from qpaths.arrays import to_host
from qpaths.testing import StuckEnds

NORMALS = qp.Normal(-1.0, 3.0**0.5), qp.Normal(1.5, 1.0)
STUDENTS = qp.StudentT(2.0, -1.0, 3.0**0.5), qp.StudentT(2.0, 1.5, 1.0)
GAMMAS = qp.families.Gamma(2.0, 2.0), qp.families.Gamma(9.0, 3.0)
POINTS = jnp.array([0.4, 1.3, 2.6])

PATHS = {
    "geometric": qp.GeometricPath(*NORMALS),
    "arithmetic": qp.ArithmeticPath(*NORMALS),
    "q=0.9": qp.QPath(*NORMALS, q=0.9),
    "q=2": qp.QPath(*NORMALS, q=2.0),
    "log_scale": qp.QPath(*NORMALS, q=0.7, log_scale=-3.0),
    "generalized": qp.GeneralizedMeanPath(*NORMALS, lambda v: jnp.exp(0.3 * v), lambda v: jnp.log(v) / 0.3),
    "generalized identity": qp.GeneralizedMeanPath(*NORMALS, lambda v: v, lambda v: v),
    "gelman-meng": qp.paths.GelmanMengPath(*NORMALS),
    "moment": qp.MomentPath(*NORMALS),
    "moment gamma": qp.MomentPath(*GAMMAS),
    "escort": qp.EscortMomentPath(*STUDENTS),
    "escort exact": qp.EscortMomentPath(*STUDENTS, exact=True),
    "alpha": qp.paths.AlphaProjectionPath(*NORMALS, q=0.6),
    "parameters": qp.paths.ParameterMeanPath(*NORMALS, lambda theta: (theta[0] ** 3, theta[1])),
}
STEP = 2.0**-13
AHEAD = STEP * np.arange(1, 6)
OUTSIDE = [-0.1, 1.2, np.nan]
BETAS = np.array([0.0, *AHEAD, 1.0, *(1 - AHEAD), *OUTSIDE])


def _features(path):
    return to_host(jax.jit(jax.vmap(path.features))(POINTS))


def _numbers(path, xp=np):
    """Log densities, derivatives and second derivatives at all betas, from one set of features."""
    features, betas = jax.tree.map(xp.asarray, _features(path)), xp.asarray(BETAS)[:, None]
    first, second = path.derivatives_from(betas, features)
    return path.log_density_from(betas, features), path.derivative_from(betas, features), first, second


def _one_sided(values, sign):
    """First derivative at an end from values at five steps inside, to the fourth power of the step."""
    weights = np.array([-77 / 12, 107 / 6, -39 / 2, 61 / 6, -25 / 12])
    return sign * weights @ np.asarray(values) / STEP


def test_no_path_is_left_out():
    names = [name for name in dir(paths) if name.endswith("Path") and not name.startswith("Abstract")]
    assert {getattr(paths, name) for name in names} == {type(path) for path in PATHS.values()}


@pytest.mark.parametrize("direction", [lambda path: path, qp.Reversed], ids=["forward", "reversed"])
@pytest.mark.parametrize("name", PATHS)
def test_derivatives_at_both_ends_and_nan_outside(name, direction):
    values, derivatives, first, second = _numbers(direction(PATHS[name]))
    for end, inside, sign in ((0, slice(1, 6), 1), (6, slice(7, 12), -1)):
        slope, bend = (_one_sided(table[inside], sign) for table in (values, derivatives))
        assert np.abs(slope).max() > 0.1
        np.testing.assert_allclose(derivatives[end], slope, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(first[end], slope, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(second[end], bend, rtol=1e-5, atol=1e-6)
    assert all(np.isnan(table[-len(OUTSIDE) :]).all() for table in (values, derivatives, first))


def test_a_path_that_is_stuck_at_its_ends_is_seen():
    values, derivatives, _, _ = _numbers(StuckEnds(*NORMALS))
    assert np.abs(derivatives[0] - _one_sided(values[1:6], 1)).max() > 0.1


def test_geometric_paths_are_straight():
    """The derivative is the log ratio of the endpoints at every beta, whoever computes it."""
    ratio = np.asarray(jax.jit(jax.vmap(lambda x: NORMALS[1].log_prob(x) - NORMALS[0].log_prob(x)))(POINTS))
    for name in ("geometric", "generalized identity"):
        path = PATHS[name]
        for beta in (0.0, 0.3, 1.0):
            np.testing.assert_allclose(path.derivative_from(beta, _features(path)), ratio, rtol=1e-12)
            np.testing.assert_allclose(qp.Reversed(path).derivative_from(beta, _features(path)), -ratio, rtol=1e-12)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("log_scale", [1e4, -1e4])
def test_no_nan_for_a_large_log_scale(log_scale, xp):
    """The shift of logit(beta) is 2000: its exponential has no number."""
    path = qp.QPath(*NORMALS, q=0.8, log_scale=log_scale)
    for direction in (path, qp.Reversed(path)):
        features = jax.tree.map(xp.asarray, _features(path))
        for beta in (0.0, 1e-3, 0.5, 1.0):
            numbers = direction.log_density_from(beta, features), *direction.derivatives_from(beta, features)
            assert not any(np.isnan(part).any() for part in numbers)
    assert not np.isnan(path.derivative(0.0, -1.0, 2.0))
    assert path.derivative(0.0, 2.0, 2.0) == 0


@pytest.mark.parametrize("name", ["q=0.9", "generalized", "gelman-meng", "moment gamma"])
def test_nan_outside_where_beta_is_traced(name):
    path = PATHS[name]
    assert jnp.isnan(jax.jit(lambda beta: path.log_density(beta, POINTS[0]))(1.2))
    with pytest.raises(ValueError, match=r"`beta` must lie in \[0, 1\], got 1.2"):
        path.log_density(1.2, POINTS[0])
