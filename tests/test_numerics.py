"""The power mean of two log densities against 60-digit arithmetic."""

import itertools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from qpaths._numerics import (
    log1p,
    log_ess,
    log_gamma_ratio,
    log_mean_exp,
    log_power_mean_pair,
    power_mean_pair_derivative,
    power_mean_pair_shares,
)

DELTAS = [0.0] + [s * d for d in (1e-20, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 1.0, 3.0) for s in (1, -1)]
BETAS = [1e-12, 1e-8, 1e-6, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-8, 1 - 1e-12]
LOG_DENSITIES = [-1e4, -3e3, -456.7, -33.3, -2.5, -0.123, 0.0, 1e-5, 0.7, 8.8, 123.4, 1e3]

_MEAN = jax.jit(log_power_mean_pair)


def _grid(dtype, deltas=DELTAS, betas=BETAS, random=2000):
    """Every combination of the lists, and random pairs where delta * (log_target - log_base) is of order one."""
    rows = list(itertools.product(betas, LOG_DENSITIES, LOG_DENSITIES, deltas))
    generator = np.random.default_rng(0)
    for _ in range(random):
        delta = generator.choice([d for d in deltas if d])
        log_base = generator.uniform(-1e4, 1e3)
        log_target = np.clip(log_base + generator.uniform(-60, 60) / delta, -1e4, 1e3)
        rows.append((1 / (1 + np.exp(generator.uniform(-27, 27))), log_base, log_target, delta))
    beta, log_base, log_target, delta = np.array(rows, dtype).T
    return beta, log_base, log_target, delta


