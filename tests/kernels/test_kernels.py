"""Kernels: invariance, evaluations, tuning. The wrong kernels must fail where the right ones pass."""

import functools

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import qpaths as qp
from qpaths.annealing import Population
from qpaths.core.arrays import HostStream, quantiles, stream_of
from qpaths.io import Codec, classes_around
from qpaths.kernels.base import Cloud, grouped
from qpaths.kernels.factors import times
from qpaths.kernels.gradient import LeapfrogParams
from qpaths.kernels.metropolis import Fitted
from qpaths.rows import Evaluator, HostDensities, Layout, TracedDensities, evaluator_of
from qpaths.testing import NoRejection, StaleBeta

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.MultivariateNormal(jnp.array([1.0, -0.5]), jnp.array([[0.5, 0.3], [0.3, 0.4]]))
PATH = qp.QPath(BASE, TARGET, q=0.9)
NUM = 4000

KERNELS = {
    "random walk": qp.RandomWalk(3),
    "independent": qp.IndependentMH(2),
    "MALA": qp.MALA(2),
    "HMC": qp.HMC(2, num_leapfrog=4),
    "HMC diagonal": qp.HMC(1, num_leapfrog=3, preconditioner="diagonal", step_size=0.7),
    "HMC low rank": qp.HMC(1, num_leapfrog=3, preconditioner="low_rank", step_size=0.7),
    "HMC plain": qp.HMC(1, num_leapfrog=3, preconditioner="none", step_size=0.3),
    "NUTS": qp.kernels.BlackJAXKernel(lambda f, cov: blackjax.nuts(f, step_size=0.5, inverse_mass_matrix=cov)),
}


