"""Kernels: invariance, evaluations, tuning. The wrong kernels must fail where the right ones pass."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import qpaths as qp
from qpaths.algorithms.base import Annealing, Population, begin, points_of
from qpaths.kernels.base import FlatPath
from qpaths.kernels.gradient import LeapfrogParams
from qpaths.kernels.metropolis import _NOISE
from qpaths.testing import NoRejection, StaleBeta

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.MultivariateNormal(jnp.array([1.0, -0.5]), jnp.array([[0.5, 0.3], [0.3, 0.4]]))
NUM = 4000

KERNELS = {
    "random walk": qp.RandomWalk(3),
    "independent": qp.IndependentMH(2),
    "MALA": qp.MALA(2),
    "HMC": qp.HMC(2, num_leapfrog=4),
    "HMC diagonal": qp.HMC(1, num_leapfrog=3, preconditioner="diagonal", step_size=0.7),
    "HMC plain": qp.HMC(1, num_leapfrog=3, preconditioner="none", step_size=0.3),
    "NUTS": qp.BlackJAXKernel(lambda f, cov: blackjax.nuts(f, step_size=0.5, inverse_mass_matrix=cov)),
}


@jax.jit
def _move(path, kernel, points, key):
    """Move exact draws of the target at beta = 1 by the fitted kernel; the points after, and the acceptance."""
    annealing = Annealing(path, kernel, Population(), None, 0.5, None, jnp.zeros(2), key)
    state = begin(annealing, points)._replace(beta=jnp.ones(()))
    params = kernel.fit(annealing.flat, 1.0, state.particles, state.log_weights, key, state.params)
    state, acceptance = annealing.population.move(annealing.flat, kernel, state, key, params)
    return points_of(annealing, state), acceptance, kernel.step_size_of(params), state.particles.features


def _distance(points):
    """Squared Mahalanobis distances from the target's centre, which are chi-squared with two degrees of freedom."""
    centred = np.asarray(points) - np.asarray(TARGET.mean)
    return np.sum(centred @ np.linalg.inv(TARGET.cov) * centred, axis=1)


def _is_invariant(kernel, key):
    draw_key, move_key = jax.random.split(key)
    points = jax.vmap(TARGET.sample)(jax.random.split(draw_key, NUM))
    path = qp.QPath(BASE, TARGET, q=0.9)
    moved, acceptance, step_size, features = _move(path, kernel, points, move_key)
    assert not np.allclose(moved, points)
    np.testing.assert_allclose(features.log_target, jax.vmap(TARGET.log_prob)(moved), rtol=1e-10)
    return stats.kstest(_distance(moved), stats.chi2(2).cdf).pvalue > 1e-6, acceptance, step_size  # one in a million


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_leave_the_density_invariant(name, key):
    ok, acceptance, _ = _is_invariant(KERNELS[name], key)
    assert ok
    assert 0.1 < acceptance < 1


@pytest.mark.parametrize("kernel", [NoRejection(qp.RandomWalk(3)), StaleBeta(qp.RandomWalk(20))])
def test_wrong_kernels_do_not(kernel, key):
    assert not _is_invariant(kernel, key)[0]


@pytest.mark.parametrize(("kernel", "target"), [(qp.HMC(1, 4, preconditioner="diagonal"), 0.85), (qp.MALA(1), 0.574)])
def test_step_size_is_tuned_to_the_wanted_acceptance(kernel, target, key):
    # One search scatters by 0.04, since it looks at a few copies only.
    found = [_is_invariant(kernel, key)[1:] for key in jax.random.split(key, 8)]
    acceptance, step_size = np.mean(np.array(found), axis=0)
    assert abs(acceptance - target) < 0.08
    assert step_size > 0.1


def test_dense_trajectories_do_not_turn_back(key):
    """In whitened coordinates a quarter of the period: the points after are uncorrelated with those before."""
    points = jax.vmap(TARGET.sample)(jax.random.split(key, NUM))
    moved, acceptance, step_size, _ = _move(qp.GeometricPath(BASE, TARGET), qp.HMC(1, 5), points, key)
    assert step_size <= 0.5 * jnp.pi / 5
    assert acceptance > 0.9
    correlation = np.corrcoef(np.asarray(points).T, np.asarray(moved).T)[:2, 2:]
    assert np.abs(correlation).max() < 0.15


def test_a_given_step_size_is_used_as_given(key):
    assert _is_invariant(KERNELS["HMC plain"], key)[2] == 0.3


def _propose(kernel, log_target, position, momentum, step):
    """One transition at beta = 1/2 with given numbers, never accepted unless its probability is 1; and its report."""
    flat = FlatPath(qp.GeometricPath(BASE, qp.Density(log_target)), lambda x: x)
    particle = flat.particle(jnp.asarray(position), with_slopes=True)
    numbers = jnp.asarray(momentum), jnp.ones(()), jnp.asarray(1 - 1e-12)
    return kernel.transition(flat, 0.5, particle, numbers, LeapfrogParams(jnp.ones(2), jnp.asarray(step)))


