"""Paths through several densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.paths import MultiInputPath
from qpaths.testing import GridWorld, check_path
from tests.paths.test_spline import BASE, SKEWED

MIDDLE = qp.Density(lambda x: -0.5 * jnp.sum((x - 0.5) ** 2))
PATHS = {
    "in turn": MultiInputPath([BASE, MIDDLE, SKEWED]),
    "mixed": MultiInputPath([BASE, MIDDLE, SKEWED], q=0.7, weights=[[1, 0, 0], [0.5, 1, 0.5], [0, 0, 2]]),
}


@pytest.mark.parametrize("name", PATHS)
def test_conformance(name, key):
    check_path(PATHS[name], jax.random.normal(key, (16, 2)))


def test_it_is_the_power_mean_of_its_inputs():
    x = jnp.array([0.3, -0.2])
    values = jnp.array([one.log_prob(x) for one in (BASE, MIDDLE, SKEWED)])
    for beta, weights in ((0.25, [0.75, 0.5, 0.25]), (0.75, [0.25, 0.5, 1.25])):
        expected = qp.log_power_mean(values, jnp.array(weights), 0.7)
        np.testing.assert_allclose(PATHS["mixed"].log_density(beta, x), expected, rtol=1e-13)
    two = MultiInputPath([BASE, SKEWED], q=0.9)
    np.testing.assert_allclose(two.log_density(0.3, x), qp.QPath(BASE, SKEWED, q=0.9).log_density(0.3, x), rtol=1e-13)


def test_inputs_without_weight_do_not_count():
    """However far from the others they are: the exponential of the difference has no number."""
    path = MultiInputPath([lambda x: x[0], lambda x: x[1], lambda x: x[2]], q=0.0)
    assert float(path.log_density(0.5, jnp.array([0.0, -2000.0, 0.0]))) == -2000.0
    assert float(qp.log_power_mean(jnp.array([-2000.0, 0.0]), jnp.array([1.0, 0.0]), 0.0)) == -2000.0


def test_exact_mean_of_the_weights():
    world = GridWorld()
    help_between = qp.Density(jax.tree_util.Partial(lambda t, x: t[x[0].astype(int)], 0.5 * world.log_base + 1.0))
    for q in (1.0, 0.5):
        path = MultiInputPath([world.base, help_between, world.target], q=q)
        mean, _ = world.weight_moments(path, [0.0, 0.2, 0.5, 0.8, 1.0])
        np.testing.assert_allclose(mean, np.exp(world.log_evidence), rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([BASE],), "must have two or more, got 1"),
        (([BASE, SKEWED], 1.0, [[1, 0], [0.5, 0.5]]), "begin with the first density alone and end with the last"),
        (([BASE, SKEWED], 1.0, [[1, 0], [-1, 0.5], [0, 1]]), "must not be negative"),
        (([BASE, SKEWED], 1.0, [[1, 0, 0], [0, 0, 1]]), "of 2 numbers each"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiInputPath(*arguments)