def _move(path, kernel, points, stream):
    """Move exact draws of the target at beta = 1 by the fitted kernel; the points after, and the acceptance."""
    evaluator, population = evaluator_of(path, stream, with_slopes=kernel.with_slopes), Population()
    start, fit, move = stream.split(3)
    state = population.start(evaluator, kernel, points, start)
    state = state._replace(beta=evaluator.xp.ones_like(state.beta))
    params = population.fit(evaluator, kernel, state, evaluator.xp.asarray(NUM // 2), fit)
    state, acceptance = population.move(evaluator, kernel, state, move, params)
    return state.particles.position, acceptance, kernel.step_size_of(params), state.particles.features


_traced_move = jax.jit(lambda path, kernel, points, key: _move(path, kernel, points, stream_of(key, host=False)))


def _in_world(traced, path, kernel, points, key):
    if traced:
        return _traced_move(path, kernel, points, key)
    return _move(path, kernel, np.asarray(points), stream_of(key, host=True))


_draws = jax.jit(lambda key: jax.vmap(TARGET.sample)(jax.random.split(key, NUM)))
_log_target = jax.jit(jax.vmap(TARGET.log_prob))


def _distance(points):
    """Squared Mahalanobis distances from the target's center, which are chi-squared with two degrees of freedom."""
    centered = np.asarray(points) - np.asarray(TARGET.mean)
    return np.sum(centered @ np.linalg.inv(TARGET.cov) * centered, axis=1)


def _is_invariant(kernel, key, traced=False):
    draw_key, move_key = jax.random.split(key)
    points = _draws(draw_key)
    moved, acceptance, step_size, features = _in_world(traced, PATH, kernel, points, move_key)
    assert not np.allclose(moved, points)
    np.testing.assert_allclose(features.log_target, _log_target(jnp.asarray(moved)), rtol=1e-10)
    return stats.kstest(_distance(moved), stats.chi2(2).cdf).pvalue > 1e-6, acceptance, step_size  # one in a million


@pytest.mark.parametrize(
    ("name", "traced"),
    [*((name, False) for name in KERNELS), ("random walk", True), ("independent", True), ("HMC", True)],
)
def test_kernels_leave_the_density_invariant(name, traced, key):
    ok, acceptance, _ = _is_invariant(KERNELS[name], key, traced)
    assert ok
    assert 0.1 < acceptance < 1


@pytest.mark.parametrize(
    ("kernel", "traced"),
    [
        (NoRejection(qp.RandomWalk(3)), False),
        (NoRejection(qp.RandomWalk(3)), True),
        (StaleBeta(qp.RandomWalk(20)), False),
        (StaleBeta(qp.HMC(4, 4)), False),
    ],
)
def test_wrong_kernels_do_not(kernel, traced, key):
    assert not _is_invariant(kernel, key, traced)[0]


@pytest.mark.parametrize(("kernel", "target"), [(qp.HMC(1, 4, preconditioner="diagonal"), 0.85), (qp.MALA(1), 0.574)])
def test_step_size_is_tuned_to_the_wanted_acceptance(kernel, target, key):
    # One search scatters by 0.04, since it looks at a few copies only.
    found = [_is_invariant(kernel, key)[1:] for key in jax.random.split(key, 8)]
    acceptance, step_size = np.mean(np.array(found), axis=0)
    assert abs(acceptance - target) < 0.08
    assert step_size > 0.1


def test_dense_trajectories_do_not_turn_back(key):
    """In whitened coordinates a quarter of the period: the points after are uncorrelated with those before."""
    points = _draws(key)
    moved, acceptance, step_size, _ = _in_world(False, qp.GeometricPath(BASE, TARGET), qp.HMC(1, 5), points, key)
    assert step_size <= 0.5 * jnp.pi / 5
    assert acceptance > 0.9
    correlation = np.corrcoef(np.asarray(points).T, moved.T)[:2, 2:]
    assert np.abs(correlation).max() < 0.15


def test_a_given_step_size_is_used_as_given(key):
    assert _is_invariant(KERNELS["HMC plain"], key)[2] == 0.3


@functools.cache
def _path_to(log_target):
    return qp.GeometricPath(BASE, qp.Density(log_target))


def _propose(kernel, log_target, position, momentum, step, traced=False):
    """One transition at beta = 1/2 with given numbers, never accepted unless its probability is 1; and its report."""
    path, layout = _path_to(log_target), Layout.of(np.zeros(2))

    def transition(position, momentum, step):
        evaluator = Evaluator.of(path, TracedDensities(layout) if traced else HostDensities(layout, with_slopes=True))
        xp = evaluator.xp
        particles = evaluator.particles(position[None], with_slopes=True)
        numbers = momentum[None], xp.ones(1), xp.full(1, 1 - 1e-12)
        params = grouped(LeapfrogParams(xp.ones(2), step))
        moved, info = kernel.transition(evaluator, 0.5, particles, numbers, params)
        return jax.tree.map(lambda leaf: leaf[0], (moved, info))

    arguments = map(np.asarray, (position, momentum, step))
    return jax.jit(transition)(*arguments) if traced else transition(*arguments)


def _with_a_hole(x):
    return -0.5 * jnp.sum(x**2) + 0.0 * jnp.sqrt((x[0] - 1.0) * (x[0] - 1.2))


@pytest.mark.parametrize(
    ("kernel", "traced"),
    [
        (qp.MALA(), False),
        (qp.HMC(num_leapfrog=1), False),
        (qp.HMC(num_leapfrog=5), False),
        (qp.HMC(num_leapfrog=5), True),
    ],
)
def test_a_nan_density_on_a_trajectory_is_invalid(kernel, traced):
    """Also where the trajectory could not go on to its end; one that stays out of the hole is as good as any."""
    kept, info = _propose(kernel, _with_a_hole, [1.21, 0.0], [-0.3, 0.0], 0.1, traced)
    assert info.invalid
    assert 1.0 < info.proposal[0] < 1.2
    assert info.acceptance == 0
    np.testing.assert_array_equal(kept.position, [1.21, 0.0])
    _, info = _propose(kernel, _with_a_hole, [0.0, 0.0], [-0.3, 0.0], 0.1, traced)
    assert not info.invalid
    assert info.acceptance > 0.9


@pytest.mark.parametrize(
    ("kernel", "traced"),
    [
        (qp.MALA(), False),
        (qp.HMC(num_leapfrog=5), False),
        (qp.HMC(num_leapfrog=12), False),
        (qp.HMC(num_leapfrog=12), True),
    ],
)
@pytest.mark.parametrize(
    "log_target",
    [
        lambda x: jnp.sum(jnp.exp(x**2)) - jnp.sum(jnp.exp(2 * x**2)),  # inf - inf far out, by no fault of the user
        lambda x: -jnp.sum(x**4),
        lambda x: jnp.sum(x**4),  # +inf far out
    ],
)
def test_a_divergent_trajectory_is_rejected(kernel, traced, log_target):
    kept, info = _propose(kernel, log_target, [1.0, -2.0], [3.0, 1.0], 100.0, traced)
    assert not info.invalid
    assert info.acceptance == 0
    np.testing.assert_array_equal(kept.position, [1.0, -2.0])


FITTED = {name: kernel for name, kernel in KERNELS.items() if name != "NUTS"}


def _start(kernel, num, key):
    """An evaluator on the host, particles, and parameters fitted to them."""
    stream = stream_of(key, host=True)
    evaluator = evaluator_of(PATH, stream, with_slopes=kernel.with_slopes)
    particles = evaluator.particles(evaluator.draw(stream.fold(0), num), with_slopes=kernel.with_slopes)
    params = kernel.fit(Cloud(evaluator, 0.5, particles, np.zeros(num)), stream.fold(1), None)
    return evaluator, particles, params, stream


@pytest.mark.parametrize("name", FITTED)
def test_parameters_that_are_fitted_again_are_of_the_same_kind(name, key):
    """With those before at hand."""
    kernel = FITTED[name]
    evaluator, particles, params, stream = _start(kernel, 40, key)
    again = kernel.fit(Cloud(evaluator, 0.6, particles, np.zeros(40)), stream.fold(2), params)
    assert jax.tree.structure(again) == jax.tree.structure(params)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(params), strict=True):
        assert (np.shape(a), a.dtype) == (np.shape(b), b.dtype)


@pytest.mark.parametrize("name", FITTED)
def test_groups_of_particles_have_their_own_parameters(name, key):
    """Two groups moved together, each by its parameters, against each alone; and a set for each particle."""
    kernel = FITTED[name]
    evaluator, particles, params, stream = _start(kernel, 30, key)
    wider = jax.tree.map(lambda leaf: 1.3 * leaf, params)
    both = jax.tree.map(lambda *leaves: np.stack(leaves), params, wider)
    numbers = jax.tree.map(lambda leaf: leaf[0], kernel.randomness(stream.fold(3).rows(30), particles.position, 1))
    together = kernel.transition(evaluator, 0.5, particles, numbers, both)
    halves = [
        kernel.transition(evaluator, 0.5, *jax.tree.map(lambda leaf: leaf[part], (particles, numbers)), grouped(own))
        for part, own in ((slice(0, 15), params), (slice(15, 30), wider))
    ]
    apart = jax.tree.map(lambda *leaves: np.concatenate(leaves), *halves)
    own = jax.tree.map(lambda leaf: np.repeat(leaf, 15, axis=0), both)
    rounding = 1e-5 if name == "random walk" else 1e-10  # the steps of a random walk are in single precision
    for other in (apart, kernel.transition(evaluator, np.full(30, 0.5), particles, numbers, own)):
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=rounding, atol=rounding), together, other)


