"""Every path is tried at its ends, and numbers there that the conformance suite does not look at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths import paths
from qpaths.core.arrays import to_host
from tests.paths import (
    test_data,
    test_multi_input,
    test_parametric,
    test_pointwise,
    test_prior,
    test_spline,
    test_varying_q,
)

MODULES = test_pointwise, test_spline, test_varying_q, test_data, test_multi_input, test_prior
NORMALS = qp.Normal(-1.0, 3.0**0.5), qp.Normal(1.5, 1.0)
POINTS = jnp.array([0.4, 1.3, 2.6])


def _features(path):
    return to_host(jax.jit(jax.vmap(path.features))(POINTS))


def test_no_path_is_left_out():
    """Every path runs the conformance suite, which looks at both ends, forward and reversed, and outside [0, 1]."""
    names = [name for name in dir(paths) if name.endswith("Path") and not name.startswith("Abstract")]
    tried = [path for module in MODULES for path in module.PATHS.values()]
    tried += [test_parametric.PATHS[name] for name in test_parametric.CONFORMING]
    assert {getattr(paths, name) for name in names} | {qp.Reversed} == {type(path) for path in tried}


def test_geometric_paths_are_straight():
    """The derivative is the log ratio of the endpoints at every beta, whoever computes it."""
    ratio = np.asarray(jax.jit(jax.vmap(lambda x: NORMALS[1].log_prob(x) - NORMALS[0].log_prob(x)))(POINTS))
    for path in (qp.GeometricPath(*NORMALS), qp.GeneralizedMeanPath(*NORMALS, lambda v: v, lambda v: v)):
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


def test_a_large_log_scale_keeps_both_endpoints():
    """Pima's own scale in 32 bits, and one that 64 bits cannot hold as a weight."""
    with jax.enable_x64(False):
        pima = qp.QPath(lambda x: x[0], lambda x: x[1], q=0.5, log_scale=391.0)
        np.testing.assert_allclose(pima.log_density(0.5, jnp.array([-5.0, -396.0])), -394.614, atol=1e-2)
    far = qp.QPath(lambda x: x[0], lambda x: x[1], q=0.8, log_scale=5000.0)
    assert float(far.log_density(0.5, jnp.array([-5.0, -5005.0]))) == pytest.approx(-5001.534, abs=1e-3)
    gradient = jax.grad(lambda x: far.log_density(0.5, x))(jnp.array([-5.0, -5005.0]))
    np.testing.assert_allclose(gradient, [0.5, 0.5], atol=1e-9)
    for log_scale in (5000.0, -5000.0):
        path = qp.QPath(*NORMALS, q=0.8, log_scale=log_scale)
        energies = np.array([path.free_energy(beta, 0.0) for beta in (0.0, 1.0)])
        np.testing.assert_array_equal(energies, [[0.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize("path", [qp.QPath(*NORMALS, q=0.9), qp.paths.GelmanMengPath(*NORMALS)])
def test_nan_outside_where_beta_is_traced(path):
    assert jnp.isnan(jax.jit(lambda beta: path.log_density(beta, POINTS[0]))(1.2))
    with pytest.raises(ValueError, match=r"`beta` must lie in \[0, 1\], got 1.2"):
        path.log_density(1.2, POINTS[0])
