"""Joint tuning: what comes out is frozen, fits, costs what it may, and serves many problems at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import HostStream, stream_of
from qpaths.core.cost import Cost
from qpaths.kernels.frozen import shared
from qpaths.kernels.gradient import LeapfrogParams
from qpaths.recipe import Recipe
from qpaths.references.reference import Reference
from qpaths.remarks import Note
from qpaths.search import chain_search
from qpaths.search.chain_measure import Candidate, Measured, Problems, group_ends, measure
from qpaths.search.chain_search import Search, Trial, best_of, improve, with_leapfrog, with_q
from qpaths.search.for_population import _ENOUGH_PARTICLES, _STUCK, _num_steps
from qpaths.search.pilot import run_pilot
from qpaths.testing import check_algorithm

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
WIDTH = 0.1


def log_target(mean, x):
    return jnp.sum(jax.scipy.stats.norm.logpdf(x, mean, WIDTH)) - 1.0


def path_of(mean):
    return qp.GeometricPath(BASE, qp.Density(jax.tree_util.Partial(log_target, mean)))


MEANS = jnp.array([[1.0, -1.0], [2.0, 0.5], [0.0, 0.3], [-1.5, 1.0]])


@pytest.fixture(scope="module")
def tuned():
    return qp.tune(path_of(MEANS[0]), key=jax.random.key(0), budget=100_000)


def test_reference_shortens_the_path(tuned):
    path, schedule, kernel = tuned
    assert isinstance(path.base, Reference)
    np.testing.assert_allclose(path.base.components[0].map.layers[0].center, MEANS[0], atol=1e-6)
    assert schedule.betas.size <= 3
    assert not kernel.needs_fit
    assert tuned.num_evaluations.total <= 25_000
    assert [note.kind for note in tuned.notes] == [Note.FROM_REFERENCE, Note.CHECKED, Note.WEIGHTS]
    assert tuned.notes[0].length == tuned.barrier
    assert "annealed from a Student-t distribution found by ascents" in str(tuned.notes[0])


def test_tuned_settings_are_unbiased_and_honest(tuned, key):
    check_algorithm(qp.SMC(200, tuned.schedule, tuned.kernel), tuned.path, -1.0, key=key, num_replicates=50)


def test_base_can_be_kept(tuned):
    kept = qp.tune(path_of(MEANS[0]), key=jax.random.key(0), budget=100_000, reference=False)
    assert kept.path.base is BASE
    assert kept.barrier > 3 > 2 * tuned.barrier


def test_a_larger_budget_buys_distributions_for_slow_moves_before_islands(key):
    slow, quick = qp.RandomWalk(1), qp.HMC(num_leapfrog=10)

    def num_betas(kernel, budget):
        return qp.tune(path_of(MEANS[0]), key=key, budget=budget, reference=False, kernel=kernel).schedule.betas.size

    few, more, most, beyond = (num_betas(slow, budget) for budget in (100_000, 1_000_000, 10_000_000, 30_000_000))
    assert few < more < most
    assert most == beyond  # as many as slow moves need; the rest goes to islands
    assert num_betas(quick, 1_000_000) < 2 * num_betas(quick, 100_000)


def test_more_distributions_follow_from_what_moves_leave():
    pilot = run_pilot(path_of(MEANS[0]), qp.AdaptiveSchedule(), qp.RandomWalk(1), 200, key=HostStream((3,)))
    num = pilot.lengths.size
    every = pilot._replace(kept=np.full(num, 0.5), num_moves=np.ones(num))
    fresh = pilot._replace(kept=np.zeros(num), num_moves=np.ones(num))
    fewest = _num_steps(fresh, pilot.kernel, np.inf)
    wanted = _num_steps(every, pilot.kernel, np.inf)
    # A move that leaves a half is worth a third of a draw. The draws of the base are independent.
    assert 2 * fewest < wanted <= 3 * fewest
    # Enough particles come first.
    room = _ENOUGH_PARTICLES * (pilot.kernel.start_cost(1).total + 1.5 * fewest * pilot.kernel.cost.total)
    assert _num_steps(every, pilot.kernel, room) == int(1.5 * fewest)
    assert _num_steps(every, pilot.kernel, 0.0) == fewest
    # Where particles do not pass from mode to mode, more steps are no cure.
    stuck = every._replace(kept=np.append(every.kept[:-1], _STUCK + 0.01))
    assert _num_steps(stuck, pilot.kernel, np.inf) == fewest


def test_settings_for_many_problems_bring_their_bounds_together(key, caplog):
    """Shared settings for narrow targets at different places; BDMC with exact draws shows what they are worth."""
    draws = MEANS + WIDTH * jax.random.normal(key, MEANS.shape)
    length = {"num_gradients": 400, "num_leapfrog": 5}
    with jax.log_compiles():
        shared = qp.tune(path_of, problems=MEANS, target_samples=draws, num_chains=20, key=key, **length)
    # One program for pilots of all lengths, schedules, momenta and values of q, in both directions.
    assert sum("Compiling jit(_one_way)" in record.getMessage() for record in caplog.records) == 1
    caplog.clear()
    assert (shared.schedule.betas.size, shared.kernel.kernel.num_leapfrog) == (81, 5)

    def gap(schedule, kernel):
        def one(mean, draw, key):
            bounds = qp.BDMC(20, schedule, kernel).run(shared.path(mean), draw, key=key)
            return bounds.lower, bounds.upper

        lower, upper = jax.jit(jax.vmap(one))(MEANS, draws, jax.random.split(key, len(MEANS)))
        assert np.mean(lower) < -1.0 < np.mean(upper)
        return float(np.mean(upper - lower))

    plain = qp.LinearSchedule(shared.schedule.betas.size)
    assert gap(shared.schedule, shared.kernel) < 0.6 * gap(plain, shared.kernel)


def _candidate(betas, kernel):
    return Candidate.of(Recipe(path_of(MEANS[0]), qp.FixedSchedule(betas), kernel))


def _settings(preconditioner):
    betas = np.linspace(0.0, 1.0, 11)
    params = LeapfrogParams(np.ones((11, 2)), np.full(11, 0.5))
    kernel = qp.HMC(1, 3, preconditioner=preconditioner)
    return _candidate(betas, qp.kernels.FrozenKernel(kernel, betas, params))


def test_improve_moves_betas_to_where_the_variance_is_and_steps_to_the_acceptance():
    settings = _settings("none")
    variance = np.where(np.arange(10) < 5, 9.0, 1.0)
    acceptance = np.where(np.arange(10) < 5, 0.99, 0.3)
    measured = Measured(np.zeros((1, 8)), acceptance, np.zeros(10), variance, np.ones((10, 2)), None)
    better = improve(settings, measured, 1.0)
    assert np.sum(np.asarray(better.betas) <= 0.5) == 8  # three quarters of the length lie in the first half
    steps = np.asarray(better.kernel.params.step_size)
    assert steps[0] > 0.5 > steps[-1]


def test_gradients_are_split_between_distributions_and_leapfrog_steps():
    assert Search().splits(400) == [2, 3, 5, 10]
    assert Search().splits(40) == [2, 3, 5]  # fewer than eight distributions are no schedule
    assert Search().splits(10) == [2]
    momenta = Search(persistences=(0.5, 0.7))
    assert momenta.with_momenta(400, 5) == [(3, 0.5), (3, 0.7), (5, 0.5), (5, 0.7)]
    assert momenta.with_momenta(400, 2) == [(2, 0.5), (2, 0.7), (3, 0.5), (3, 0.7)]
    assert momenta.with_momenta(10, 2) == [(2, 0.5), (2, 0.7)]
    assert with_leapfrog(_settings("none"), 3, 100, 0.7).hmc.persistence == 0.7
    assert with_leapfrog(_settings("none"), 3, 100, spread=4.0).hmc.spread == 4.0
    other = with_leapfrog(_settings("none"), 5, 100)
    assert (other.betas.size, other.hmc.num_leapfrog) == (21, 5)
    np.testing.assert_allclose(other.betas, np.linspace(0, 1, 21))
    np.testing.assert_allclose(other.kernel.params.step_size, 0.5)


@pytest.mark.parametrize("best", [1.0, 4.0])
def test_a_spread_of_step_sizes_is_chosen_where_chains_fall_less_short(monkeypatch, best):
    """Chains are rigged to spread less with one of the spreads; the rest of the search goes on with it."""

    def rigged(problems, candidate, stream):
        width = 0.1 if candidate.hmc.spread == best else 1.0
        num = group_ends(candidate.betas.size - 1).size
        log_weights = width * np.random.default_rng(0).standard_normal((1, 8))
        return Measured(log_weights, np.full(num, 0.9), np.zeros(num), np.ones(num), np.ones((num, 2)), None)

    monkeypatch.setattr(chain_search, "measure", rigged)
    found = chain_search.search_chains(
        Problems(None, None, 8), _settings("none"), 400, Search(deltas=()), stream_of(jax.random.key(0), host=True)
    )
    assert found.candidate.hmc.spread == best


def test_chains_from_the_base_start_at_the_schedule_of_a_population(key):
    """The schedule of a population has other betas than its kernel's parameters; chains begin with both."""
    length = {"num_gradients": 100, "num_chains": 10, "num_leapfrog": 2}
    recipe = qp.tune(path_of(MEANS[0]), key=key, q=1.0, reference=False, **length)
    assert recipe.betas.size == 51
    result = recipe.run(qp.AIS, 200, key=key)
    assert abs(result.log_evidence + 1.0) < 5 * result.log_evidence_se


