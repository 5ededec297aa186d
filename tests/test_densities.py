"""Densities as pytrees, and the normal distributions against scipy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import stats

import qpaths as qp
from qpaths.densities import as_density, draw, evaluate


def test_a_plain_function_is_no_leaf():
    density = qp.Density(lambda x: -(x**2), sample=lambda key: jax.random.normal(key))
    assert jax.tree.leaves(density) == []
    assert jax.jit(lambda d, x: d.log_prob(x))(density, 2.0) == -4.0


def test_data_of_a_pytree_callable_can_change_without_recompiling():
    traces = []

    @jax.jit
    def log_prob(density, x):
        traces.append(1)
        return density.log_prob(x)

    def scaled(data, x):
        return -data * x**2

    values = [log_prob(qp.Density(Partial(scaled, jnp.array(a))), 2.0) for a in (1.0, 3.0)]
    assert values == [-4.0, -12.0]
    assert len(traces) == 1


def test_methods_of_modules_keep_their_arrays():
    normal = qp.MultivariateNormal(jnp.ones(2), 2 * jnp.eye(2))
    density = qp.Density(normal.log_prob, sample=normal.sample)
    assert len(jax.tree.leaves(density)) > 0
    assert density.log_prob(jnp.ones(2)) == normal.log_prob(jnp.ones(2))


def test_integers_become_floats():
    assert evaluate(qp.Density(lambda x: 3), 0.0, "base").dtype == jnp.float64


@pytest.mark.parametrize("batched", [False, True])
def test_a_numpy_density_is_evaluated_as_it_is(batched):
    """One point at a time; a batched function gets a batch of one."""
    seen = []

    def log_prob(x):
        seen.append(x)
        return -np.sum(x**2, axis=-1)

    density = qp.Density(log_prob, backend="numpy", batched=batched)
    value = evaluate(density, jnp.array([1.0, 2.0]), "target")
    assert value == -5.0
    assert isinstance(seen[0], np.ndarray)
    assert seen[0].shape == ((1, 2) if batched else (2,))
    path = qp.GeometricPath(qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), density)
    np.testing.assert_allclose(path.log_density(1.0, jnp.array([1.0, 2.0])), -5.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: qp.Density(3.0), TypeError, "`log_prob` must be a function of one point, got 3.0"),
        (lambda: qp.Density(lambda x: x, sample=3.0), TypeError, "`sample` must be a function of a key"),
        (lambda: qp.Density(np.sum, backend="torch"), ValueError, "`backend` must be 'jax' or 'numpy', got 'torch'"),
        (lambda: qp.Density(np.sum, batched=True), ValueError, "`batched` and `gradient` are for `backend='numpy'`"),
        (lambda: qp.Density(lambda x: x, gradient=jnp.sin), ValueError, "`batched` and `gradient` are for"),
        (
            lambda: qp.Density(lambda x: x, backend="numpy", gradient=3.0),
            TypeError,
            "`gradient` must be a function of a point, or None, got 3.0",
        ),
        (
            lambda: jax.jit(lambda x: evaluate(qp.Density(np.sum, backend="numpy"), x, "target"))(jnp.zeros(2)),
            TypeError,
            "`target` is a density with `backend='numpy'`, which JAX cannot trace",
        ),
        (lambda: as_density("normal", "base"), TypeError, "`base` must be a density"),
        (lambda: draw(qp.Density(lambda x: x), jax.random.key(0), "base"), ValueError, "`base` has no `sample`"),
        (lambda: evaluate(qp.Density(lambda x: x), jnp.zeros(3), "base"), ValueError, r"got shape \(3,\)"),
        (lambda: qp.Normal(0.0, -1.0), ValueError, "`scale` must be positive, got -1.0"),
        (lambda: qp.MultivariateNormal(jnp.zeros(2), -jnp.eye(2)), ValueError, "`cov` must be symmetric and positive"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_normal(key):
    normal = qp.Normal(1.5, 0.7)
    x = np.linspace(-2, 4, 7)
    np.testing.assert_allclose(jax.jit(jax.vmap(normal.log_prob))(x), stats.norm(1.5, 0.7).logpdf(x), rtol=1e-13)
    draws = jax.jit(jax.vmap(normal.sample))(jax.random.split(key, 10_000))
    assert stats.kstest(draws, stats.norm(1.5, 0.7).cdf).pvalue > 1e-6  # one in a million by chance


def test_multivariate_normal(key):
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    normal = qp.MultivariateNormal(mean, cov)
    x = np.array([[0.0, 0.0], [1.0, -3.0]])
    np.testing.assert_allclose(
        jax.jit(jax.vmap(normal.log_prob))(x), stats.multivariate_normal(mean, cov).logpdf(x), rtol=1e-13
    )
    draws = np.asarray(jax.jit(jax.vmap(normal.sample))(jax.random.split(key, 10_000)))
    whitened = np.linalg.solve(np.linalg.cholesky(cov), (draws - mean).T)
    assert stats.kstest(np.sum(whitened**2, axis=0), stats.chi2(2).cdf).pvalue > 1e-6


def test_a_network_with_functions_among_its_leaves(key):
    """An Equinox network holds its activation function as a leaf, and compiled programs take arrays only."""
    network = eqx.nn.MLP(2, "scalar", 4, 1, activation=jnp.tanh, key=key)
    density = qp.Density(network)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(density))
    x = jnp.array([0.3, -0.2])
    np.testing.assert_allclose(density.log_prob(x), network(x))
    other = qp.Density(eqx.tree_at(lambda one: one.layers[0].weight, network, jnp.ones((4, 2))))
    assert jax.tree.structure(other) == jax.tree.structure(density)  # other weights compile nothing
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    path = qp.GeometricPath(base, lambda x: base.log_prob(x) + density.log_prob(x))
    result = qp.SMC(64, qp.LinearSchedule(3), qp.RandomWalk(1)).run(path, key=key)
    assert np.isfinite(result.log_evidence)
    direct = qp.SMC(64, qp.LinearSchedule(3), qp.RandomWalk(1)).run(qp.GeometricPath(base, density), key=key)
    assert np.isfinite(direct.log_evidence)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("batched", [False, True])
def test_a_complex_log_density_is_an_error_in_every_door(backend, batched, key):
    """The imaginary part was dropped, and the run was sound."""
    if batched and backend == "jax":
        pytest.skip("JAX vectorizes by itself")
    xp = np if backend == "numpy" else jnp
    complex_one = qp.Density(lambda x: -0.5 * xp.sum(x**2, axis=-1) + 0.5j, backend=backend, batched=batched)
    prior = qp.Density(
        lambda x: -0.5 * xp.sum(x**2, axis=-1),
        lambda source: source.standard_normal(2) if backend == "numpy" else jax.random.normal(source, (2,)),
        backend=backend,
        batched=batched,
    )
    message = r"must return a real number, got complex128: .* return the real part"
    with pytest.raises(TypeError, match="`target.log_prob` " + message):
        qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).run(qp.GeometricPath(prior, complex_one), key=key)
    with pytest.raises(TypeError, match="`log_density` " + message):
        qp.evidence_from_draws(complex_one, np.random.default_rng(0).standard_normal((100, 2)), key=key)
    if not batched:
        parts = {"log_prior": prior.log_prob, "sample_prior": prior.sample, "backend": backend}
        with pytest.raises(TypeError, match="`log_likelihood` " + message):
            qp.evidence(**parts, log_likelihood=lambda x: complex_one.log_prob(x), key=key)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: qp.Normal(x, 1.0),
        lambda x: qp.Normal(0.0, x),
        lambda x: qp.StudentT(3.0, x, 1.0),
        lambda x: qp.families.Gamma(x, 1.0),
        lambda x: qp.families.GeneralizedPareto(0.5, 0.0, x),
        lambda x: qp.families.QGaussian(1.5, x, 1.0),
        lambda x: qp.families.Poisson(x),
    ],
)
def test_a_density_of_one_number_takes_no_arrays(make, as_a_user):
    """Six means gave draws of six equal numbers. As a likelihood of many data it is evaluated for each of them."""
    key = jax.random.key(0)
    make(jnp.asarray(1.0)).sample(key)
    for array in (jnp.ones(6), np.ones(1)):
        with pytest.raises(ValueError, match=r"must be a number, got an array of shape \(\d,\): .*MultivariateNormal"):
            make(array).sample(key)
