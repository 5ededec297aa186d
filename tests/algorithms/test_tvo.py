"""Objectives: exact relations between them, which sums are bounds, gradients against finite differences."""

import functools

import jax
import jax.numpy as jnp
import jax.scipy.stats as jst
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import qpaths as qp
from qpaths.models import DiagonalNormal, GaussianDecoder, Network, posterior_path
from qpaths.models.networks import Layer

GRID = qp.schedules.LogUniformSchedule(12)
X = jnp.array([0.4, -1.2, 0.7])


def _model(key):
    """x = W z + b + noise; the encoder's parameters are those of a normal density for the one observation."""
    weight_key, bias_key = jax.random.split(key)
    layer = Layer(jax.random.normal(weight_key, (3, 2)), 0.3 * jax.random.normal(bias_key, (3,)))
    return DiagonalNormal(jnp.array([0.1, -0.4]), jnp.array([0.7, 0.5])), Network((layer,))


def _path(parameters, q=1.0):
    base, network = parameters
    prior = DiagonalNormal(jnp.zeros(2), jnp.ones(2))
    return posterior_path(GaussianDecoder(network, 0.8), X, q=q, prior=prior, base=base)


@functools.partial(jax.jit, static_argnames=("num_samples", "rule"))
def _objective(parameters, q, key, betas, num_samples, rule="left"):
    return qp.ThermodynamicObjective(qp.FixedSchedule(betas), num_samples, rule)(_path(parameters, q), key=key)


@functools.partial(jax.jit, static_argnames=("num_samples", "function"))
def _bound(parameters, key, num_samples, function=qp.algorithms.iwae):
    return function(_path(parameters), key=key, num_samples=num_samples)


def _evidence(network):
    weight, bias = network.layers[0].weight, network.layers[0].bias
    return jst.multivariate_normal.logpdf(X, bias, weight @ weight.T + 0.64 * jnp.eye(3))


def test_log_uniform_schedule():
    betas = qp.schedules.LogUniformSchedule(5, first=1 / 16).betas
    np.testing.assert_allclose(betas, [0.0, 1 / 16, 1 / 16 ** (2 / 3), 1 / 16 ** (1 / 3), 1.0], rtol=1e-12)
    assert qp.schedules.LogUniformSchedule(101).betas.shape == (101,)
    np.testing.assert_array_equal(qp.schedules.LogUniformSchedule(2).betas, [0.0, 1.0])
    with pytest.raises(ValueError, match=r"`first` must lie in \(0, 1\), got 0"):
        qp.schedules.LogUniformSchedule(5, first=0)


def test_one_partition_is_the_elbo(key):
    """The published objective with one interval and the left rule; for the mixture, the mean weight minus one."""
    model, betas = _model(key), jnp.array([0.0, 1.0])
    np.testing.assert_allclose(
        _objective(model, 1.0, key, betas, 40), _bound(model, key, 40, qp.algorithms.elbo), rtol=1e-12
    )
    mixture = _objective(model, 0.0, key, betas, 40)
    np.testing.assert_allclose(mixture, jnp.expm1(_bound(model, key, 40)), rtol=1e-10)


@pytest.mark.parametrize(("q", "increasing"), [(1.0, True), (1.05, True), (2.0, True), (0.0, False), (-0.5, False)])
def test_sums_bracket_the_importance_weighted_bound(q, increasing, key):
    """For every set of samples, whatever their number."""
    model = _model(key)
    for num_samples in (2, 40):
        left, right = (_objective(model, q, key, GRID.betas, num_samples, rule) for rule in ("left", "right"))
        middle = _bound(model, key, num_samples)
        assert (left < middle < right) if increasing else (right < middle < left)


@pytest.mark.parametrize("q", [0.5, 0.95, 1.0, 1.5])
def test_fine_grids_give_the_importance_weighted_bound(q, key):
    model = _model(key)
    fine = _objective(model, q, key, jnp.linspace(0.0, 1.0, 4001) ** 2, 40)
    np.testing.assert_allclose(fine, _bound(model, key, 40), atol=0.05)


NODES = jnp.linspace(-12.0, 12.0, 4001)


