"""An order that moves along the path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.paths import VaryingQPath
from qpaths.testing import GridWorld, check_path
from tests.paths.test_spline import BASE, SKEWED

PATHS = {"varying q": VaryingQPath(BASE, SKEWED, [0.4, 0.1, 0.05, 0.0])}


def test_conformance(key):
    check_path(PATHS["varying q"], jax.random.normal(key, (16, 2)))


def test_conformance_in_float32(key):
    with jax.enable_x64(False):
        path = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), PATHS["varying q"])
        check_path(path, jax.random.normal(key, (16, 2), jnp.float32))


def test_at_each_beta_it_is_the_q_path_of_that_order():
    for beta, delta in ((0.0, 0.4), (1 / 6, 0.25), (1 / 3, 0.1), (0.5, 0.075), (1.0, 0.0)):
        expected = qp.QPath(BASE, SKEWED, delta=delta).interpolate(beta, -3.0, 5.0)
        np.testing.assert_allclose(PATHS["varying q"].interpolate(beta, -3.0, 5.0), expected, rtol=1e-13)


def test_the_derivative_has_the_part_that_the_order_makes():
    path, step = PATHS["varying q"], 1e-6
    both = [float(path.interpolate(0.2 + sign * step, -3.0, 5.0)) for sign in (1, -1)]
    slope = float(path.derivative(0.2, -3.0, 5.0))
    np.testing.assert_allclose(slope, (both[0] - both[1]) / (2 * step), rtol=1e-8)
    fixed = float(qp.QPath(BASE, SKEWED, delta=0.22).derivative(0.2, -3.0, 5.0))
    assert abs(slope - fixed) > 0.5


def test_exact_mean_of_the_weights():
    world = GridWorld()
    path = VaryingQPath(world.base, world.target, [0.5, 0.1, 0.0])
    mean, _ = world.weight_moments(path, [0.0, 0.2, 0.5, 0.8, 1.0])
    np.testing.assert_allclose(mean, np.exp(world.log_evidence), rtol=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="`deltas` must have two rows or more"):
        VaryingQPath(BASE, SKEWED, [0.1])
    with pytest.raises(ValueError, match="all finite"):
        VaryingQPath(BASE, SKEWED, [0.1, np.nan])
