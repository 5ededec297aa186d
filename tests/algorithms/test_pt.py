"""Parallel tempering: swaps by matrix algebra, rejections by quadrature, log evidence of known targets."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.algorithms.pt import swap_probability
from qpaths.core.cost import Cost
from qpaths.kernels.base import AbstractKernel, Info
from qpaths.schedules import respace
from qpaths.testing import GridWorld
from qpaths.testing.gridworld import GridMetropolis

# Swaps on a world of four states: the two endpoints, with a hole in the target.
LOG_BASE = jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4]))
LOG_TARGET = jnp.array([0.5, -jnp.inf, 1.0, -2.0])
BETAS = np.array([0.0, 0.4, 1.0])
STATES = np.array(list(itertools.product(range(4), repeat=3)))


@functools.partial(jax.jit, static_argnames="probability")
def _chances(path, probability):
    """Swap probabilities in each state of three worlds, and the product of the densities there; for any q."""
    world = jax.vmap(path.features)(jnp.arange(4))
    features = jax.tree.map(lambda leaf: leaf[STATES.T], world)
    log_product = jnp.sum(path.log_density_from(BETAS[:, None], features), axis=0)
    return probability(*qp.stats.neighbor_log_ratios(path, BETAS, features)), log_product


def _flipped(forward, reverse):
    return swap_probability(-forward, -reverse)


def _swap_matrix(path, probability, parity):
    """Transition matrix of the swaps of one parity on the product of three worlds."""
    chance, log_product = map(np.asarray, _chances(path, probability))
    matrix = np.zeros((64, 64))
    for row, state in enumerate(STATES):
        swapped = state.copy()
        swapped[[parity, parity + 1]] = state[[parity + 1, parity]]
        column = int(np.flatnonzero((swapped == STATES).all(axis=1))[0])
        matrix[row, column] += chance[parity, row]
        matrix[row, row] += 1 - chance[parity, row]
    return matrix, np.exp(log_product - jax.nn.logsumexp(log_product))


class _Table(eqx.Module):
    values: jax.Array

    def log_prob(self, x):
        return self.values[x]


@pytest.mark.parametrize("q", [1.0, 0.99, 0.5])
@pytest.mark.parametrize("parity", [0, 1])
def test_swaps_leave_the_product_of_the_densities_invariant(q, parity):
    path = qp.QPath(_Table(LOG_BASE), _Table(LOG_TARGET), q=q)
    matrix, product = _swap_matrix(path, swap_probability, parity)
    np.testing.assert_allclose(product @ matrix, product, atol=1e-15)
    assert np.trace(matrix) < 60  # something does move
    flipped, _ = _swap_matrix(path, _flipped, parity)
    assert np.abs(product @ flipped - product).max() > 1e-3


def test_a_state_without_mass_at_its_beta_can_leave_but_none_can_enter():
    inf = jnp.inf
    forward, reverse = jnp.array([inf, inf, -inf, -inf]), jnp.array([0.0, -inf, inf, 0.0])
    np.testing.assert_array_equal(swap_probability(forward, reverse), [1, 0, 0, 0])


def test_respacing_equalizes_and_is_safe_at_the_extremes():
    betas = jnp.linspace(0.0, 1.0, 9)

    def costs(betas):  # of a barrier that grows as the square root
        return jnp.diff(jnp.sqrt(betas))

    for _ in range(12):
        betas = respace(betas, costs(betas))
    np.testing.assert_allclose(costs(betas), 1 / 8, rtol=0.01)
    for extreme in (jnp.zeros(4), jnp.ones(4), jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1e-30, 1.0])):
        new = respace(jnp.linspace(0.0, 1.0, 5), extreme)
        assert new[0] == 0
        assert new[-1] == 1
        assert (jnp.diff(new) > 0).all()
    np.testing.assert_allclose(respace(jnp.array([0.0, 0.9, 1.0]), jnp.zeros(2)), [0.0, 0.9, 1.0])


# A normal target that can be sampled exactly at every beta of the geometric path.
MEAN, SCALE = 2.0, 0.4
PATH = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Density(lambda x: -0.5 * ((x - MEAN) / SCALE) ** 2))
GRID = np.linspace(-8.0, 8.0, 1601)


def _normal_at(beta):
    variance = 1 / ((1 - beta) + beta / SCALE**2)
    return variance * beta * MEAN / SCALE**2, variance


class _Exact(AbstractKernel):
    """An exact, independent draw at every beta."""

    num_steps: int = eqx.field(static=True, default=1)
    with_slopes = False
    needs_fit = False
    cost = Cost.values(1)

    def fit(self, cloud, stream, previous):
        return cloud.evaluator.xp.zeros(())

    def randomness(self, rows, position, num):
        return rows.draw(position.shape[0], num, 1, 0, dtype=position.dtype)[0]

    def transition(self, evaluator, beta, particles, randomness, params):
        mean, variance = _normal_at(beta[:, None])
        position = mean + variance**0.5 * randomness
        yes = np.ones(len(position), bool)
        return evaluator.particles(position, with_slopes=False), Info(yes.astype(float), yes, ~yes, position)


def _probabilities(beta):
    mean, variance = _normal_at(beta)
    weights = np.exp(-0.5 * (GRID - mean) ** 2 / variance)
    return weights / weights.sum()


def _rejection(beta, new_beta):
    """1 - E min(1, ratio) by quadrature over both states; r is log_target - log_base up to a constant."""
    r = 0.5 * GRID**2 - 0.5 * ((GRID - MEAN) / SCALE) ** 2
    log_ratio = (new_beta - beta) * (r[:, None] - r)
    return 1 - _probabilities(beta) @ np.exp(np.minimum(log_ratio, 0)) @ _probabilities(new_beta)


def _local_barrier(betas):
    """E|r(X) - r(Y)| / 2 for independent X and Y at each beta (Syed et al., 2022)."""
    r = 0.5 * GRID**2 - 0.5 * ((GRID - MEAN) / SCALE) ** 2
    probabilities = np.stack([_probabilities(beta) for beta in betas])
    return 0.5 * np.sum(probabilities @ np.abs(r[:, None] - r) * probabilities, axis=1)


def test_rejections_barrier_and_standard_error_under_exact_sampling(key):
    sampler = qp.ParallelTempering(8, 5, _Exact(), num_scans=16)
    runs = jax.jit(lambda keys: jax.lax.map(lambda k: sampler.run(PATH, key=k), keys))(jax.random.split(key, 40))
    results = [jax.tree.map(lambda leaf: np.asarray(leaf)[i], runs) for i in range(40)]
    num = results[0].log_weights.size
    assert num == 8 * 16 * 2**4

    measured, betas = results[0].stats["rejection"], np.asarray(results[0].betas)
    known = np.array([_rejection(*pair) for pair in itertools.pairwise(betas)])
    # Draws are independent and a rejection probability lies in [0, 1], so its variance is at most r (1 - r).
    assert (np.abs(measured - known) < 5 * np.sqrt(known * (1 - known) / num)).all()
    linear = np.array([_rejection(*pair) for pair in itertools.pairwise(np.linspace(0, 1, 8))])
    assert np.ptp(known) < 0.15 * np.ptp(linear)

    # The sum of the rejections falls short of the barrier by a part of third order in the steps.
    fine = np.linspace(0.0, 1.0, 101) ** 2
    barrier = np.trapezoid(_local_barrier(fine), fine)
    assert 0 < barrier - known.sum() < 0.05 * barrier
    assert abs(results[0].stats["barrier"][-1] - barrier) < 0.07 * barrier

    estimates = np.array([r.log_evidence for r in results])
    errors = np.array([r.log_evidence_se for r in results])
    spread = estimates.std(ddof=1)
    assert abs(estimates.mean() - 0.5 * np.log(2 * np.pi * SCALE**2)) < 5 * spread / np.sqrt(40)
    # 40 runs know their spread to 11 %, and each error (8 replicas) to 27 %: five of the deviations together.
    assert abs(np.log(np.sqrt(np.mean(errors**2)) / spread)) < 5 * np.hypot(1 / np.sqrt(80), 0.27 / np.sqrt(40))


class _Target(eqx.Module):
    """exp(-|x - 1|^2 / (2 s^2)) where x_0 > cut; NaN where x_1 > bad. One compiled program for all of them."""

    scale: float = 0.5
    cut: float = -jnp.inf
    bad: float = jnp.inf

    def log_prob(self, x):
        value = jnp.where(x[0] > self.cut, -0.5 * jnp.sum(jnp.square((x - 1.0) / self.scale)), -jnp.inf)
        return jnp.where(x[1] > self.bad, jnp.nan, value)

    @property
    def log_evidence(self):
        return jnp.log(2 * jnp.pi * self.scale**2) + jax.scipy.stats.norm.logcdf((1.0 - self.cut) / self.scale)


def _path(q, **target):
    return qp.QPath(qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), _Target(**target), q=q)


SAMPLER = qp.ParallelTempering(5, 4, qp.RandomWalk(num_steps=2))
MANY = jax.jit(lambda path, keys: jax.lax.map(lambda key: SAMPLER.run(path, key=key), keys))
"""Runs with many keys in one program, which all values of q and cut share."""


@pytest.mark.parametrize("q", [1.0, 0.99])
@pytest.mark.parametrize("cut", [-np.inf, 1.2])
def test_log_evidence_of_known_targets(q, cut, key):
    path = _path(q, cut=cut)
    results = jax.tree.map(np.asarray, MANY(path, jax.random.split(key, 24)))
    estimates, errors = results.log_evidence, results.log_evidence_se
    truth = float(path.target.log_evidence)
    assert abs(estimates.mean() - truth) < 5 * estimates.std(ddof=1) / np.sqrt(24)
    assert 0.5 < np.sqrt(np.mean(errors**2)) / estimates.std(ddof=1) < 2
    assert estimates.std() < 0.4
    reverse = results.stats["log_evidence_reverse"][:, -1]
    if q == 1 and cut > 0:  # the states at beta > 0 have lost the half-plane that the base still fills
        assert abs(reverse.mean() - truth) > 1
    samples = results.samples.reshape(-1, 2)
    assert (samples[:, 0] > cut).all()
    assert abs(samples[:, 1].mean() - 1.0) < 0.05


def test_the_result_keeps_its_promises(key):
    path = _path(0.99)
    result = SAMPLER.run(path, key=key)
    assert result.samples.shape == (8 * 8 * 2**3, 2)
    np.testing.assert_allclose(jax.nn.logsumexp(result.log_weights) - np.log(512), result.log_evidence)
    assert all(leaf.shape == (4,) for leaf in result.stats.values())
    assert result.status == qp.Status.OK
    assert "Parallel tempering" in result.summary()
    np.testing.assert_allclose(result.stats["log_evidence"][-1], result.log_evidence)
    forward, reverse = qp.stats.neighbor_log_ratios(path, result.betas, result.features)
    np.testing.assert_allclose(jnp.sum(qp.stats.bridge(forward, reverse)), result.log_evidence)
    np.testing.assert_allclose(jax.vmap(path.features)(result.samples).log_target, result.features.log_target[-1])
    again = SAMPLER.run(path, key=key)
    np.testing.assert_array_equal(result.samples, again.samples)


def test_faults_are_named(key):
    with pytest.raises(FloatingPointError, match=r"`target.log_prob` is nan at stage 0 .* a draw from the base"):
        SAMPLER.run(_path(0.99, bad=0.5), key=key)
    with pytest.raises(FloatingPointError, match="every particle has weight zero at stage 1"):
        SAMPLER.run(_path(1.0, cut=30.0), key=key)


def test_settings_are_checked():
    for settings in ({"num_temperatures": 1}, {"num_rounds": 0}, {"num_chains": 1}, {"num_scans": 0}):
        with pytest.raises(ValueError, match=f"`{next(iter(settings))}` must be at least"):
            qp.ParallelTempering(**{"num_temperatures": 3, "num_rounds": 2, "kernel": qp.RandomWalk(), **settings})


def test_evaluations_are_counted_in_float32(key):
    calls = []

    def log_prob(x):
        calls.append(1)
        return -0.5 * np.square(x - 1.0)

    with jax.enable_x64(False):
        target = qp.Density(log_prob, backend="numpy")
        path = qp.GeometricPath(qp.Normal(jnp.float32(0.0), jnp.float32(1.0)), target)
        sampler = qp.ParallelTempering(3, 2, qp.RandomWalk(num_steps=2), num_chains=2, num_scans=2)
        result = sampler.run(path, key=jax.random.key(0))
    assert result.samples.dtype == jnp.float32
    assert len(calls) == result.num_evaluations.target == 2 * (64 + 6) + 2 * 6 * 2 * 2


def test_a_kernel_with_nothing_to_fit(key):
    world = GridWorld()
    sampler = qp.ParallelTempering(5, 5, GridMetropolis(2))
    result = sampler.run(qp.GeometricPath(world.base, world.target), key=key)
    error = abs(float(result.log_evidence) - float(world.log_evidence))
    assert error < 5 * float(result.log_evidence_se) < 3
