"""Spline paths: exponents along knots, exact ends, and every algorithm on a world of 25 states."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import qpaths as qp
from qpaths.paths import SplinePath
from qpaths.testing import GridWorld, check_path

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
SKEWED = qp.Density(lambda x: jnp.where(x[0] > -0.5, 3.0 * x[1] - jnp.exp(x[1]) - 0.5 * jnp.sum(x**2), -jnp.inf))
KNOTS = [(1.0, 0.0), (0.3, 0.1), (0.2, 0.5), (0.0, 1.0)]
PATHS = {"spline": SplinePath(BASE, SKEWED, KNOTS)}


def test_conformance(key):
    check_path(PATHS["spline"], jax.random.normal(key, (16, 2)))


def test_conformance_in_float32(key):
    with jax.enable_x64(False):
        path = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), PATHS["spline"])
        check_path(path, jax.random.normal(key, (16, 2), jnp.float32))


def test_the_straight_line_is_the_geometric_path():
    straight = SplinePath(BASE, SKEWED, [(1, 0), (0.5, 0.5), (0, 1)])
    for beta in (0.0, 0.2, 0.5, 0.9, 1.0):
        for values in ((-3.0, 7.0), (2.0, -np.inf), (-np.inf, 1.0)):
            expected = qp.GeometricPath(BASE, SKEWED).interpolate(beta, *values)
            np.testing.assert_allclose(straight.interpolate(beta, *values), expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_value_and_derivative_against_high_precision(dtype):
    """8 units of the last place of the largest term, at both ends, at knots and between."""
    path = SplinePath(BASE, SKEWED, np.array(KNOTS, dtype))
    for beta in map(dtype, (0.0, 1e-6, 0.25, 0.5, 0.7, 1 - 1e-6, 1.0)):
        for log_base, log_target in ((-700.0, 3.0), (2.5, -800.0), (-1e4, -1e4)):
            with mp.workdps(60):
                place = mp.mpf(float(beta)) * 3
                i = min(int(mp.floor(place)), 2)
                rows = [[mp.mpf(float(dtype(v))) for v in KNOTS[i + k]] for k in (0, 1)]
                a, c = ((1 - (place - i)) * low + (place - i) * high for low, high in zip(*rows, strict=True))
                slope = [3 * (high - low) for low, high in zip(*rows, strict=True)]
                exact = a * log_base + c * log_target, slope[0] * log_base + slope[1] * log_target
            bound = 8 * np.finfo(dtype).eps * max(1.0, abs(log_base), abs(log_target))
            ends = dtype(log_base), dtype(log_target)
            for kind in (np.asarray, jnp.asarray):
                arguments = tuple(map(kind, (beta, *ends)))
                assert abs(float(path.interpolate(*arguments)) - exact[0]) <= bound
                assert abs(float(path.derivative(*arguments)) - exact[1]) <= 3 * bound


def test_exact_mean_of_the_weights():
    world = GridWorld()
    for knots in (KNOTS, [(1, 0), (0, 1)]):
        path = SplinePath(world.base, world.target, knots)
        mean, _ = world.weight_moments(path, [0.0, 0.2, 0.5, 0.8, 1.0])
        np.testing.assert_allclose(mean, np.exp(world.log_evidence), rtol=1e-12)
    for traced in (False, True):
        mean = world.expected_weight(path, [0.0, 0.4, 1.0], traced=traced)
        np.testing.assert_allclose(mean, np.exp(world.log_evidence), rtol=1e-12)


@pytest.mark.parametrize(
    ("knots", "message"),
    [
        ([(1, 0), (0.5, 0.5)], r"must run from \(1, 0\), the base, to \(0, 1\), the target"),
        ([(1, 0), (-0.1, 0.5), (0, 1)], "non-negative exponents .* row 1: .* may not be integrable"),
        ([(1, 0), (0.0, 0.0), (0, 1)], "not both 0"),
        ([(1, 0, 0), (0, 1, 0)], "rows or more of 2 numbers each"),
    ],
)
def test_bad_input(knots, message):
    with pytest.raises(ValueError, match=message):
        SplinePath(BASE, SKEWED, knots)
