"""Messages that a stranger can act on: what users tried, and what they are told now."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy import stats

import qpaths as qp
from qpaths.core.cost import Cost
from qpaths.kernels.base import AbstractKernel
from qpaths.remarks import Finding, Note

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
PATH = qp.GeometricPath(BASE, lambda x: -jnp.sum((x - 1) ** 2))
EXACT = -np.log(3) - 2 / 3


def _evidence(key, **changes):
    parts = {
        "log_prior": lambda x: jnp.sum(norm.logpdf(x)),
        "log_likelihood": lambda x: -jnp.sum((x - 1) ** 2),
        "sample_prior": lambda key: jax.random.normal(key, (2,)),
    }
    return qp.evidence(**(parts | changes), key=key)


def test_a_point_on_the_simplex(key):
    with pytest.raises(ValueError, match=r"prior draws of `x` are proportions: they always sum to 1.*Dirichlet"):
        _evidence(
            key,
            log_prior=lambda w: jnp.log(2.0),
            log_likelihood=lambda w: 3 * jnp.log(w[0]),
            sample_prior=lambda key: jax.random.dirichlet(key, jnp.ones(3)),
        )


def test_a_numpy_likelihood(key):
    with pytest.raises(TypeError, match=r"^`log_likelihood` cannot be traced by JAX.*`jax.numpy`.*`backend='numpy'`"):
        _evidence(key, log_likelihood=lambda x: float(np.sum(np.log(np.asarray(x) ** 2))))


def _callback(function):
    """A likelihood that calls back to Python, which JAX cannot differentiate."""
    shape = jax.ShapeDtypeStruct((), jnp.result_type(float))
    return lambda x: jax.pure_callback(function, shape, x, vmap_method="sequential")


def _loop(x):
    """The log likelihood -sum (x - 1)^2 by a loop whose length JAX does not know."""
    return -jax.lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] + jnp.sum((x - 1) ** 2) / 4), (0, 0.0))[1]


@pytest.mark.parametrize("log_likelihood", [_callback(lambda x: -np.sum((np.asarray(x) - 1) ** 2)), _loop])
@pytest.mark.parametrize("kernel", [None, qp.RandomWalk(10)])
def test_a_likelihood_that_jax_cannot_differentiate(key, log_likelihood, kernel):
    """The call goes on with moves that need no gradient, and says so."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _evidence(key, log_likelihood=log_likelihood, kernel=kernel, budget=20_000)
    assert abs(float(result.log_evidence) - EXACT) < 5 * float(result.log_evidence_se)
    notes = [note for note in result.verdict.chosen if note.kind is Note.NOT_DIFFERENTIABLE]
    assert (
        len(notes) == (kernel is None) == sum("JAX cannot differentiate the target" in str(w.message) for w in caught)
    )
    assert result.num_evaluations.target_gradient == 0


def test_a_kernel_that_needs_the_gradient_that_is_not_there(key):
    with pytest.raises(ValueError, match=r"`HMC` needs gradients, and JAX cannot .*while_loop.*RandomWalk\(10\)"):
        _evidence(key, log_likelihood=_loop, kernel=qp.HMC())


def test_a_callback_that_is_not_deterministic(key):
    generator = np.random.default_rng(0)
    noisy = _callback(lambda x: -np.sum(np.asarray(x) ** 2) + generator.standard_normal())
    with pytest.raises(ValueError, match=r"`log_likelihood` is not deterministic: at the point \["):
        _evidence(key, log_likelihood=noisy)


def test_draws_without_a_gradient(key):
    draws = 1 / 3**0.5 * jax.random.normal(key, (2000, 2)) + 2 / 3
    joint = lambda x: jnp.sum(norm.logpdf(x)) + _loop(x)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a single chain, without a search for modes
        result = qp.evidence_from_draws(joint, draws, key=key)
    assert abs(float(result.log_evidence) - EXACT) < 4 * float(result.log_evidence_se)


