"""The power mean of two log densities against 60-digit arithmetic."""

import itertools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from qpaths.core.numerics import (
    log1p,
    log_ess,
    log_gamma_ratio,
    log_mean_exp,
    log_power_mean_pair,
    power_mean_pair_derivative,
    power_mean_pair_derivatives,
    power_mean_pair_shares,
)

DELTAS = [0.0] + [s * d for d in (1e-20, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 1.0, 3.0) for s in (1, -1)]
BETAS = [1e-12, 1e-8, 1e-6, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-8, 1 - 1e-12]
LOG_DENSITIES = [-1e4, -3e3, -456.7, -33.3, -2.5, -0.123, 0.0, 1e-5, 0.7, 8.8, 123.4, 1e3]

WORLDS = {"numpy": log_power_mean_pair, "jax": jax.jit(log_power_mean_pair)}
each_world = pytest.mark.parametrize("mean", WORLDS.values(), ids=WORLDS)


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
    """In both worlds, from the same exact numbers."""
    beta, log_base, log_target, delta = _grid(dtype)
    values = {world: np.asarray(mean(beta, log_base, log_target, delta)) for world, mean in WORLDS.items()}
    inside = (beta > 0) & (beta < 1)  # 1 - 1e-12 is 1 in float32
    for value in values.values():
        assert value.dtype == dtype
        assert np.array_equal(value[~inside], np.where(beta == 0, log_base, log_target)[~inside])
    rows = zip(*(part[inside] for part in (beta, log_base, log_target, delta, *values.values())), strict=True)
    for b, l0, l1, d, *found in rows:
        # At 60 digits log1p(b expm1(y)) loses up to |log(1 - b) / log 10| of them, which leaves more than 40.
        exact = _exact(b, l0, l1, d)
        bound = 8 * np.finfo(dtype).eps * max(1, abs(l0), abs(l1))
        for world, v in zip(values, found, strict=True):
            error = abs(mp.mpf(float(v)) - exact)
            assert error <= bound, (world, b, l0, l1, d, float(error / bound))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_beta_and_one_q_give_the_same_numbers_as_many(dtype):
    """On the host a single beta and a single q take a shorter way, to the same last digit."""
    log_base, log_target = (part.ravel().astype(dtype) for part in np.meshgrid(LOG_DENSITIES, LOG_DENSITIES))
    for beta, delta in itertools.product(BETAS, DELTAS):
        many = np.full_like(log_base, beta)
        plain = log_power_mean_pair(dtype(beta), log_base, log_target, dtype(delta))
        np.testing.assert_array_equal(plain, log_power_mean_pair(many, log_base, log_target, dtype(delta)))


@each_world
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ends_are_returned_bit_for_bit(mean, dtype):
    values = np.array([*LOG_DENSITIES, -np.inf], dtype)
    log_base, log_target = (v.ravel() for v in np.meshgrid(values, values))
    for delta in [*DELTAS, np.inf, -np.inf]:
        for beta, end in ((0.0, log_base), (1.0, log_target)):
            np.testing.assert_array_equal(mean(dtype(beta), log_base, log_target, dtype(delta)), end)