@jax.jit
def _exact(q, mean, log_scale, log_mass, betas):
    """eta and log Z at each beta by quadrature, from N(mean, exp(log_scale)^2) to exp(log_mass) N(0, 0.5^2)."""
    path = qp.QPath(qp.Normal(mean, jnp.exp(log_scale)), lambda x: jst.norm.logpdf(x, 0.0, 0.5) + log_mass, q=q)
    features = jax.vmap(path.features)(NODES)
    step = NODES[1] - NODES[0]
    log_density = jax.vmap(lambda b: path.log_density_from(b, features))(betas)
    log_z = jax.nn.logsumexp(log_density, axis=1) + jnp.log(step)
    derivative = jax.vmap(lambda b: path.derivative_from(b, features))(betas)
    return jnp.sum(jax.nn.softmax(log_density) * derivative, axis=1), log_z


@pytest.mark.parametrize("q", [-0.5, 0.0, 0.3, 0.9, 1.0, 1.2])
def test_which_sums_are_bounds(q):
    """The rules in the module's text, without sampling."""
    betas = jnp.linspace(0.0, 1.0, 41)
    for log_mass in (-3.0, 2.0):
        eta, log_z = _exact(q, 1.0, 0.2, log_mass, betas)
        np.testing.assert_allclose(log_z[jnp.array([0, -1])], [0.0, log_mass], atol=1e-9)
        if q >= 1:
            assert jnp.all(jnp.diff(eta) > 0)
        if q <= 0:
            assert jnp.all(jnp.diff(eta) < 0)
        if q >= 0:
            slopes = jnp.exp((1 - q) * log_z) * eta  # of ln_q Z, up to a factor
            assert jnp.all(jnp.diff(slopes) > -1e-9 * jnp.max(jnp.abs(slopes)))
    if q in (0.0, 1.0):  # the same weights: left and right sums are ordered without noise
        path = qp.QPath(qp.Normal(1.0, 1.2), lambda x: jst.norm.logpdf(x, 0.0, 0.5), q=q)
        left, right = (
            qp.ThermodynamicObjective(qp.LinearSchedule(5), 200, rule)(path, key=jax.random.key(0))
            for rule in ("left", "right")
        )
        assert (left < right) == (q == 1)


def test_between_zero_and_one_no_sum_is_a_bound_for_every_problem():
    betas = jnp.linspace(0.0, 1.0, 41)
    changes = jnp.diff(_exact(0.5, 1.0, 0.2, 2.0, betas)[0])
    assert jnp.min(changes) < 0 < jnp.max(changes)
    # At q = 0.9 a left sum lies above log Z = 20.
    eta, log_z = _exact(0.9, 1.0, 0.2, 20.0, betas)
    assert jnp.sum(jnp.diff(betas) * eta[:-1]) > log_z[-1] + 0.1


def test_known_evidence(key):
    """At the exact posterior the weights do not vary: the bound is the evidence, and its gradient the evidence's."""
    _, network = _model(key)
    diagonal = Network((Layer(jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), network.layers[0].bias),))
    weight, bias = diagonal.layers[0].weight, diagonal.layers[0].bias
    precision = 1 + jnp.sum(weight**2, 0) / 0.64
    base = DiagonalNormal((X - bias) @ weight / 0.64 / precision, 1 / jnp.sqrt(precision))
    exact, slope = jax.jit(jax.value_and_grad(_evidence))(diagonal)
    for function in (qp.algorithms.elbo, qp.algorithms.iwae):
        np.testing.assert_allclose(_bound((base, diagonal), key, 40, function), exact, rtol=1e-12)
    np.testing.assert_allclose(_objective((base, diagonal), 1.0, key, GRID.betas, 40), exact, rtol=1e-12)
    found = jax.jit(jax.grad(lambda n: _bound((base, n), key, 40_000)))(diagonal)
    # The slope in a bias is the mean of a residual over 0.64 under the posterior: at most 3 / 0.64 / 200 noise.
    np.testing.assert_allclose(found.layers[0].bias, slope.layers[0].bias, atol=5 * 0.03)