def test_nan_is_that_of_the_likelihood_in_the_units_of_the_model(key):
    def bad(x):
        return jnp.where(x[0] > 1.5, jnp.nan, -jnp.sum(x**2))

    with pytest.raises(FloatingPointError, match=r"^`log_likelihood` is nan .* at the point \["):
        _evidence(key, log_likelihood=bad, budget=20_000, faults="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of draws that do not fit the density
        with pytest.raises(FloatingPointError, match=r"^`log_prior` is nan"):
            _evidence(key, log_prior=lambda x: jnp.sum(norm.logpdf(x)) + bad(x), budget=20_000, faults="raise")
    prior = {"rate": qp.families.Gamma(2.0, 1.0)}
    with pytest.raises(FloatingPointError, match=r"`log_likelihood` is nan .* variables there are rate = ") as caught:
        qp.evidence(
            prior=prior,
            log_likelihood=lambda p: jnp.where(p["rate"] > 2.0, jnp.nan, -p["rate"]),
            key=key,
            faults="raise",
        )
    assert float(str(caught.value).split()[-1].rstrip(".")) > 2.0  # not the logarithm of it


def test_nan_in_a_model_that_checks_its_arguments(key):
    """NumPyro refuses an infinite scale outside of compiled programs. What is said is what was wrong in the run."""
    dist = pytest.importorskip("numpyro.distributions")
    prior = {
        "log_scale": dist.Normal(0.0, 1.0),
        "x": lambda p: dist.Normal(0.0, jnp.exp(jnp.where(p["log_scale"] > 1.5, jnp.inf, p["log_scale"]))),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of draws that do not fit the density
        with pytest.raises((FloatingPointError, ValueError), match=r"`(log_prior|log_likelihood|x)`.* is (nan|-?inf)"):
            qp.evidence(prior=prior, log_likelihood=lambda p: -(p["x"] ** 2), budget=20_000, key=key)


def test_draws_that_overflow(key):
    """Most draws of this prior are below the smallest number of 64 bits, or above the largest."""
    prior = {"precision": stats.weibull_min(1e-4)}
    message = r"`precision`, as a coordinate without bounds, is infinite in \d+ of 512 draws"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=message):
            qp.evidence(prior=prior, log_likelihood=lambda p: -p["precision"], key=key)


def test_a_target_without_a_prior_in_one_direction(key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = qp.evidence(BASE, lambda x: -(x[0] ** 2), budget=20_000, key=key)
    assert result.verdict.level == "wrong"
    assert "is the same at all values of x[1], so its integral is infinite" in str(result.verdict)
    box = qp.Density(lambda x: jnp.where((x > 0) & (x < 1), 0.0, -jnp.inf).sum(), lambda k: jax.random.uniform(k, (2,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside = qp.evidence(box, lambda x: box.log_prob(x) - x[0], budget=20_000, key=key)  # flat between hard bounds
    assert inside.verdict.level != "wrong"


def test_a_target_that_grows_without_bound(key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        growing = qp.evidence(BASE, lambda x: x[0] ** 2 - x[1] ** 2, budget=50_000, key=key)
        narrow = qp.evidence(BASE, lambda x: -1e9 * jnp.sum((jnp.sin(x) - 0.5) ** 2), budget=20_000, key=key)
    assert growing.verdict.level == narrow.verdict.level == "doubtful"
    assert Finding.RISES in [finding.kind for finding in growing.verdict.findings]
    assert Finding.RISES not in [finding.kind for finding in narrow.verdict.findings]


def test_a_likelihood_that_is_zero_nearly_everywhere(key):
    """There is no gradient to say that the likelihood ignores a coordinate, and the message ends once."""
    with pytest.warns(UserWarning, match="no particle reached the target") as caught:
        _evidence(key, log_likelihood=lambda x: jnp.where(x[0] > 30, 0.0, -jnp.inf), budget=20_000)
    (warning,) = caught
    assert "smaller steps" not in str(warning.message)


def test_a_discrete_parameter(key):
    with pytest.raises(TypeError, match=r"^`sample_prior` must return floating-point.*sum over them in the likelihood"):
        _evidence(key, sample_prior=lambda key: jax.random.randint(key, (2,), 0, 10))


def test_functions_that_do_not_fit_together(key):
    with pytest.raises(ValueError, match=r"^`log_likelihood` does not take a draw from the prior"):
        _evidence(key, log_likelihood=lambda x: x["mu"])
    with pytest.raises(ValueError, match=r"^`log_prior` must return one number"):
        _evidence(key, log_prior=norm.logpdf)


def test_a_kernel_with_a_traced_number_of_steps(key):
    class Mine(AbstractKernel):
        num_steps: int = 1
        with_slopes = False
        needs_fit = False
        cost = Cost.values(1)

        def randomness(self, rows, position, num):
            return rows.draw(position.shape[0], num, 0, 1)[1]

        def transition(self, evaluator, beta, particles, randomness, params):
            raise NotImplementedError

    def run(kernel, key):
        return qp.SMC(64, qp.LinearSchedule(4), kernel).run(PATH, key=key).log_evidence

    with pytest.raises(TypeError, match=r"`num_steps` of Mine must be a plain integer.*eqx.field\(static=True"):
        jax.jit(run)(Mine(2), key)


def test_a_budget_too_small_for_the_error(key):
    with pytest.warns(UserWarning, match="budget was too small for the standard error that you wanted"):
        _evidence(key, budget=20_000, standard_error=1e-5)


def test_a_method_that_is_not_there(key):
    with pytest.raises(
        ValueError, match="`method` must be one of bound, ess, grid, rho, got 'best': 'bound' needs nothing"
    ):
        qp.choose_q(PATH, key=key, method="best")


def test_bounds_without_exact_draws(key):
    with pytest.raises(TypeError, match="`target_samples` must be given: exact draws of the target"):
        qp.BDMC(8, qp.LinearSchedule(4), qp.HMC()).run(PATH, key=key)


@pytest.mark.parametrize("name", ["budget", "seconds", "standard_error"])
@pytest.mark.parametrize("value", ["100000", [1], True, 1j])
def test_a_limit_that_is_no_number(name, value, key, as_a_user):
    with pytest.raises(TypeError, match=rf"`{name}` must be a number, got .*: give one, such as"):
        _evidence(key, **{name: value})
