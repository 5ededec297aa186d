"""q-exponential families against mpmath: densities, free energies, escorts, both normalizations."""

import itertools

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import qpaths as qp
from qpaths.families.base import dot
from qpaths.families.q_family import (
    df_from_q,
    q_from_df,
    q_from_shape,
    shape_from_q,
    to_multiplicative,
    to_subtractive,
)


@pytest.fixture(autouse=True)
def thirty_digits():
    with mp.workdps(30):
        yield


def scatter(seed, dimension):
    factor = np.random.default_rng(seed).normal(size=(dimension, dimension))
    return factor @ factor.T + 0.3 * np.eye(dimension)


def student(df, seed, dimension):
    return qp.MultivariateStudentT(df, np.random.default_rng(seed).normal(size=dimension), scatter(seed, dimension))


MEMBERS = {
    "student": qp.StudentT(1.0, -4.0, 3.0**0.5),
    "student7": qp.StudentT(7.3, 0.4, 0.2),
    "student2": student(1.0, 0, 2),
    "student5": student(3.7, 1, 5),
    "compact": qp.families.QGaussian(0.5, 1.2, 0.7),
    "negative": qp.families.QGaussian(-1.5, 0.3, 2.0),
    "gaussian": qp.families.QGaussian(1.0, -0.6, 1.5),
    "heavy": qp.families.QGaussian(2.0, -4.0, 3.0**0.5),
    "pareto": qp.families.GeneralizedPareto(0.4, 1.0, 2.0),
    "bounded": qp.families.GeneralizedPareto(-0.3, 1.0, 2.0),
    "exponential": qp.families.GeneralizedPareto(0.0, -1.0, 0.5),
}
ON_LINE = [name for name in MEMBERS if name not in ("student2", "student5", "negative")]


def mp_exp_q(x, q):
    if q == 1:
        return mp.exp(x)
    base = 1 + (1 - q) * x
    return base ** (1 / (1 - q)) if base > 0 else mp.mpf(0)


def mp_log_density(member, x):
    """Log density of one point in thirty digits, from the textbook formula."""
    if isinstance(member, qp.families.GeneralizedPareto):
        xi, z = mp.mpf(member.shape), (mp.mpf(x) - member.loc) / member.scale
        return (-z if xi == 0 else -(1 + 1 / xi) * mp.log(1 + xi * z)) - mp.log(member.scale)
    if isinstance(member, qp.MultivariateStudentT):
        nu, d = mp.mpf(member.df), len(member.mean)
        gap, matrix = mp.matrix(np.asarray(x - member.mean)), mp.matrix(np.asarray(member.scale_matrix))
        square, det = (gap.T * mp.inverse(matrix) * gap)[0], mp.det(matrix)
    else:
        q = mp.mpf(float(member.q))
        gap, det, d = mp.mpf(x) - member.loc, mp.mpf(member.scale) ** 2, 1
        square = gap**2 / det
        if isinstance(member, qp.StudentT):
            nu = mp.mpf(member.df)
        elif q <= 1:
            edge = mp.inf if q == 1 else mp.sqrt((3 - q) / (1 - q))
            mass = mp.quad(lambda z: mp_exp_q(-(z**2) / (3 - q), q), [-edge, 0, edge])
            return mp.log(mp_exp_q(-square / (3 - q), q)) - mp.log(mass) - mp.log(det) / 2
        else:
            nu = (3 - q) / (q - 1)
    log_c = mp.loggamma((nu + d) / 2) - mp.loggamma(nu / 2) - d * mp.log(nu * mp.pi) / 2 - mp.log(det) / 2
    return log_c - (nu + d) / 2 * mp.log(1 + square / nu)


def points(member, key):
    return [member.sample(k) for k in jax.random.split(key, 4)]