def test_coordinates_get_their_scale_relative_to_the_narrowest_where_the_kernel_has_one():
    spread = np.stack([np.linspace(1.0, 0.01, 10), np.full(10, 4.0)], axis=1)
    measured = Measured(np.zeros((1, 8)), np.full(10, 0.9), np.zeros(10), np.ones(10), spread, None)
    scale = np.asarray(improve(_settings("diagonal"), measured, 1.0).kernel.params.scale)
    np.testing.assert_allclose(scale[:, 0], 1.0)
    np.testing.assert_allclose(scale[[0, -1], 1], [2.0, 20.0], rtol=1e-6)
    np.testing.assert_array_equal(improve(_settings("none"), measured, 1.0).kernel.params.scale, np.ones((11, 2)))


def test_a_sampler_that_misses_mass_is_not_the_best():
    """All its chains agree, on too little: a small spread alone must not win."""
    rng = np.random.default_rng(0)
    settings = None
    honest = Measured(rng.normal(0.0, 1.0, (4, 8)), *(np.zeros(3),) * 3, np.ones((3, 2)), None)
    missing = Measured(rng.normal(-9.0, 0.1, (4, 8)), *(np.zeros(3),) * 3, np.ones((3, 2)), None)
    trials = [Trial(settings, missing), Trial(settings, honest)]
    assert missing.shortfall < honest.shortfall
    assert best_of(trials).measured is honest