def test_states_of_a_chain_follow_each_other(key):
    kernel = qp.RandomWalk(2)
    evaluator, particles, params, stream = _start(kernel, 6, key)
    states, info = kernel.trajectory(evaluator, 0.5, particles, stream.fold(3).rows(6), grouped(params), 5)
    chains = states.position.reshape(6, 5, 2)
    np.testing.assert_array_equal(chains[:, 0], particles.position)
    assert (np.ptp(chains, axis=1) > 0).any()
    assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()
    np.testing.assert_allclose(states.features.log_base, evaluator.values(states.position).log_base)


@pytest.mark.parametrize("xp", [np, jnp])
def test_frozen_parameters_are_interpolated(xp):
    """Scales on a log scale; at the betas of the pilot they are what was fitted, bit for bit."""
    betas = xp.asarray([0.0, 0.25, 1.0])
    params = LeapfrogParams(xp.asarray([[1.0, 0.01], [2.0, 1.0], [8.0, 3.0]]), xp.asarray([0.1, 0.4, 0.9]))
    frozen = qp.kernels.FrozenKernel(qp.HMC(preconditioner="diagonal"), betas, params)
    np.testing.assert_allclose(frozen.fit(Cloud(None, 0.125, None, None), None, None).step_size, 0.2)
    at = frozen.params_at(xp.asarray([0.125, 0.625]))
    np.testing.assert_allclose(at.step_size, [0.2, 0.6])
    np.testing.assert_allclose(at.scale, [[2**0.5, 0.1], [4.0, 3**0.5]])
    jax.tree.map(np.testing.assert_array_equal, frozen.params_at(betas), params)
    np.testing.assert_allclose(frozen.reversed().params_at(0.375).step_size, 0.6)
    codec = Codec(classes_around(frozen, frozen.kernel))
    again = codec.decode(*codec.encode(frozen))
    jax.tree.map(np.testing.assert_array_equal, again.params, params)
    assert not frozen.needs_fit


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("kernel", [qp.HMC(), qp.RandomWalk(), qp.IndependentMH()])
def test_a_cholesky_factor_halfway_has_the_scale_between(kernel, xp):
    """Whatever the units of the coordinates are; a mean is in the middle."""
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    units = np.array([1.0, 1000.0])
    low = np.linalg.cholesky(1e-4 * covariance) * units[:, None]
    high = np.linalg.cholesky(covariance) * units[:, None]
    factors = xp.asarray(np.stack([low, high]))
    params = {
        "HMC": LeapfrogParams(factors, xp.ones(2)),
        "RandomWalk": factors,
        "IndependentMH": Fitted(xp.asarray([[0.0, 0.0], [1.0, 2.0]]), factors),
    }[type(kernel).__name__]
    found = qp.kernels.FrozenKernel(kernel, xp.asarray([0.0, 1.0]), params).params_at(0.5)
    factor = next(leaf for leaf in jax.tree.leaves(found) if leaf.ndim == 2)
    np.testing.assert_allclose(factor, 0.1 * high)
    if isinstance(found, Fitted):
        np.testing.assert_allclose(found.mean, [0.5, 1.0])


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


