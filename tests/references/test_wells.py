"""Mixtures in single coordinates: normalized, drawn rightly, found where they are and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest, norm

import qpaths as qp
from qpaths.core.arrays import HostStream, TracedStream
from qpaths.maps import Chain, Marginal, Permute, Scale
from qpaths.references.components import Component
from qpaths.references.wells import fit_mixtures, fit_wells, masses, modes, scan
from qpaths.rows import evaluator_of

WELLS = Marginal(
    np.array([[0.3, 0.7], [0.1, 0.9]]), np.array([[-2.0, 1.0], [0.0, 3.0]]), np.array([[0.3, 0.5], [1.0, 0.2]])
)
MAP = Chain.of(
    Scale(np.zeros(3), np.exp([0.1, 0.0, -0.2])),
    Permute(np.array([2, 0, 1])),
    Scale(np.array([1.0, -1.0, 0.5]), np.array([2.0, 0.5, 1.0])),
)
COMPONENT = Component(6.0, MAP, WELLS)


def wells_and_others(x):
    """A double well in every other coordinate; the others are correlated."""
    well, other = x[::2], x[1::2]
    return jnp.sum(0.5 * well + 6 * well**2 - well**4) - 0.5 * jnp.sum((other - 0.8 * jnp.roll(other, 1)) ** 2)


def evaluator(log_target, dimension):
    base = qp.MultivariateNormal(jnp.zeros(dimension), 4 * jnp.eye(dimension))
    return evaluator_of(qp.GeometricPath(base, qp.Density(log_target)), HostStream((0,)), with_slopes=True)


def mixture_cdf(z, shares, centers, scales):
    return np.sum(shares * norm.cdf(np.asarray(z)[:, None], centers, scales), axis=1)


def test_density_of_wells_is_that_of_the_mixtures():
    x = np.random.default_rng(0).normal(size=(50, 3))
    at = MAP.inverse(x)
    noise, log_volume = at.noise, -MAP.log_volume(at)
    parts = [
        np.log(np.sum(WELLS.shares[j] * norm.pdf(noise[:, j, None], WELLS.centers[j], WELLS.scales[j]), axis=1))
        for j in (0, 1)
    ]
    from scipy.stats import t

    log_prob, slope = COMPONENT.log_prob_and_slope(x)
    np.testing.assert_allclose(log_prob, sum(parts) + t.logpdf(noise[:, 2], 6.0) + log_volume, rtol=1e-12)
    of_jax = jax.vmap(jax.grad(lambda row: COMPONENT.log_prob_and_slope(row[None])[0][0]))(jnp.asarray(x))
    np.testing.assert_allclose(slope, of_jax, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("stream", [HostStream((1,)), TracedStream(jax.random.key(1))])
def test_draws_of_wells_have_their_density(stream):
    noise = np.asarray(MAP.inverse(np.asarray(COMPONENT.draw(stream, 4000))).noise)
    for j in (0, 1):
        parts = WELLS.shares[j], WELLS.centers[j], WELLS.scales[j]
        assert kstest(noise[:, j], mixture_cdf, args=parts).pvalue > 1e-3
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 0.06


def test_scans_find_wells_and_their_shares_though_the_draws_have_lost_one():
    rng = np.random.default_rng(2)
    draws = np.column_stack([1.75 + 0.2 * rng.standard_normal(200), rng.standard_normal(200)] * 2)
    found = fit_wells(evaluator(wells_and_others, 4), draws, HostStream((3,)), correlated=False)
    assert found.map.layers[1].order.tolist() == [0, 2, 1, 3]
    grid = np.linspace(-4, 4, 4001)
    density = np.exp(0.5 * grid + 6 * grid**2 - grid**4)
    share = density[grid > 0].sum() / density.sum()
    x = np.asarray(found.draw(HostStream((4,)), 20_000))
    np.testing.assert_allclose((x[:, ::2] > 0).mean(axis=0), share, atol=0.02)


def test_correlations_of_the_other_coordinates_come_from_the_draws():
    rng = np.random.default_rng(5)
    factor = np.linalg.cholesky(np.array([[1.0, 0.9], [0.9, 1.0]]))
    draws = rng.standard_normal((600, 4))
    draws[:, 1::2] = draws[:, 1::2] @ factor.T
    for correlated, least in ((False, 0.0), (True, 0.8)):
        found = fit_wells(evaluator(wells_and_others, 4), draws, HostStream((3,)), correlated)
        x = np.asarray(found.draw(HostStream((4,)), 4000))
        assert abs(np.corrcoef(x[:, 1], x[:, 3])[0, 1] - least) < 0.15


def test_draws_that_do_not_vary_are_no_bare_error():
    draws = np.random.default_rng(5).standard_normal((600, 4))
    draws[:, 3] = 0.5
    assert fit_wells(evaluator(wells_and_others, 4), draws, HostStream((3,)), correlated=True).map.layers[
        0
    ].scale.shape == (4,)


def test_groups_that_differ_in_all_coordinates_are_not_wells():
    def two(x):
        return jnp.logaddexp(-2 * jnp.sum((x - 2) ** 2), -2 * jnp.sum((x + 2) ** 2))

    rng = np.random.default_rng(6)
    draws = rng.choice([-2.0, 2.0], (200, 1)) + 0.5 * rng.standard_normal((200, 3))
    assert fit_wells(evaluator(two, 3), draws, HostStream((3,)), False) is None
    assert fit_wells(evaluator(lambda x: -jnp.sum(x**2), 3), draws, HostStream((3,)), False) is None


def test_modes_of_a_density_on_an_uneven_grid():
    points = np.sort(np.concatenate([np.linspace(-1, 1, 41), np.linspace(-8, 8, 41)]) + np.linspace(0, 1e-6, 82))
    one = evaluator(lambda x: jnp.logaddexp(-0.5 * (x[0] - 5) ** 2 - 3, -0.5 * x[0] ** 2), 1)
    log_density = scan(one, np.zeros((1, 1)), points[None])[0, 0]
    found = modes(log_density, points, 0.001)
    shares = [np.sum(masses(log_density, points)[own]) for own in found]
    np.testing.assert_allclose(shares, [1 / (1 + np.exp(-3)), 1 / (1 + np.exp(3))], rtol=0.05)
    assert len(modes(log_density, points, 0.1)) == 1


def test_a_wide_gap_in_the_tail_has_hardly_any_mass():
    points = np.concatenate([np.linspace(-3, 3, 61), [50.0, 100.0]])
    mass = masses(-0.5 * points**2, points)
    np.testing.assert_allclose(mass[30:60].sum(), 0.4987, rtol=0.01)  # from 0 to 3
    assert mass[60] < 1e-3


def test_scans_in_parts_are_the_same(monkeypatch):
    """In many dimensions all points together would not fit into memory."""
    one, rng = evaluator(wells_and_others, 4), np.random.default_rng(7)
    through, points = rng.standard_normal((2, 4)), np.sort(rng.standard_normal((4, 10)), axis=1)
    whole = scan(one, through, points)
    monkeypatch.setattr("qpaths.references.wells._MOST_NUMBERS", 1)
    np.testing.assert_allclose(scan(one, through, points), whole, rtol=1e-12)


def test_small_modes_and_flanks_have_parts_of_their_own():
    """A small well next to a large one, and two Laplace distributions: no draw of the mixture has a huge weight."""
    x = np.linspace(-8.0, 8.0, 4001)
    logs = [0.5 * x + 6 * x**2 - x**4, np.logaddexp(-np.abs(x - 2) / 0.4, -1 - np.abs(x + 4) / 0.8)]
    for log_target in logs:
        density = np.exp(log_target - np.max(log_target))
        density /= np.sum(density)
        points = x[density > 1e-9 * np.max(density)]
        points = np.linspace(points[0], points[-1], 96)
        mass = np.interp(points, x, density)
        found = fit_mixtures(points[None], mass[None] / np.sum(mass))
        fitted = np.exp(found.log_prob_and_slope(x[:, None])[0]) * (x[1] - x[0])
        weights = np.where(density > 0, density / np.maximum(fitted, 1e-300), 0.0)
        assert np.sum(density * weights) < 1.02  # the second moment of the weights; 1.6 and infinite from quantiles
        assert np.sum(density * weights**2) < 3.0


def test_mixtures_are_those_of_expectation_maximization_one_part_at_a_time():
    """On scans that reach a hundred deviations away, where most points have no density that a number can hold."""
    points = 2 * np.sinh(np.outer([np.arcsinh(15.0), np.arcsinh(50.0)], np.linspace(-1.0, 1.0, 300)))
    densities = np.array([norm.pdf(points[0], 1.0, 0.7), np.exp(0.5 * points[1] - np.exp(np.minimum(points[1], 50.0)))])
    mass = densities * np.gradient(points, axis=1)
    mass /= np.sum(mass, axis=1, keepdims=True)
    found = fit_mixtures(points, mass)
    for number, (at, own) in enumerate(zip(points, mass, strict=True)):
        wide = np.sqrt(own * np.gradient(at))
        wide /= np.sum(wide)
        own = 0.97 * own + 0.03 * wide
        centers = np.interp((np.arange(6) + 0.5) / 6, np.cumsum(wide), at)
        shares, scales = np.full(6, 1 / 6), np.full(6, 0.5 / 6)
        for _ in range(200):
            logs = np.array(
                [np.log(s) + norm.logpdf(at, m, w) for s, m, w in zip(shares, centers, scales, strict=True)]
            )
            parts = np.exp(logs - logsumexp(logs, axis=0)) * own
            shares = np.array([np.sum(part) + 1e-6 for part in parts])
            centers = np.array([np.sum(part * at) / share for part, share in zip(parts, shares, strict=True)])
            squares = [np.sum(part * (at - m) ** 2) for part, m in zip(parts, centers, strict=True)]
            shares, scales = shares / np.sum(shares), np.sqrt(squares / shares + 1e-8)
        np.testing.assert_allclose(found.shares[number], shares, rtol=1e-9)
        np.testing.assert_allclose(found.centers[number], centers, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(found.scales[number], 1.02 * scales, rtol=1e-9)
