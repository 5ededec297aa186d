"""Chains of layers: exact against derivatives by JAX, in both worlds, linear and curved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.maps import Bends, Chain, Conditional, Drivers, Inverse, Permute, Pulls, Rotate, Scale, Triangular
from qpaths.references.components import Component
from qpaths.references.coordinates import MappedDensities
from qpaths.references.curves import fit_pulls
from qpaths.references.frames import linear_map
from qpaths.references.reference import Reference
from qpaths.rows import Evaluator, HostDensities, Layout, TracedDensities, layout_of

DIMENSION = 5


def curved(*features, pulls=None, squares=True):
    """Every kind of term, in an order that is not that of the coordinates."""
    rng = np.random.default_rng(0)
    lower = np.tril(np.ones((DIMENSION, DIMENSION)), -1)
    means, bent, slopes = (size * lower * rng.standard_normal(lower.shape) for size in (0.5, 0.2, 0.3))
    bent[:, 1:] = 0
    slopes[:, 2:] = 0
    center, scale = rng.standard_normal(DIMENSION), rng.uniform(0.5, 2.0, DIMENSION)
    bends = Bends(bent if squares else None, slopes)
    log_scales, intercepts = 0.2 * rng.standard_normal((2, DIMENSION))
    first = Conditional.of(means, log_scales, bends, *features, intercepts=intercepts, pulls=pulls)
    return Chain.of(first, Permute(np.array([3, 0, 4, 1, 2])), Scale(center, scale))


def linear():
    rng = np.random.default_rng(1)
    factor = np.tril(rng.standard_normal((DIMENSION, DIMENSION)), -1) + np.diag(rng.uniform(0.5, 2.0, DIMENSION))
    return Chain.of(Triangular.of(rng.standard_normal(DIMENSION), factor))


def driven():
    """Two drivers that change means, slopes and scales of the others, before a rotation."""
    rng = np.random.default_rng(2)
    width, num_before = 1 + 2 + 2 * 3 + 1, 2
    shifts, widths = (size * rng.standard_normal((DIMENSION, width)) for size in (0.2, 0.1))
    turns = 0.1 * rng.standard_normal((DIMENSION, num_before, width))
    shifts[:2], widths[:2], turns[:3] = 0, 0, 0
    before = np.array([[0, 0], [0, 0], [0, 0], [2, 1], [3, 2]])
    drivers = Drivers(np.sort(rng.standard_normal((2, 4)), axis=1), shifts, widths, before, turns)
    rotation = np.linalg.qr(rng.standard_normal((DIMENSION, DIMENSION)))[0]
    return Chain.of(curved(drivers, squares=False), Rotate(rotation))


def diagonal():
    rng = np.random.default_rng(4)
    return Chain.of(Scale(rng.standard_normal(DIMENSION), rng.uniform(0.5, 2.0, DIMENSION)))


def pulled():
    """Data pull three of the coordinates."""
    rng = np.random.default_rng(5)
    return curved(pulls=Pulls(rng.standard_normal(DIMENSION), np.array([0.0, 2.0, 0.3, 0.0, 9.0])))


def composed():
    return Chain.of(curved(), pulled())


def framed():
    """In coordinates that are no rotation of the points."""
    return Chain.of(curved(), linear_map(np.random.default_rng(6).standard_normal((DIMENSION, DIMENSION))))


def turned():
    """The other way round."""
    return Chain.of(Inverse(curved()), linear())


MAPS = pytest.mark.parametrize("make", [linear, curved, driven, diagonal, pulled, composed, framed, turned])


@MAPS
def test_way_there_and_back(make):
    fitted, noise = make(), np.random.default_rng(2).standard_normal((7, DIMENSION))
    at = fitted.forward(noise)
    back = fitted.inverse(at.points)
    np.testing.assert_allclose(back.noise, noise, atol=1e-12)
    np.testing.assert_allclose(fitted.log_volume(back), fitted.log_volume(at), atol=1e-12)


@MAPS
def test_log_volume_is_the_determinant_of_the_derivative(make):
    fitted, noise = make(), np.random.default_rng(3).standard_normal((4, DIMENSION))
    jacobians = jax.jit(jax.vmap(jax.jacobian(lambda row: fitted.forward(row[None]).points[0])))(jnp.asarray(noise))
    found = fitted.log_volume(fitted.forward(noise))
    np.testing.assert_allclose(found, np.linalg.slogdet(jacobians)[1], rtol=1e-10)


def test_linear_map_is_its_factor():
    fitted = linear()
    (layer,) = fitted.layers
    noise = np.random.default_rng(4).standard_normal((6, DIMENSION))
    np.testing.assert_allclose(fitted.forward(noise).points, layer.center + noise @ layer.factor.T)
    assert curved().layers[0].ends == (1, 2, DIMENSION)
    assert pulled().layers[0].ends == (1, 2, 4, DIMENSION)


def test_products_without_the_zeros_of_a_large_factor():
    """In blocks, of which the last one is smaller."""
    rng, dimension = np.random.default_rng(8), 300
    factor = np.tril(rng.standard_normal((dimension, dimension)), -1) / dimension + np.eye(dimension)
    layer = Triangular.of(rng.standard_normal(dimension), factor)
    noise = rng.standard_normal((6, dimension))
    at = layer.forward(noise)
    np.testing.assert_allclose(at.points, layer.center + noise @ factor.T, rtol=1e-10)
    np.testing.assert_allclose(layer.inverse(at.points).noise, noise, atol=1e-10)
    slopes = rng.standard_normal((6, dimension))
    np.testing.assert_allclose(layer.pull_back(at, slopes), slopes @ factor, atol=1e-5)  # in single precision
    np.testing.assert_allclose(layer.push_forward(at, slopes @ factor), slopes, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "other"), [(linear, linear), (diagonal, diagonal), (linear, diagonal), (curved, linear)]
)
def test_points_of_one_map_in_the_noise_of_another(make, other):
    """Linear layers of one kind become a single one."""
    own, of_other = Chain.of(make()), other()
    if make is other:
        layer = of_other.layers[0]
        of_other = Chain.of(layer.rescaled(layer.center + 1.0, np.arange(1.0, 1.0 + DIMENSION)))
    relative = own.relative_to(of_other)
    assert (len(relative.layers) == 1) == (make is other)
    noise = np.random.default_rng(9).standard_normal((4, DIMENSION))
    at = relative.forward(noise)
    np.testing.assert_allclose(of_other.forward(at.points).points, own.forward(noise).points, rtol=1e-10)
    np.testing.assert_allclose(relative.inverse(at.points).noise, noise, atol=1e-11)
    wanted = own.log_volume(own.forward(noise)) - of_other.log_volume(of_other.forward(at.points))
    np.testing.assert_allclose(relative.log_volume(at), wanted, atol=1e-11)
    assert own.relative_to(own).layers == ()


@MAPS
def test_gradients_against_jax(make):
    """Of a density of the noise by the points, and of a density of the points by the noise."""
    fitted = make()
    noise = 1.5 * np.random.default_rng(5).standard_normal((6, DIMENSION))
    points = fitted.forward(noise).points

    def of_points(row):
        at = fitted.inverse(row[None])
        return jnp.sum(jnp.sin(at.noise[0])) - fitted.log_volume(at)[0]

    wanted = jax.jit(jax.vmap(jax.grad(of_points)))(jnp.asarray(points))
    for at in (fitted.forward(noise), fitted.inverse(points)):
        np.testing.assert_allclose(fitted.push_forward(at, np.cos(noise)), wanted, rtol=1e-9, atol=1e-9)

    def of_noise(row):
        at = fitted.forward(row[None])
        return jnp.sum(jnp.sin(at.points[0])) + fitted.log_volume(at)[0]

    wanted = jax.jit(jax.vmap(jax.grad(of_noise)))(jnp.asarray(noise))
    for at in (fitted.forward(noise), fitted.inverse(points)):
        np.testing.assert_allclose(fitted.pull_back(at, np.cos(points)), wanted, rtol=1e-9, atol=1e-9)


@MAPS
def test_component_is_normalized_and_knows_its_score(make):
    component, proposal = Component(8.0, make()), Component(3.0, make())
    rows = proposal.draw(HostStream((1,)), 20_000)
    weights = np.exp(component.log_prob(rows) - proposal.log_prob(rows))
    assert abs(weights.mean() - 1) < 5 * weights.std() / len(weights) ** 0.5
    few = rows[:5]
    wanted = jax.jit(jax.vmap(jax.grad(lambda row: component.log_prob(row[None])[0])))(jnp.asarray(few))
    np.testing.assert_allclose(component.log_prob_and_slope(few)[1], wanted, rtol=1e-8, atol=1e-9)


def test_far_noise_does_not_overflow():
    fitted = curved()
    at = fitted.forward(np.full((1, DIMENSION), 1e3))
    assert np.isfinite(at.points).all()
    assert np.isfinite(fitted.log_volume(at)).all()


def _path():
    base = qp.MultivariateNormal(jnp.zeros(DIMENSION), 9 * jnp.eye(DIMENSION))
    layout = Layout.of(jnp.zeros(DIMENSION))
    components = Component(8.0, curved()), Component(30.0, linear())
    reference = Reference(components, np.array([0.7, 0.3]), base, 0.05, layout, is_mapped=True)
    return qp.GeometricPath(reference, qp.Density(lambda x: -0.5 * jnp.sum((x - 1) ** 4)))


def test_evaluator_of_a_map_has_the_density_of_the_noise():
    """Log densities with the determinant, and scores that are their derivatives, at several betas, in both worlds."""
    path = _path()
    layout = layout_of(path)
    host, traced = (
        Evaluator.of(path, MappedDensities(inner, path.base.components[0].map))
        for inner in (HostDensities(layout, True), TracedDensities(layout))
    )
    noise = np.random.default_rng(6).standard_normal((5, DIMENSION))
    particles = host.particles(noise, with_slopes=True)
    at = host.densities.map.forward(noise)
    points, log_volume = at.points, host.densities.map.log_volume(at)

    def log_density(row, beta):
        return traced.log_density(beta, traced.values(row[None]))[0]

    plain_at = jax.jit(jax.vmap(path.log_density, (None, 0)))
    wanted_at = jax.jit(jax.vmap(jax.grad(log_density), (0, None)))
    for beta in (0.0, 0.3, 1.0):
        plain = plain_at(beta, jnp.asarray(points))
        np.testing.assert_allclose(host.log_density(beta, particles.features), plain + log_volume, rtol=1e-10)
        wanted = wanted_at(jnp.asarray(noise), beta)
        np.testing.assert_allclose(host.score(beta, particles), wanted, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(host.layout.rows(host.layout.points(noise)), noise, atol=1e-10)
    rows, scores = host.in_points(noise, host.score(1.0, particles))
    np.testing.assert_allclose(rows, points)
    np.testing.assert_allclose(scores, -2 * (points - 1) ** 3, rtol=1e-7, atol=1e-8)


def test_shares_of_a_mixture(key):
    """How often each part is drawn, and the density as the sum of its parts."""
    base = qp.MultivariateNormal(jnp.zeros(1), 1e-4 * jnp.eye(1))
    parts = tuple(Component.linear(30.0, np.array([center]), np.eye(1)) for center in (-50.0, 50.0))
    reference = Reference(parts, np.array([0.2, 0.8]), base, 0.5, Layout.of(jnp.zeros(1)))
    path = qp.GeometricPath(reference, base)
    rows = Evaluator.of(path, HostDensities(layout_of(path), False)).draw(HostStream((1,)), 10_000)[:, 0]
    shares = [np.mean(rows < -25), np.mean(np.abs(rows) < 1), np.mean(rows > 25)]
    np.testing.assert_allclose(shares, [0.1, 0.5, 0.4], atol=5 * 0.5 / 100)
    value = jax.jit(reference.log_prob)(jnp.array([50.0]))
    np.testing.assert_allclose(value, np.log(0.4) + parts[1].log_prob_and_slope(np.array([[50.0]]))[0][0], rtol=1e-9)


def test_runs_in_the_coordinates_of_a_map_are_unbiased(key):
    """SMC on a path whose coordinates are curved: the evidence is that of the target."""
    path = _path()
    truth = DIMENSION * float(np.log(np.sum(np.exp(-0.5 * np.linspace(-8, 8, 100_001) ** 4)) * 16 / 100_000))
    estimates = [
        float(qp.SMC(1000, qp.LinearSchedule(9), qp.HMC(1, 3, step_size=0.5)).run(path, key=one).log_evidence)
        for one in jax.random.split(key, 12)
    ]
    ratios = np.exp(np.array(estimates) - truth)
    assert abs(ratios.mean() - 1) < 5 * ratios.std(ddof=1) / 12**0.5 < 0.5


def test_pulls_are_those_of_normal_data():
    """Posterior draws of a model with local scales: the fit finds the data and their precisions."""
    rng = np.random.default_rng(0)
    log_scale = rng.standard_normal((4000, 1)) * 2
    slopes = np.zeros((3, 3))
    slopes[1:, 0] = 2.0
    prior = Chain.of(
        Conditional.of(None, np.zeros(3), Bends(None, slopes)), Scale(np.zeros(3), np.array([2.0, 1.0, 1.0]))
    )
    data, precision = np.array([3.0, -1.0]), np.array([4.0, 0.5])
    variance = 1 / (np.exp(-2 * log_scale) + precision)
    normal = rng.standard_normal((4000, 2))
    draws = np.column_stack([log_scale, variance * precision * data + variance**0.5 * normal])
    found = fit_pulls(prior, draws)
    pulls = found.layers[0].pulls
    assert pulls.precisions[0] == 0
    np.testing.assert_allclose(pulls.places[1:], data, atol=0.15)
    np.testing.assert_allclose(pulls.precisions[1:], precision, rtol=0.3)
    noise = found.inverse(draws).noise
    np.testing.assert_allclose(noise[:, 1:], normal, atol=0.4)
    of_prior = np.column_stack([log_scale, np.exp(log_scale) * normal])
    assert fit_pulls(prior, of_prior) is None
    assert fit_pulls(linear(), draws[:, [0, 1, 2, 1, 2]]) is None
