"""Where memory runs out, here because a test says so, pieces get smaller and the numbers stay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.annealing import Population
from qpaths.core.arrays import HostStream, TracedStream, stream_of
from qpaths.kernels import FrozenKernel
from qpaths.kernels.frozen import KernelWrapper
from qpaths.kernels.gradient import LeapfrogParams
from qpaths.models import TrainingSettings, importance_bounds, train_vae, training
from qpaths.recipe import Recipe
from qpaths.rows import COMPILED, AtMost, Particles, backends, evaluator_of, in_blocks, in_pieces
from qpaths.rows.backends import of_rows
from qpaths.rows.pieces import here
from qpaths.search import chain_measure

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
PATH = qp.GeometricPath(BASE, qp.Density(lambda x: -2.0 * jnp.sum((x - 1.0) ** 2)))
WORDS = "no memory for that many"


def _full():
    return jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")


class Heavy(KernelWrapper):
    """There is no memory for more than 20 particles at once."""

    def transition(self, evaluator, beta, particles, randomness, params):
        if particles.position.shape[0] > 20:
            raise MemoryError("20 particles at most") if evaluator.xp is np else _full()
        return self.kernel.transition(evaluator, beta, particles, randomness, params)


@pytest.mark.parametrize("where", [here, COMPILED])
@pytest.mark.parametrize("size", [1, 4, 11, 20, None])
def test_pieces_are_joined_in_order(where, size):
    """With trees in and out, and several rows for each."""
    rows = {"a": jnp.arange(11.0), "b": jnp.arange(22.0).reshape(11, 2)}
    sizes = []

    def work(piece):
        sizes.append(len(piece["a"]))
        return jnp.repeat(piece["a"], 2), piece["b"] + piece["a"][:, None]

    found, expected = in_pieces(work, rows, size, where), work(rows)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert max(sizes[:-1]) == min(size or 11, 11)


def test_the_last_piece_is_filled_up():
    sizes = []

    def work(rows):
        sizes.append(rows.shape)
        return 2 * rows

    np.testing.assert_array_equal(in_pieces(work, np.arange(11), iter([4, 4, 2, 4]), is_filled=True), 2 * np.arange(11))
    assert sizes == [(4,), (4,), (2,), (4,)]


def test_what_was_done_before_memory_ran_out_stays():
    calls, seen, at_most = [], [], AtMost(8, "rows")

    def work(rows):
        calls.append(rows.tolist())
        if len(rows) > 4 or (rows[-1] >= 7 and len(rows) > 2):
            raise MemoryError
        return rows

    with pytest.warns(UserWarning, match=f"{WORDS} rows at once"):
        found = in_pieces(work, np.arange(9), at_most, observe=lambda parts, *done: seen.append((len(parts), *done)))
    np.testing.assert_array_equal(found, np.arange(9))
    assert calls == [[*range(8)], [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [6, 7], [8]]
    assert seen == [(1, 4, 9), (2, 6, 9), (3, 8, 9), (4, 9, 9)]
    assert at_most.rows == 2


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_blocks_stay_in_their_group(key, host, groups):
    array = np.asarray if host else jnp.asarray
    particles, params = Particles(array(np.arange(6.0)[:, None]), None, None), array(np.arange(1.0, groups + 1))
    sizes = []

    def move(particles, rows, params):
        sizes.append((len(particles.position), len(params)))
        return particles.position * params[:, None]

    found = in_blocks(2, move, particles, stream_of(key, host=host).rows(6), params)
    np.testing.assert_array_equal(found[:, 0], np.arange(6.0) * np.repeat(params, 6 // groups))
    assert set(sizes) <= {(2, 1), (1, 1)}


@pytest.mark.parametrize("devices", [None, 1])
def test_a_run_goes_on_in_smaller_chunks(key, devices):
    kernel = qp.HMC(1, 2, step_size=0.3, preconditioner="none")
    algorithm = qp.SMC(512, qp.LinearSchedule(4), kernel, devices=devices)
    with pytest.warns(UserWarning, match=WORDS) as found:
        result = qp.SMC(512, qp.LinearSchedule(4), Heavy(kernel), devices=devices).run(PATH, key=key)
    assert len(found) == (5 if devices is None else 1)  # once for each halving of 512 or 32, not at every stage
    assert "particles at once: 16 from now on" in str(found[-1].message)
    np.testing.assert_allclose(result.samples, algorithm.run(PATH, key=key).samples, rtol=1e-9)


def test_out_of_memory_at_the_start_draws_the_same_points(key, monkeypatch):
    algorithm = qp.SMC(64, qp.LinearSchedule(3), qp.RandomWalk(1))
    whole = algorithm.run(PATH, key=key)
    start, calls = Population.start, []

    def limited(self, *arguments):
        calls.append(self.chunk_size)
        if self.chunk_size is None:
            raise MemoryError
        return start(self, *arguments)

    monkeypatch.setattr(Population, "start", limited)
    with pytest.warns(UserWarning, match=f"{WORDS} particles at once: 32 from now on"):
        result = algorithm.run(PATH, key=key)
    assert calls == [None, 32]
    np.testing.assert_allclose(result.samples, whole.samples, rtol=1e-12)


def test_the_pilots_of_chains_go_on_with_fewer_problems(key, monkeypatch):
    def path_of(center):
        return qp.GeometricPath(BASE, qp.Density(jax.tree_util.Partial(_log_prob, center)))

    params = LeapfrogParams(np.ones((2, 2)), np.full(2, 0.3))
    kernel = FrozenKernel(qp.HMC(1, 2, preconditioner="diagonal"), np.array([0.0, 1.0]), params)
    recipe = Recipe(chain_measure.PathOf(path_of, 0.0), qp.LinearSchedule(4), kernel)
    problems = chain_measure.Problems(jnp.linspace(0, 1, 6), None, 4, AtMost(6, "problems"))
    candidate = chain_measure.Candidate(recipe)
    whole = chain_measure.measure(problems, candidate, TracedStream(key))
    run = chain_measure._measure_part

    def limited(path_of, candidate, num_chains, data, *rest):
        if len(data) > 3:
            raise _full()
        return run(path_of, candidate, num_chains, data, *rest)

    monkeypatch.setattr(chain_measure, "_measure_part", limited)
    with pytest.warns(UserWarning, match=f"{WORDS} problems at once"):
        parts = chain_measure.measure(problems, candidate, TracedStream(key))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9) if one is not None else None
    assert problems.at_once.rows == 3


def _log_prob(center, x):
    return -2.0 * jnp.sum((x - center) ** 2)


def test_training_goes_on_with_parts_of_a_batch(key, monkeypatch):
    images = np.asarray(jax.random.uniform(key, (14, 6)))
    settings = TrainingSettings(
        num_epochs=2, batch_size=7, num_samples=3, num_partitions=2, hidden=(4,), num_latent=2, learning_rate=1e-2
    )
    whole = train_vae(images, settings)
    epoch = training._epoch

    def limited(*arguments):
        if arguments[-1] > 3:
            raise _full()
        return epoch(*arguments)

    monkeypatch.setattr(training, "_epoch", limited)
    with pytest.warns(UserWarning, match=f"{WORDS} images of a batch at once") as found:
        parts = train_vae(images, settings)
    assert len(found) == 2
    np.testing.assert_allclose(parts.history, whole.history, rtol=1e-4)
    for one, other in zip(*(jax.tree.leaves(each.model) for each in (whole, parts)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_importance_bounds_go_on_with_fewer_images(key, monkeypatch):
    calls, run = [], training._importance_bounds

    def limited(model, x, key, num_samples, batch_size):
        calls.append(batch_size)
        if batch_size > 20:
            raise _full()
        return run(model, x, key, num_samples, batch_size)

    monkeypatch.setattr(training, "_importance_bounds", limited)
    model = qp.models.VAE.random(key, num_pixels=6, hidden=(4,), num_latent=2)
    with pytest.warns(UserWarning, match=f"{WORDS} images at once"):
        bounds = importance_bounds(model, jnp.ones((3, 6)), key=key, num_samples=2)
    assert calls == [50, 25, 13]
    assert np.isfinite(bounds).all()


def test_what_does_not_fit_at_all_says_what_to_do():
    def run(size):
        raise _full()

    with pytest.warns(UserWarning, match=WORDS), pytest.raises(jax.errors.JaxRuntimeError) as error:
        AtMost(2, "particles").run(run)
    assert "no memory even for 1 of the particles at a time" in error.value.__notes__[0]

    def broken(size):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        AtMost(2, "particles").run(broken)


def test_points_of_a_heavy_density_are_evaluated_a_few_at_once(monkeypatch):
    """A chunk of 128 points is filled up, so that fewer particles alone would need as much memory."""
    positions = np.random.default_rng(0).standard_normal((30, 2))
    evaluator = evaluator_of(PATH, HostStream((1,)), with_slopes=True)
    usual = evaluator.particles(positions, with_slopes=True)
    sizes = []

    def heavy(density, name, layout, rows, with_slopes):
        sizes.append(rows.shape[0])
        if rows.shape[0] > 20:
            raise _full()
        return of_rows(density, name, layout, rows, with_slopes)

    qp.clear_cache()
    monkeypatch.setattr(backends, "of_rows", heavy)
    evaluator = evaluator_of(PATH, HostStream((1,)), with_slopes=True)
    with pytest.warns(UserWarning, match=WORDS) as found:
        few = evaluator.particles(positions, with_slopes=True)
    assert "points at once: 16 from now on" in str(found[-1].message)
    assert min(sizes) == 16
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), few, usual)
    evaluator = evaluator_of(PATH, HostStream((1,)), with_slopes=True)  # remembers, without a warning
    evaluator.particles(positions, with_slopes=True)
    qp.clear_cache()
