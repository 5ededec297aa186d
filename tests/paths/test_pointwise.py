"""What holds for every pointwise path, and what is particular to each."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.testing import check_path

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
SKEWED = qp.Density(lambda x: jnp.where(x[0] > -0.5, 3.0 * x[1] - jnp.exp(x[1]) - 0.5 * jnp.sum(x**2), -jnp.inf))

PATHS = {
    "geometric": qp.GeometricPath(BASE, SKEWED),
    "arithmetic": qp.ArithmeticPath(BASE, SKEWED),
    "q=0.9": qp.QPath(BASE, SKEWED, q=0.9),
    "q=0.999": qp.QPath(BASE, SKEWED, q=0.999),
    "q=2": qp.QPath(BASE, SKEWED, q=2.0),
    "q=-1": qp.QPath(BASE, SKEWED, q=-1.0),
    "q=inf": qp.QPath(BASE, SKEWED, q=jnp.inf),
    "q=-inf": qp.QPath(BASE, SKEWED, q=-jnp.inf),
    "delta=1e-12": qp.QPath(BASE, SKEWED, delta=1e-12),
    "log_scale": qp.QPath(BASE, SKEWED, q=0.8, log_scale=3.0),
    "generalized": qp.GeneralizedMeanPath(BASE, SKEWED, lambda v: jnp.exp(0.3 * v), lambda v: jnp.log(v) / 0.3),
    "generalized identity": qp.GeneralizedMeanPath(BASE, SKEWED, lambda v: v, lambda v: v),
    "reversed": qp.Reversed(qp.QPath(BASE, SKEWED, q=0.9)),
}

log_densities = st.floats(-700, 700)
betas = st.floats(1e-6, 1 - 1e-6)
orders = st.floats(-3, 4)
settings = hypothesis.settings(deadline=None, max_examples=60, derandomize=True)


def _q_path(q):
    return qp.QPath(BASE, SKEWED, q=q)


@pytest.mark.parametrize("name", PATHS)
def test_conformance(name, key):
    # Points on both sides of the cut, so that the target is -inf at some of them.
    check_path(PATHS[name], jax.random.normal(key, (16, 2)))


@settings
@hypothesis.given(betas, log_densities, log_densities)
def test_q_one_is_geometric_and_q_zero_is_arithmetic(beta, log_base, log_target):
    arguments = beta, log_base, log_target
    assert qp.QPath(BASE, SKEWED, delta=0.0).interpolate(*arguments) == PATHS["geometric"].interpolate(*arguments)
    assert _q_path(0.0).interpolate(*arguments) == PATHS["arithmetic"].interpolate(*arguments)
    plain = (1 - beta) * log_base + beta * log_target
    np.testing.assert_allclose(PATHS["geometric"].interpolate(*arguments), plain, atol=1e-12)
    mixture = np.logaddexp(np.log1p(-beta) + log_base, np.log(beta) + log_target)
    np.testing.assert_allclose(PATHS["arithmetic"].interpolate(*arguments), mixture, atol=1e-12)


@settings
@hypothesis.given(betas, st.floats(-3, 3), st.floats(-3, 3), orders)
def test_three_ways_of_writing_the_q_path(beta, log_base, log_target, q):
    """The rows of the paper's summary figure: closed form, log-linear, exponential family."""
    hypothesis.assume(abs(1 - q) > 1e-4)
    base, target = np.exp(log_base), np.exp(log_target)
    closed_form = ((1 - beta) * base ** (1 - q) + beta * target ** (1 - q)) ** (1 / (1 - q))
    log_linear = qp.exp_q((1 - beta) * qp.log_q(base, q) + beta * qp.log_q(target, q), q)
    exponential_family = base * qp.exp_q(beta * qp.log_q(target / base, q), q)
    value = jnp.exp(_q_path(q).interpolate(beta, log_base, log_target))
    for way in (closed_form, log_linear, exponential_family):
        np.testing.assert_allclose(value, way, rtol=1e-9)


@settings
@hypothesis.given(betas, log_densities, log_densities, orders, orders)
def test_ordered_in_q(beta, log_base, log_target, q0, q1):
    low, high = (_q_path(q).interpolate(beta, log_base, log_target) for q in sorted((q0, q1)))
    assert high <= low + 1e-12 * max(1, abs(log_base), abs(log_target))


@settings
@hypothesis.given(betas, log_densities, log_densities, orders, st.floats(-5, 5))
def test_log_scale_shifts_logit_beta(beta, log_base, log_target, q, log_scale):
    delta = 1 - q
    shifted = jax.nn.sigmoid(jnp.log(beta) - jnp.log1p(-beta) + delta * log_scale)
    hypothesis.assume(1e-9 < shifted < 1 - 1e-9)
    np.testing.assert_allclose(
        qp.QPath(BASE, SKEWED, delta=delta, log_scale=log_scale).interpolate(beta, log_base, log_target),
        _q_path(q).interpolate(shifted, log_base, log_target),
        atol=1e-9,
    )


