"""What every path through a family keeps: the contract, exact draws, batches of betas; and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import stats

import qpaths as qp
from qpaths.families import ScaledMember
from qpaths.families.nodes import Nodes
from qpaths.testing import check_path


def scatter(seed, dimension):
    factor = np.random.default_rng(seed).normal(size=(dimension, dimension))
    return factor @ factor.T + 0.3 * np.eye(dimension)


def normal(seed, dimension):
    return qp.MultivariateNormal(np.random.default_rng(seed).normal(size=dimension), scatter(seed, dimension))


def student(df, seed, dimension):
    return qp.MultivariateStudentT(df, np.random.default_rng(seed).normal(size=dimension), scatter(seed, dimension))


NORMALS = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)
STUDENTS = qp.StudentT(1.0, -4.0, 3.0**0.5), qp.StudentT(1.0, 4.0, 1.0)
GAMMAS = qp.families.Gamma(0.5, 2.0), qp.families.Gamma(20.0, 3.0)
PARETOS = qp.families.GeneralizedPareto(0.4, 1.0, 2.0), qp.families.GeneralizedPareto(0.4, 1.0, 0.3)

PATHS = {
    "moment": qp.MomentPath(*NORMALS),
    "moment5": qp.MomentPath(normal(0, 5), normal(1, 5)),
    "moment gamma": qp.MomentPath(*GAMMAS),
    "escort": qp.EscortMomentPath(*STUDENTS),
    "escort exact": qp.EscortMomentPath(*STUDENTS, exact=True),
    "alpha": qp.paths.AlphaProjectionPath(*NORMALS, q=0.6),
    "geometric": qp.GeometricPath(normal(0, 5), normal(1, 5)),
    "geometric gamma": qp.GeometricPath(*GAMMAS),
    "q=2 student": qp.QPath(*STUDENTS, q=2.0),
    "q student5": qp.QPath(student(3.0, 0, 5), student(3.0, 1, 5), q=1.25, log_scale=0.7),
    "q pareto": qp.QPath(*PARETOS, q=1.8 / 1.4),
    "gelman-meng": qp.paths.GelmanMengPath(*NORMALS),
    "parameters": qp.paths.ParameterMeanPath(*NORMALS, lambda theta: (theta[0] ** 3, theta[1])),
}
CONFORMING = [
    *("moment5", "moment gamma", "escort", "escort exact", "alpha", "q=2 student", "gelman-meng", "parameters"),
]


@pytest.mark.parametrize("name", CONFORMING)
def test_conformance(name, key):
    check_path(PATHS[name], key=key)


def test_conformance_in_float32(key):
    with jax.enable_x64(False):
        check_path(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), PATHS["moment gamma"]), key=key)


def test_conformance_backwards(key):
    check_path(qp.Reversed(PATHS["moment"]), key=key)


def test_batches_of_betas_and_points(key):
    """A column of betas against a row of points, from the features alone."""
    path = PATHS["moment5"]
    points = jax.jit(jax.vmap(path.base.sample))(jax.random.split(key, 3))
    betas = jnp.array([0.0, 0.3, 1.0, 0.7])
    features = jax.jit(jax.vmap(path.features))(points)
    together = path.log_density_from(betas[:, None], features)
    one_by_one = jax.jit(jax.vmap(jax.vmap(path.log_density, (None, 0)), (0, None)))(betas, points)
    np.testing.assert_allclose(together, one_by_one, rtol=1e-12)
    np.testing.assert_allclose(path.log_density_from(0.3, features), together[1], rtol=1e-12)
    one = path.features(points[0])
    np.testing.assert_allclose(path.log_density_from(betas, one), together[:, 0], rtol=1e-12)


@pytest.mark.parametrize("name", ["moment", "escort", "gelman-meng"])
def test_derivative_at_the_ends_is_one_sided(name):
    """The endpoint itself is returned there, whose derivative in beta would be zero."""
    path = PATHS[name]
    x = 2.6
    for beta, inside in ((0.0, 1e-5), (1.0, 1 - 1e-5)):
        difference = (path.log_density(inside, x) - path.log_density(beta, x)) / (inside - beta)
        assert abs(difference) > 1e-3
        np.testing.assert_allclose(path.derivative_from(beta, path.features(x)), difference, rtol=1e-2)


def test_beta_outside_is_refused_or_nan():
    path = PATHS["moment"]
    with pytest.raises(ValueError, match=r"`beta` must lie in \[0, 1\], got 1.2"):
        path.at(1.2)
    assert jnp.isnan(jax.jit(lambda beta: path.log_density(beta, 0.3))(1.2))


@pytest.mark.parametrize("name", ["moment", "escort", "escort exact"])
def test_densities_on_the_line_are_normalized(name):
    nodes = Nodes.line(scale=4.0, num=1001)
    np.testing.assert_allclose(nodes.integral(nodes.log_values(PATHS[name].at(0.3))), 1.0, rtol=1e-10)


# A power mean of the order of its endpoints' family is a multiple of a member.


@pytest.mark.parametrize("name", ["geometric", "geometric gamma", "q=2 student", "q student5", "q pareto"])
def test_power_means_stay_in_the_family(name, key):
    path, beta = PATHS[name], 0.7
    scaled = path.at(beta)
    assert isinstance(scaled, ScaledMember)
    assert type(scaled.member) is type(path.base)
    points = jax.jit(jax.vmap(path.target.sample))(jax.random.split(key, 5))
    closed, mean = (jax.jit(jax.vmap(f))(points) for f in (scaled.log_prob, Partial(path.log_density, beta)))
    np.testing.assert_allclose(closed, mean, rtol=1e-11, atol=1e-11)


def test_mass_of_power_means_by_quadrature():
    beta = 0.1
    line, half = Nodes.line(scale=4.0, num=1001), Nodes.line(0.0, scale=4.0, num=601)
    for name, nodes in (("q=2 student", line), ("geometric gamma", half)):
        path = PATHS[name]
        log_density = jax.jit(jax.vmap(lambda x: path.log_density(beta, x)))(nodes.points)
        np.testing.assert_allclose(jnp.exp(path.at(beta).log_mass), nodes.integral(log_density), rtol=1e-10)


def test_geometric_path_mixes_natural_parameters():
    """Precisions mix linearly, and so do precisions times means (paper, eq. geo_path_nat_params)."""
    path = PATHS["geometric"]
    member = path.at(0.3).member
    precision = 0.7 * np.linalg.inv(path.base.cov) + 0.3 * np.linalg.inv(path.target.cov)
    np.testing.assert_allclose(np.linalg.inv(member.cov), precision, rtol=1e-10)
    linear = 0.7 * np.linalg.solve(path.base.cov, path.base.mean) + 0.3 * np.linalg.solve(
        path.target.cov, path.target.mean
    )
    np.testing.assert_allclose(precision @ member.mean, linear, rtol=1e-10)


def test_student_q_path_parameters():
    """The q = 2 path between Cauchy densities: 1/density mixes linearly, a quadratic whose roots are the parameters."""
    path = PATHS["q=2 student"]
    beta = 0.3

    def inverse(member):
        """Coefficients of 1 / density = pi scale (1 + (x - loc)^2 / scale^2)."""
        return np.pi * np.array(
            [1 / member.scale, -2 * member.loc / member.scale, member.scale + member.loc**2 / member.scale]
        )

    a, b, c = (1 - beta) * inverse(path.base) + beta * inverse(path.target)
    member = path.at(beta).member
    np.testing.assert_allclose(member.loc, -b / (2 * a), rtol=1e-12)
    np.testing.assert_allclose(member.scale, np.sqrt(c / a - (b / (2 * a)) ** 2), rtol=1e-12)


@pytest.mark.parametrize("q", [1.0, 1.9, 0.5])
def test_other_orders_leave_the_family(q):
    assert isinstance(qp.QPath(*STUDENTS, q=q).at(0.3), qp.Density)
    assert isinstance(qp.QPath(*NORMALS, q=q + 0.01).at(0.3), qp.Density)


def test_compact_supports_leave_the_family():
    """For q < 1 the positive part matters: outside the smaller support only one endpoint is left in the mean."""
    path = qp.QPath(qp.families.QGaussian(0.5, -1.0, 1.0), qp.families.QGaussian(0.5, 1.0, 0.4), q=0.5)
    assert isinstance(path.at(0.3), qp.Density)
    natural = [0.7 * a + 0.3 * b for a, b in zip(path.base.natural, path.target.natural, strict=True)]
    offset = 0.7 * path.base.free_energy(path.base.natural) + 0.3 * path.target.free_energy(path.target.natural)
    claimed = path.base.with_offset(tuple(natural), offset)
    assert path.target.log_prob(-1.0) == -jnp.inf
    assert abs(claimed.log_prob(-1.0) - path.log_density(0.3, -1.0)) > 0.1


@pytest.mark.parametrize("name", ["escort", "gelman-meng"])
def test_draws_follow_the_density_on_the_line(name, key):
    """Against the cumulative sums of the density itself on a fine grid."""
    path, beta = PATHS[name], 0.4
    density = path.at(beta)
    draws = np.sort(np.asarray(jax.jit(jax.vmap(density.sample))(jax.random.split(key, 4_000))))
    nodes = Nodes.line(1.0) if "pareto" in name else Nodes.line(scale=4.0, num=4001)
    masses = np.exp(np.asarray(nodes.log_values(density) + nodes.log_weights))
    cdf = (np.cumsum(masses) - masses / 2) / masses.sum()
    assert stats.kstest(np.interp(draws, nodes.points, cdf), stats.uniform.cdf).pvalue > 1e-6  # one in a million
    wrong = np.asarray(jax.jit(jax.vmap(path.at(0.2).sample))(jax.random.split(key, 4_000)))
    assert stats.kstest(np.interp(wrong, nodes.points, cdf), stats.uniform.cdf).pvalue < 1e-6  # a stale beta is seen


def test_traced_endpoints_and_betas():
    """Members made inside a transformation, as when the path's parameters are learned."""

    def value(loc, beta):
        return qp.MomentPath(qp.Normal(loc, 1.0), qp.Normal(4.0, 1.0)).at(beta).log_prob(0.3)

    slope = jax.jit(jax.grad(value))(0.5, 0.3)
    step = 1e-6
    np.testing.assert_allclose(slope, (value(0.5 + step, 0.3) - value(0.5 - step, 0.3)) / (2 * step), rtol=1e-6)
    assert jax.vmap(lambda beta: qp.GeometricPath(*NORMALS).at(beta).log_mass)(jnp.linspace(0, 1, 5)).shape == (5,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qp.MomentPath(NORMALS[0], GAMMAS[0]), "must be members of one family, got Normal and Gamma.*QPath"),
        (lambda: qp.MomentPath(*STUDENTS), "`base` must be a member of an exponential family.*got StudentT"),
        (lambda: qp.MomentPath(normal(0, 2), normal(0, 5)), "must have the same `dimension`, got 2 and 5"),
        (lambda: qp.EscortMomentPath(*NORMALS), "`base` must be a member of a q-exponential family.*got Normal"),
        (
            lambda: qp.EscortMomentPath(STUDENTS[0], qp.StudentT(3.0, 0.0, 1.0)),
            "same `df`, got 1.0 and 3.0",
        ),
        (
            lambda: qp.EscortMomentPath(student(3.0, 0, 2), student(2.0, 0, 2)),
            "same `df`, got 3.0 and 2.0",
        ),
        (
            lambda: qp.EscortMomentPath(PARETOS[0], qp.families.GeneralizedPareto(0.4, 0.0, 2.0)),
            "must have the same `loc`, got 1.0 and 0.0",
        ),
        (lambda: qp.paths.AlphaProjectionPath(*NORMALS, q=1.0), r"`q` must lie in \[0, 1\), got 1.0"),
        (lambda: qp.paths.AlphaProjectionPath(*NORMALS, q=-0.1), r"`q` must lie in \[0, 1\), got -0.1"),
        (lambda: qp.paths.AlphaProjectionPath(*STUDENTS, q=0.5), "`base` must be a member of an exponential family"),
        (lambda: qp.paths.GelmanMengPath(*STUDENTS), "`log_coefficient` must be given unless.*StudentT and StudentT"),
        (lambda: qp.paths.GelmanMengPath(*STUDENTS, 0.1), "`log_coefficient` must not be positive, got 0.1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