def _counting_in_numpy():
    """The same for NumPy functions, whose gradients are counted apart."""
    counts = {"base": 0, "target": 0, "base_gradient": 0, "target_gradient": 0}
    generator_of = {"base": lambda generator: generator.standard_normal(2), "target": None}

    def counted(name, mean):
        def log_prob(x):
            counts[name] += len(x)
            return -0.5 * np.sum((x - mean) ** 2, axis=1)

        def gradient(x):
            counts[f"{name}_gradient"] += len(x)
            return mean - x

        return qp.Density(log_prob, generator_of[name], backend="numpy", batched=True, gradient=gradient)

    return counts, counted("base", 0.0), counted("target", 0.5)


COUNTED = [
    (qp.HMC(2, num_leapfrog=5, step_size=0.3, preconditioner="none"), 5),
    (qp.HMC(1, num_leapfrog=3), 3),
    (qp.RandomWalk(2), 1),
    (qp.IndependentMH(1), 1),
]


@pytest.mark.parametrize(("kernel", "per_transition"), COUNTED)
def test_evaluations_are_counted(kernel, per_transition, key):
    """AIS evaluates each density once at the start and then only where the kernel goes; the result says how often."""
    counts, base, target = _counting_in_numpy()
    reported = qp.AIS(64, qp.LinearSchedule(4), kernel).run(qp.QPath(base, target, q=0.9), key=key).num_evaluations
    assert counts["base"] == reported.base + reported.base_gradient
    assert counts["target"] == reported.target + reported.target_gradient
    assert counts["base_gradient"] == reported.base_gradient
    assert counts["target_gradient"] == reported.target_gradient
    _check_count(kernel, per_transition, counts)


