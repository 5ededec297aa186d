"""The engine as a user meets it: what is compiled and kept, densities that are not JAX, and what can be wrong."""

import gc
import re
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm
from scipy.integrate import solve_ivp

import qpaths as qp

KEY = jax.random.key(3)
BUDGET = 20_000
EXACT = 2 * float(norm.logpdf(1.0, 0.0, 1.25**0.5))
"""Log evidence of two normal means with prior N(0, 1), both observed as 1 with standard deviation 1/2."""

compilations = []
jax.monitoring.register_event_duration_secs_listener(
    # Threads of other tests may still compile.
    lambda name, seconds, **_: (
        compilations.append(name)
        if name.endswith("backend_compile_duration") and threading.current_thread() is threading.main_thread()
        else None
    )
)


def log_prior(x):
    return jnp.sum(norm.logpdf(x))


def log_likelihood(x, data):
    return jnp.sum(norm.logpdf(data, x, 0.5))


def sample_prior(key):
    return jax.random.normal(key, (2,))


def run(data=1.0, key=KEY, budget=BUDGET, **options):
    model = {"log_prior": log_prior, "log_likelihood": log_likelihood, "sample_prior": sample_prior}
    return qp.evidence(**(model | options), data=data * jnp.ones(2), key=key, budget=budget)


def test_nothing_is_compiled_for_another_key_other_data_or_another_budget():
    run(key=jax.random.key(0))  # a new key: what makes one may have to be compiled again, see conftest
    compilations.clear()
    results = [run(key=jax.random.key(1)), run(data=0.5), run(budget=2 * BUDGET)]
    assert not compilations
    assert len({float(result.log_evidence) for result in results}) == 3
    run(log_prior=lambda x: log_prior(x))  # the listener listens
    assert compilations


def test_only_the_densities_with_and_without_gradient_and_the_sampler_are_compiled():
    run()  # what another run would find compiled: the random numbers and the arithmetic of this file
    qp.clear_cache()
    compilations.clear()
    run(log_prior=lambda x: log_prior(x))
    assert len(compilations) <= 4


def test_a_path_through_a_family_compiles_no_more_for_another_key():
    """Such a path has no cached features to mix: its score is a program, which must be found again."""
    normal = qp.MultivariateNormal
    path = qp.MomentPath(normal(jnp.zeros(2), jnp.eye(2)), normal(jnp.ones(2), 0.3 * jnp.eye(2)))
    smc = qp.SMC(32, qp.LinearSchedule(4), qp.HMC(1, 2))
    first = smc.run(path, key=jax.random.key(0))
    compilations.clear()
    second = smc.run(path, key=jax.random.key(1))
    assert not compilations
    assert abs(float(first.log_evidence) + float(second.log_evidence)) < 2  # the truth is 0


def test_programs_are_forgotten_with_the_cache():
    def model():
        return lambda x: log_prior(x)

    function = model()
    reference = weakref.ref(function)
    run(log_prior=function)
    del function
    gc.collect()
    assert reference() is not None  # kept for the next call
    qp.clear_cache()
    gc.collect()
    assert reference() is None


def _numpy_prior(x):
    return float(-0.5 * np.sum(x**2) - np.log(2 * np.pi))


def _numpy_likelihood(x):
    return float(-0.5 * np.sum((x - 1.0) ** 2) / 0.25 - np.log(2 * np.pi * 0.25))


NUMPY = {
    "log_prior": _numpy_prior,
    "log_likelihood": _numpy_likelihood,
    "sample_prior": lambda generator: generator.normal(size=2),
    "backend": "numpy",
}


def test_a_model_in_numpy_is_moved_by_random_walks_and_the_verdict_says_so():
    result = qp.evidence(**NUMPY, key=KEY, budget=50_000)
    assert abs(float(result.log_evidence) - EXACT) < 4 * float(result.log_evidence_se) < 0.4
    assert "without gradient" in str(result.verdict)
    assert result.num_evaluations.target_gradient == 0


def _joint(x):
    return -0.5 * np.sum(x**2, -1) - np.log(2 * np.pi) - 2 * np.sum((x - 1.0) ** 2, -1) - np.log(np.pi / 2)


@pytest.mark.parametrize("batched", [False, True])
def test_a_gradient_is_used_where_there_is_one(batched):
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    target = qp.Density(_joint, backend="numpy", batched=batched, gradient=lambda x: -x - 4 * (x - 1.0))
    result = qp.evidence(base, target, key=KEY, budget=BUDGET)
    assert abs(float(result.log_evidence) - EXACT) < 4 * float(result.log_evidence_se) < 0.2
    assert "without gradient" not in str(result.verdict)
    assert result.num_evaluations.target_gradient > 0


