"""Ascents: optima and curvature where they are known, shares of modes, and what must be refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.references.ascents import find_modes, with_more_modes
from qpaths.references.climb import End, climb
from qpaths.remarks import Refusal
from qpaths.rows import evaluator_of

STREAM = HostStream((1,))


def ascents(log_target, dimension, base_scale=1.0, stream=STREAM):
    base = qp.MultivariateNormal(jnp.zeros(dimension), base_scale**2 * jnp.eye(dimension))
    evaluator = evaluator_of(qp.GeometricPath(base, qp.Density(log_target)), stream, with_slopes=True)
    return find_modes(evaluator, stream, 100_000), evaluator


def quadratic(precision, center):
    def function(rows):
        away = rows - center
        return -0.5 * np.sum(away @ precision * away, axis=1), -away @ precision

    return function


@pytest.mark.parametrize("condition", [1.0, 1e2])
def test_climb_finds_the_top_of_a_quadratic(condition):
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    precision = (rotation * np.geomspace(1.0, condition, 8)) @ rotation.T
    climbed = climb(quadratic(precision, 3.0), rng.standard_normal((16, 8)), np.ones(8), 200, 1e-10)
    assert (climbed.end == End.CONVERGED).all()
    np.testing.assert_allclose(climbed.position, 3.0, atol=1e-4)


def test_climb_in_the_scale_of_the_curvature_is_newtons_method():
    rng = np.random.default_rng(1)
    precision = np.diag(np.geomspace(1.0, 1e8, 30))
    climbed = climb(
        quadratic(precision, 1.0), rng.standard_normal((4, 30)), np.diag(1 / np.diag(precision) ** 0.5), 30, 1e-8
    )
    assert (climbed.end == End.CONVERGED).all()
    np.testing.assert_allclose(climbed.value, 0.0, atol=1e-6)


def test_an_ascent_that_starts_at_the_top_ends_there():
    """The gradient is a rounding error: steps along it say nothing about the curvature, and gain nothing."""
    top = np.full((4, 8), 2.0) + 1e-16 * np.arange(4)[:, None]

    def function(x):
        return -3.1 * np.sum((x - 2.0) ** 2, axis=1) - 1.2, -6.2 * (x - 2.0) + 1e-15

    climbed = climb(function, top, 0.4 * np.ones(8), 100, 1e-8)
    assert (climbed.end == End.CONVERGED).all()
    assert climbed.num_evaluations < 20


def test_each_start_ends_by_itself():
    """NaN, a hard bound, infinity and an optimum in one call; a start that fails takes no other with it."""

    def function(rows):
        x = rows[:, 0]
        kind = rows[:, 1]
        value = np.select([kind == 0, kind == 1, kind == 2], [-((x - 2) ** 2), np.where(x < 1, x, -np.inf), x], np.nan)
        slope = np.select([kind == 0, kind == 1, kind == 2], [-2 * (x - 2), 1.0, np.ones_like(x)], np.nan)
        return value, np.column_stack([slope, np.zeros_like(x)])

    starts = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    climbed = climb(function, starts, np.ones(2), 100, 1e-8)
    assert list(climbed.end) == [End.CONVERGED, End.HARD_BOUND, End.AT_INFINITY, End.FAILED]


def test_normal_target_is_exact_in_many_dimensions():
    rng = np.random.default_rng(2)
    rotation = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    precision = (rotation * np.geomspace(1.0, 1e6, 60)) @ rotation.T
    center, matrix = rng.standard_normal(60), jnp.asarray(precision)
    found, _ = ascents(lambda x: -0.5 * (x - center) @ matrix @ (x - center), 60)
    (mode,) = found.modes
    np.testing.assert_allclose(mode.position, center, atol=1e-5)
    np.testing.assert_allclose(mode.precision, precision, rtol=1e-5, atol=1e-2)
    exact = 30 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    assert abs(mode.log_mass - exact) < 1e-5
    assert found.num_gradients < 6_000


def two_modes(x):
    near, far = norm.logpdf(x - 6.0, scale=0.5), norm.logpdf(x + 6.0, scale=0.25)
    return jnp.logaddexp(jnp.log(0.3) + jnp.sum(near), jnp.log(0.7) + jnp.sum(far))


def test_shares_of_two_modes():
    found, _ = ascents(two_modes, 3, 4.0)
    components, shares = found.components
    np.testing.assert_allclose(shares, [0.7, 0.3], atol=1e-6)
    np.testing.assert_allclose([c.map.layers[0].center[0] for c in components], [-6.0, 6.0], atol=1e-4)
    df = components[0].df
    factor = components[0].map.layers[0].scale  # a vector, because the coordinates do not depend on each other
    np.testing.assert_allclose(factor**2 * df / (df - 2), np.full(3, 0.0625), atol=1e-6)


def test_ascents_go_on_until_another_mode_like_the_rarest_is_hardly_missed():
    """Eight equal wells. With three ascents to each mode as enough, one of them is lost for both streams."""
    centers = 2.5 * jax.random.normal(jax.random.key(5), (8, 10))
    for seed in (9, 37):
        found, _ = ascents(
            lambda x: jax.scipy.special.logsumexp(-0.5 * jnp.sum((x - centers) ** 2, -1) / 0.16),
            10,
            base_scale=3.0,
            stream=HostStream((seed,)),
        )
        assert len(found.modes) == 8


def test_draws_of_the_target_lead_to_a_mode_that_was_missed():
    found, evaluator = ascents(two_modes, 3, 4.0)
    one = found._replace(modes=found.modes[:1])
    draws = np.random.default_rng(3).normal(size=(20, 3)) * 0.3 + np.repeat([[6.0], [-6.0]], 10, axis=0)
    more = with_more_modes(evaluator, one, draws, by_mass=True)
    assert len(more.modes) == 2
    assert len(with_more_modes(evaluator, found, draws, by_mass=True).modes) == 2


def improper(x):
    return jnp.sum(x)


def separable(x):
    return -jnp.sum(jax.nn.softplus(-x))


def bounded(x):
    return jnp.where(x[0] < 1.0, 3 * x[0] - jnp.sum(x[1:] ** 2), -jnp.inf)


def ridge(x):
    return -0.5 * (x[0] + x[1]) ** 2


def singular(x):
    return jnp.where(jnp.sum(x**2) > 0, -0.5 * jnp.log(jnp.sum(x**2)), jnp.inf)


def many_wells(x):
    return jnp.sum(6 * x**2 - x**4)


@pytest.mark.parametrize(
    ("log_target", "dimension", "refusals"),
    [
        (improper, 2, {Refusal.AT_INFINITY}),
        (separable, 2, {Refusal.AT_INFINITY, Refusal.FLAT, Refusal.NO_OPTIMUM}),
        (bounded, 2, {Refusal.HARD_BOUND}),
        (ridge, 2, {Refusal.FLAT}),
        (singular, 2, {Refusal.AT_INFINITY, Refusal.NO_OPTIMUM, Refusal.FLAT, Refusal.HARD_BOUND}),
        (many_wells, 16, {Refusal.MANY_MODES}),
        (lambda x: jnp.nan * jnp.sum(x), 2, {Refusal.NO_OPTIMUM}),
    ],
)
def test_what_must_be_refused(log_target, dimension, refusals):
    found, _ = ascents(log_target, dimension)
    assert found.refusal in refusals
    assert not found.modes


def test_starts_with_bad_gradients_are_given_up():
    """The square root of |x| has an infinite gradient at 0, and the density is NaN on one side."""

    def log_target(x):
        return jnp.where(x[0] > 0, jnp.nan, -0.5 * jnp.sum((x + 1.0) ** 2))

    found, _ = ascents(log_target, 2)
    (mode,) = found.modes
    np.testing.assert_allclose(mode.position, -1.0, atol=1e-4)


def test_independent_coordinates_need_no_matrix():
    """Curvature of 300 coordinates that do not depend on each other is a vector; it is exact for a normal target."""
    deviations = jnp.geomspace(0.01, 1.0, 300)
    found, _ = ascents(lambda x: jnp.sum(norm.logpdf(x, 1.0, deviations)), 300)
    (mode,) = found.modes
    np.testing.assert_allclose(mode.precision, 1 / deviations**2, rtol=1e-4)
    assert abs(mode.log_mass) < 1e-3
    (component,), _ = found.components
    assert component.map.layers[0].scale.ndim == 1


def test_a_single_tie_needs_the_whole_matrix():
    def target(x):
        return jnp.sum(norm.logpdf(x)) - 0.4 * x[3] * x[17]

    found, _ = ascents(target, 20)
    assert found.modes[0].precision.shape == (20, 20)
    assert abs(found.modes[0].precision[3, 17] - 0.4) < 1e-4