def _exact(beta, log_base, log_target, delta):
    """The closed form in 60 digits, for 0 < beta < 1 and finite log densities."""
    with mp.workdps(60):
        b, l0, l1, d = (mp.mpf(float(v)) for v in (beta, log_base, log_target, delta))
        return (1 - b) * l0 + b * l1 if d == 0 else l0 + mp.log1p(b * mp.expm1(d * (l1 - l0))) / d


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_accuracy(dtype):
    beta, log_base, log_target, delta = _grid(dtype)
    value = np.asarray(_MEAN(beta, log_base, log_target, delta))
    assert value.dtype == dtype
    inside = (beta > 0) & (beta < 1)  # 1 - 1e-12 is 1 in float32
    assert np.array_equal(value[~inside], np.where(beta == 0, log_base, log_target)[~inside])
    rows = list(zip(beta[inside], log_base[inside], log_target[inside], delta[inside], value[inside], strict=True))
    for b, l0, l1, d, v in rows:
        # At 60 digits log1p(b expm1(y)) loses up to |log(1 - b) / log 10| of them, which leaves more than 40.
        error = abs(mp.mpf(float(v)) - _exact(b, l0, l1, d))
        bound = 8 * np.finfo(dtype).eps * max(1, abs(l0), abs(l1))
        assert error <= bound, (b, l0, l1, d, float(error / bound))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ends_are_returned_bit_for_bit(dtype):
    values = np.array([*LOG_DENSITIES, -np.inf], dtype)
    log_base, log_target = (v.ravel() for v in np.meshgrid(values, values))
    for delta in [*DELTAS, np.inf, -np.inf]:
        for beta, end in ((0.0, log_base), (1.0, log_target)):
            np.testing.assert_array_equal(_MEAN(dtype(beta), log_base, log_target, dtype(delta)), end)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_minus_infinity(dtype):
    """A point that one endpoint excludes: kept with a smaller weight for delta > 0, excluded otherwise."""
    beta = np.array([b for b in BETAS if 0 < dtype(b) < 1], dtype)
    for delta in map(dtype, DELTAS):
        only_base = _MEAN(beta, dtype(-2.5), dtype(-np.inf), delta)
        only_target = _MEAN(beta, dtype(-np.inf), dtype(-2.5), delta)
        if delta > 0:
            rtol = 8 * np.finfo(dtype).eps
            np.testing.assert_allclose(only_base, -2.5 + np.log1p(-beta.astype(float)) / delta, rtol=rtol)
            np.testing.assert_allclose(only_target, -2.5 + np.log(beta.astype(float)) / delta, rtol=rtol)
        else:
            assert np.all(only_base == -np.inf)
            assert np.all(only_target == -np.inf)
        assert np.all(_MEAN(beta, dtype(-np.inf), dtype(-np.inf), delta) == -np.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_nan_in_value_derivative_or_gradients(dtype):
    values = [*LOG_DENSITIES, -np.inf]
    rows = np.array(
        list(itertools.product([0.0, *BETAS, 1.0], values, values, [*DELTAS, np.inf, -np.inf], [0.0, 2.0, -50.0])),
        dtype,
    )
    arguments = tuple(rows.T)

    def everything(*a):
        reverse = jax.grad(log_power_mean_pair, argnums=(0, 1, 2, 3, 4))(*a)
        forward = jax.jacfwd(log_power_mean_pair, argnums=(0, 1, 2, 3, 4))(*a)
        return (
            log_power_mean_pair(*a),
            power_mean_pair_derivative(*a),
            power_mean_pair_shares(*a),
            reverse,
            forward,
            jax.grad(log_power_mean_pair, argnums=2)(*a),
        )

    for part in jax.tree.leaves(jax.jit(jax.vmap(everything))(*arguments)):
        bad = np.isnan(part)
        assert not bad.any(), rows[bad][:3]


def _finite_difference(index, beta, log_base, log_target, delta):
    """Central difference of the closed form in one argument, in 120 digits."""
    with mp.workdps(120):
        arguments = [mp.mpf(float(v)) for v in (beta, log_base, log_target, delta)]
        step = mp.mpf(10) ** -40

        def f(h):
            b, l0, l1, d = (a + h * (i == index) for i, a in enumerate(arguments))
            r = l1 - l0
            if abs(d * r) < mp.mpf(10) ** -30:  # the series keeps the digits that 0/0 would lose
                k2 = b * (1 - b)
                return l0 + b * r + d * r**2 * k2 / 2 + d**2 * r**3 * k2 * (1 - 2 * b) / 6
            return l0 + mp.log1p(b * mp.expm1(d * r)) / d

        return (f(step) - f(-step)) / (2 * step)


def test_gradients_against_high_precision():
    betas = [1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-6, 1 - 1e-12]
    rows = list(itertools.product(betas, LOG_DENSITIES[::2], LOG_DENSITIES[1::2], DELTAS))[::3]
    arguments = tuple(np.array(rows).T)
    gradients = jax.jit(jax.vmap(jax.grad(log_power_mean_pair, argnums=(0, 1, 2, 3))))(*arguments)
    for index, gradient in enumerate(gradients):
        for row, value in zip(rows, np.asarray(gradient), strict=True):
            exact = _finite_difference(index, *row)
            if abs(exact) > 1e300:
                assert abs(value) > 1e300
            else:
                assert abs(value - exact) <= 1e-6 * abs(exact) + 1e-70, (index, row, value, float(exact))


def test_derivative_and_shares_are_the_gradients():
    beta, log_base, log_target, delta = _grid(np.float64, random=200)
    arguments = beta, log_base, log_target, delta, np.full_like(beta, 0.7)
    gradients = jax.jit(jax.vmap(jax.grad(log_power_mean_pair, argnums=(0, 1, 2))))(*arguments)
    largest = np.finfo(float).max
    derivative = np.clip(power_mean_pair_derivative(*arguments), -largest, largest)
    np.testing.assert_allclose(gradients[0], derivative, rtol=1e-12)
    for gradient, share in zip(gradients[1:], power_mean_pair_shares(*arguments), strict=True):
        np.testing.assert_allclose(gradient, share, rtol=1e-12, atol=1e-300)


def test_shift_is_a_shift_of_the_log_odds_of_beta():
    beta, log_base, log_target = np.array([0.01, 0.4, 0.9]), -3.0, 5.0
    for delta, shift in itertools.product([0.3, -0.7], [2.0, -4.0]):
        shifted = 1 / (1 + (1 - beta) / beta * np.exp(-shift))
        np.testing.assert_allclose(
            log_power_mean_pair(beta, log_base, log_target, delta, shift),
            log_power_mean_pair(shifted, log_base, log_target, delta),
            rtol=1e-13,
        )


def test_gradient_in_shift():
    def mean(shift):
        return log_power_mean_pair(0.2, -3.0, 5.0, 0.3, shift)

    for shift in (-2.0, 0.0, 2.0):
        step = 1e-5
        np.testing.assert_allclose(
            jax.grad(mean)(shift), (mean(shift + step) - mean(shift - step)) / (2 * step), rtol=1e-8
        )


def test_second_derivatives_are_finite_and_right():
    def mean(log_target):
        return log_power_mean_pair(0.2, -3.0, log_target, 0.3)

    share = jax.nn.sigmoid(jnp.log(0.25) + 0.3 * 8.0)
    np.testing.assert_allclose(jax.grad(jax.grad(mean))(5.0), 0.3 * share * (1 - share), rtol=1e-12)


def test_beta_outside_the_unit_interval_is_nan():
    assert np.isnan(log_power_mean_pair(jnp.array([-0.1, 1.1]), 0.0, 1.0, 0.5)).all()


def test_nan_is_not_hidden():
    assert np.isnan(log_power_mean_pair(0.5, jnp.nan, 1.0, 0.5))
    assert np.isnan(log_power_mean_pair(0.5, 0.0, jnp.nan, 0.0))


def test_python_numbers_do_not_widen_float32():
    value = log_power_mean_pair(0.3, np.float32(1.0), np.float32(2.0), 0.1)
    assert value.dtype == jnp.float32


def test_log1p_is_accurate_where_that_of_xla_is_not():
    x = -np.linspace(0.05, 0.7, 2001)
    exact = np.array([float(mp.log1p(mp.mpf(v))) for v in x])
    np.testing.assert_allclose(jax.jit(log1p)(x), exact, rtol=4 * np.finfo(float).eps)


def test_log_mean_exp_and_log_ess():
    log_weights = jnp.log(jnp.array([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(log_mean_exp(log_weights + 1e4) - 1e4, [0.0, -np.log(4.0), -np.inf], atol=1e-11)
    np.testing.assert_allclose(log_ess(log_weights - 1e4), [np.log(4.0), 0.0, -np.inf], atol=1e-11)


@pytest.mark.parametrize("a", [0.5, 1.0, 2.5, 40.0])
def test_log_gamma_ratio(a):
    z = np.concatenate([np.geomspace(1e-3, 9.9, 40), np.geomspace(10.0, 1e12, 60)])
    with mp.workdps(50):
        exact = [float(mp.loggamma(mp.mpf(v) + a) - mp.loggamma(mp.mpf(v))) for v in z]
    np.testing.assert_allclose(log_gamma_ratio(jnp.asarray(z), a), exact, rtol=1e-13, atol=1e-14)
    single = log_gamma_ratio(jnp.asarray(z, jnp.float32), a)
    np.testing.assert_allclose(single, exact, rtol=3e-6, atol=3e-6)