@pytest.mark.parametrize("name", MEMBERS)
def test_log_density_against_high_precision(name, key):
    member = MEMBERS[name]
    for x in points(member, key):
        exact = float(mp_log_density(member, x if np.ndim(x) else float(x)))
        np.testing.assert_allclose(member.log_prob(x), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("df", [0.01, 0.5, 9.9, 30.0, 1e4, 1e9])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_student_keeps_its_digits_for_any_df(df, dimension):
    member = qp.MultivariateStudentT(df, jnp.zeros(dimension), jnp.eye(dimension))
    x = jnp.full(dimension, 1.3)
    np.testing.assert_allclose(member.log_prob(x), float(mp_log_density(member, x)), rtol=1e-13)


@pytest.mark.parametrize("name", MEMBERS)
def test_density_is_the_q_exponential_of_theta_phi_minus_psi(name, key):
    member = MEMBERS[name]
    theta = member.natural
    psi = member.free_energy(theta)
    for x in points(member, key):
        value = dot(theta, member.sufficient_statistics(x)) - psi
        np.testing.assert_allclose(qp.exp_q(value, member.q), jnp.exp(member.log_prob(x)), rtol=1e-10)


@pytest.mark.parametrize("name", MEMBERS)
def test_dual_parameters_are_the_gradient_of_the_free_energy(name):
    member = MEMBERS[name]
    gradient = jax.grad(member.free_energy)(member.natural)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), gradient, member.moments)


@pytest.mark.parametrize("name", ON_LINE)
def test_escort_moments_by_quadrature_on_the_line(name):
    member = MEMBERS[name]
    q, loc = mp.mpf(float(member.q)), mp.mpf(member.loc)
    if isinstance(member, qp.families.GeneralizedPareto):
        ends = [loc, loc + 2, mp.inf if member.shape >= 0 else loc - mp.mpf(member.scale) / member.shape]
    elif q < 1:
        edge = mp.mpf(member.scale) * mp.sqrt((3 - q) / (1 - q))
        ends = [loc - edge, loc, loc + edge]
    else:
        ends = [-mp.inf, loc, mp.inf]
    log_mode = mp.mpf(float(member.log_prob(member.loc)))

    def unnormalized(x):
        if isinstance(member, qp.families.GeneralizedPareto):
            rate = -(1 + mp.mpf(member.shape)) / member.scale
            return mp_exp_q(rate * (x - loc), q)
        return mp_exp_q(-(((x - loc) / member.scale) ** 2) / (3 - q), q)

    np.testing.assert_allclose(float(mp.quad(unnormalized, ends) * mp.exp(log_mode)), 1.0, rtol=1e-12)
    mass = mp.quad(lambda x: unnormalized(x) ** q, ends)
    for power, moment in enumerate(member.moments, start=1):
        exact = mp.quad(lambda x: unnormalized(x) ** q * x**power, ends) / mass
        np.testing.assert_allclose(float(moment), float(exact), rtol=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 5])
@pytest.mark.parametrize("df", [0.5, 1.0, 6.0])
def test_escort_covariance_of_student_is_its_scale_matrix(dimension, df):
    """By radial quadrature: E |z|^2 = d under t^q, so the covariance is Sigma and not Sigma nu / (nu + 2)."""
    d, nu = dimension, mp.mpf(df)

    def radial(k):
        """Integral of r^(k-1) (1 + r^2/nu)^(-(nu+d+2)/2) with r^2/nu = u/(1-u), each half smoothed at its own end."""
        left, right = mp.mpf(k) / 2 - 1, (nu + d + 2 - k) / 2 - 1
        half = mp.mpf(0.5) ** 0.25
        halves = [
            mp.quad(lambda w: 4 * w ** (4 * a + 3) * (1 - w**4) ** b, [0, half])
            for a, b in ((left, right), (right, left))
        ]
        return nu ** (mp.mpf(k) / 2) / 2 * sum(halves)

    moment, mass = radial(d + 2), radial(d)
    np.testing.assert_allclose(float(moment / mass), dimension, rtol=1e-12)
    escort = student(df, 3, dimension).escort()
    covariance = escort.scale_matrix * escort.df / (escort.df - 2)
    np.testing.assert_allclose(covariance, scatter(3, dimension), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in MEMBERS if name != "negative"])
def test_escort_is_proportional_to_the_power_q(name, key):
    member = MEMBERS[name]
    escort = member.escort()
    assert type(escort) is type(member)
    x = points(member, key)
    ratio = [escort.log_prob(y) - member.q * member.log_prob(y) for y in x]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", MEMBERS)