@pytest.mark.parametrize("rule", ["left", "right"])
def test_reparameterized_gradient_is_that_of_the_estimate(rule, key):
    flat, unravel = ravel_pytree(_model(key))

    def function(flat, q):
        return _objective(unravel(flat), q, key, GRID.betas, 5, rule)

    @jax.jit
    def both(q):
        steps = 1e-5 * jnp.eye(flat.size)
        differences = jax.vmap(lambda step: (function(flat + step, q) - function(flat - step, q)) / 2e-5)(steps)
        return jax.grad(function)(flat, q), differences

    for q in (1.0, 0.8, 1.3):
        np.testing.assert_allclose(*both(q), rtol=1e-6, atol=1e-8)


def test_covariance_gradient_is_that_of_the_exact_sum(key):
    """Against differences of the sum by quadrature; 5 standard errors over 200 replicates of 2,000 samples.

    Without the covariance term, D's own gradient is left, and that is far away.
    """
    grid = qp.LinearSchedule(6)
    start = jnp.array([0.3, -0.2, -1.0])
    objective = qp.ThermodynamicObjective(grid, 2000, gradient="covariance")

    def path(parameters, q):
        mean, log_scale, log_mass = parameters
        return qp.QPath(qp.Normal(mean, jnp.exp(log_scale)), lambda x: jst.norm.logpdf(x, 0.0, 0.5) + log_mass, q=q)

    def exact(parameters, q):
        return jnp.mean(_exact(q, *parameters, grid.betas[:-1])[0])

    def without_covariance(parameters, q):
        features = jax.vmap(path(parameters, q).features)(NODES)

        def mean(beta):
            weights = jax.nn.softmax(path(start, q).log_density_from(beta, features))
            return jax.lax.stop_gradient(weights) @ path(parameters, q).derivative_from(beta, features)

        return jnp.mean(jax.vmap(mean)(grid.betas[:-1]))

    @jax.jit
    def gradients(q):
        steps = 1e-4 * jnp.eye(3)
        wanted = jax.vmap(lambda step: (exact(start + step, q) - exact(start - step, q)) / 2e-4)(steps)
        found = jax.vmap(jax.grad(lambda p, k: objective(path(p, q), key=k)), (None, 0))
        return wanted, found(start, jax.random.split(key, 200)), jax.grad(without_covariance)(start, q)

    for q in (1.0, 0.9):
        wanted, found, wrong = gradients(q)
        error = jnp.std(found, axis=0) / 200**0.5
        np.testing.assert_array_less(jnp.abs(jnp.mean(found, 0) - wanted), 5 * error + 1e-3)
        assert jnp.max(jnp.abs(wrong - wanted)) > 0.05


def test_both_gradients_have_the_same_value(key):
    path = _path(_model(key), 0.9)
    kinds = "reparameterized", "covariance"
    values = [jax.jit(lambda p, g=g: qp.ThermodynamicObjective(GRID, 9, gradient=g)(p, key=key))(path) for g in kinds]
    assert values[0] == values[1]


def test_any_path(key):
    """A path that is no power mean, and one whose features hold the point."""
    base, target = qp.Normal(0.0, 1.0), qp.Normal(1.0, 0.5)
    for path in (qp.MomentPath(base, target), qp.GeneralizedMeanPath(base, target, jnp.arcsinh, jnp.sinh)):
        fine = qp.ThermodynamicObjective(qp.LinearSchedule(2000), 50)
        sums, bound = jax.jit(lambda p: (fine(p, key=key), qp.algorithms.iwae(p, key=key, num_samples=50)))(path)
        np.testing.assert_allclose(sums, bound, atol=0.01)


def test_errors_in_words():
    with pytest.raises(ValueError, match="`rule` must be left or right, got 'middle'"):
        qp.ThermodynamicObjective(GRID, 5, "middle")
    with pytest.raises(ValueError, match="`gradient` must be reparameterized or covariance"):
        qp.ThermodynamicObjective(GRID, 5, gradient="score")
    with pytest.raises(ValueError, match="`num_samples` must be at least 2, got 1"):
        qp.ThermodynamicObjective(GRID, 1)
    with pytest.raises(TypeError, match="`schedule` must be fixed"):
        qp.ThermodynamicObjective(qp.AdaptiveSchedule(), 5)
