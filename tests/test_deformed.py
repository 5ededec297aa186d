"""The deformed logarithm and exponential, their lemmas, and power means of many inputs."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import qpaths as qp
from qpaths.deformed import log_exp_q

QS = [-3.0, 0.0, 0.5, 0.9, 1 - 1e-8, 1 - 1e-13, 1.0, 1 + 1e-12, 1.01, 2.0, 4.0]

orders = st.floats(-3, 4)
small = st.floats(-0.2, 0.2)
settings = hypothesis.settings(deadline=None, max_examples=50, derandomize=True)


def _exact_log_q(u, q):
    with mp.workdps(50):
        u, d = mp.mpf(u), 1 - mp.mpf(q)
        return mp.log(u) if d == 0 else (u**d - 1) / d


@pytest.mark.parametrize("q", QS)
def test_log_q_against_high_precision(q):
    u = np.array([1e-30, 1e-3, 0.4, 1 - 1e-9, 1.0, 1 + 1e-9, 7.0, 1e20])
    exact = [float(_exact_log_q(v, q)) for v in u]
    np.testing.assert_allclose(qp.log_q(u, q), exact, rtol=2e-14)


@pytest.mark.parametrize("q", QS)
def test_exp_q_inverts_log_q(q):
    u = np.array([1e-3, 0.4, 1.0, 7.0, 1e2])
    x = np.asarray(qp.log_q(u, q))
    # For q > 1, log_q flattens towards its pole 1/(q-1), so x itself has lost digits of u: condition u^(q-1).
    np.testing.assert_allclose(qp.exp_q(x, q), u, rtol=1e-13 * max(1.0, float(np.max(u ** (q - 1)))))


def test_limits_of_the_supports():
    np.testing.assert_array_equal(qp.exp_q(jnp.array([-2.0, -3.0]), 0.5), [0.0, 0.0])
    np.testing.assert_array_equal(qp.exp_q(jnp.array([1.0, 2.0]), 2.0), [np.inf, np.inf])
    np.testing.assert_array_equal(qp.log_q(0.0, jnp.array([0.5, 1.0, 2.0])), [-2.0, -np.inf, -np.inf])
    assert np.isnan(qp.log_q(-1.0, 0.5))


@pytest.mark.parametrize("q", QS)
def test_gradients(q):
    def exact(f, *a, index):
        with mp.workdps(50):
            h = mp.mpf(10) ** -18
            up, down = ([mp.mpf(v) + s * h * (i == index) for i, v in enumerate(a)] for s in (1, -1))
            return float((f(*up) - f(*down)) / (2 * h))

    def log_exp(x, q):
        d = 1 - q
        return x if d == 0 else mp.log1p(d * x) / d

    for index in (0, 1):
        for u in (0.01, 0.7, 3.0):
            np.testing.assert_allclose(
                jax.grad(qp.log_q, argnums=index)(u, q), exact(_exact_log_q, u, q, index=index), rtol=1e-9
            )
        for x in (-0.1, 0.05, 0.2):
            np.testing.assert_allclose(
                jax.grad(log_exp_q, argnums=index)(x, q), exact(log_exp, x, q, index=index), rtol=1e-9
            )


def test_gradients_are_finite_outside_the_support():
    assert np.isfinite(jax.grad(qp.exp_q, argnums=(0, 1))(-3.0, 0.5)).all()


@settings
@hypothesis.given(st.lists(small, min_size=1, max_size=4), orders)
def test_sum_lemma(x, q):
    """Paper, lemma 1: exp_q of a sum as a product."""
    sums = np.concatenate([[0.0], np.cumsum(x)[:-1]])
    product = jnp.prod(qp.exp_q(jnp.array(x) / (1 + (1 - q) * sums), q))
    hypothesis.assume(np.all(1 + (1 - q) * np.cumsum(x) > 0.05))
    np.testing.assert_allclose(qp.exp_q(sum(x), q), product, rtol=1e-11)


@settings
@hypothesis.given(st.lists(small, min_size=1, max_size=4), orders)
def test_product_lemma(x, q):
    """Paper, lemma 2: a product of exp_q as exp_q of a sum."""
    factors = np.concatenate([[1.0], np.cumprod(1 + (1 - q) * np.array(x))[:-1]])
    np.testing.assert_allclose(
        jnp.prod(qp.exp_q(jnp.array(x), q)), qp.exp_q(float(np.sum(np.array(x) * factors)), q), rtol=1e-11
    )


def _exact_power_mean(log_u, weights, q):
    with mp.workdps(60):
        logs, w, d = [mp.mpf(float(v)) for v in log_u], [mp.mpf(float(v)) for v in weights], 1 - mp.mpf(float(q))
        total = mp.fsum(w)
        if d == 0:
            return mp.fsum(a * b for a, b in zip(w, logs, strict=True)) / total
        return mp.log(mp.fsum(a * mp.exp(d * b) for a, b in zip(w, logs, strict=True)) / total) / d


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_log_power_mean_against_high_precision(dtype):
    generator = np.random.default_rng(0)
    for q in map(dtype, [-2.0, 0.0, 0.5, 0.99, 0.9999, 1.0, 1.001, 1.5, 3.0]):
        for size in (1e-3, 1.0, 30.0, 1e3, 1e4):
            log_u = (size * generator.normal(size=5)).astype(dtype)
            weights = generator.uniform(0.1, 1, size=5).astype(dtype)
            value = qp.log_power_mean(log_u, weights, q)
            assert value.dtype == dtype
            error = abs(float(value) - float(_exact_power_mean(log_u, weights, q)))
            assert error <= 8 * np.finfo(dtype).eps * max(1, np.abs(log_u).max()), (q, size)


def test_log_power_mean_of_two_is_the_q_path():
    path = qp.QPath(lambda x: x, lambda x: x, q=0.9)
    log_u = jnp.array([[-3.0, 5.0], [700.0, -2.0]])
    np.testing.assert_allclose(
        qp.log_power_mean(log_u, jnp.array([0.7, 0.3]), 0.9),
        path.interpolate(0.3, log_u[:, 0], log_u[:, 1]),
        rtol=1e-14,
    )


def test_log_power_mean_limits():
    log_u, weights = jnp.array([-3.0, 5.0, 1.0]), jnp.array([0.2, 0.3, 0.5])
    assert qp.log_power_mean(log_u, weights, jnp.inf) == -3.0
    assert qp.log_power_mean(log_u, weights, -jnp.inf) == 5.0
    np.testing.assert_allclose(qp.log_power_mean(log_u, weights, 1.0), 1.4, rtol=1e-15)
    np.testing.assert_allclose(qp.log_power_mean(log_u, weights, 0.0), np.log(np.sum(weights * np.exp(log_u))))
    np.testing.assert_allclose(qp.log_power_mean(log_u, weights, 1e4), -3.0, atol=2e-3)
    np.testing.assert_allclose(qp.log_power_mean(log_u, weights, -1e4), 5.0, atol=2e-3)


@pytest.mark.parametrize("q", [-jnp.inf, -1.0, 0.0, 0.9, 1.0, 2.0, jnp.inf])
def test_log_power_mean_with_empty_inputs(q):
    with_empty = qp.log_power_mean(jnp.array([-jnp.inf, 1.0]), jnp.array([0.5, 0.5]), q)
    expected = {-jnp.inf: 1.0, -1.0: 1 + np.log(0.5) / 2, 0.0: 1 + np.log(0.5), 0.9: 1 + np.log(0.5) / 0.1}
    np.testing.assert_allclose(with_empty, expected.get(q, -np.inf), rtol=1e-14)
    assert qp.log_power_mean(jnp.array([-jnp.inf, 1.0]), jnp.array([0.0, 0.5]), q) == 1.0
    assert qp.log_power_mean(jnp.full(2, -jnp.inf), jnp.array([0.5, 0.5]), q) == -jnp.inf


_gradients = jax.jit(jax.grad(qp.log_power_mean, argnums=(0, 2)))


@pytest.mark.parametrize("q", [-1.0, 0.0, 0.9, 1 - 1e-9, 1.0, 2.0])
@pytest.mark.parametrize("log_u", [[-3.0, 5.0, 1.0], [-400.0, 500.0, 1.0], [1.0, 1.0, 1.0], [-np.inf, 2.0, 1.0]])
def test_log_power_mean_gradients_have_no_nan(q, log_u):
    weights = jnp.array([0.2, 0.3, 0.5])
    in_log_u, in_q = _gradients(jnp.array(log_u), weights, q)
    assert not np.isnan(in_log_u).any()
    assert not np.isnan(in_q)
    if np.isfinite(log_u).all():
        # The mean is homogeneous: adding a constant to every log adds it to the log of the mean.
        np.testing.assert_allclose(jnp.sum(in_log_u), 1.0, rtol=1e-12)


def test_power_means_decrease_in_q():
    log_u, weights = jnp.array([-3.0, 5.0, 1.0]), jnp.array([0.2, 0.3, 0.5])
    means = [float(qp.log_power_mean(log_u, weights, q)) for q in [-np.inf, *QS, np.inf]]
    assert means == sorted(means, reverse=True)


@pytest.mark.parametrize("call", [lambda: qp.log_q(2.0, jnp.nan), lambda: qp.exp_q(2.0, float("nan"))])
def test_nan_order_is_refused(call):
    with pytest.raises(ValueError, match="`q` must be a number, got nan"):
        call()


@pytest.mark.parametrize("weights", [[-0.1, 1.1], [0.0, 0.0]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="`weights` must be non-negative with a positive sum"):
        qp.log_power_mean(jnp.zeros(2), jnp.array(weights), 0.5)


@pytest.mark.parametrize("q", [-1.0, 0.5, 2.0])
def test_generalized_mean_of_many_inputs_with_weights(q):
    """Any affine form of the power gives the power mean (paper, appendix A), and `h(u) = log u` the geometric one."""
    log_u, weights = jnp.log(jnp.array([[0.3, 2.0, 5.0, 1.0], [1.0, 1.0, 4.0, 9.0]])), jnp.array([1.0, 2.0, 3.0, 0.5])
    found = qp.log_generalized_mean(
        log_u, weights, lambda v: 2.5 * jnp.exp((1 - q) * v) - 3, lambda h: jnp.log((h + 3) / 2.5) / (1 - q)
    )
    np.testing.assert_allclose(found, qp.log_power_mean(log_u, weights, q), rtol=1e-12)
    geometric = qp.log_generalized_mean(log_u, weights, lambda v: v, lambda v: v)
    np.testing.assert_allclose(geometric, qp.log_power_mean(log_u, weights, 1.0), rtol=1e-12)


def test_generalized_mean_of_another_function():
    """h(u) = log(1 + u), which is no power mean: not homogeneous. Of two inputs it is the path."""
    transform, inverse = lambda v: jnp.logaddexp(0.0, v), lambda h: jnp.log(jnp.expm1(h))
    mean = qp.log_generalized_mean(jnp.log(jnp.array([1.0, 7.0, 3.0])), jnp.array([1.0, 1.0, 2.0]), transform, inverse)
    np.testing.assert_allclose(jnp.exp(mean), (2.0 * 8.0 * 4.0**2) ** 0.25 - 1, rtol=1e-12)
    path = qp.GeneralizedMeanPath(lambda x: x, lambda x: -x, transform, inverse)
    two = qp.log_generalized_mean(jnp.array([0.5, -1.5]), jnp.array([0.7, 0.3]), transform, inverse)
    np.testing.assert_allclose(two, path.interpolate(0.3, 0.5, -1.5), rtol=1e-12)
    # An input of weight zero does not count, whatever it is.
    logs = jnp.array([0.5, -jnp.inf])
    np.testing.assert_allclose(qp.log_generalized_mean(logs, jnp.array([1.0, 0.0]), lambda v: v, lambda v: v), 0.5)
    with pytest.raises(ValueError, match="`weights` must be non-negative"):
        qp.log_generalized_mean(logs, jnp.array([1.0, -1.0]), transform, inverse)