def test_log_scale_undoes_a_constant_in_the_target(key):
    """Adding c to the log target and `log_scale = -c` leaves the normalized densities at each beta where they were."""
    c = 7.0
    scaled = qp.Density(lambda x: SKEWED.log_prob(x) + c)
    plain, undone = _q_path(0.8), qp.QPath(BASE, scaled, q=0.8, log_scale=-c)
    x = jax.random.normal(key, (20, 2)) + jnp.array([2.0, 0.0])
    difference = jax.jit(jax.vmap(lambda x: undone.log_density(0.3, x) - plain.log_density(0.3, x)))(x)
    # A constant: the mass that the two share differs, the shape does not.
    np.testing.assert_allclose(difference, difference[0], rtol=1e-12)
    left = qp.QPath(BASE, scaled, q=0.8)
    without = jax.jit(jax.vmap(lambda x: left.log_density(0.3, x) - plain.log_density(0.3, x)))(x)
    assert np.ptp(without) > 0.1


@pytest.mark.parametrize("q", [-2.0, 0.5, 2.0])
@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (2.5, -3.0), (-0.7, 4.0)])
def test_affine_choice_of_h_does_not_matter(q, a, b):
    """Paper, appendix A: any a and b in h_q(u) = a u^(1-q) + b give the same mean."""
    path = qp.GeneralizedMeanPath(
        BASE, SKEWED, lambda v: a * jnp.exp((1 - q) * v) + b, lambda h: jnp.log((h - b) / a) / (1 - q)
    )
    log_base, log_target = jnp.array([-1.0, 2.0]), jnp.array([0.5, -1.5])
    np.testing.assert_allclose(
        path.interpolate(0.3, log_base, log_target), _q_path(q).interpolate(0.3, log_base, log_target), rtol=1e-12
    )


def test_generalized_mean_of_another_function():
    """h(u) = log(1 + u), which is no power mean: not homogeneous."""
    path = qp.GeneralizedMeanPath(BASE, SKEWED, jax.nn.softplus, lambda h: jnp.log(jnp.expm1(h)))
    value = path.interpolate(0.5, jnp.log(1.0), jnp.log(7.0))
    np.testing.assert_allclose(jnp.exp(value), np.sqrt(2.0 * 8.0) - 1, rtol=1e-12)
    doubled = path.interpolate(0.5, jnp.log(2.0), jnp.log(14.0))
    assert abs(jnp.exp(doubled) - 2 * jnp.exp(value)) > 0.1


@pytest.mark.parametrize("power", [0.3, -0.3])
def test_generalized_mean_at_points_that_an_end_excludes(power):
    """As the q-path has there: numbers, and none that is NaN."""
    mean = qp.GeneralizedMeanPath(BASE, SKEWED, lambda v: jnp.exp(power * v), lambda h: jnp.log(h) / power)
    low, high = jnp.array([-jnp.inf, -1.0, -jnp.inf]), jnp.array([-1.0, -jnp.inf, -jnp.inf])
    for beta in (0.0, 0.4, 1.0):
        value = mean.interpolate(beta, low, high)
        np.testing.assert_allclose(value, qp.QPath(BASE, SKEWED, delta=power).interpolate(beta, low, high), atol=1e-12)
        shares = jnp.stack(mean.shares(beta, low, high))
        np.testing.assert_allclose(shares.sum(0), 1.0, atol=1e-12)
        derivative = mean.derivative(beta, low, high)
        assert not np.isnan(derivative).any()
        np.testing.assert_array_equal(derivative[value == -jnp.inf], 0.0)


def test_minimum_and_maximum():
    log_base, log_target = jnp.array([-1.0, 2.0]), jnp.array([0.5, -1.5])
    np.testing.assert_array_equal(PATHS["q=inf"].interpolate(0.3, log_base, log_target), [-1.0, -1.5])
    np.testing.assert_array_equal(PATHS["q=-inf"].interpolate(0.3, log_base, log_target), [0.5, 2.0])
    np.testing.assert_allclose(_q_path(1e6).interpolate(0.3, log_base, log_target), [-1.0, -1.5], atol=1e-5)


def test_alpha():
    path = qp.QPath.from_alpha(BASE, SKEWED, 0.5)
    assert path.q == 0.75
    assert path.alpha == 0.5
    assert qp.QPath.from_alpha(BASE, SKEWED, 1.0).delta == 0.0
    assert qp.QPath.from_alpha(BASE, SKEWED, -1.0).delta == 1.0


def test_delta_keeps_digits_that_q_cannot_hold():
    assert qp.QPath(BASE, SKEWED, delta=1e-20).delta == 1e-20
    path = qp.QPath(BASE, SKEWED, delta=1e-20)
    gain = path.interpolate(0.5, 0.0, 1e9) - PATHS["geometric"].interpolate(0.5, 0.0, 1e9)
    assert gain >= 0.0


