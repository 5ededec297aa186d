"""Messages that a stranger can act on: what users tried, and what they are told now."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.cost import Cost
from qpaths.kernels.base import AbstractKernel

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
PATH = qp.GeometricPath(BASE, lambda x: -jnp.sum((x - 1) ** 2))


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


def test_a_callback_without_gradient(key):
    shape = jax.ShapeDtypeStruct((), jnp.result_type(float))

    def callback(x):
        return jax.pure_callback(lambda x: -np.sum(np.asarray(x) ** 2), shape, x, vmap_method="sequential")

    with pytest.raises(ValueError, match=r"has no gradient: give `kernel=qpaths.RandomWalk\(10\)`"):
        _evidence(key, log_likelihood=callback)


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

        def template(self, dimension, dtype):
            return np.zeros(dimension, dtype)

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
