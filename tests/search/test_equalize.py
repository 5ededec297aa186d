"""Schedules of equal steps: a path whose length is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.schedules import respace, step_length

# Between normal distributions of standard deviations 1 and s the geometric path has precision 1 - beta + beta / s^2,
# and its length per log precision is 1 / sqrt(2) per dimension: equal steps are geometric in the precision.
SCALE = 0.1
DIMENSION = 2
BASE = qp.MultivariateNormal(jnp.zeros(DIMENSION), jnp.eye(DIMENSION))
TARGET = qp.MultivariateNormal(jnp.zeros(DIMENSION), SCALE**2 * jnp.eye(DIMENSION))
PATH = qp.GeometricPath(BASE, TARGET)


def precision(betas):
    return 1 - betas + betas / SCALE**2


def test_length_of_a_step_is_the_standard_deviation_of_a_short_one(key):
    increments = 0.01 * jax.random.normal(key, (1000,))
    np.testing.assert_allclose(step_length(jnp.zeros(1000), increments), jnp.std(increments), rtol=1e-2)
    half = jnp.where(jnp.arange(1000) < 500, 0.0, -jnp.inf)
    np.testing.assert_allclose(step_length(jnp.zeros(1000), half), np.log(2) ** 0.5, rtol=1e-12)
    assert step_length(jnp.zeros(4), jnp.full(4, -jnp.inf)) == jnp.inf


@pytest.mark.parametrize("start", [qp.LinearSchedule(12), 12])
def test_betas_are_geometric_in_the_precision(key, start):
    found = qp.equalize(PATH, key=key, schedule=start, kernel=qp.HMC(1, 3), num_particles=500)
    steps = np.diff(np.log(precision(np.asarray(found.schedule.betas))))
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.3)
    linear = np.diff(np.log(precision(np.linspace(0, 1, 12))))
    assert linear.max() > 3 * linear.mean()
    # The weight of a step from precision p to p' has E[w^2] / E[w]^2 = [p'^2 / (p (2 p' - p))]^(dimension / 2).
    ratio = SCALE ** (-2 / 11)
    expected = 11 * np.sqrt(0.5 * DIMENSION * np.log(ratio**2 / (2 * ratio - 1)))
    np.testing.assert_allclose(found.barrier, expected, rtol=0.2)


def test_exact_draws_of_the_target_equalize_the_discrepancy(key):
    draws = jax.jit(jax.vmap(TARGET.sample))(jax.random.split(key, 400))
    found = qp.equalize(
        PATH, key=key, schedule=6, kernel=qp.HMC(1, 3), num_particles=400, target_samples=draws, num_rounds=4
    )
    steps = np.diff(np.log(precision(np.asarray(found.schedule.betas))))
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.4)


def test_number_of_distributions_for_an_accuracy():
    found = qp.search.Equalized(qp.FixedSchedule([0.0, 1.0]), 2.0, 1)
    assert found.num_for(0.1) == 21
    assert found.num_for(100.0) == 2
    with pytest.raises(ValueError, match="must be positive"):
        found.num_for(0.0)


def test_at_least_one_round(key):
    with pytest.raises(ValueError, match="`num_rounds` must be at least 1, got 0"):
        qp.equalize(PATH, key=key, num_rounds=0)


def test_respace_changes_the_number_and_survives_empty_steps():
    betas = respace(jnp.array([0.0, 0.25, 0.5, 1.0]), jnp.array([1.0, 0.0, 1.0]), 9)
    assert betas.shape == (9,)
    assert betas[0] == 0
    assert betas[-1] == 1
    assert (np.diff(betas) > 0).all()
    np.testing.assert_allclose(respace(jnp.array([0.0, 0.5, 1.0]), jnp.zeros(2)), [0.0, 0.5, 1.0])
    np.testing.assert_allclose(respace(np.array([0.0, 0.5, 1.0]), np.array([2.0, np.inf])), [0.0, 0.5, 1.0])
