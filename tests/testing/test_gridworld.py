"""Exact enumeration: the library's own AIS run, summed over every trajectory of a small world."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.testing import FlippedSign, GridWorld
from qpaths.testing.gridworld import GridMetropolis, Scripted

SMALL = GridWorld(
    log_base=-0.3 * (np.arange(9) - 3.0) ** 2,
    log_target=np.array([-np.inf, 0.5, 2.0, 1.0, -3.0, -np.inf, 1.0, 4.0, 0.3]),
)
BETAS = [0.0, 0.1, 0.4, 0.8, 1.0]

PATHS = {
    "geometric": qp.GeometricPath(SMALL.base, SMALL.target),
    "arithmetic": qp.ArithmeticPath(SMALL.base, SMALL.target),
    "q=0.99": qp.QPath(SMALL.base, SMALL.target, q=0.99),
    "q=0.5": qp.QPath(SMALL.base, SMALL.target, q=0.5),
    "q=2": qp.QPath(SMALL.base, SMALL.target, q=2.0),
    "q=-1": qp.QPath(SMALL.base, SMALL.target, q=-1.0),
    "log_scale": qp.QPath(SMALL.base, SMALL.target, q=0.8, log_scale=3.0),
    "generalized": qp.GeneralizedMeanPath(
        SMALL.base, SMALL.target, lambda v: jnp.exp(0.3 * v), lambda v: jnp.log(v) / 0.3
    ),
    "reversed": qp.Reversed(qp.QPath(SMALL.target, SMALL.base, q=0.9)),
}


@pytest.mark.parametrize("name", PATHS)
def test_expected_weight_is_the_evidence(name):
    np.testing.assert_allclose(SMALL.expected_weight(PATHS[name], BETAS), jnp.exp(SMALL.log_evidence), rtol=1e-12)


@pytest.mark.parametrize("name", ["q=0.5", "log_scale", "reversed"])
def test_so_it_is_in_a_compiled_run(name):
    expected = SMALL.expected_weight(PATHS[name], BETAS, traced=True)
    np.testing.assert_allclose(expected, jnp.exp(SMALL.log_evidence), rtol=1e-12)


def test_expected_weight_on_the_default_world():
    world = GridWorld()
    path = qp.QPath(world.base, world.target, q=0.9)
    expected = world.expected_weight(path, [0.0, 0.2, 0.6, 1.0])
    np.testing.assert_allclose(expected, jnp.exp(world.log_evidence), rtol=1e-12)


class _Stale(Scripted):
    """A kernel that is one beta behind."""

    def transition(self, evaluator, beta, particles, randomness, params):
        return super().transition(evaluator, params.before[0], particles, randomness, params)


@pytest.mark.parametrize("traced", [False, True])
def test_a_kernel_one_beta_behind_is_seen(traced):
    num_moves = len(BETAS) - 2
    script = list(itertools.product(range(9), repeat=num_moves + 1))
    kernel = _Stale(1, np.array(script, float))
    ratio = SMALL.expected_weight(PATHS["geometric"], BETAS, kernel, traced=traced) / np.exp(SMALL.log_evidence)
    assert abs(ratio - 1) > 0.01


def test_a_flipped_sign_is_seen():
    world = GridWorld(log_base=np.zeros(6), log_target=np.array([0.0, 1.0, 2.0, 1.0, 0.5, -1.0]))
    path = qp.GeometricPath(world.base, world.target)
    np.testing.assert_allclose(world.expected_weight(path, BETAS), jnp.exp(world.log_evidence), rtol=1e-12)
    assert abs(world.expected_weight(FlippedSign(path), BETAS) / jnp.exp(world.log_evidence) - 1) > 0.5


@pytest.mark.parametrize("name", ["geometric", "q=0.5", "q=2"])
@pytest.mark.parametrize("beta", [0.2, 0.7])
def test_transition_matrix_leaves_the_path_invariant(name, beta):
    path = PATHS[name]
    density = jnp.exp(jax.jit(jax.vmap(lambda x: path.log_density(beta, x)))(jnp.arange(9.0)[:, None]))
    matrix = SMALL.transition_matrix(path, beta)
    np.testing.assert_allclose(density @ matrix, density, atol=1e-14)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-14)


def test_sampled_weights_have_the_enumerated_mean_and_variance(key):
    """AIS with the random kernel against matrix algebra: mean and variance of the weight, to 5 standard deviations."""
    world = GridWorld(log_base=np.zeros(6), log_target=np.array([0.0, 1.0, 2.0, 1.0, 0.5, -1.0]))
    path = qp.QPath(world.base, world.target, q=0.8)
    mean, variance = world.weight_moments(path, BETAS)
    num = 20_000
    weights = np.exp(qp.AIS(num, qp.FixedSchedule(BETAS), GridMetropolis()).run(path, key=key).log_weights)
    assert abs(weights.mean() - mean) < 5 * np.sqrt(variance / num)
    fourth = np.mean((weights - weights.mean()) ** 4)
    assert abs(weights.var() - variance) < 5 * np.sqrt((fourth - variance**2) / num)