@pytest.mark.parametrize("kernel", [qp.MALA(), qp.HMC(num_leapfrog=1), qp.HMC(num_leapfrog=5)])
def test_a_nan_density_on_a_trajectory_is_invalid(kernel):
    """Also where the trajectory could not go on to its end; one that stays out of the hole is as good as any."""

    def log_target(x):
        return -0.5 * jnp.sum(x**2) + 0.0 * jnp.sqrt((x[0] - 1.0) * (x[0] - 1.2))

    kept, info = _propose(kernel, log_target, [1.21, 0.0], [-0.3, 0.0], 0.1)
    assert info.invalid
    assert 1.0 < info.proposal[0] < 1.2
    assert info.acceptance == 0
    np.testing.assert_array_equal(kept.position, [1.21, 0.0])
    _, info = _propose(kernel, log_target, [0.0, 0.0], [-0.3, 0.0], 0.1)
    assert not info.invalid
    assert info.acceptance > 0.9


@pytest.mark.parametrize("kernel", [qp.MALA(), qp.HMC(num_leapfrog=5), qp.HMC(num_leapfrog=12)])
@pytest.mark.parametrize(
    "log_target",
    [
        lambda x: jnp.sum(jnp.exp(x**2)) - jnp.sum(jnp.exp(2 * x**2)),  # inf - inf far out, by no fault of the user
        lambda x: -jnp.sum(x**4),
        lambda x: jnp.sum(x**4),  # +inf far out
    ],
)
def test_a_divergent_trajectory_is_rejected(kernel, log_target):
    kept, info = _propose(kernel, log_target, [1.0, -2.0], [3.0, 1.0], 100.0)
    assert not info.invalid
    assert info.acceptance == 0
    np.testing.assert_array_equal(kept.position, [1.0, -2.0])


def _counting():
    """Endpoints that count, when the program runs, how often each is evaluated at how many points."""
    counts = {"base": 0, "target": 0}

    def counted(name, density):
        def count(_):
            counts[name] += 1

        def log_prob(x):
            jax.debug.callback(count, x[0], ordered=False)
            return density.log_prob(x)

        return qp.Density(log_prob, density.sample)

    return counts, counted("base", BASE), counted("target", TARGET)


@pytest.mark.parametrize(
    ("kernel", "per_transition"),
    [
        (qp.HMC(2, num_leapfrog=5, step_size=0.3, preconditioner="none"), 5),
        (qp.HMC(1, num_leapfrog=3), 3),
        (qp.RandomWalk(2), 1),
        (qp.IndependentMH(1), 1),
    ],
)
def test_evaluations_are_counted(kernel, per_transition, key):
    """AIS evaluates each density once at the start and then only where the kernel goes; the result says how often."""
    counts, base, target = _counting()
    algorithm = qp.AIS(64, qp.LinearSchedule(4), kernel)
    result = algorithm.run(qp.QPath(base, target, q=0.9), key=key)
    jax.block_until_ready(result.log_evidence)
    jax.effects_barrier()
    reported = result.num_evaluations
    assert counts["base"] == reported.base + reported.base_gradient
    assert counts["target"] == reported.target + reported.target_gradient
    run = 64 * (1 + 3 * kernel.num_steps * per_transition)
    if not kernel.needs_fit:
        assert counts["target"] == run
    else:
        pilot = counts["target"] - run
        assert pilot > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qp.RandomWalk(0), "`num_steps` must be at least 1, got 0"),
        (lambda: qp.HMC(num_leapfrog=0), "`num_leapfrog` must be at least 1, got 0"),
        (lambda: qp.HMC(step_size=-1.0), "`step_size` must be positive, got -1.0: give None"),
        (lambda: qp.HMC(jitter=2.0), r"`jitter` must lie in \[0, 1\), got 2.0"),
        (lambda: qp.HMC(target_acceptance=1.5), r"`target_acceptance` must lie in \(0, 1\), got 1.5"),
        (lambda: qp.MALA(target_acceptance=0.0), r"`target_acceptance` must lie in \(0, 1\), got 0.0"),
        (lambda: qp.RandomWalk(scale=-1.0), "`scale` must be positive, got -1.0"),
        (lambda: qp.HMC(preconditioner="full"), "`preconditioner` must be dense, diagonal or none, got 'full'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_noise_of_the_random_walk_is_symmetric_and_normal():
    np.testing.assert_array_equal(_NOISE, -_NOISE[::-1])
    levels = [-2.0, -1.0, 0.5, 3.0]
    shares = [np.mean(level > _NOISE) for level in levels]
    np.testing.assert_allclose(shares, stats.norm.cdf(levels), atol=2**-15)
    np.testing.assert_allclose(np.var(_NOISE.astype(float)), 1.0, atol=1e-3)