@pytest.mark.parametrize(("kernel", "per_transition"), COUNTED[1:3])
def test_evaluations_are_counted_in_a_compiled_run(kernel, per_transition, key):
    counts, base, target = _counting()
    algorithm = qp.AIS(64, qp.LinearSchedule(4), kernel)
    result = jax.jit(algorithm.run)(qp.QPath(base, target, q=0.9), key=key)
    jax.block_until_ready(result.log_evidence)
    jax.effects_barrier()
    reported = algorithm.num_evaluations
    assert counts["base"] == reported.base + reported.base_gradient
    assert counts["target"] == reported.target + reported.target_gradient
    _check_count(kernel, per_transition, counts)


def _check_count(kernel, per_transition, counts):
    pilot = counts["target"] - 64 * (1 + 3 * kernel.num_steps * per_transition)
    assert pilot > 0 if kernel.needs_fit else pilot == 0


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
        (
            lambda: qp.HMC(preconditioner="full"),
            "`preconditioner` must be dense, low_rank, diag.*got 'full'",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_noise_of_the_random_walk_is_symmetric_and_normal():
    noise = quantiles()
    np.testing.assert_array_equal(noise, -noise[::-1])
    levels = [-2.0, -1.0, 0.5, 3.0]
    shares = [np.mean(level > noise) for level in levels]
    np.testing.assert_allclose(shares, stats.norm.cdf(levels), atol=2**-15)
    np.testing.assert_allclose(np.var(noise.astype(float)), 1.0, atol=1e-3)


@pytest.mark.parametrize("host", [True, False])
def test_numbers_of_rows_are_normal_and_uniform(host, key):
    """Each row and each transition has numbers of its own."""
    for options in [{}, {"coarse": False}, {"coarse": True}]:
        normal, uniform = stream_of(key, host=host).rows(3000).draw(3000, 2, 3, 2, dtype=np.dtype(float), **options)
        assert (normal.shape, uniform.shape) == ((2, 3000, 3), (2, 3000, 2))
        assert stats.kstest(np.ravel(normal), stats.norm.cdf).pvalue > 1e-6
        assert stats.kstest(np.ravel(uniform), stats.uniform.cdf).pvalue > 1e-6
        columns = np.concatenate([np.concatenate(normal, axis=1), np.concatenate(uniform, axis=1)], axis=1)
        assert np.abs(np.corrcoef(columns.T) - np.eye(10)).max() < 0.11  # six standard deviations


@pytest.mark.parametrize("coarse", [False, True])
def test_numbers_of_rows_do_not_depend_on_blocks(coarse):
    stream = HostStream((1, 2))
    whole, parts = stream.rows(10), stream.rows(10)
    together = whole.draw(10, 3, 3, 1, coarse=coarse)
    blocks = [parts.draw(num, 3, 3, 1, coarse=coarse) for num in (4, 1, 5)]
    for index in (0, 1):
        np.testing.assert_array_equal(together[index], np.concatenate([block[index] for block in blocks], axis=1))
    assert not np.allclose(together[0], stream.fold(0).rows(10).draw(10, 3, 3, 1, coarse=coarse)[0])


@pytest.mark.parametrize("scale", [1e-60, 1e-3, 1e60])
def test_steps_in_single_precision_keep_their_scale(scale):
    """Factors beyond the range of single precision are multiplied in double precision."""
    noise = quantiles()[:: 2**13].reshape(-1, 2)
    factor = scale * np.array([[[1.0, 0.0], [0.3, 0.5]]])
    np.testing.assert_allclose(times(noise, factor), noise.astype(float) @ factor[0].T, rtol=1e-6)
    np.testing.assert_array_equal(times(-noise, factor), -times(noise, factor))  # a random walk must be symmetric
