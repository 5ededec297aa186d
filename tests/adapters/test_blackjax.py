"""qpaths in BlackJAX's clothes: the evidence of a compiled loop, with fixed and adaptive schedules."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.adapters import as_blackjax

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
PATH = qp.QPath(BASE, qp.Density(lambda x: BASE.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2)), q=0.99)
EXACT = np.log(1 / 5) - 4 / 5
NUM = 256


def _run(smc, key):
    start, run = jax.random.split(key)
    state = smc.init(jax.jit(jax.vmap(BASE.sample))(jax.random.split(start, NUM)))

    def step(carry):
        state, number = carry
        return smc.step(jax.random.fold_in(run, number), state)[0], number + 1

    return jax.lax.while_loop(lambda carry: carry[0].tempering_param < 1, step, (state, 0))[0]


@pytest.mark.parametrize("schedule", [qp.LinearSchedule(6), qp.AdaptiveSchedule(0.5)], ids=["fixed", "adaptive"])
def test_a_loop_of_blackjax_finds_the_evidence(schedule, key):
    """Over 40 runs the mean of Z-hat / Z is 1 within 5 standard errors; stale weights would be off by far more."""
    smc = as_blackjax(qp.SMC(NUM, schedule, qp.HMC(num_leapfrog=3)), PATH)
    states = jax.jit(jax.vmap(lambda key: _run(smc, key)))(jax.random.split(key, 40))
    ratios = np.exp(np.asarray(states.log_evidence) - EXACT)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / 40**0.5
    assert ratios.std() < 0.3
    np.testing.assert_allclose(states.weights.sum(axis=1), 1.0)
    # The posterior is normal with mean 4/5 and variance 1/5.
    mean = np.einsum("rn,rnd->rd", states.weights, states.particles)
    assert abs(mean.mean() - 0.8) < 5 * (0.2 / (40 * NUM / 4)) ** 0.5


def test_increments_add_up_to_the_evidence(key):
    smc = as_blackjax(qp.SMC(NUM, qp.LinearSchedule(4), qp.RandomWalk(2)), PATH)
    state = smc.init(jax.jit(jax.vmap(BASE.sample))(jax.random.split(key, NUM)))
    total = 0.0
    for number in range(3):
        state, info = jax.jit(smc.step)(jax.random.fold_in(key, number), state)
        total += float(info.log_likelihood_increment)
        assert 0 < float(info.ess) <= NUM
    np.testing.assert_allclose(total, state.log_evidence, rtol=1e-10)
    assert float(state.tempering_param) == 1.0
    after, info = smc.step(key, state)  # a step too many
    np.testing.assert_allclose(info.log_likelihood_increment, 0.0, atol=1e-12)
    assert float(after.tempering_param) == 1.0


def test_mistakes(key, monkeypatch):
    smc = as_blackjax(qp.SMC(NUM, qp.LinearSchedule(4), qp.RandomWalk(2)), PATH)
    with pytest.raises(ValueError, match="must be 256 draws from the base, as the algorithm has, got 3"):
        smc.init(jnp.zeros((3, 2)))
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[blackjax\]'"):
        as_blackjax(qp.SMC(NUM, qp.LinearSchedule(4), qp.RandomWalk(2)), PATH)