def test_both_parametrisations_can_be_inverted(name):
    member = MEMBERS[name]
    for found in (member.with_natural(member.natural), member.with_moments(member.moments)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12), found, member)


@pytest.mark.parametrize("name", MEMBERS)
def test_two_normalisations(name, key):
    member = MEMBERS[name]
    if name == "compact":
        with pytest.raises(ValueError, match="`offset` must be less than 1 / delta = 2"):
            qp.families.QGaussian(0.5, 12.0, 0.7).multiplicative()
    beta, log_z = member.multiplicative()
    for x in points(member, key):
        value = qp.exp_q(dot(beta, member.sufficient_statistics(x)), member.q) / jnp.exp(log_z)
        np.testing.assert_allclose(value, jnp.exp(member.log_prob(x)), rtol=1e-10)
    theta, psi = to_subtractive(beta, log_z, delta=member.delta)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), theta, member.natural)
    np.testing.assert_allclose(psi, member.free_energy(theta), rtol=1e-11, atol=1e-12)
    # At q = 1 nothing is translated: psi = log Z.
    assert to_multiplicative((jnp.ones(2),), 0.7, delta=0.0)[1] == pytest.approx(0.7, rel=1e-15)


@pytest.mark.parametrize("name", MEMBERS)
def test_multiplicative_constant_is_the_integral(name):
    """exp_q(beta . phi) integrates to Z_q: the measure with offset 0 is the member times that mass."""
    member = MEMBERS[name]
    beta, log_z = member.multiplicative()
    scaled = member.with_offset(beta, 0.0)
    np.testing.assert_allclose(scaled.log_mass, log_z, rtol=1e-10, atol=1e-11)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), scaled.member, member)


def test_orders():
    for d, df in itertools.product([1, 2, 5], [0.3, 1.0, 10.0]):
        q = q_from_df(df, d)
        np.testing.assert_allclose(q, (df + d + 2) / (df + d), rtol=1e-15)
        np.testing.assert_allclose(df_from_q(q, d), (d - d * q + 2) / (q - 1), rtol=1e-12)
        np.testing.assert_allclose(df_from_q(q, d), df, rtol=1e-12)
    assert df_from_q(2.0) == 1.0
    for shape in (-0.6, -0.2, 0.0, 0.5, 3.0):
        np.testing.assert_allclose(q_from_shape(shape), (2 * shape + 1) / (shape + 1), rtol=1e-15)
        np.testing.assert_allclose(shape_from_q(q_from_shape(shape)), shape, rtol=1e-12, atol=1e-15)
        # -1/xi - 1 = 1/(1-q): the paper's xi = (q-1)/(q-2) has the other sign.
        if shape:
            np.testing.assert_allclose(-1 / shape - 1, 1 / (1 - q_from_shape(shape)), rtol=1e-12)


def test_q_gaussian_is_student_and_normal():
    x = jnp.linspace(-5, 5, 11)
    pairs = [
        (qp.families.QGaussian(1.4, 0.3, 2.0), qp.StudentT(4.0, 0.3, 2.0)),
        (qp.families.QGaussian(1.0, 0.3, 2.0), qp.Normal(0.3, 2.0)),
        (qp.families.QGaussian(1 + 1e-13, 0.3, 2.0), qp.Normal(0.3, 2.0)),
        (qp.families.QGaussian(1 - 1e-13, 0.3, 2.0), qp.Normal(0.3, 2.0)),
    ]
    for a, b in pairs:
        np.testing.assert_allclose(jax.vmap(a.log_prob)(x), jax.vmap(b.log_prob)(x), rtol=1e-11)
    epanechnikov = qp.families.QGaussian(0.0, 0.0, 1.0)
    np.testing.assert_allclose(jnp.exp(epanechnikov.log_prob(0.5)), 0.75 * (1 - 0.25 / 3) / 3**0.5, rtol=1e-12)
    assert epanechnikov.log_prob(1.8) == -jnp.inf