@each_world
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_minus_infinity(mean, dtype):
    """A point that one endpoint excludes: kept with a smaller weight for delta > 0, excluded otherwise."""
    beta = np.array([b for b in BETAS if 0 < dtype(b) < 1], dtype)
    for delta in map(dtype, DELTAS):
        only_base = mean(beta, dtype(-2.5), dtype(-np.inf), delta)
        only_target = mean(beta, dtype(-np.inf), dtype(-2.5), delta)
        if delta > 0:
            rtol = 8 * np.finfo(dtype).eps
            np.testing.assert_allclose(only_base, -2.5 + np.log1p(-beta.astype(float)) / delta, rtol=rtol)
            np.testing.assert_allclose(only_target, -2.5 + np.log(beta.astype(float)) / delta, rtol=rtol)
        else:
            assert np.all(only_base == -np.inf)
            assert np.all(only_target == -np.inf)
        assert np.all(mean(beta, dtype(-np.inf), dtype(-np.inf), delta) == -np.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_nan_in_value_derivative_or_gradients(dtype):
    values = [*LOG_DENSITIES, -np.inf]
    rows = np.array(
        list(itertools.product([0.0, *BETAS, 1.0], values, values, [*DELTAS, np.inf, -np.inf], [0.0, 2.0, -50.0])),
        dtype,
    )
    arguments = tuple(rows.T)
    largest = float(np.finfo(dtype).max)

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

    traced = jax.jit(jax.vmap(everything))(*arguments)
    closed_forms = [f(*arguments) for f in (log_power_mean_pair, power_mean_pair_derivatives, power_mean_pair_shares)]
    host = jax.tree.leaves(closed_forms)
    for part in [*jax.tree.leaves(traced), *host]:
        bad = np.isnan(part)
        assert not bad.any(), rows[bad][:3]
    # Elsewhere the gradients of JAX stop at the largest number.
    np.testing.assert_allclose(np.clip(traced[1], -largest, largest), np.clip(host[1], -largest, largest), rtol=2e-4)


@each_world
@pytest.mark.parametrize("shift", [2000.0, -2000.0, 90.0, -90.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_shift_beyond_the_range_of_the_exponential(mean, shift, dtype):
    """The weights are 0 or 1 then, or their slope infinite, and no number is NaN."""
    beta = np.array([0.0, 1e-6, 0.5, 1.0], dtype)
    arguments = beta, dtype(-3.0), dtype(5.0), dtype(0.3), dtype(shift)
    if mean is not log_power_mean_pair:
        arguments = tuple(map(jnp.asarray, arguments))
    value = np.asarray(mean(*arguments))
    np.testing.assert_array_equal(value[[0, -1]], dtype([-3.0, 5.0]))
    np.testing.assert_allclose(value[2], 5.0 if shift > 0 else -3.0)
    parts = [*power_mean_pair_derivatives(*arguments), *power_mean_pair_shares(*arguments)]
    assert not any(np.isnan(part).any() for part in parts)
    equal = power_mean_pair_derivative(beta, dtype(5.0), dtype(5.0), dtype(0.3), dtype(shift))
    np.testing.assert_array_equal(equal, 0.0)


@each_world
@pytest.mark.parametrize("shift", [0.0, 1.5, -2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.3, -0.7])
def test_derivatives_at_and_between_the_ends(mean, shift, delta):
    """Against one-sided differences of the closed form in 100 digits."""
    kind = np.asarray if mean is log_power_mean_pair else jnp.asarray
    beta = np.array([0.0, 1e-5, 0.4, 1.0])
    first, second = power_mean_pair_derivatives(*map(kind, (beta, -3.0, 5.0, delta, shift)))
    with mp.workdps(100):

        def f(b):
            w = b / (b + (1 - b) * mp.exp(-mp.mpf(shift)))
            d = mp.mpf(delta)
            return -3 + 8 * w if d == 0 else -3 + mp.log1p(w * mp.expm1(8 * d)) / d

        for i, b in enumerate(beta):
            sign = -1 if b == 1 else 1
            exact = [float(mp.diff(f, mp.mpf(float(b)), n, direction=sign)) for n in (1, 2)]
            np.testing.assert_allclose([first[i], second[i]], exact, rtol=1e-8, atol=1e-8)


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
    """Those of JAX against the closed forms in both worlds."""
    beta, log_base, log_target, delta = _grid(np.float64, random=200)
    arguments = beta, log_base, log_target, delta, np.full_like(beta, 0.7)
    gradients = jax.jit(jax.vmap(jax.grad(log_power_mean_pair, argnums=(0, 1, 2))))(*arguments)
    largest = np.finfo(float).max
    for kind in (np.asarray, jnp.asarray):
        own = tuple(map(kind, arguments))
        derivative = np.clip(power_mean_pair_derivative(*own), -largest, largest)
        np.testing.assert_allclose(gradients[0], derivative, rtol=1e-12)
        for gradient, share in zip(gradients[1:], power_mean_pair_shares(*own), strict=True):
            np.testing.assert_allclose(gradient, share, rtol=1e-12, atol=1e-300)


@each_world
def test_shift_is_a_shift_of_the_log_odds_of_beta(mean):
    beta, log_base, log_target = np.array([0.01, 0.4, 0.9]), -3.0, 5.0
    for delta, shift in itertools.product([0.3, -0.7], [2.0, -4.0]):
        shifted = 1 / (1 + (1 - beta) / beta * np.exp(-shift))
        np.testing.assert_allclose(
            mean(beta, log_base, log_target, delta, shift),
            mean(shifted, log_base, log_target, delta),
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


@each_world
@pytest.mark.parametrize(("dtype", "shift"), [(np.float32, 195.5), (np.float64, 1000.0)])
def test_no_endpoint_is_lost_where_its_weight_underflows(mean, dtype, shift):
    """A shift beyond the range of the exponential that the log densities cancel: both ends count there."""
    kind = np.asarray if mean is log_power_mean_pair else jnp.asarray
    for beta, delta, sign in itertools.product([0.0, 1e-3, 0.3, 0.9, 1.0], [0.5, -0.2], [1, -1]):
        for gap in (-3.0, -0.4, 0.1, 7.0):  # of the log odds, from balance
            log_base, log_target = dtype(-5.0), dtype(-5 - sign * shift / delta + gap)
            arguments = tuple(map(kind, (dtype(beta), log_base, log_target, dtype(delta), dtype(sign * shift))))
            with mp.workdps(700):
                b, l0, l1, d, c = (mp.mpf(float(part)) for part in arguments)

                def f(b, l0=l0, l1=l1, d=d, c=c):
                    total = 1 - b + b * mp.exp(c)
                    return l0 + mp.log(((1 - b) + b * mp.exp(c + d * (l1 - l0))) / total) / d

                scale = max(1.0, abs(float(l1)))
                assert abs(float(mp.mpf(float(mean(*arguments))) - f(b))) <= 8 * np.finfo(dtype).eps * scale
                step = mp.mpf(10) ** -500
                ends = (b, b + 2 * step) if beta == 0 else (b - 2 * step, b) if beta == 1 else (b - step, b + step)
                slope = (f(ends[1]) - f(ends[0])) / (2 * step)
                odds = mp.exp(c + d * (l1 - l0)) * (b / (1 - b) if b < 1 else mp.inf)
                share = float(odds / (1 + odds)) if beta < 1 else 1.0
            tolerance = 64 * np.finfo(dtype).eps * shift
            found = float(power_mean_pair_derivative(*arguments))
            if abs(slope) < np.finfo(dtype).max:
                np.testing.assert_allclose(found, float(slope), rtol=tolerance, atol=float(np.finfo(dtype).tiny))
            else:
                assert np.isinf(found)
                assert np.sign(found) == np.sign(slope)
            np.testing.assert_allclose(float(power_mean_pair_shares(*arguments)[1]), share, atol=tolerance)


@each_world
def test_beta_outside_the_unit_interval_is_nan(mean):
    assert np.isnan(mean(np.array([-0.1, 1.1]), 0.0, 1.0, 0.5)).all()
    for kind in (np.asarray, jnp.asarray):
        assert np.isnan(power_mean_pair_derivatives(kind([-0.1, 1.1]), 0.0, 1.0, 0.5)).all()


@each_world
def test_nan_is_not_hidden(mean):
    assert np.isnan(mean(0.5, np.nan, 1.0, 0.5))
    assert np.isnan(mean(0.5, 0.0, np.nan, 0.0))


@pytest.mark.parametrize("kind", [np.float32, jnp.float32])
def test_python_numbers_do_not_widen_float32(kind):
    value = log_power_mean_pair(0.3, kind(1.0), kind(2.0), 0.1)
    assert value.dtype == jnp.float32
    assert isinstance(value, jax.Array) == (kind is jnp.float32)


def test_log1p_is_accurate_where_that_of_xla_is_not():
    x = -np.linspace(0.05, 0.7, 2001)
    exact = np.array([float(mp.log1p(mp.mpf(v))) for v in x])
    np.testing.assert_allclose(jax.jit(log1p)(x), exact, rtol=4 * np.finfo(float).eps)


@pytest.mark.parametrize("xp", [np, jnp])
def test_log_mean_exp_and_log_ess(xp):
    with np.errstate(divide="ignore"):
        log_weights = xp.log(xp.array([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
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