def test_progress_shows_how_fast_the_densities_are(capsys):
    run(progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "pilots"
    assert all(re.search(r"[\d,]+ evaluations, [\d,]+/s$", line) for line in lines[1:])
    assert len(lines) >= 3


def test_an_ode_solved_by_scipy():
    """Decay with an unknown rate, observed once: the evidence by quadrature over the rate."""

    def log_joint(x):
        end = solve_ivp(lambda t, y: -np.exp(x["log_rate"]) * y, (0.0, 1.0), [2.0], rtol=1e-6).y[0, -1]
        return -0.5 * x["log_rate"] ** 2 - 0.5 * ((end - 0.7) / 0.2) ** 2

    base = qp.Density(
        lambda x: float(-0.5 * x["log_rate"] ** 2 - 0.5 * np.log(2 * np.pi)),
        lambda generator: {"log_rate": generator.normal()},
        backend="numpy",
    )
    smc = qp.SMC(48, qp.AdaptiveSchedule(), qp.RandomWalk(2))
    result = smc.run(qp.GeometricPath(base, qp.Density(log_joint, backend="numpy")), key=KEY)
    grid = np.linspace(-8, 8, 4001)
    values = -0.5 * grid**2 - 0.5 * ((2 * np.exp(-np.exp(grid)) - 0.7) / 0.2) ** 2
    exact = np.log(np.trapezoid(np.exp(values), grid))
    assert abs(float(result.log_evidence) - exact) < 4 * float(result.log_evidence_se)
    assert set(result.samples) == {"log_rate"}


def _target(log_prob, **options):
    return {"target": qp.Density(log_prob, backend="numpy", **options), "base": qp.Normal(0.0, 1.0)}


def _raises_for_some(x):
    if x > 0.5:
        raise ArithmeticError("no convergence")
    return -(x**2)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (_target(lambda x: -(x[:, None] ** 2), batched=True), ValueError, r"one number for each of the points.*, 1\)"),
        (_target(lambda x: -np.sum(x**2), batched=True), ValueError, r"one number for each of the points.*shape \(\)"),
        (_target(lambda x: np.array([x, x])), ValueError, r"`target.log_prob` must return one number for one point"),
        (
            _target(_raises_for_some) | {"faults": "raise"},
            RuntimeError,
            r"`target.log_prob` raised ArithmeticError at the point .*no conv",
        ),
        (
            _target(lambda x: np.nan if x > 0.5 else -(x**2)) | {"faults": "raise"},
            FloatingPointError,
            r"`target.log_prob` is nan at",
        ),
        (_target(lambda x: -(x**2) + np.random.normal()), ValueError, "`target.log_prob` is not deterministic"),  # noqa: NPY002
        (_target(lambda x: -(x**2), gradient=lambda x: np.zeros(3)), ValueError, "`target.gradient` must return"),
        (
            {"log_prior": lambda x: float(np.exp(x)), "log_likelihood": log_prior, "sample_prior": sample_prior},
            TypeError,
            "backend='numpy'",
        ),
        (
            {
                "log_prior": log_prior,
                "log_likelihood": log_prior,
                "sample_prior": lambda key: jnp.asarray(np.random.normal(size=2)),  # noqa: NPY002
            },
            ValueError,
            "returned the same point .* NumPy's random numbers",
        ),
        (
            {
                "log_prior": log_prior,
                "log_likelihood": lambda x: jnp.sum(x) + np.random.normal(),  # noqa: NPY002
                "sample_prior": sample_prior,
            },
            ValueError,
            "is not deterministic: .* NumPy's random numbers",
        ),
        ({**NUMPY, "backend": "torch"}, ValueError, "`backend` must be 'jax' or 'numpy', got 'torch'"),
        ({**NUMPY, "kernel": qp.HMC()}, ValueError, "without a gradient, and the kernel needs one"),
    ],
)
def test_bad_densities(model, error, message):
    with pytest.raises(error, match=message):
        qp.evidence(**model, key=KEY, budget=BUDGET)


def test_a_numpy_density_cannot_be_traced():
    path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Density(lambda x: -(x**2), backend="numpy"))
    with pytest.raises(TypeError, match=r"cannot run under `jax\.jit`"):
        jax.jit(lambda key: qp.SMC(8, qp.LinearSchedule(3), qp.RandomWalk()).run(path, key=key))(KEY)
    with pytest.raises(TypeError, match="JAX cannot trace"):
        jax.grad(lambda x: path.log_density(0.5, x))(1.0)
    assert float(path.log_density(1.0, 2.0)) == -4.0


def test_names_are_imported_when_they_are_used():
    assert set(qp.__all__) <= set(dir(qp))
    for name in qp.__all__:
        assert getattr(qp, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        qp.nothing  # noqa: B018