def test_another_q_starts_where_the_path_was(key):
    """The share of the target in the score at the new betas is the old beta, at the mean ratio."""
    group = Problems(None, None, 16)
    betas = np.linspace(0.0, 1.0, 9)
    pilot = run_pilot(path_of(MEANS[0]), qp.FixedSchedule(betas), qp.HMC(1, 3), 64, key=key)
    settings = _candidate(betas, pilot.kernel)
    measured = measure(group, settings, stream_of(key, host=True))
    variance = 1 / (1 - betas[1:] + betas[1:] / WIDTH**2)
    # A chain whose first proposal was rejected is still where the base put it.
    np.testing.assert_allclose(np.log(measured.spread)[1:], np.log(variance)[1:, None].repeat(2, 1), atol=1.2)
    other = with_q(settings, measured, 0.01)
    assert float(other.delta) == 0.01
    assert (np.diff(other.betas) > 0).all()
    ratio = measured.increment / np.diff(betas)
    moved = np.asarray(other.betas)[1:-1] - np.asarray(betas)[1:-1]
    assert moved[0] > 0 > ratio[0]
    assert moved[-1] < 0.01 < ratio[-1]


@pytest.mark.parametrize("kernel", [qp.HMC(1, 3, spread=2.0), qp.MALA(), qp.RandomWalk()])
def test_numbers_of_a_frozen_kernel_become_arguments_of_its_program(kernel, key):
    frozen = run_pilot(path_of(MEANS[0]), qp.LinearSchedule(4), kernel, 64, key=key).kernel
    found = shared(frozen)
    assert found.betas.size == 256
    if isinstance(kernel, qp.HMC):
        assert isinstance(found.kernel.spread, jax.Array)
        assert float(found.kernel.spread) == kernel.spread


def test_frozen_kernel_interpolates_and_reverses():
    betas = np.array([0.0, 0.5, 1.0])
    kernel = qp.kernels.FrozenKernel(qp.RandomWalk(2), betas, np.array([1.0, 4.0, 16.0]).reshape(3, 1, 1))
    np.testing.assert_allclose([kernel.params_at(b).item() for b in (0.0, 0.25, 0.5, 0.75, 1.0)], [1, 2, 4, 8, 16])
    backwards = kernel.reversed()
    np.testing.assert_allclose([backwards.params_at(1 - b).item() for b in (0.0, 0.25, 1.0)], [1, 2, 16])
    np.testing.assert_allclose(jax.jit(kernel.params_at)(0.25), [[2.0]])
    np.testing.assert_allclose(kernel.at(np.array([0.25, 0.75])).params.ravel(), [2, 8])
    assert kernel.num_steps == 2
    assert kernel.fit_cost(100, again=False) == Cost()


def test_bad_input(key):
    path = path_of(MEANS[0])
    with pytest.raises(ValueError, match="`budget` must be positive"):
        qp.tune(path, key=key, budget=0)
    with pytest.raises(ValueError, match="need `num_gradients`"):
        qp.tune(path_of, key=key, problems=MEANS)
    with pytest.raises(TypeError, match="`kernel` must be HMC"):
        qp.tune(path, key=key, num_gradients=100, kernel=qp.RandomWalk(1))
    with pytest.raises(ValueError, match="`num_gradients` must be at least 16"):
        qp.tune(path, key=key, num_gradients=3)
    with pytest.raises(ValueError, match="`num_leapfrog` must be at least 1, got 0"):
        qp.tune(path, key=key, num_gradients=100, num_leapfrog=0)
    with pytest.raises(ValueError, match="`num_chains` must be at least 1, got 0"):
        qp.tune(path, key=key, num_gradients=100, num_chains=0)
    with pytest.raises(TypeError, match="`path` must be a function that makes the path of one of the `problems`"):
        qp.tune(path, key=key, num_gradients=100, problems=MEANS)
