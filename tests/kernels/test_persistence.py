"""Momenta that are kept and step sizes that spread: exact, in every algorithm and in both directions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import qpaths as qp
from qpaths.annealing import Population
from qpaths.core.arrays import stream_of
from qpaths.kernels import KernelWrapper
from qpaths.rows import Evaluator, HostDensities, Layout
from qpaths.testing import check_algorithm, check_kernel

MEAN, SCALE = np.array([2.0, -1.0]), 0.5
BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
PATH = qp.GeometricPath(BASE, qp.Density(lambda x: -0.5 * jnp.sum((x - MEAN) ** 2) / SCALE**2))
LOG_EVIDENCE = float(np.log(2 * np.pi * SCALE**2))
NUM = 20_000


class NoFlip(KernelWrapper):
    """Keeps the momentum of a rejected proposal as it is, so that particles bump into the same wall again."""

    def transition(self, evaluator, beta, particles, randomness, params):
        new, info = self.kernel.transition(evaluator, beta, particles, randomness, params)
        momentum = evaluator.xp.where(info.accepted[:, None], new.memory, -new.memory)
        return new._replace(memory=momentum), info


LONG_STEPS = qp.HMC(20, 1, step_size=1.9, persistence=0.9)
"""Half of the proposals are rejected."""


@pytest.mark.parametrize("kernel", [qp.HMC(3, 3, persistence=0.7), LONG_STEPS])
def test_position_and_momentum_keep_their_law(kernel, key):
    check_kernel(kernel, key=key)


def test_a_kernel_that_does_not_turn_around_fails(key):
    with pytest.raises(AssertionError, match="distance from the center"):
        check_kernel(NoFlip(LONG_STEPS), key=key)


def _bounds(kernel, key, traced=False):
    """Log weights of forward and reverse chains, less the log evidence; exact draws start the reverse ones."""
    draw, run = jax.random.split(key)
    draws = MEAN + SCALE * jax.random.normal(draw, (NUM, 2))
    algorithm = qp.BDMC(NUM, qp.LinearSchedule(12), kernel)
    found = (jax.jit(algorithm.run) if traced else algorithm.run)(PATH, draws, key=run)
    return np.asarray(found.forward.log_weights) - LOG_EVIDENCE, np.asarray(found.reverse.log_weights) + LOG_EVIDENCE


def _is_mean(values, mean):
    """Within five standard errors."""
    return abs(np.mean(values) - mean) < 5 * np.std(values) / len(values) ** 0.5


SHORT = qp.HMC(1, 2, step_size=0.55, preconditioner="none", persistence=0.7)


def test_a_spread_of_step_sizes_is_exact(key):
    kernel = qp.HMC(2, 3, step_size=0.3, preconditioner="none", spread=5.0)
    check_kernel(kernel, key=key)
    assert all(_is_mean(np.exp(log_weights), 1.0) for log_weights in _bounds(kernel, key))
    plain = qp.HMC(jitter=0.0, spread=5.0).randomness(stream_of(key, host=True).rows(4000), np.zeros((4000, 2)), 1)[1]
    assert stats.kstest(np.log(plain[0]) / np.log(5.0), stats.uniform(-1, 2).cdf).pvalue > 1e-6
    with pytest.raises(ValueError, match=r"`spread` must be at least 1, got 0\.5"):
        qp.HMC(spread=0.5)


@pytest.mark.parametrize("traced", [False, True])
def test_forward_and_reverse_weights_average_to_the_evidence_and_its_inverse(traced, key):
    forward, reverse = _bounds(SHORT, key, traced)
    assert _is_mean(np.exp(forward), 1.0)
    assert _is_mean(np.exp(reverse), 1.0)


def test_reverse_chains_are_the_forward_ones_run_backwards(key):
    """Crooks (1999): reverse log weights have the law of forward ones, weighted. Any invariant kernel has the means."""
    forward, reverse = _bounds(SHORT, key)
    weighted = forward * np.exp(forward)
    error = np.hypot(np.std(weighted), np.std(reverse)) / NUM**0.5
    assert abs(np.mean(weighted) + np.mean(reverse)) < 5 * error
    forgetful = _bounds(qp.HMC(1, 2, step_size=0.55, preconditioner="none"), key)[1]
    assert _is_mean(np.exp(forgetful), 1.0)
    assert abs(np.mean(weighted) + np.mean(forgetful)) > 5 * error


def test_momenta_that_are_kept_bring_the_bounds_together(key):
    gaps = [
        -np.mean(_bounds(kernel, key)) * 2 for kernel in (SHORT, qp.HMC(1, 2, step_size=0.55, preconditioner="none"))
    ]
    assert gaps[0] < 0.85 * gaps[1]


def test_momenta_that_do_not_turn_around_give_a_wrong_evidence(key):
    rough = qp.HMC(10, 1, step_size=1.9, persistence=0.9)
    assert _is_mean(np.exp(_bounds(rough, key)[0]), 1.0)
    assert not _is_mean(np.exp(_bounds(NoFlip(rough), key)[0]), 1.0)


@pytest.mark.parametrize(
    "algorithm",
    [
        qp.SMC(96, qp.LinearSchedule(6), qp.HMC(1, 2, persistence=0.7)),
        qp.SMC(96, qp.LinearSchedule(6), qp.HMC(1, 2, persistence=0.7, preconditioner="diagonal"), chain_length=4),
        qp.ParallelTempering(3, 2, qp.HMC(1, 2, step_size=0.7, persistence=0.7)),
    ],
)
def test_other_algorithms_carry_the_momenta(algorithm, key):
    check_algorithm(algorithm, key=key, num_replicates=60)


def test_momenta_do_not_depend_on_chunks(key):
    kernel, schedule = qp.HMC(2, 2, step_size=0.3, preconditioner="none", persistence=0.7), qp.LinearSchedule(4)
    whole, parts = (qp.SMC(64, schedule, kernel, chunk_size=size).run(PATH, key=key) for size in (None, 10))
    np.testing.assert_allclose(whole.samples, parts.samples, rtol=1e-10)
    compiled = [jax.jit(qp.AIS(64, schedule, kernel, chunk_size=size).run)(PATH, key=key) for size in (None, 10)]
    np.testing.assert_allclose(compiled[0].samples, compiled[1].samples, rtol=1e-10)


def test_momenta_are_kept_only_where_asked():
    layout = Layout.of(jnp.zeros(2))
    stream = stream_of(jax.random.key(0), host=True)
    for kernel, kept in ((qp.HMC(), False), (qp.MALA(), False), (qp.RandomWalk(), False), (SHORT, True)):
        evaluator = Evaluator.of(PATH, HostDensities(layout, kernel.with_slopes))
        state = Population().start(evaluator, kernel, stream.normal((50, 2)), stream.fold(1))
        assert (state.particles.memory is not None) == kept
    with pytest.raises(ValueError, match=r"`persistence` must lie in \[0, 1\), got 1.0"):
        qp.HMC(persistence=1.0)
