"""Rules for q: formulas where there are any, and an exact problem where the better q is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import stream_of
from qpaths.core.numerics import log_ess
from qpaths.rows import evaluator_of
from qpaths.search import ess_heuristic
from qpaths.search.compare import Contest, compare, with_delta

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2) / 0.25)
PATH = qp.GeometricPath(BASE, TARGET)
NARROW = qp.Density(lambda x: -0.5 * jnp.sum((x - 3.0) ** 2) / 0.01)


_log_weights = jax.jit(jax.vmap(lambda x: TARGET.log_prob(x) - BASE.log_prob(x)))


def log_weights(stream, num):
    positions = evaluator_of(PATH, stream, with_slopes=True).draw(stream, num)
    return np.asarray(_log_weights(jnp.asarray(positions)))


def test_rho_is_the_largest_log_weight(key):
    path = qp.choose_q(PATH, key=key, method="rho", num_particles=500)
    np.testing.assert_allclose(path.delta, 1 / np.abs(log_weights(stream_of(key, host=True), 500)).max(), rtol=1e-12)


def test_ess_heuristic_reaches_half_of_the_draws_at_the_first_beta(key):
    """For a fixed first beta there is one root, and it must be found, on the draws that the rule looks at."""
    with pytest.raises(ValueError, match=r"no q makes 50% .* at the first beta 1; .* take a smaller first beta"):
        qp.choose_q(PATH, key=key, method="ess", schedule=qp.LinearSchedule(2), num_particles=1000)
    ratios = log_weights(stream_of(key, host=True).split(2)[0], 1000)

    def share(path, beta):
        return float(np.exp(log_ess(path.interpolate(beta, np.zeros(1000), ratios)))) / 1000

    path = qp.choose_q(PATH, key=key, method="ess", schedule=qp.FixedSchedule([0.0, 0.3, 1.0]), num_particles=1000)
    assert abs(share(path, 0.3) - 0.5) < 1e-3
    assert share(PATH, 0.3) < 0.48


def test_choose_q_uses_algorithm_1(key):
    """Without a fixed schedule beta is free too: the same draws and restarts as the function by itself."""
    draw, restart = stream_of(key, host=True).split(2)
    found = ess_heuristic(log_weights(draw, 200), key=restart)
    assert float(qp.choose_q(PATH, key=key, method="ess", num_particles=200).delta) == found.delta


def test_the_heuristic_does_not_look_at_the_moves(key):
    """It sees draws from the base alone, as the paper says of it."""
    path = qp.GeometricPath(BASE, NARROW)
    chosen = [
        qp.choose_q(path, key=key, method="ess", kernel=qp.RandomWalk(num), num_particles=200).delta for num in (1, 9)
    ]
    assert chosen[0] == chosen[1] > 0


def test_bound_prefers_the_q_that_reaches_the_target(key):
    """Three steps to a narrow target: of these the geometric path ends 115 nats below delta = 0.1, the mixture 30."""
    path = qp.GeometricPath(BASE, NARROW)
    schedule, kernel = qp.LinearSchedule(4), qp.RandomWalk(3)
    settings = {"schedule": schedule, "kernel": kernel, "num_particles": 200, "num_seeds": 30}
    assert float(qp.choose_q(path, key=key, deltas=[0.0, 0.1, 1.0], **settings).delta) == 0.1


def test_bound_falls_back_to_the_geometric_path(key):
    """Where base and target are the same every q is as good, and none may be called better."""
    path = qp.GeometricPath(BASE, BASE)
    winner = compare(path, np.array([0.0, 1e-2, 0.5]), 3, qp.RandomWalk(1), 100, 4, key=stream_of(key, host=True))
    assert winner.delta == 0
    assert winner.gain == 0


@pytest.mark.parametrize("num", [7, 21])
def test_the_best_of_many_equals_is_judged_by_fresh_runs(num, key, monkeypatch):
    """Where every q is as good, another one than q = 1 may win in 2.5 % of the comparisons.

    Judged by the runs that made it the winner, one in ten (7 candidates) or seven (21) did.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    monkeypatch.setattr(Contest, "run", lambda self, deltas, betas, stream: rng.standard_normal(len(deltas)))
    path, deltas = qp.GeometricPath(BASE, BASE), np.linspace(0, 1, num)
    stream, schedule, kernel = stream_of(key, host=True), qp.LinearSchedule(2), qp.RandomWalk(1)
    winners = [compare(path, deltas, schedule, kernel, 10, 2, key=stream) for _ in range(500)]
    share = np.mean([winner.delta != 0 for winner in winners])
    assert share < 0.025 + 5 * (0.025 * 0.975 / 500) ** 0.5


def test_the_gain_that_is_quoted_is_not_that_of_the_selection(key, monkeypatch):
    """One q is better by two standard deviations of a run. The mean gain over many comparisons must be that."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    monkeypatch.setattr(Contest, "run", lambda self, d, *_: 2.0 * (d == 0.5) + rng.standard_normal(len(d)))
    path, deltas = qp.GeometricPath(BASE, BASE), np.linspace(0, 1, 21)
    stream, schedule, kernel = stream_of(key, host=True), qp.LinearSchedule(2), qp.RandomWalk(1)
    winners = [compare(path, deltas, schedule, kernel, 10, 2, key=stream) for _ in range(100)]
    gains = [winner.gain for winner in winners if winner.delta == 0.5]
    assert len(gains) > 60
    # A difference of two means of 21 runs each has the deviation (2 / 21)^0.5.
    assert abs(np.mean(gains) - 2) < 5 * (2 / 21 / len(gains)) ** 0.5


def test_a_q_that_does_not_reach_the_target_is_dropped(key, monkeypatch):
    """Of adaptive runs to a narrow target the mixture takes two to four steps and the geometric path nine."""
    path = qp.GeometricPath(BASE, NARROW)
    deltas, kernel = np.array([0.0, 1.0]), qp.RandomWalk(1)
    monkeypatch.setattr("qpaths.search.compare._MAX_STEPS", 6)
    key = stream_of(key, host=True)
    winner = compare(path, deltas, None, kernel, 200, 2, key=key)
    assert winner.delta == 1.0
    assert winner.num_dropped == 1
    monkeypatch.setattr("qpaths.search.compare._MAX_STEPS", 1)
    with pytest.raises(RuntimeError, match=r"no adaptive run reached beta = 1 in 1 steps for any of the deltas \[0.0"):
        compare(path, deltas, None, kernel, 200, 2, key=key)


@pytest.mark.parametrize(("log_evidence", "expected"), [(float(np.log(0.02 * np.pi)), 0.1), (-150.0, 0.0)])
def test_grid_takes_the_smallest_error(log_evidence, expected, key):
    """In three steps to a narrow target delta = 0.1 ends at -10 +- 3 (median of 15), the geometric path at -130 +- 20.

    The first is nearer to the truth; were the truth at -150, the second would be.
    """
    settings = {"schedule": qp.LinearSchedule(4), "kernel": qp.RandomWalk(3), "num_particles": 200, "num_seeds": 15}
    path = qp.GeometricPath(BASE, NARROW)
    chosen = qp.choose_q(path, key=key, method="grid", deltas=[0.0, 0.1], log_evidence=log_evidence, **settings)
    assert float(chosen.delta) == expected


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
