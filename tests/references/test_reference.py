"""Fitting a reference: exact where it can be, refused where it must be, normalized always."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.maps import Bends, Chain, Conditional
from qpaths.references.components import Component
from qpaths.references.fitting import fit_reference, has_groups, looks_bimodal
from qpaths.references.reference import Reference, share_lost, share_outside
from qpaths.remarks import Refusal
from qpaths.rows import Evaluator, HostDensities, Layout, TracedDensities, layout_of


@pytest.fixture
def normal():
    """A correlated normal distribution in five dimensions."""
    factor = np.linalg.cholesky(np.full((5, 5), 0.6) + 0.4 * np.eye(5)) * np.arange(1, 6)[:, None]
    return np.arange(5.0), factor @ factor.T, factor


def test_scores_make_a_normal_target_exact(normal):
    """For a normal target the fit does not depend on the draws at all; the sample covariance is far off."""
    mean, covariance, factor = normal
    x = mean + 1.7 * np.random.default_rng(0).standard_normal((40, 5)) @ factor.T + 0.3
    scores = -np.linalg.solve(covariance, (x - mean).T).T
    fitted = fit_reference(x, scores).fitted
    scale = covariance * (fitted.df - 2) / fitted.df
    np.testing.assert_allclose(fitted.map.layers[0].factor @ fitted.map.layers[0].factor.T, scale, rtol=1e-9)
    np.testing.assert_allclose(fitted.map.layers[0].center, mean, atol=1e-9)
    assert np.abs(fit_reference(x).fitted.map.layers[0].center - mean).max() > 0.1


def test_degrees_of_freedom_follow_the_tails():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 3)) / np.sqrt(rng.chisquare(8, (4000, 1)) / 8)
    assert 5 < fit_reference(x).fitted.df < 13
    assert fit_reference(rng.standard_normal((4000, 3))).fitted.df == 30


@pytest.mark.parametrize("dimension", [1, 3, 10])
@pytest.mark.parametrize(("share", "distance"), [(0.5, 8.0), (0.1, 10.0)])
def test_two_groups_are_refused(dimension, share, distance):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((600, dimension))
    x[:, 0] += distance * (rng.random(600) < share)

    def log_prob(v):
        near, far = jnp.log(1 - share) - v[0] ** 2 / 2, jnp.log(share) - (v[0] - distance) ** 2 / 2
        return jnp.logaddexp(near, far) - jnp.sum(v[1:] ** 2) / 2

    rotation = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    scores = np.asarray(jax.jit(jax.vmap(jax.grad(log_prob)))(x))
    assert fit_reference(x @ rotation, scores @ rotation).refusal is Refusal.SEVERAL_GROUPS


def test_two_near_groups_are_refused_and_nearer_ones_are_not():
    """At 4 standard deviations the valley is a third as high as the peaks, at 3 two thirds: one fit will do there."""
    rng = np.random.default_rng(6)
    side = rng.random((10, 1024, 1)) < 0.5
    noise = rng.standard_normal((10, 1024, 3))
    far, near = (noise + distance * side * np.eye(3)[0] for distance in (4.0, 3.0))
    assert sum(looks_bimodal(x) for x in far) >= 9
    assert not any(looks_bimodal(x) for x in near)


def test_copies_of_rows_make_no_groups():
    """Four copies of each row, as resampling leaves them, tell no more than one, but real groups still show."""
    rng = np.random.default_rng(8)
    copies = np.arange(1600) % 400
    assert not any(looks_bimodal(cloud[copies]) for cloud in rng.uniform(size=(10, 400, 3)))
    stuck = np.where(np.arange(1600) < 100, 0, np.arange(1600))  # one particle, copied a hundred times
    far = np.concatenate([np.full((1, 3), 3.0), rng.standard_normal((1599, 3))])
    assert not looks_bimodal(far[stuck])
    side = rng.random((400, 1)) < 0.5
    assert looks_bimodal((rng.standard_normal((400, 3)) + 8 * side * np.eye(3)[0])[copies])


@pytest.mark.parametrize("num", [60, 600])  # few rows for the dimension are split, many are not
def test_one_mode_is_not_refused_whatever_its_shape(num):
    rng = np.random.default_rng(3)
    x = np.log(rng.gamma(2.0, size=(num, 10)))
    assert fit_reference(x, 2 - np.exp(x)).fitted is not None
    clouds = {
        "normal": rng.standard_normal((5, num, 10)),
        "exponential": rng.exponential(size=(5, num, 10)),
        "log-normal": np.exp(rng.standard_normal((5, num, 10))),
        "uniform": rng.uniform(size=(5, num, 10)),
        "Cauchy": rng.standard_cauchy((5, num, 10)),
    }
    assert [name for name, cloud in clouds.items() if any(looks_bimodal(x) for x in cloud)] == []


def test_what_cannot_be_fitted_is_refused():
    rng = np.random.default_rng(4)
    assert fit_reference(rng.standard_normal((10, 8))).refusal is Refusal.TOO_FEW
    assert fit_reference(rng.standard_cauchy((500, 3))).refusal is Refusal.HEAVY_TAILS
    flat = np.zeros((100, 2))
    flat[:, 0] = rng.standard_normal(100)
    assert fit_reference(flat).refusal is Refusal.SUBSPACE


def test_scores_that_say_nothing_are_left_aside():
    x = np.random.default_rng(5).standard_normal((100, 2))
    with_zeros, without = fit_reference(x, np.zeros((100, 2))).fitted, fit_reference(x).fitted
    np.testing.assert_allclose(with_zeros.map.layers[0].center, without.map.layers[0].center)


def test_reference_is_normalized_and_draws_what_it_says(key):
    """Weights from the base to the mixture have mean 1, and draws have its mean; a point that is a dict."""
    base = qp.Density(
        lambda x: jnp.sum(jax.scipy.stats.norm.logpdf(x["a"])) + jax.scipy.stats.norm.logpdf(x["b"]),
        lambda k: {"a": jax.random.normal(k, (2,)), "b": jax.random.normal(jax.random.fold_in(k, 1))},
    )
    fitted = Component.linear(10.0, np.array([0.3, 0.2, 0.1]), 0.3 * np.eye(3))
    layout = Layout.of({"a": jnp.zeros(2), "b": jnp.zeros(())})
    reference = Reference((fitted,), np.ones(1), base, 0.25, layout)
    keys = jax.random.split(key, 20_000)
    draws = jax.jit(jax.vmap(base.sample))(keys)
    weights = np.exp(jax.jit(jax.vmap(reference.log_prob))(draws) - jax.jit(jax.vmap(base.log_prob))(draws))
    assert abs(weights.mean() - 1) < 5 * weights.std() / len(weights) ** 0.5
    means = jax.jit(jax.vmap(reference.sample))(keys)["a"]
    expected = 0.75 * np.array([0.3, 0.2])
    np.testing.assert_allclose(means.mean(axis=0), expected, atol=5 * means.std() / len(keys) ** 0.5)
    path = qp.GeometricPath(reference, base)
    rows = Evaluator.of(path, HostDensities(layout, False)).draw(HostStream((1,)), 20_000)
    np.testing.assert_allclose(rows[:, :2].mean(axis=0), expected, atol=5 * rows.std() / len(rows) ** 0.5)


def test_reference_is_a_student_distribution_mixed_with_the_base_and_knows_its_score(key):
    """Values and gradients by JAX from a density written out, in both worlds; the base alone is evaluated."""
    base = qp.MultivariateNormal(jnp.zeros(3), 4 * jnp.eye(3))
    scale = np.array([[0.5, 0.2, 0.0], [0.2, 0.4, 0.1], [0.0, 0.1, 0.3]])
    reference = Reference(
        (Component.linear(7.0, np.arange(3.0), scale),), np.ones(1), base, 0.1, Layout.of(jnp.zeros(3))
    )
    near = qp.MultivariateStudentT(7.0, jnp.arange(3.0), jnp.asarray(scale))

    def log_prob(x):
        return jnp.logaddexp(jnp.log(0.9) + near.log_prob(x), jnp.log(0.1) + base.log_prob(x))

    path = qp.GeometricPath(reference, base)
    positions = 3 * np.random.default_rng(0).standard_normal((20, 3))
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(log_prob)))(jnp.asarray(positions))
    layout = layout_of(path)
    host, traced = (Evaluator.of(path, one) for one in (HostDensities(layout, True), TracedDensities(layout)))
    compiled = jax.jit(lambda rows: traced.particles(rows, with_slopes=True))
    for particles in (host.particles(positions, with_slopes=True), compiled(positions)):
        np.testing.assert_allclose(particles.features.log_base, value, rtol=1e-10)
        np.testing.assert_allclose(particles.slopes.base, slope, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(jax.jit(reference.log_prob)(jnp.asarray(positions[0])), value[0], rtol=1e-10)


def _evaluator(base, target):
    path = qp.GeometricPath(base, target)
    return Evaluator.of(path, HostDensities(layout_of(path), False))


def test_share_of_draws_beyond_a_hard_bound():
    normal = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    reference = Reference(
        (Component.linear(30.0, np.zeros(2), np.eye(2)),), np.ones(1), normal, 0.05, Layout.of(jnp.zeros(2))
    )
    half = _evaluator(normal, qp.Density(lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf)))
    assert abs(share_outside(reference, half, 1000, stream=HostStream((1,))) - 0.5) < 5 * 0.5 / 1000**0.5
    everywhere = _evaluator(normal, qp.Density(lambda x: -jnp.sum(x**2)))
    assert share_outside(reference, everywhere, 1000, stream=HostStream((1,))) == 0


def _steep(slope):
    """Coordinate 0 drives the scale of coordinate 1, to which coordinate 2 adds standard noise."""
    means, slopes = np.zeros((3, 3)), np.zeros((3, 3))
    means[2, 1], slopes[1, 0] = 1.0, slope
    steep = Chain.of(Conditional.of(means, np.zeros(3), Bends(None, slopes)))
    base = qp.MultivariateNormal(jnp.zeros(3), jnp.eye(3))
    return Reference((Component(30.0, steep),), np.ones(1), base, 0.05, Layout.of(jnp.zeros(3)))


def test_draws_that_rounding_takes_away_are_counted():
    """The noise of coordinate 2 is lost in that of coordinate 1 where the scale is above 1e15: at 1.73 and beyond."""
    assert 0.02 < share_lost(_steep(20.0), 2000, stream=HostStream((1,))) < 0.08
    assert share_lost(_steep(0.5), 2000, stream=HostStream((1,))) == 0


def test_draws_of_a_reference_that_overflow_have_no_mass():
    """The run goes on, and its evidence is right. At draws of a base that the user gives, it must be finite."""
    reference = _steep(400.0)
    target = qp.Density(lambda x: -0.5 * jnp.sum((x / 0.3) ** 2))
    algorithm = qp.SMC(4000, qp.LinearSchedule(4), qp.RandomWalk())
    result = algorithm.run(qp.GeometricPath(reference, target), key=jax.random.key(0))
    truth = 1.5 * np.log(2 * np.pi) + 3 * np.log(0.3)
    assert abs(result.log_evidence - truth) < 5 * result.log_evidence_se < 2.0
    normal = qp.MultivariateNormal(jnp.zeros(3), jnp.eye(3))
    base = qp.Density(lambda x: jnp.where(x[0] > 0, -jnp.inf, normal.log_prob(x)), normal.sample)
    with pytest.raises(FloatingPointError, match=r"`base.log_prob` is -inf"):
        algorithm.run(qp.GeometricPath(base, target), key=jax.random.key(0))


def test_nan_and_rounding_far_beyond_a_reference_are_no_mass():
    """A likelihood that makes up for a tiny prior is lost in rounding far out, and must not become a huge weight."""
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))

    def log_prob(x):
        makes_up = 0.5 * jnp.sum(x**2) * (1 + 1e-15)  # as rounding would
        return jnp.where(x[1] > 100.0, jnp.nan, base.log_prob(x) + makes_up - jnp.sum(jnp.abs(x)))

    fitted = fit_reference(np.random.default_rng(0).standard_normal((500, 2))).fitted
    reference = Reference((fitted,), np.ones(1), base, 0.05, layout_of(qp.GeometricPath(base, base)))
    path = qp.GeometricPath(reference, qp.Density(log_prob))
    rows = np.array([[1.0, 2.0], [40.0, 0.0], [1e9, 0.0], [0.0, 200.0]])
    values = Evaluator.of(path, HostDensities(layout_of(path), False)).values(rows)
    np.testing.assert_allclose(values.log_target[:2], jax.jit(jax.vmap(log_prob))(rows[:2]))
    assert (values.log_target[2:] == -np.inf).all()


@pytest.mark.parametrize("overflow", [np.nan, np.inf])
def test_overflow_where_no_draw_of_the_base_is_counts_as_no_mass(overflow):
    """Also near a reference that is far too wide. Where the base has mass, it is the density's fault and stays."""
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    fitted = fit_reference(100 * np.random.default_rng(0).standard_normal((500, 2))).fitted
    reference = Reference((fitted,), np.ones(1), base, 0.05, layout_of(qp.GeometricPath(base, base)))
    path = qp.GeometricPath(reference, qp.Density(lambda x: jnp.where(x[0] > 2.0, overflow, -jnp.sum(x**2))))
    evaluator = Evaluator.of(path, HostDensities(layout_of(path), False))
    log_target = evaluator.values(np.array([[100.0, 0.0], [3.0, 0.0]])).log_target
    np.testing.assert_array_equal(log_target, [-np.inf, overflow])


def test_draws_whose_squares_overflow_have_no_groups():
    """A prior with huge tails: nothing is fitted, and no bare error."""
    x = np.random.default_rng(4).standard_normal((300, 3))
    x[::7, 1] *= 1e200
    with np.errstate(all="ignore"):
        assert fit_reference(x).refusal is not Refusal.SEVERAL_GROUPS
    x[0, 1] = np.nan
    assert not has_groups(x)


def test_the_slope_of_the_base_is_computed_only_where_it_counts():
    """It counts at points that the components miss, and not where the base has no share that a number can hold."""
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    component = Component.linear(30.0, np.zeros(2), np.eye(2))
    reference = Reference((component,), np.ones(1), base, 0.05, Layout.of(jnp.zeros(2)))
    asked = []

    def slope():
        asked.append(1)
        return np.full((1, 2), 7.0)

    _, found = reference.given_inner(np.ones((1, 2)), np.array([-100.0]), slope)
    assert not asked
    np.testing.assert_allclose(found, component.log_prob_and_slope(np.ones((1, 2)))[1])
    _, found = reference.given_inner(np.ones((1, 2)), np.array([100.0]), slope)
    assert asked == [1]
    np.testing.assert_allclose(found, 7.0)
