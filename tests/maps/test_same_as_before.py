"""Chains of layers are the maps of `qpaths.references`, point by point."""

import jax
import numpy as np
import pytest

from qpaths.arrays import HostStream
from qpaths.maps import Bends, Chain, Conditional, Drivers, Marginal, Permute, Pulls, Rotate, Scale, Triangular
from qpaths.references.components import Wells
from qpaths.references.composed import ComposedMap
from qpaths.references.drivers import Modulation
from qpaths.references.frames import linear_map
from qpaths.references.maps import TriangularMap
from qpaths.references.pulled import PulledMap

DIMENSION, NUM = 7, 40


def chain_of(old, pulls=None):
    """The same map as layers."""
    if isinstance(old, ComposedMap):
        return Chain.of(chain_of(old.inner), chain_of(old.outer))
    if isinstance(old, PulledMap):
        return chain_of(old.prior, Pulls(old.places, old.precisions))
    rotation = [] if old.rotation is None else [Rotate(old.rotation)]
    if old.is_linear and (old.order == np.arange(len(old.order))).all():
        linear = Scale if old.means is None else Triangular.of
        return Chain.of(linear(old.center, old.factor), *rotation)
    bends = [] if old.squares is None and old.slopes is None else [Bends(old.squares, old.slopes)]
    m = old.modulation
    drivers = [] if m is None else [Drivers(m.knots, m.shifts, m.widths, m.before, m.turns)]
    first = Conditional.of(old.means, old.log_scales, *bends, *drivers, pulls=pulls)
    return Chain.of(first, Permute(old.order), Scale(old.center, old.scale), *rotation)


def lower(rng, size):
    return size * np.tril(rng.standard_normal((DIMENSION, DIMENSION)), -1)


def triangular(seed, bent=False, **others):
    rng = np.random.default_rng(seed)
    squares, slopes = lower(rng, 0.1), lower(rng, 0.2)
    squares[:, 2:], slopes[:, 3:] = 0, 0
    center, scale = rng.standard_normal(DIMENSION), rng.uniform(0.5, 2.0, DIMENSION)
    log_scales = 0.2 * rng.standard_normal(DIMENSION)
    terms = center, scale, rng.permutation(DIMENSION), lower(rng, 0.3), log_scales
    return TriangularMap.of(*terms, squares if seed % 3 else None, slopes if bent or (seed + 1) % 3 else None, **others)


def rotated(seed):
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((DIMENSION, DIMENSION)))[0]
    return triangular(seed, rotation=rotation)


def modulated(seed):
    rng = np.random.default_rng(seed)
    num = 1 + seed % 2
    width = 1 + num + 3 * num + (num == 2)
    shifts, widths = (size * rng.standard_normal((DIMENSION, width)) for size in (0.2, 0.1))
    turns = 0.1 * rng.standard_normal((DIMENSION, 2, width))
    before = np.array([rng.integers(num, j, 2) if j > num else np.zeros(2, int) for j in range(DIMENSION)])
    shifts[:num], widths[:num], turns[: num + 1] = 0, 0, 0
    modulation = Modulation(np.sort(rng.standard_normal((num, 4)), axis=1), shifts, widths, before, turns)
    return triangular(seed, modulation=modulation)


def pulled(seed):
    rng = np.random.default_rng(seed)
    return PulledMap.of(
        triangular(seed, True), rng.standard_normal(DIMENSION), np.maximum(rng.normal(0, 2, DIMENSION), 0)
    )


def linear(seed):
    rng = np.random.default_rng(seed)
    return TriangularMap.linear(rng.standard_normal(DIMENSION), lower(rng, 1.0) + np.diag(rng.uniform(0.5, 2.0, 7)))


def diagonal(seed):
    rng = np.random.default_rng(seed)
    return TriangularMap.diagonal(rng.standard_normal(DIMENSION), rng.uniform(0.5, 2.0, DIMENSION))


def composed(seed):
    return ComposedMap(triangular(seed), pulled(seed + 1))


def framed(seed):
    return ComposedMap(triangular(seed), linear_map(np.eye(7) + lower(np.random.default_rng(seed), 0.3).T))


KINDS = triangular, rotated, modulated, pulled, linear, diagonal, composed, framed


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [1.0, 4.0])
def test_maps(make, seed, size):
    old, noise = make(seed), size * np.random.default_rng(seed).standard_normal((NUM, DIMENSION))
    new = chain_of(old)
    points, log_volume = old.to_points(noise)
    good = np.abs(points).max(axis=1) < 1e8
    assert np.sum(good) > 0.5 * NUM
    noise, points, log_volume = noise[good], points[good], log_volume[good]
    at = new.forward(noise)
    same(at.points, points)
    same(new.log_volume(at), log_volume)
    back = new.inverse(points)
    wanted, minus_log_volume = old.to_noise(points)
    same(back.noise, wanted, 1e-11 if make is framed else 1e-12)  # rounded points, times the condition of the frame
    same(new.log_volume(back), -minus_log_volume)
    slopes = np.cos(np.random.default_rng(seed).standard_normal((2, *noise.shape)))
    pulled_back = np.array(old.slopes_of_noise(points, noise, list(slopes)))
    same(new.pull_back(at, slopes), pulled_back)
    same(new.push_forward(new.forward(noise), slopes[0]), old.slope_of_points(points, noise, slopes[0]))
    same(new.push_forward(new.inverse(points), slopes[0]), old.slope_of_points(points, noise, slopes[0]), 1e-9)


def same(found, wanted, error=1e-12):
    """To rounding, relative to the largest number of a row."""
    size = np.maximum(1.0, np.max(np.abs(wanted), axis=-1, keepdims=True))
    np.testing.assert_array_less(np.abs(found - wanted) / size, error)


def test_mixtures():
    rng = np.random.default_rng(0)
    terms = rng.dirichlet(np.ones(3), 4), rng.standard_normal((4, 3)), rng.uniform(0.3, 1.0, (4, 3))
    old, new, noise = Wells(*terms), Marginal(*terms), rng.standard_normal((NUM, 4))
    for found, wanted in zip(new.log_prob_and_slope(noise), old.log_prob_and_slope(noise), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(new.draw(HostStream((1,)), noise), old.draw(HostStream((1,)), noise))


@pytest.mark.parametrize("make", [modulated, composed])
def test_maps_in_a_compiled_program(make):
    old, noise = make(1), np.random.default_rng(1).standard_normal((5, DIMENSION))
    new = chain_of(old)
    found = jax.jit(lambda chain, rows: chain.pull_back(chain.forward(rows), rows))(new, noise)
    same(np.asarray(found), new.pull_back(new.forward(noise), noise), 1e-10)
