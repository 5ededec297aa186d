"""Curved maps in other linear coordinates: taken where they are right, and not where they are wrong."""

import numpy as np
import pytest

from qpaths.maps import Conditional, Permute, Rotate, Scale, Triangular
from qpaths.references.blocks import Blocks
from qpaths.references.curves import fit_map
from qpaths.references.frames import find_frame, linear_map

NUM, PAIRS = 2000, 3


def funnels(rng):
    first = 2 * rng.standard_normal((NUM, PAIRS))
    return np.stack([first, np.exp(first / 2) * rng.standard_normal((NUM, PAIRS))], axis=-1).reshape(NUM, -1)


def twisted(rng):
    first = 2 * rng.standard_normal((NUM, PAIRS))
    return np.stack([first, first**2 / 2 + rng.standard_normal((NUM, PAIRS))], axis=-1).reshape(NUM, -1)


def rotation(rng, dimension=2 * PAIRS):
    return np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]


def of_pairs(axes):
    return Blocks(axes, tuple((2 * k, 2 * k + 1) for k in range(PAIRS)), None)


def turned_within_pairs(rng):
    """Axes as Hessians show them: the pairs, and nothing within them."""
    axes = np.zeros((2 * PAIRS, 2 * PAIRS))
    for k in range(PAIRS):
        axes[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = rng.standard_normal((2, 2)) + np.eye(2)
    return axes


def test_linear_map_is_the_product_with_its_axes():
    rng = np.random.default_rng(0)
    axes, noise = rng.standard_normal((5, 5)), rng.standard_normal((7, 5))
    at = linear_map(axes).forward(noise)
    points, log_volume = at.points, linear_map(axes).log_volume(at)
    np.testing.assert_allclose(points, noise @ axes.T, atol=1e-12)
    np.testing.assert_allclose(log_volume, np.linalg.slogdet(axes)[1])


@pytest.mark.parametrize("make", [funnels, twisted])
def test_the_coordinate_that_bends_is_found_within_each_pair(make):
    rng = np.random.default_rng(1)
    draws, turn = make(rng), rotation(rng)
    frame = find_frame(of_pairs(turn @ turned_within_pairs(rng)), draws @ turn.T)
    axes = frame.forward(np.eye(2 * PAIRS)).points.T
    functionals = np.linalg.solve(axes, turn) * np.std(draws, axis=0)  # new coordinates in units of the old ones
    for k in range(PAIRS):
        row = functionals[2 * k]
        assert abs(row[2 * k + 1]) < 0.05 * abs(row[2 * k])


@pytest.mark.parametrize("make", [funnels, twisted])
def test_a_rotated_product_gets_the_map_of_the_product(make):
    rng = np.random.default_rng(2)
    draws, turn = make(rng), rotation(rng)
    rows = draws @ turn.T
    fitted = fit_map(rows, None, find_frame(of_pairs(turn @ turned_within_pairs(rng)), rows)).fitted
    assert [type(layer) for layer in fitted.map.layers] == [Conditional, Permute, Scale, Triangular, Rotate]
    straight, blind = fit_map(draws).fitted, fit_map(rows).fitted
    fresh = make(rng)
    likelihood, best = (
        float(np.mean(one.log_prob_and_slope(x)[0])) for one, x in ((fitted, fresh @ turn.T), (straight, fresh))
    )
    assert abs(likelihood - best) < 0.1
    # Without the frame the map loses most of what curves gain.
    assert float(np.mean(blind.log_prob_and_slope(fresh @ turn.T)[0])) < best - 0.5


@pytest.mark.parametrize("make", [funnels, twisted])
def test_a_wrong_frame_is_not_taken(make):
    rng = np.random.default_rng(3)
    draws = make(rng)
    fitted = fit_map(draws, None, linear_map(rotation(rng))).fitted.map
    assert [type(layer) for layer in fitted.layers] == [Conditional, Permute, Scale]


def test_normal_draws_get_no_frame():
    rng = np.random.default_rng(4)
    for _ in range(5):
        draws = rng.standard_normal((600, 2 * PAIRS)) @ rng.standard_normal((2 * PAIRS, 2 * PAIRS))
        fitted = fit_map(draws, None, find_frame(of_pairs(rotation(rng)), draws)).fitted.map
        assert [type(layer) for layer in fitted.layers] == [Triangular]


def test_draws_on_a_line_get_no_frame():
    draws = np.repeat(np.random.default_rng(5).standard_normal((100, 1)), 2 * PAIRS, axis=1)
    assert find_frame(of_pairs(np.eye(2 * PAIRS)), draws) is None
