"""Thermodynamic integration from each sampler, against known evidences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp

LOG_EVIDENCE = float(jnp.log(2 * jnp.pi * 0.25))


class _Target(eqx.Module):
    """exp(-|x - 1|^2 / (2 s^2)) with s = 1/2, where x_0 > cut; NaN where x_1 > bad."""

    cut: float = -jnp.inf
    bad: float = jnp.inf

    def log_prob(self, x):
        value = jnp.where(x[0] > self.cut, -2.0 * jnp.sum(jnp.square(x - 1.0)), -jnp.inf)
        return jnp.where(x[1] > self.bad, jnp.nan, value)


def _path(q, **target):
    return qp.QPath(qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), _Target(**target), q=q)


SCHEDULE = qp.FixedSchedule(jnp.linspace(0.0, 1.0, 9) ** 2)
HMC = qp.HMC(num_leapfrog=3, step_size=0.4, preconditioner="none")
FROM_SMC = qp.ThermodynamicIntegration(qp.SMC(256, SCHEDULE, HMC))


FROM_PT = qp.ThermodynamicIntegration(qp.ParallelTempering(8, 4, qp.RandomWalk(num_steps=2), num_chains=4))
AIS_UNDER_JIT = jax.jit(lambda path, key: qp.ThermodynamicIntegration(qp.AIS(256, SCHEDULE, HMC)).run(path, key=key))


def _run(algorithm, path, key):
    return algorithm.run(path, key=key) if isinstance(algorithm, eqx.Module) else algorithm(path, key)


@pytest.mark.parametrize(
    ("algorithm", "q"),
    [(FROM_SMC, 1.0), (FROM_SMC, 0.9), (AIS_UNDER_JIT, 0.99), (FROM_PT, 0.9)],
    ids=["SMC, q=1", "SMC, q=0.9", "AIS, q=0.99", "PT, q=0.9"],
)
def test_log_evidence_of_a_normal_target(algorithm, q, key):
    result = _run(algorithm, _path(q), key)
    # With 8 replicates the deviation is a Student t of 7 degrees: 7 errors are as rare as 4 of a normal. The rule
    # itself is off by about 0.01 at these betas.
    assert abs(result.log_evidence - LOG_EVIDENCE) < 7 * result.log_evidence_se + 0.02
    assert result.log_evidence_se < 0.1
    np.testing.assert_allclose(
        jax.nn.logsumexp(result.log_weights) - np.log(result.log_weights.size), result.log_evidence
    )
    assert result.samples.shape == (result.log_weights.size, 2)
    np.testing.assert_allclose(result.stats["log_evidence"][-1], result.log_evidence)
    assert "Thermodynamic integration" in result.summary()


def test_an_infinite_integrand_is_an_error_and_under_jit_a_status(key):
    path = _path(1.0, cut=0.0)
    with pytest.raises(FloatingPointError, match="Take a path with q < 1"):
        FROM_SMC.run(path, key=key)
    assert AIS_UNDER_JIT(path, key).status == qp.Status.INFINITE_INTEGRAND


def test_a_path_below_one_integrates_a_target_with_a_hole(key):
    result = FROM_SMC.run(_path(0.5, cut=0.5), key=key)
    truth = LOG_EVIDENCE + float(jax.scipy.stats.norm.logcdf(1.0))
    # At q = 1/2 the rule is off by about 0.01 where the half-plane's mass goes to zero.
    assert abs(result.log_evidence - truth) < 7 * result.log_evidence_se + 0.05


def test_faults_of_a_replicate_are_named(key):
    with pytest.raises(FloatingPointError, match=r"`target.log_prob` is nan at stage 0"):
        FROM_SMC.run(_path(1.0, bad=0.5), key=key)


def test_an_adaptive_schedule_is_frozen_for_all_replicates(key):
    schedule = qp.AdaptiveSchedule(target_ess=0.5)
    sampler = qp.SMC(256, schedule, HMC)
    result = qp.ThermodynamicIntegration(sampler, rule="trapezoid").run(_path(0.99), key=key)
    num_steps = result.betas.size - 1
    assert num_steps >= 2
    assert result.num_evaluations.target_gradient == 9 * 256 * (1 + 3 * num_steps)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="`rule` must be trapezoid, simpson or corrected, got 'midpoint'"):
        qp.ThermodynamicIntegration(FROM_SMC.sampler, rule="midpoint")
    with pytest.raises(ValueError, match="`num_replicates` must be at least 2"):
        qp.ThermodynamicIntegration(FROM_SMC.sampler, num_replicates=1)