def test_reversed_swaps_the_endpoints():
    path = _q_path(0.9)
    backwards = qp.Reversed(path)
    x = jnp.array([0.3, -0.2])
    assert backwards.base is path.target
    assert backwards.target is path.base
    swapped = qp.QPath(SKEWED, BASE, q=0.9)
    np.testing.assert_allclose(backwards.log_density(0.3, x), swapped.log_density(0.3, x), rtol=1e-14)
    again = qp.Reversed(backwards)
    np.testing.assert_allclose(again.log_density(0.25, x), path.log_density(0.25, x), rtol=1e-15)


def test_log_density_and_gradient_evaluate_each_density_once():
    """Counted when the program runs, not only when it is traced."""
    counts = {"base": 0, "target": 0}

    def counted(name, density):
        def count():
            counts[name] += 1

        def log_prob(x):
            jax.debug.callback(count)
            return density.log_prob(x)

        return qp.Density(log_prob)

    path = qp.QPath(counted("base", BASE), counted("target", SKEWED), q=0.9)
    value, score = jax.jit(jax.value_and_grad(path.log_density, argnums=1))(0.3, jnp.array([0.3, -0.2]))
    jax.block_until_ready((value, score))
    jax.effects_barrier()
    assert counts == {"base": 1, "target": 1}


def test_a_new_q_does_not_recompile():
    traces = []

    @jax.jit
    def log_density(path, x):
        traces.append(1)
        return path.log_density(0.3, x)

    x = jnp.array([0.3, -0.2])
    values = {float(log_density(qp.QPath(BASE, SKEWED, q=q), x)) for q in (0.9, 0.99, 1.0, 2.0)}
    assert len(values) == 4
    assert len(traces) == 1


def test_many_q_at_once():
    x = jnp.array([0.3, -0.2])
    qs = jnp.array([0.0, 0.5, 1.0, 2.0])
    together = jax.jit(jax.vmap(lambda q: qp.QPath(BASE, SKEWED, q=q).log_density(0.3, x)))(qs)
    np.testing.assert_allclose(together, [_q_path(float(q)).log_density(0.3, x) for q in qs], rtol=1e-14)


def test_points_may_be_pytrees():
    base = qp.Density(lambda x: -0.5 * x["a"] ** 2 - 0.5 * jnp.sum(x["b"] ** 2))
    target = qp.Density(lambda x: -jnp.abs(x["a"]) - jnp.sum(x["b"]) ** 2)
    path = qp.QPath(base, target, q=0.9)
    points = {"a": jnp.array([0.3, 1.0]), "b": jnp.array([[1.0, 2.0], [0.1, -2.0]])}
    check_path(path, points)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: qp.QPath(BASE, SKEWED), ValueError, "exactly one of `q` and `delta`.*got neither"),
        (lambda: qp.QPath(BASE, SKEWED, q=0.9, delta=0.1), ValueError, "exactly one of.*q = 0.9 and delta = 0.1"),
        (lambda: qp.QPath(BASE, SKEWED, q=float("nan")), ValueError, "`q` must be a number, got nan"),
        (lambda: qp.QPath(BASE, SKEWED, delta=jnp.nan), ValueError, "`delta` must be a number, got nan"),
        (lambda: qp.QPath(BASE, SKEWED, q=0.9, log_scale=jnp.nan), ValueError, "`log_scale` must be a number"),
        (lambda: qp.QPath(BASE, SKEWED, q=jnp.inf, log_scale=1.0), ValueError, "`log_scale` must be 0 when q is inf"),
        (lambda: _q_path(0.9).log_density(1.2, jnp.zeros(2)), ValueError, r"`beta` must lie in \[0, 1\], got 1.2"),
        (lambda: _q_path(0.9).at(-0.1), ValueError, r"`beta` must lie in \[0, 1\], got -0.1"),
        (lambda: qp.Reversed(_q_path(0.9)).at(2.0), ValueError, r"`beta` must lie in \[0, 1\], got 2.0"),
        (lambda: _q_path(0.9).log_density(jnp.nan, jnp.zeros(2)), ValueError, r"`beta` must lie in \[0, 1\], got nan"),
        (lambda: qp.GeometricPath(BASE, 3.0), TypeError, "`target` must be a density.*got 3.0.*Density"),
        (lambda: qp.GeometricPath(SKEWED, BASE).sample_base(jax.random.key(0)), ValueError, "`base` has no `sample`"),
        (
            lambda: qp.GeometricPath(BASE, lambda x: -(x**2)).log_density(0.3, jnp.zeros(2)),
            ValueError,
            r"`target.log_prob` must return one number for one point, got shape \(2,\)",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_path_with_a_plain_q_can_be_made_inside_jit():
    made_inside = jax.jit(lambda x: qp.QPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 0.5), q=0.9).log_density(0.3, x))
    np.testing.assert_allclose(
        made_inside(0.2), qp.QPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 0.5), q=0.9).log_density(0.3, 0.2)
    )
