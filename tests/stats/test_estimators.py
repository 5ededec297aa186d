"""Estimators of the log evidence from arrays: exact worlds, quadrature, and one known law."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special

import qpaths as qp
from qpaths.core.arrays import to_host
from qpaths.paths.base import EndpointValues
from qpaths.stats.standard_errors import (
    Lag,
    dominance,
    few_replicas,
    genealogy_se,
    importance_log_evidence,
    jackknife_se,
    pareto_shape,
)

MEAN, SCALE = 1.5, 0.6
LOG_EVIDENCE = 0.5 * np.log(2 * np.pi * SCALE**2)

# A grid so wide and fine that sums over it are integrals to rounding: weighted states without noise.
GRID = jnp.linspace(-10.0, 10.0, 4001)
BASE = qp.Normal(0.0, 1.0)
TARGET = qp.Density(lambda x: -0.5 * ((x - MEAN) / SCALE) ** 2)
FEATURES = EndpointValues(jax.jit(jax.vmap(BASE.log_prob))(GRID), jax.jit(jax.vmap(TARGET.log_prob))(GRID))

PATHS = {
    "geometric": qp.GeometricPath(BASE, TARGET),
    "q=0.5": qp.QPath(BASE, TARGET, q=0.5),
    "q=0.99": qp.QPath(BASE, TARGET, q=0.99),
    "q=0.5, scaled": qp.QPath(BASE, TARGET, q=0.5, log_scale=-3.0),
    "q=1.2": qp.QPath(BASE, TARGET, q=1.2),
    "reversed": qp.Reversed(qp.QPath(BASE, TARGET, q=0.5)),
    "generalized": qp.GeneralizedMeanPath(BASE, TARGET, lambda v: jnp.exp(0.3 * v), lambda v: jnp.log(v) / 0.3),
}


@jax.jit
def _moments(path, betas):
    def at(beta):
        log_weights = jax.vmap(lambda f: path.log_density_from(beta, f))(FEATURES)
        return qp.stats.derivative_moments(path, beta, FEATURES, log_weights)

    return jax.vmap(at)(betas)


def _closed_form(beta):
    """Mean and variance of r = a x^2 + b x + c under the geometric path, which is normal at every beta."""
    a, b = 0.5 * (1 - SCALE**-2), MEAN / SCALE**2
    c = -0.5 * (MEAN / SCALE) ** 2 + 0.5 * np.log(2 * np.pi)
    variance = 1 / ((1 - beta) + beta / SCALE**2)
    mean = variance * beta * b
    return a * (mean**2 + variance) + b * mean + c, 2 * (a * variance) ** 2 + (2 * a * mean + b) ** 2 * variance


def test_moments_of_the_derivative_have_their_closed_form_on_the_geometric_path():
    betas = jnp.linspace(0.0, 1.0, 65)
    moments = _moments(PATHS["geometric"], betas)
    mean, variance = _closed_form(np.asarray(betas))
    np.testing.assert_allclose(moments.mean, mean, atol=1e-10)
    np.testing.assert_allclose(moments.variance, variance, atol=1e-10)
    np.testing.assert_allclose(moments.slope, variance, atol=1e-10)


@pytest.mark.parametrize("name", PATHS)
def test_slope_is_the_derivative_of_the_mean(name):
    betas, step = jnp.linspace(0.1, 0.9, 65), 1e-5
    difference = (_moments(PATHS[name], betas + step).mean - _moments(PATHS[name], betas - step).mean) / (2 * step)
    moments = _moments(PATHS[name], betas)
    np.testing.assert_allclose(moments.slope, difference, rtol=1e-6, atol=1e-6)
    if name != "geometric":  # the slope of Friel, Hurn and Wyse would be wrong
        assert np.abs(moments.variance - difference).max() > 1e-3


@pytest.mark.parametrize("name", PATHS)
def test_moments_are_the_same_on_the_host(name):
    """All betas at once, from NumPy features: betas are rows, states are columns."""
    path, betas = PATHS[name], np.array([0.0, 0.3, 1.0])
    features = to_host(FEATURES)
    log_weights = np.asarray(path.log_density_from(betas[:, None], features))
    host = qp.stats.derivative_moments(path, betas[:, None], features, log_weights)
    for a, b in zip(host, _moments(path, jnp.asarray(betas)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_log_ratios_of_neighbors():
    """At the states of each beta towards its neighbors, in both worlds."""
    path, betas = PATHS["q=0.5"], np.array([0.0, 0.3, 1.0])
    states = np.array([[1700, 2000, 2300], [1900, 1950, 2200], [2100, 2300, 2500]])
    features = to_host(jax.tree.map(lambda leaf: leaf[states], FEATURES))
    forward, reverse = qp.stats.neighbor_log_ratios(path, betas, features)
    assert isinstance(forward, np.ndarray)
    traced = jax.jit(qp.stats.neighbor_log_ratios)(path, jnp.asarray(betas), features)
    for found, parts in ((forward, traced[0]), (reverse, traced[1])):
        np.testing.assert_allclose(found, parts, rtol=1e-12)
    for i, j in ((0, 0), (1, 2)):
        low, high = (EndpointValues(*(leaf[row, j] for leaf in features)) for row in (i, i + 1))
        np.testing.assert_allclose(forward[i, j], path.log_ratio(betas[i], betas[i + 1], low), rtol=1e-12)
        np.testing.assert_allclose(reverse[i, j], path.log_ratio(betas[i + 1], betas[i], high), rtol=1e-12)


def test_curvature_of_a_power_mean_is_minus_delta_times_the_square():
    moments = _moments(PATHS["q=0.5"], jnp.linspace(0.0, 1.0, 65))
    expected = moments.variance - 0.5 * (moments.variance + moments.mean**2)
    np.testing.assert_allclose(moments.slope, expected, rtol=1e-10)


def test_a_state_of_weight_zero_does_not_count_and_one_with_weight_does():
    path = PATHS["geometric"]
    features = EndpointValues(jnp.array([-1.0, -2.0, -1.0]), jnp.array([-3.0, -3.0, -jnp.inf]))
    inside = qp.stats.derivative_moments(path, 0.5, features, jnp.array([0.0, 0.0, -jnp.inf]))
    np.testing.assert_allclose(np.array(inside), [-1.5, 0.25, 0.25])
    at_base = qp.stats.derivative_moments(path, 0.0, features, jnp.zeros(3))
    assert at_base.mean == -jnp.inf
    assert jnp.sum(
        qp.stats.thermodynamic_integration(jnp.array([0.0, 1.0]), jnp.array([at_base.mean, 1.0]), jnp.ones(2))
    ) == (-jnp.inf)


@pytest.mark.parametrize("name", ["geometric", "q=0.5", "q=0.5, scaled"])
@pytest.mark.parametrize(("rule", "order"), [("trapezoid", 2), ("simpson", 4), ("corrected", 4)])
def test_rules_converge_at_their_order(name, rule, order):
    betas = jnp.linspace(0.0, 1.0, 65)
    moments = _moments(PATHS[name], betas)

    def error(num, slope="slope"):
        rows = slice(None, None, 64 // (num - 1))
        arrays = betas[rows], moments.mean[rows], getattr(moments, slope)[rows]
        return float(jnp.sum(qp.stats.thermodynamic_integration(*arrays, rule=rule)) - LOG_EVIDENCE)

    observed = np.log2(abs(error(33) / error(65)))
    assert abs(observed - order) < 0.35, (error(33), error(65))
    if rule == "corrected" and name != "geometric":  # the correction for the geometric path is wrong for the others
        assert np.log2(abs(error(33, "variance") / error(65, "variance"))) < 2.5
        assert abs(error(65)) < 0.02 * abs(error(65, "variance"))


@pytest.mark.parametrize("num", [2, 3, 6, 7])
def test_simpson_on_uneven_betas_is_that_of_scipy(num, key):
    betas = jnp.concatenate([jnp.zeros(1), jnp.sort(jax.random.uniform(key, (num - 2,))), jnp.ones(1)])
    values = jnp.exp(betas)
    steps = qp.stats.thermodynamic_integration(betas, values, rule="simpson")
    assert steps.shape == (num - 1,)
    np.testing.assert_allclose(jnp.sum(steps), scipy.integrate.simpson(values, x=betas), rtol=1e-12)
    parabola = qp.stats.thermodynamic_integration(betas, betas**2, rule="simpson")
    if num > 2:
        np.testing.assert_allclose(parabola, np.diff(np.asarray(betas) ** 3) / 3, rtol=1e-10)


def test_wrong_arguments_are_named():
    betas = jnp.array([0.0, 1.0])
    with pytest.raises(ValueError, match="`slopes` must be given"):
        qp.stats.thermodynamic_integration(betas, betas)
    with pytest.raises(ValueError, match="`rule` must be trapezoid, simpson or corrected, got 'midpoint'"):
        qp.stats.thermodynamic_integration(betas, betas, rule="midpoint")


def _world(xp=jnp):
    """Integer counts of four states under three unnormalized densities: exact proportions, so no noise at all."""
    counts = np.array([[4, 4, 8, 0], [2, 6, 6, 2], [1, 5, 2, 8]])
    log_densities = np.log(np.where(counts == 0, 1e-300, counts)) + np.array([0.0, 1.3, -0.4])[:, None]
    log_densities[counts == 0] = -np.inf
    states = [np.repeat(np.arange(4), row) for row in counts]
    with np.errstate(invalid="ignore"):
        forward = [(log_densities[i + 1] - log_densities[i])[states[i]] for i in range(2)]
        reverse = [(log_densities[i] - log_densities[i + 1])[states[i + 1]] for i in range(2)]
    return xp.array(forward), xp.array(reverse), np.array([1.3, -1.7])


BRIDGES = {
    "host": qp.stats.bridge,
    "traced": jax.jit(lambda forward, reverse: qp.stats.bridge(forward, reverse)),
}


@pytest.mark.parametrize("bridge", BRIDGES.values(), ids=BRIDGES)
def test_bridge_is_exact_on_exact_proportions(bridge):
    forward, reverse, truth = _world()
    np.testing.assert_allclose(bridge(forward, reverse), truth, atol=1e-13)
    np.testing.assert_allclose(bridge(reverse, forward), -truth, atol=1e-13)
    assert np.abs(bridge(reverse, forward) - truth).min() > 1  # the flipped sign
    np.testing.assert_allclose(bridge(jnp.repeat(forward, 3, axis=1), reverse), truth, atol=1e-13)
    narrow = bridge(forward.astype(jnp.float32), reverse.astype(jnp.float32))
    assert narrow.dtype == jnp.float32
    np.testing.assert_allclose(narrow, truth, atol=1e-5)


@pytest.mark.parametrize("xp", [np, jnp])
def test_stepping_stone_is_exact_where_the_states_cover_the_neighbor(xp):
    forward, reverse, truth = _world(xp)
    np.testing.assert_allclose(-qp.stats.stepping_stone(reverse), truth, atol=1e-13)
    np.testing.assert_allclose(qp.stats.stepping_stone(forward), truth + np.array([np.log(14 / 16), 0.0]), atol=1e-13)


def test_bridge_is_the_root_whatever_the_overlap(key):
    scales = jnp.array([0.1, 1.0, 10.0, 100.0])[:, None]
    forward, reverse = (
        s - 3 * scales * jax.random.normal(k, (4, 50)) for s, k in zip((7.0, -9.0), jax.random.split(key), strict=True)
    )
    reverse = reverse[:, :31]
    found = qp.stats.bridge(forward, reverse)

    def equation(c, i):
        sigmoid, offset = jax.nn.sigmoid, np.log(31 / 50)
        return float(jnp.sum(sigmoid(forward[i] - c + offset)) - jnp.sum(sigmoid(reverse[i] + c - offset)))

    roots = [scipy.optimize.brentq(equation, -2000, 2000, args=(i,), xtol=1e-12) for i in range(4)]
    np.testing.assert_allclose(found, roots, atol=1e-6)


@pytest.mark.parametrize("bridge", BRIDGES.values(), ids=BRIDGES)
def test_bridge_without_common_support_is_infinite(bridge):
    none, some = jnp.full((1, 3), -jnp.inf), jnp.zeros((1, 3))
    assert bridge(none, some)[0] == -jnp.inf
    assert bridge(some, none)[0] == jnp.inf


@pytest.mark.parametrize("bridge", BRIDGES.values(), ids=BRIDGES)
@pytest.mark.parametrize("far", [-1e5, -1e20, -1e300, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_a_log_ratio_far_below_the_others_counts_as_no_mass(bridge, far, side):
    """With rounding in the slope the search ended at half of the far value, without a word."""
    sides = [np.array([[0.3, -0.2, 0.8, 0.1]]), np.array([[0.2, -0.7, 0.4, -0.1]])]
    sides[side][0, 1] = far
    forward, reverse = sides

    def equation(c):
        return np.sum(scipy.special.expit(forward - c)) - np.sum(scipy.special.expit(reverse + c))

    np.testing.assert_allclose(bridge(*sides), scipy.optimize.brentq(equation, -50, 50, xtol=1e-14), atol=1e-12)


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(
    shift=st.floats(-1e6, 1e6),
    scale=st.floats(0.01, 50.0),
    far=st.lists(st.floats(-1e308, -2e4), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_bridge_is_the_root_whatever_lies_far_below(shift, scale, far, seed):
    """What a wide proposal finds far out, as log ratios of all sizes, does not change the root of the others."""
    rng = np.random.default_rng(seed)
    forward, reverse = scale * rng.standard_normal((2, 20))
    forward[: len(far)] = far  # these are ratios without mass

    def equation(c):
        return np.sum(scipy.special.expit(forward - c)) - np.sum(scipy.special.expit(reverse + c))

    root = scipy.optimize.brentq(equation, -1e4, 1e4, xtol=1e-13)
    found = float(qp.stats.bridge(forward[None] + shift, reverse[None] - shift)[0])
    assert abs(found - (root + shift)) < 1e-7 * (1 + abs(shift))


@pytest.mark.parametrize("bridge", BRIDGES.values(), ids=BRIDGES)
def test_a_bridge_that_reaches_no_root_is_nan_and_others_are_right(bridge):
    forward = np.array([[0.0, 1.0], [1e300, 0.0], [np.nan, 0.0], [-np.inf, np.nan]])
    reverse = np.array([[0.0, -1.0], [0.0, -3.0], [0.0, 0.0], [0.0, 0.0]])
    found = bridge(forward, reverse)
    np.testing.assert_allclose(found[0], 0.5, atol=1e-13)
    assert np.isnan(found[1:]).all()


def test_bridge_of_normals_is_within_its_known_standard_deviation(key):
    """N(0, 1) against exp(1) N(2, 1); the variance is that of Meng and Wong (1996, eq. 3.2), by quadrature."""
    shift, constant, num, other = 2.0, 1.0, 4000, 1000
    first, second = jax.random.split(key)
    x0, x1 = jax.random.normal(first, (1, num)), shift + jax.random.normal(second, (1, other))

    def log_ratio(x):
        return shift * x - shift**2 / 2 + constant

    f0, f1 = jnp.exp(jax.jit(jax.vmap(BASE.log_prob))(GRID)), jnp.exp(jax.jit(jax.vmap(BASE.log_prob))(GRID - shift))
    s0, s1 = num / (num + other), other / (num + other)
    overlap = jnp.sum(f0 * f1 / (s0 * f0 + s1 * f1)) * (GRID[1] - GRID[0])
    deviation = jnp.sqrt((1 / overlap - 1) / (s0 * s1 * (num + other)))
    estimate = qp.stats.bridge(log_ratio(x0), -log_ratio(x1))[0]
    assert abs(estimate - constant) < 5 * deviation
    assert deviation < 0.05
    assert abs(qp.stats.bridge(-log_ratio(x0), log_ratio(x1))[0] - constant) > 5 * deviation  # the flipped sign


def test_jackknife_of_a_mean_is_its_standard_error(key):
    values = jax.random.normal(key, (3, 6, 5))
    error = jackknife_se(lambda v: jnp.mean(v), values)
    plain = jnp.std(jnp.mean(values, axis=(0, 2)), ddof=1) / np.sqrt(6)
    np.testing.assert_allclose(error, plain * few_replicas(6))
    np.testing.assert_allclose(few_replicas(6), 2.5706 / 1.9600, rtol=1e-4)  # quantiles of Student's t and the normal


def test_dominance_is_nothing_for_healthy_weights_and_grows_with_what_is_missing(key):
    """Log-normal weights, whose log mean is sigma^2 / 2: the error bar covers the shortfall where there is one."""
    noise = jax.random.normal(key, (1000,))
    for sigma in (0.1, 1.0):
        assert dominance(sigma * noise) < 1e-4
    for sigma in (8.0, 10.0):  # bounds that all of 500 seeds keep
        estimate, error = importance_log_evidence(sigma * noise)
        shortfall = sigma**2 / 2 - estimate
        assert shortfall > 1.0
        assert 2 * error > 0.4 * shortfall
        assert error > 4.0


def test_dominance_does_not_mistake_ties_or_zeros_for_a_tail():
    ties = jnp.where(jnp.arange(1000) < 31, 3.0, 0.0)
    assert dominance(ties) < 1e-6
    assert dominance(jnp.where(jnp.arange(1000) < 400, 0.0, -jnp.inf)) < 1e-6
    assert dominance(jnp.where(jnp.arange(1000) == 7, 0.0, -jnp.inf)) > 100.0


NO_LAG = Lag(*jnp.zeros(5))


def _moves(key, rho, error, num=4000):
    """The derivative before and after moves of autocorrelation rho, of particles whose mean is off by `error`."""
    first, second = jax.random.split(key)
    before = error + jax.random.normal(first, (num,))
    return before, rho * before + np.sqrt(1 - rho**2) * jax.random.normal(second, (num,))


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_lag_is_what_the_moves_have_left_of_the_error(rho, key):
    before, after = _moves(key, rho, error=0.5)
    lag = NO_LAG.moved(before, after, jnp.zeros(4000))
    deviation = np.sqrt(rho**2 / (1 - rho) ** 2 * 2 * (1 - rho) / 4000)  # of the shift, times rho / (1 - rho)
    assert abs(lag.mean - rho * 0.5) < 5 * np.sqrt(lag.mean_variance)
    assert 0.8 * deviation < np.sqrt(lag.mean_variance) < 2 * deviation
    stepped = lag.step(0.1).step(0.2)
    np.testing.assert_allclose(stepped.log_evidence, 0.3 * lag.mean)
    np.testing.assert_allclose(stepped.variance, (0.1**2 + 0.2**2) * lag.mean_variance)
    assert stepped.standard_error(1e-6) > 0.5 * stepped.log_evidence


def test_lag_widens_no_healthy_error_bar(key):
    """Where the mean is right the lag is noise, and shrunk by it; moves that leave no trace leave no lag."""
    lags = jax.jit(jax.vmap(lambda k: NO_LAG.moved(*_moves(k, 0.5, 0.0), jnp.zeros(4000))))(jax.random.split(key, 200))
    stage_variance = jnp.mean(lags.mean_variance)
    errors = jax.jit(jax.vmap(lambda lag: lag.step(1.0).standard_error(stage_variance)))(lags)
    assert np.sqrt(np.mean(errors**2) / stage_variance) < 1.5
    before, _ = _moves(key, 0.5, 0.5)
    opposite = NO_LAG.moved(before, -before, jnp.zeros(4000))
    assert opposite.mean == 0


def test_lag_of_particles_without_weight_or_number(key):
    before, after = _moves(key, 0.5, 0.5, num=100)
    log_weights = jnp.where(jnp.arange(100) < 50, 0.0, -jnp.inf)
    spoiled = NO_LAG.moved(before.at[99].set(-jnp.inf), after.at[98].set(jnp.nan), log_weights)
    half = NO_LAG.moved(before[:50], after[:50], jnp.zeros(50))
    np.testing.assert_allclose(np.array(spoiled), np.array(half))
    still = NO_LAG.moved(before, before, jnp.zeros(100))
    assert still.mean == 0
    assert np.isfinite(np.array(NO_LAG.moved(jnp.ones(3), jnp.ones(3), jnp.zeros(3)))).all()


def test_error_bars_are_the_same_in_both_worlds(key):
    before, after = _moves(key, 0.7, 0.5, num=500)
    log_weights = jnp.where(jnp.arange(500) < 3, -jnp.inf, 2.0 * before)
    ancestors = jnp.arange(500) // 7

    def numbers(before, after, log_weights, ancestors):
        lag = Lag(*jnp.zeros(5, before.dtype)) if isinstance(before, jax.Array) else Lag(*np.zeros(5))
        lag = lag.moved(before, after, log_weights).step(0.3)
        replicas = before.reshape(5, 10, 10)
        return {
            "lag": tuple(lag),
            "standard error": lag.standard_error(1e-4),
            "dominance": dominance(5.0 * log_weights),
            "importance": importance_log_evidence(log_weights),
            "genealogy": genealogy_se(log_weights, ancestors, 1e-5, 1e-4),
            "jackknife": jackknife_se(lambda v: (v**2).mean(), replicas),
        }

    arguments = before, after, log_weights, ancestors
    host, traced = numbers(*to_host(arguments)), jax.jit(numbers)(*arguments)
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(host))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), host, traced)


@pytest.mark.parametrize("index", [0.1, 0.4, 0.7, 1.2])
def test_shape_of_a_tail_is_that_of_pareto_smoothed_importance_sampling(index):
    arviz = pytest.importorskip("arviz")
    log_weights = index * np.random.default_rng(0).exponential(size=4000) - 700.0
    wanted = arviz.psislw(log_weights)[1] if hasattr(arviz, "psislw") else index
    np.testing.assert_allclose(pareto_shape(log_weights), wanted, atol=0.05 if hasattr(arviz, "psislw") else 0.15)
    assert pareto_shape(np.zeros(4000)) == pareto_shape(log_weights[:50]) == 0


def test_shape_of_a_tail_of_equal_weights():
    """Many equal weights, of a flat likelihood or one with steps, are no heavy tail, and hide none."""
    generator = np.random.default_rng(0)
    rounding = 1e-15 * generator.standard_normal(40_000)
    assert abs(pareto_shape(rounding)) < 1e-6
    assert pareto_shape(np.log1p(generator.integers(0, 3, 40_000))) == 0  # two levels: the largest ones are equal
    share = generator.uniform(size=40_000)
    hump = np.where(share < 0.01, generator.uniform(size=40_000), 0.0)  # at most e times the others
    assert pareto_shape(hump + rounding) < 0.5
    heavy = np.where(share < 0.01, 1.5 * generator.exponential(size=40_000), 0.0)
    assert pareto_shape(heavy + rounding) > 1.2
    assert pareto_shape(np.floor(generator.exponential(size=40_000))) > 0.5  # of index 1, and equal in groups
