"""Problems of nested samplers: the cube without bounds keeps the evidence, as functions were written, and mistakes."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import qpaths as qp
from qpaths.adapters import from_prior_transform

pytestmark = pytest.mark.filterwarnings("ignore:evidence")

COVARIANCE = np.array([[1.0, 0.8, 0.8], [0.8, 1.0, 0.8], [0.8, 0.8, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)
CONSTANT = -0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]


def to_box(u):
    return 10.0 * (2.0 * u - 1.0)


def correlated(x):
    return -0.5 * np.dot(x, np.dot(PRECISION, x)) + CONSTANT


def test_a_correlated_normal_in_a_box_as_for_dynesty(key):
    result = qp.evidence(prior_transform=to_box, log_likelihood=correlated, num_parameters=3, budget=40_000, key=key)
    assert abs(result.log_evidence - -3 * np.log(20.0)) < 5 * result.log_evidence_se
    assert result.log_evidence_se < 0.1
    assert list(result.samples) == ["x0", "x1", "x2"]
    assert np.abs(result.samples["x0"]).max() <= 10


def test_parameters_that_are_filled_in_as_for_ultranest():
    calls = []

    def transform(cube):
        params = cube.copy()
        params[0] = cube[0] * 4 - 2
        params[1] = 10 ** (cube[1] * 2 - 1)
        calls.append(cube)
        return params

    own = from_prior_transform(transform, lambda params: -(params[0] ** 2) / params[1], names=["mean", "scale"])
    assert own.prior.backend == "numpy"
    point = {"mean": np.asarray(0.3), "scale": np.asarray(-0.2)}
    found, u = own.constrain(point), special.expit([0.3, -0.2])
    np.testing.assert_allclose([found["mean"], found["scale"]], [4 * u[0] - 2, 10 ** (2 * u[1] - 1)])
    np.testing.assert_allclose(
        own.target.log_prob(point), np.sum(np.log(u * (1 - u))) - found["mean"] ** 2 / found["scale"]
    )
    assert all((cube > 0).all() and (cube < 1).all() for cube in calls)


class Box:
    """A prior with the interface of nautilus."""

    keys = ("a", "b")

    def unit_to_physical(self, points):
        return np.asarray(points) * 2 - 1


class Fixed(dict):
    """A prior with the interface of bilby's `PriorDict`."""

    def rescale(self, keys, theta):
        return [3 * value for value in theta]


def test_priors_of_nautilus_and_bilby():
    point = {"a": np.asarray(0.4), "b": np.asarray(-1.0)}
    u = special.expit([0.4, -1.0])
    own = from_prior_transform(Box(), lambda p: float(p["a"] - p["b"]))
    assert own.log_likelihood(point) == pytest.approx(2 * u[0] - 2 * u[1])
    free = types.SimpleNamespace(is_fixed=False)
    prior = Fixed(a=free, c=types.SimpleNamespace(is_fixed=True, peak=7.0), b=free)
    own = from_prior_transform(prior, lambda p: float(p["a"] - p["b"] + p["c"]))
    assert list(own.variables) == ["a", "b"]
    assert own.log_likelihood(point) == pytest.approx(3 * u[0] - 3 * u[1] + 7)


def test_jax_numpy_and_rows_have_one_log_joint():
    def rows(x):
        return np.array([float(-np.sum(one**2)) for one in x])

    point = {"a": np.asarray(0.4), "b": np.asarray(-1.0)}
    traced = from_prior_transform(to_box, lambda x: -jnp.sum(x**2), names=["a", "b"])
    blind = from_prior_transform(to_box, lambda x: float(-np.sum(x**2)), names=["a", "b"])
    many = from_prior_transform(to_box, rows, names=["a", "b"], vectorized=True)
    assert (traced.prior.backend, blind.prior.backend, many.prior.backend) == ("jax", "numpy", "numpy")
    wanted = float(traced.prior.log_prob(point)) + float(traced.log_likelihood(point))
    assert blind.target.log_prob(point) == pytest.approx(wanted)
    two = {name: np.stack([value, value + 1]) for name, value in point.items()}
    np.testing.assert_allclose(many.target.log_prob(two)[0], wanted)
    slope = jax.grad(lambda a: traced.log_likelihood({"a": a, "b": -1.0}))(0.4)
    u = special.expit(0.4)
    assert slope == pytest.approx(-2 * to_box(u) * 20 * u * (1 - u))


