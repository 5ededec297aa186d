"""Blocks and drivers from Hessians: exact whatever the draws, and nothing where there is nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

from qpaths.references.blocks import _commutators, find_blocks, hessians_at

DIMENSION = 8


def twisted(x):
    """Three pairs, and two normal coordinates."""
    first, second = x[:3], x[3:6]
    return (
        jnp.sum(norm.logpdf(first, scale=2.0))
        + jnp.sum(norm.logpdf(second - first**2 / 2))
        + jnp.sum(norm.logpdf(x[6:]))
    )


def funnels(x):
    """Four pairs."""
    return jnp.sum(norm.logpdf(x[:4], scale=2.0)) + jnp.sum(norm.logpdf(x[4:], scale=jnp.exp(x[:4] / 2)))


def funnel(x, slopes=0.5):
    return norm.logpdf(x[0], scale=3.0) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(slopes * x[0])))


def uneven_funnel(x):
    return funnel(x, jnp.linspace(0.2, 0.6, DIMENSION - 1))


def normal(x):
    return -0.5 * jnp.sum(x**2 * jnp.linspace(1.0, 9.0, DIMENSION))


def mixing(seed):
    """A linear map that is no rotation."""
    return np.random.default_rng(seed).standard_normal((DIMENSION, DIMENSION)) + np.eye(DIMENSION)


def blocks_after(log_target, mix, seed=0):
    """From draws that are not those of the target, at which the Hessians have the same blocks all the same."""
    draws = 1.5 * np.random.default_rng(seed).standard_normal((400, DIMENSION)) @ mix.T
    inverse = jnp.asarray(np.linalg.inv(mix))
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: log_target(inverse @ x))))
    hessians = hessians_at(lambda rows: np.asarray(slopes(rows)), draws, np.finfo(float).eps)
    return find_blocks(hessians, np.cov(draws.T)), draws


def members(axes, mix):
    """Which of the original coordinates each of the new ones depends on, up to a thousandth."""
    rows = np.abs(np.linalg.solve(axes, mix))
    return [frozenset(np.flatnonzero(row > 1e-3 * row.max()).tolist()) for row in rows]


@pytest.mark.parametrize(
    ("log_target", "wanted"),
    [
        (twisted, {frozenset({0, 3}), frozenset({1, 4}), frozenset({2, 5})}),
        (funnels, {frozenset({i, i + 4}) for i in range(4)}),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_told_apart_after_any_linear_map(log_target, wanted, seed):
    mix = mixing(seed)
    found, draws = blocks_after(log_target, mix)
    of_coordinates = members(found.axes, mix)
    pairs = [group for group in found.groups if len(group) == 2]
    assert {frozenset().union(*(of_coordinates[k] for k in pair)) for pair in pairs} == wanted
    assert found.direction is None
    # Principal axes, as a wrong implementation would take them, depend on all coordinates.
    assert all(len(one) > 2 for one in members(np.linalg.eigh(np.cov(draws.T))[1], mix))


@pytest.mark.parametrize("log_target", [funnel, uneven_funnel])
@pytest.mark.parametrize("seed", range(3))
def test_a_direction_that_drives_all_others_is_exact(log_target, seed):
    mix = mixing(10 + seed)
    found, _ = blocks_after(log_target, mix)
    assert found.groups == (tuple(range(DIMENSION)),)
    wanted = np.linalg.inv(mix)[0]
    cosine = found.direction @ wanted / (np.linalg.norm(found.direction) * np.linalg.norm(wanted))
    assert 1 - abs(cosine) < 1e-6
    assert members(found.axes, mix)[0] == {0}


def test_axes_of_what_is_driven_are_found_where_scales_differ():
    mix = mixing(20)
    found, _ = blocks_after(uneven_funnel, mix)
    # Each depends on the driver, which the map's linear means take away, and on one other.
    assert {one - {0} for one in members(found.axes, mix)[1:]} == {frozenset({k}) for k in range(1, DIMENSION)}


def test_a_normal_target_shows_nothing():
    for seed in range(3):
        assert blocks_after(normal, mixing(30 + seed))[0] is None


def test_a_driver_that_is_a_coordinate_is_no_direction():
    found, _ = blocks_after(funnel, np.diag(np.geomspace(0.1, 10.0, DIMENSION)))
    assert found.direction is None
    assert members(found.axes, np.eye(DIMENSION))[0] == {0}


def test_hessians_that_are_not_finite_do_not_count():
    hessians = np.random.default_rng(0).standard_normal((32, 4, 4))
    hessians[3:] = np.nan
    assert find_blocks(hessians, np.eye(4)) is None
    assert find_blocks(-np.broadcast_to(np.eye(4), (32, 4, 4)), np.eye(4)) is None  # no maximum anywhere


def test_gradient_of_commutators():
    rng = np.random.default_rng(1)
    matrices = rng.standard_normal((5, 4, 4))
    matrices = matrices + matrices.transpose(0, 2, 1)
    at = rng.standard_normal(4)
    steps = 1e-6 * np.eye(4)
    differences = [(_commutators(at + h, matrices)[0] - _commutators(at - h, matrices)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(_commutators(at, matrices)[1], differences, rtol=1e-5)