def test_draws_follow_the_density(key):
    keys = jax.random.split(key, 10_000)
    cdfs = {
        "student": stats.t(1.0, -4.0, 3.0**0.5).cdf,
        "heavy": stats.t(1.0, -4.0, 3.0**0.5).cdf,
        "gaussian": stats.norm(-0.6, 1.5).cdf,
        "compact": stats.beta(3, 3, loc=1.2 - 0.7 * 5**0.5, scale=1.4 * 5**0.5).cdf,
        "negative": stats.beta(1.4, 1.4, loc=0.3 - 2 * 1.8**0.5, scale=4 * 1.8**0.5).cdf,
        "pareto": stats.genpareto(0.4, 1.0, 2.0).cdf,
        "bounded": stats.genpareto(-0.3, 1.0, 2.0).cdf,
        "exponential": stats.expon(-1.0, 0.5).cdf,
    }
    for name, cdf in cdfs.items():
        draws = np.asarray(jax.jit(jax.vmap(MEMBERS[name].sample))(keys))
        assert stats.kstest(draws, cdf).pvalue > 1e-6, name  # one in a million by chance
    assert stats.kstest(draws, stats.expon(-1.0, 0.6).cdf).pvalue < 1e-6  # a scale twenty per cent off is seen
    for name in ("student2", "student5"):
        member = MEMBERS[name]
        d = member.mean.size
        draws = jax.jit(jax.vmap(lambda k: member.sample(k)))(keys)
        z = np.linalg.solve(np.asarray(member.cholesky), np.asarray(draws - member.mean).T)
        assert stats.kstest(np.sum(z**2, axis=0) / d, stats.f(d, member.df).cdf).pvalue > 1e-6


def test_log_densities_against_scipy():
    x = np.array([0.5, 1.0, 1.5, 4.0, 9.0])
    for shape in (-0.3, 0.0, 0.4):
        pareto = jax.vmap(qp.families.GeneralizedPareto(shape, 1.0, 2.0).log_prob)(x)
        np.testing.assert_allclose(pareto, stats.genpareto(shape, 1.0, 2.0).logpdf(x), rtol=1e-12)
    member = MEMBERS["student5"]
    exact = stats.multivariate_t(member.mean, member.scale_matrix, member.df).logpdf(np.ones(5))
    np.testing.assert_allclose(member.log_prob(jnp.ones(5)), exact, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qp.StudentT(0.0, 0.0, 1.0), "`df` must be positive, got 0.0"),
        (lambda: qp.StudentT(float("inf"), 0.0, 1.0), "`df` must be finite, got inf"),
        (lambda: qp.StudentT(1.0, 0.0, -1.0), "`scale` must be positive, got -1.0"),
        (lambda: qp.MultivariateStudentT(-2.0, jnp.zeros(2), jnp.eye(2)), "`df` must be positive, got -2.0"),
        (lambda: qp.MultivariateStudentT(1.0, jnp.zeros(2), -jnp.eye(2)), "`scale_matrix` must be symmetric and pos"),
        (lambda: qp.families.QGaussian(3.0, 0.0, 1.0), r"`q` must lie in \(-inf, 3\), got 3.0"),
        (lambda: qp.families.QGaussian(-0.5, 0.0, 1.0).escort(), r"`q` must lie in \(0, 3\), got -0.5"),
        (lambda: qp.families.GeneralizedPareto(-1.0, 0.0, 1.0), r"`shape` must lie in \(-1, inf\), got -1.0"),
        (
            lambda: qp.families.GeneralizedPareto(-0.7, 0.0, 1.0).escort(),
            r"`shape` must lie in \(-0.5, inf\), got -0.7",
        ),
        (lambda: df_from_q(1.5, 5), r"`q` must lie in \(1, 1.4\), got 1.5"),
        (lambda: df_from_q(0.5), r"`q` must lie in \(1, 3\), got 0.5"),
        (lambda: shape_from_q(2.5), r"`q` must lie in \(-inf, 2\), got 2.5"),
        (lambda: q_from_df(-1.0), "`df` must be positive, got -1.0"),
        (lambda: MEMBERS["student"].with_natural((jnp.zeros(()), jnp.ones(()))), r"`-natural\[1\]` must be positive"),
        (lambda: MEMBERS["pareto"].with_natural((jnp.ones(()),)), r"`-natural\[0\]` must be positive"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