def test_numpy_functions_that_need_64_bits_keep_them():
    with jax.enable_x64(False):
        own = from_prior_transform(lambda u: u, lambda x: (x[0] + 1e9) - 1e9, num_parameters=1)
    assert own.prior.backend == "numpy"


@pytest.mark.parametrize("is_circle", [True, False])
def test_the_prior_is_uniform_on_the_cube(is_circle, key):
    own = from_prior_transform(lambda u: u, jnp.sum, names=["a", "b"], periodic=[0] if is_circle else [])
    keys = jax.random.split(key, 1000)
    draws = jax.vmap(own.prior.sample)(keys)
    for name in ("a", "b"):
        assert stats.kstest(own.named(draws)[name], "uniform").pvalue > 1e-4
    if is_circle:
        radius = np.linspace(0, 10, 2001)
        density = np.exp([float(own.prior.log_prob({"a": np.array([r, 0.0]), "b": 0.0})) for r in radius[::20]]) * 4
        assert integrate.trapezoid(density * 2 * np.pi * radius[::20], radius[::20]) == pytest.approx(1, abs=1e-3)


def test_a_periodic_parameter_whose_mass_lies_across_the_cut(key):
    result = qp.evidence(
        prior_transform=lambda u: 2 * jnp.pi * u,
        log_likelihood=lambda x: 4.0 * jnp.cos(x[0]),
        names=["phase"],
        periodic=["phase"],
        budget=30_000,
        key=key,
    )
    assert abs(result.log_evidence - np.log(special.i0(4.0))) < max(5 * result.log_evidence_se, 0.005)
    assert result.verdict.level == "sound"


def test_a_pool_is_a_number_of_processes(key):
    settings = {"prior_transform": to_box, "log_likelihood": correlated, "num_parameters": 3, "budget": 20_000}
    alone = qp.evidence(**settings, key=key)
    assert qp.evidence(**settings, pool=2, key=key).log_evidence == alone.log_evidence


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`num_parameters` or `names` must be given"),
        ({"num_parameters": 0}, "must be a positive integer, got 0"),
        ({"names": ["a", "a"]}, "got 'a' twice"),
        ({"names": ["a", "b"], "num_parameters": 3}, "has 2 names, and `num_parameters` is 3"),
        ({"names": ["a", "b"], "periodic": ["c"]}, "`periodic` has 'c'"),
        ({"num_parameters": 2, "prior_transform": lambda u: None}, "got None"),
        ({"num_parameters": 2, "prior_transform": lambda u: u[:1]}, r"got shape \(1,\)"),
        ({"num_parameters": 2, "prior_transform": lambda u: np.log(u - 2)}, "returns nan for `x0` at u ="),
        ({"num_parameters": 2, "log_likelihood": lambda x: x}, "one number for one point"),
        ({"num_parameters": 2, "log_likelihood": lambda x: x["a"]}, "`log_likelihood` raised IndexError"),
        ({"num_parameters": 2, "prior_transform": 3}, "`prior_transform` must be a function, got 3"),
    ],
)
def test_what_cannot_be_a_problem_is_named(arguments, message):
    given = {"prior_transform": to_box, "log_likelihood": np.sum} | arguments
    with pytest.raises((ValueError, TypeError), match=message):
        from_prior_transform(given.pop("prior_transform"), given.pop("log_likelihood"), **given)


def test_arguments_of_evidence_that_do_not_go_together(key):
    with pytest.raises(ValueError, match="`names` belongs to `prior_transform`"):
        qp.evidence(qp.Normal(0.0, 1.0), lambda x: x, names=["a"], key=key)
    with pytest.raises(ValueError, match="`log_likelihood` must be given with `prior_transform`"):
        qp.evidence(prior_transform=to_box, num_parameters=2, key=key)
    with pytest.raises(ValueError, match="got also target"):
        qp.evidence(target=np.sum, prior_transform=to_box, log_likelihood=np.sum, num_parameters=2, key=key)
    with pytest.raises(ValueError, match="`executor` and `pool` are the same"):
        qp.evidence(qp.Normal(0.0, 1.0), lambda x: x, executor=2, pool=2, key=key)
