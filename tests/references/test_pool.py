"""Pools of modes count ends by their mass; looking around good modes finds what no ascent from the base does."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.references.ascents import find_modes
from qpaths.references.climb import Climbed, End
from qpaths.references.pool import Mode, Pool
from qpaths.references.structure import Images, Structure
from qpaths.rows import evaluator_of

STREAM = HostStream((1,))
SWAP = Images(np.array([[0, 1], [1, 0]]), np.ones((2, 2)))


def ends(positions, values):
    positions = np.asarray(positions, float)
    converged = np.full(len(positions), int(End.CONVERGED))
    return Climbed(positions, np.asarray(values, float), 0 * positions, converged, 0)


def pool(precision=1.0, images=None):
    return Pool(lambda rows: [precision * np.ones(2) for _ in rows], Images.none(2) if images is None else images)


def test_what_was_met_once_estimates_what_is_unseen():
    found = pool()
    found.add(ends([[0, 0], [0.01, 0], [5, 5], [9, 9]], [0.0, -1e-4, -1.0, -50.0]))
    assert found.hits == [2, 1]  # the last one is too low to matter
    np.testing.assert_allclose(found.unseen, np.exp(-1) / (1 + np.exp(-1)))
    found.add(ends([[5, 5.001]], [-1.0]))
    assert found.unseen == 0


def test_ends_far_below_do_not_hide_modes():
    """Three hundred ends with no mass count for nothing."""
    rng = np.random.default_rng(0)
    found = pool()
    found.add(ends(np.concatenate([[[0.0, 0.0]] * 3, rng.uniform(-99, 99, (300, 2))]), [0.0] * 3 + [-40.0] * 300))
    assert found.hits == [3]
    assert found.relevant == [0]
    assert found.unseen == 0


def test_images_are_one_mode_and_all_of_them_are_used():
    found = pool(images=SWAP)
    found.add(ends([[0, 5], [5, 0], [2, 2]], [0.0, 0.0, -1.0]))
    assert found.hits == [2, 1]
    modes, uncovered = found.used
    assert sorted(tuple(mode.position) for mode in modes) == [(0, 5), (2, 2), (5, 0)]
    assert uncovered < 1e-9


def test_flat_optima_are_no_modes():
    found = Pool(lambda rows: [None for _ in rows], Images.none(2))
    found.add(ends([[0, 0]], [3.0]))
    assert (found.modes, found.flattest) == ([], 3.0)


def found_in(log_target, dimension, structure=None, scale=3.0):
    base = qp.MultivariateNormal(jnp.zeros(dimension), scale**2 * jnp.eye(dimension))
    evaluator = evaluator_of(qp.GeometricPath(base, qp.Density(log_target)), STREAM, with_slopes=True)
    return find_modes(evaluator, STREAM, 10_000, structure)


def comb(x):
    """Eighty narrow peaks along x[0], the highest of which is narrow; x[1] must follow within each."""
    places = jnp.linspace(-6, 6, 80)
    follow = jnp.sin(7.0 * jnp.arange(80))
    heights = jnp.where(jnp.arange(80) == 53, 12.0, 0.0)
    return logsumexp(heights - 0.5 * ((x[0] - places) / 0.01) ** 2 - 0.5 * ((x[1] - follow) / 0.05) ** 2)


def test_strata_find_the_high_peak_among_many():
    found = found_in(comb, 2)
    assert found.refusal is None
    np.testing.assert_allclose(found.modes[0].position[0], -6 + 12 * 53 / 79, atol=1e-3)
    assert found.unseen < 0.05


def hidden(x):
    """Two blocks, each with a wide mode and a high one; ascents from the base end at both high ones rarely."""
    each = [
        jnp.logaddexp(-0.5 * jnp.sum(part**2) / 4, 6.0 - 0.5 * jnp.sum((part - 3.0) ** 2) / 0.25)
        for part in (x[:3], x[3:])
    ]
    return each[0] + each[1]


def test_a_group_of_a_good_mode_is_redrawn():
    groups = Structure((np.arange(3), np.arange(3, 6)), is_given=True)
    found = found_in(hidden, 6, groups)
    positions = np.round([mode.position for mode in found.known])
    assert {(0.0,) * 6, (3.0,) * 6, (3.0,) * 3 + (0.0,) * 3, (0.0,) * 3 + (3.0,) * 3} >= set(
        map(tuple, positions + 0.0)
    )
    assert (3.0,) * 6 in set(map(tuple, positions))


def test_the_mass_of_a_mode_is_that_of_laplace():
    mode = Mode(np.zeros(2), 1.0, np.diag([4.0, 1.0]))
    np.testing.assert_allclose(mode.log_mass, 1 + np.log(2 * np.pi) - np.log(2))
    np.testing.assert_allclose(mode.distance(np.array([[1.0, 0.0]])), np.sqrt(2))
