"""Rules for q: formulas where there are any, and an exact problem where the better q is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths._numerics import log_ess
from qpaths.tuning.choose import compare, with_delta

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2) / 0.25)
PATH = qp.GeometricPath(BASE, TARGET)


def log_weights(key, num):
    points = jax.vmap(BASE.sample)(jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(num)))
    return np.asarray(jax.vmap(lambda x: TARGET.log_prob(x) - BASE.log_prob(x))(points))


def test_rho_is_the_largest_log_weight(key):
    path = qp.choose_q(PATH, key=key, method="rho", num_particles=500)
    np.testing.assert_allclose(path.delta, 1 / np.abs(log_weights(key, 500)).max(), rtol=1e-12)


def test_ess_heuristic_reaches_half_of_the_draws_at_the_first_beta(key):
    """For a fixed first beta there is one root, and it must be found, on the draws that the rule looks at."""
    path = qp.choose_q(PATH, key=key, method="ess", schedule=qp.LinearSchedule(2), num_particles=1000)
    ratios = log_weights(jax.random.split(key)[0], 1000)

    def share(path, beta):
        return float(jnp.exp(log_ess(path.interpolate(beta, jnp.zeros(1000), ratios)))) / 1000

    assert abs(share(path, 1.0) - 0.5) > 0.1  # at beta = 1 every q has the weights of the target itself
    path = qp.choose_q(PATH, key=key, method="ess", schedule=qp.FixedSchedule([0.0, 0.3, 1.0]), num_particles=1000)
    assert abs(share(path, 0.3) - 0.5) < 1e-3
    assert share(PATH, 0.3) < 0.48


def test_ess_heuristic_of_the_adaptive_case_gives_a_path(key):
    assert 0 < float(qp.choose_q(PATH, key=key, method="ess", num_particles=200).delta) < 1


def test_bound_prefers_the_q_that_reaches_the_target(key):
    """Three steps to a narrow target: of these the geometric path ends 115 nats below delta = 0.1, the mixture 30."""
    path = qp.GeometricPath(BASE, qp.Density(lambda x: -0.5 * jnp.sum((x - 3.0) ** 2) / 0.01))
    schedule, kernel = qp.LinearSchedule(4), qp.RandomWalk(3)
    settings = {"schedule": schedule, "kernel": kernel, "num_particles": 200, "num_seeds": 60}
    assert float(qp.choose_q(path, key=key, deltas=[0.0, 0.1, 1.0], **settings).delta) == 0.1


def test_bound_falls_back_to_the_geometric_path(key):
    """Where base and target are the same every q is as good, and none may be called better."""
    path = qp.GeometricPath(BASE, BASE)
    winner = compare(path, np.array([0.0, 1e-2, 0.5]), 3, qp.RandomWalk(1), 100, 4, key=key)
    assert winner.delta == 0
    assert winner.gain == 0


def test_grid_takes_the_smallest_error(key):
    chosen = qp.choose_q(
        PATH,
        key=key,
        method="grid",
        schedule=qp.LinearSchedule(3),
        kernel=qp.RandomWalk(1),
        deltas=[0.0, 1.0],
        log_evidence=float(jnp.log(0.5 * jnp.pi)),
        num_particles=200,
        num_seeds=5,
    )
    assert float(chosen.delta) in (0.0, 1.0)


def test_endpoints_and_scale_are_kept(key):
    path = with_delta(qp.QPath(BASE, TARGET, q=0.9, log_scale=2.0), 0.25)
    assert path.log_scale == 2.0
    assert path.base is BASE
    assert float(path.q) == 0.75


def test_bad_input(key):
    with pytest.raises(ValueError, match="did you mean 'bound'"):
        qp.choose_q(PATH, key=key, method="bounds")
    with pytest.raises(ValueError, match="`log_evidence` must be given"):
        qp.choose_q(PATH, key=key, method="grid")
    with pytest.raises(ValueError, match="`log_evidence` must be finite, got nan"):
        qp.choose_q(PATH, key=key, method="grid", log_evidence=jnp.nan)
    with pytest.raises(ValueError, match="`deltas` must be finite"):
        qp.choose_q(PATH, key=key, deltas=[0.0, jnp.nan])
    with pytest.raises(ValueError, match="`schedule` must be at least 2"):
        qp.choose_q(PATH, key=key, schedule=1)
    nan = qp.GeometricPath(BASE, qp.Density(lambda x: jnp.where(x[0] > 0, jnp.nan, 0.0)))
    with pytest.raises(FloatingPointError, match="is nan at the draw"):
        qp.choose_q(nan, key=key, method="rho")
    nowhere = qp.GeometricPath(BASE, qp.Density(lambda x: -jnp.inf * jnp.ones(())))
    with pytest.raises(FloatingPointError, match="is -inf at 1000 of 1000 draws"):
        qp.choose_q(nowhere, key=key, method="rho")
