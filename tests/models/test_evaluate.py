"""Many observations at once: the same numbers as one at a time, known evidence, and the released protocol's rule."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import qpaths as qp
from qpaths.annealing import anneal
from qpaths.core.arrays import TracedStream, stream_of
from qpaths.kernels.base import grouped
from qpaths.kernels.gradient import LeapfrogParams
from qpaths.models import (
    VAE,
    DecoderProblem,
    DiagonalNormal,
    Evaluation,
    GaussianDecoder,
    Network,
    ReleasedProtocol,
    evaluate_bounds,
    evaluate_lower,
    low_precision,
    posterior_path,
    simulate,
)
from qpaths.models.evaluate import _in_batches
from qpaths.rows import evaluator_of
from qpaths.testing.wrong import NoRejection

SCHEDULE = qp.LinearSchedule(6)
KERNEL = qp.HMC(1, 2, step_size=0.3, preconditioner="none")
ALGORITHM = qp.BDMC(4, SCHEDULE, KERNEL)
KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def model():
    return VAE.random(jax.random.key(3), num_pixels=12, hidden=(7, 5), num_latent=3)


@pytest.fixture(scope="module")
def data(model):
    return simulate(model.decoder, 8, key=jax.random.key(4))


@pytest.fixture(scope="module")
def problem(model):
    return DecoderProblem(model.decoder, q=0.9)


@pytest.fixture(scope="module")
def bounds(problem, data):
    z, x = data
    return evaluate_bounds(problem, x, z, ALGORITHM, key=KEY, batch_size=5)


def test_one_observation_at_a_time_gives_the_same(problem, data, bounds):
    z, x = data
    run = jax.jit(lambda path, z, key: ALGORITHM.run(path, z, key=key))
    for i in (0, 6):
        one = run(problem(x[i]), z[i], jax.random.fold_in(KEY, i))
        np.testing.assert_allclose(bounds.lower[i], one.lower, rtol=1e-5)
        np.testing.assert_allclose(bounds.upper[i], one.upper, rtol=1e-5)
    assert bounds.forward.dtype == jnp.float32
    np.testing.assert_array_equal(bounds.status, 0)


def test_numbers_do_not_depend_on_the_batch_size(problem, data, bounds):
    z, x = data
    first = evaluate_bounds(problem, x[:5], z[:5], ALGORITHM, key=KEY)
    np.testing.assert_array_equal(first.gap, bounds.gap[:5])
    with pytest.raises(ValueError, match="`batch_size` must be at least 1, got 0"):
        evaluate_bounds(problem, x, z, ALGORITHM, key=KEY, batch_size=0)


def test_forward_alone_agrees_exactly(problem, data, bounds):
    forward = evaluate_lower(problem, data[1], qp.AIS(4, SCHEDULE, KERNEL), key=KEY, batch_size=5)
    # The last digit of float32 is the compiler's: these are two programs.
    np.testing.assert_allclose(forward.forward, bounds.forward, rtol=1e-6)
    np.testing.assert_allclose(forward.lower, bounds.lower, rtol=1e-6)
    assert forward.reverse.shape == (8, 0)
    np.testing.assert_allclose(forward.averaged().lower, bounds.averaged().lower, rtol=1e-6)


def test_bounds_bracket_a_known_evidence(key):
    """The mean over 300 observations, within 5 standard errors; swapped bounds would be 2 nats apart the wrong way."""
    decoder = GaussianDecoder(Network.random(key, [2, 4]), 0.5)
    z, x = simulate(decoder, 300, key=key)
    weight = np.asarray(decoder.network.layers[0].weight)
    exact = stats.multivariate_normal(np.zeros(4), weight @ weight.T + 0.25 * np.eye(4)).logpdf(x)
    # A base that is not the prior, as an encoder would give it, changes the bounds but not what they bound.
    base = DiagonalNormal(jnp.zeros(2, jnp.float32), jnp.full(2, 0.8, jnp.float32))
    cases = (
        (DecoderProblem(decoder, q=0.98, encoder=lambda x: base), ALGORITHM),
        (DecoderProblem(decoder, q=0.98), ReleasedProtocol(4, SCHEDULE, num_leapfrog=2)),
    )
    for problem, algorithm in cases:
        bounds = evaluate_bounds(problem, x, z, algorithm, key=key)
        for sandwich in (bounds, bounds.averaged()):
            below, above = exact - np.asarray(sandwich.lower), np.asarray(sandwich.upper) - exact
            assert np.mean(below) > -5 * np.std(below) / 300**0.5
            assert np.mean(above) > -5 * np.std(above) / 300**0.5
            assert np.mean(sandwich.gap) > 0.2
        # Jensen's inequality holds for every observation, not only in the mean.
        assert jnp.all(bounds.averaged().gap <= bounds.gap + 1e-5)


@pytest.mark.parametrize("q", [1.0, 0.9])
def test_a_guide_changes_the_way_and_not_the_law(q, model, data, key):
    """Draws of the target, weighted to beta = 0.7, stay in place in the mean however crude the guide is.

    5 standard errors over 4,000 chains; without the Metropolis rule they are far off. The guide has half the weights.
    """
    crude = jax.tree.map(lambda leaf: 0.5 * leaf, model.decoder)
    z, x = simulate(model.decoder, 4000, key=key)
    kernel = qp.HMC(1, 4, step_size=0.7, preconditioner="none")

    def moved(kernel):
        def one(z, x, key):
            path, stream = DecoderProblem(model.decoder, q=q, guide=crude)(x), TracedStream(key)
            evaluator = evaluator_of(path, stream, with_slopes=True)
            before = evaluator.particles(z[None], with_slopes=True)
            params = grouped(LeapfrogParams(jnp.ones_like(z), jnp.asarray(0.7, z.dtype)))
            after, info = kernel.move(evaluator, 0.7, before, stream.rows(1), params)
            exact = evaluator.values(after.position)
            weight = jnp.exp(path.log_ratio(1.0, 0.7, before.features))
            return weight, path.derivative_from(0.7, before.features), path.derivative_from(0.7, exact), info.acceptance

        weights, before, after, acceptance = (
            part[:, 0] for part in jax.jit(jax.vmap(one))(z, x, jax.random.split(key, 4000))
        )
        changes = weights / jnp.mean(weights) * (after - before)
        return float(jnp.mean(changes) / (jnp.std(changes) / 4000**0.5)), float(jnp.mean(acceptance))

    score, acceptance = moved(kernel)
    assert abs(score) < 5
    assert 0.3 < acceptance < 0.99
    assert abs(moved(NoRejection(kernel))[0]) > 5


def test_low_precision_is_near_and_reports_full_precision(model, data):
    z, x = data
    low = low_precision(model.decoder)
    exact, rough = (jax.jit(jax.vmap(jax.value_and_grad(d.log_likelihood)))(z, x) for d in (model.decoder, low))
    assert rough[0].dtype == rough[1].dtype == jnp.float32
    np.testing.assert_allclose(rough[0], exact[0], rtol=0.02)
    np.testing.assert_allclose(rough[1], exact[1], atol=0.05 * float(jnp.max(jnp.abs(exact[1]))))
    assert not np.array_equal(rough[1], exact[1])


def test_tuned_settings_for_many_observations(problem, data, key):
    """One call chooses for all; what it returns makes paths and goes where a problem goes. q and the split are kept."""
    z, x = data
    tuned = qp.tune(problem, problems=x, target_samples=z, num_gradients=20, num_leapfrog=2, q=0.95, key=key)
    assert tuned.kernel.kernel.num_leapfrog == 2
    assert tuned.schedule.betas.size == 11
    assert tuned.kernel.params.step_size.dtype == jnp.float32
    assert float(tuned.path(x[0]).q) == pytest.approx(0.95)
    found = evaluate_bounds(tuned.path, x, z, qp.BDMC(4, tuned.schedule, tuned.kernel), key=KEY)
    assert found.forward.dtype == jnp.float32
    assert found.gap.shape == (8,)
    with pytest.raises(ValueError, match="need `num_gradients`"):
        qp.tune(problem(x[0]), key=key, q=0.9)


def test_forward_half_of_the_released_protocol(problem, data):
    z, x = data
    released = ReleasedProtocol(4, SCHEDULE, num_leapfrog=2)
    both = evaluate_bounds(problem, x, z, released, key=KEY)
    forward = evaluate_lower(problem, x, released, key=KEY)
    np.testing.assert_allclose(forward.forward, both.forward, rtol=1e-6)


def test_one_program_serves_every_q_and_schedule(model, data, caplog):
    """One compilation for bounds from both sides and one for lower bounds; numbers of steps and q are no shapes."""
    z, x = data

    def frozen(num, persistence):
        betas = np.linspace(0.0, 1.0, num)
        params = LeapfrogParams(np.ones((num, 3), np.float32), np.full(num, 0.3, np.float32))
        return qp.kernels.FrozenKernel(qp.HMC(1, 2, preconditioner="diagonal", persistence=persistence), betas, params)

    def compiled(function):
        caplog.clear()
        with jax.log_compiles():
            function()
        return sum("Compiling jit(_run_chains" in record.getMessage() for record in caplog.records)

    def evaluated(q, num, persistence):
        problem, kernel = DecoderProblem(model.decoder, q=q), frozen(num, persistence)
        algorithm = qp.BDMC(3, qp.LinearSchedule(num), kernel)
        both = evaluate_bounds(problem, x, z, algorithm, key=KEY)
        forward = evaluate_lower(problem, x, algorithm.forward, key=KEY)
        np.testing.assert_allclose(forward.forward, both.forward, rtol=1e-5)
        return both

    algorithm = qp.BDMC(3, qp.LinearSchedule(5), frozen(5, 0.0))
    assert compiled(lambda: Evaluation(DecoderProblem(model.decoder, q=0.9), algorithm).compile(x, z)) == 1
    assert compiled(lambda: Evaluation(DecoderProblem(model.decoder, q=0.9), algorithm.forward).compile(x)) == 1
    cases = [(1.0, 5, 0.0), (0.9, 9, 0.7), (1.2, 300, 0.0)]
    found = []
    assert compiled(lambda: found.extend(evaluated(*case) for case in cases)) == 0
    # The same numbers as the algorithm gives alone, although the program serves all of them.
    for (q, num, persistence), bounds in zip(cases[:2], found, strict=False):
        path = DecoderProblem(model.decoder, q=q)(x[1])
        alone = qp.BDMC(3, qp.LinearSchedule(num), frozen(num, persistence))
        one = jax.jit(lambda z, key, path=path, alone=alone: alone.run(path, z, key=key))(
            z[1], jax.random.fold_in(KEY, 1)
        )
        np.testing.assert_allclose(bounds.forward[1], one.forward.log_weights, rtol=1e-4)
        np.testing.assert_allclose(bounds.reverse[1], one.reverse.log_weights, rtol=1e-4)
        np.testing.assert_allclose(bounds.acceptance[1], np.mean(one.forward.stats["acceptance"]), rtol=1e-4)


@pytest.mark.parametrize(("host", "num"), [(True, 30), (False, 300)])
def test_rule_of_the_released_protocol(host, num, model, data, key):
    """Step sizes follow from the accepted proposals of each chain; weights from the path."""
    z, x = data
    path = posterior_path(model.decoder, x[0], q=0.9)
    algorithm = ReleasedProtocol(8, qp.LinearSchedule(num), num_leapfrog=2).both_ways.forward

    def run(points):
        annealing, state = algorithm.begin_at(path, points, algorithm.kernel, None, stream_of(key, host=host))
        kept = anneal(annealing, state, record=lambda state, _: {"state": state})[1]["state"]
        step_sizes = [one.particles.memory.step_size for one in (state, kept)]
        return *step_sizes, kept.particles.position, kept.log_weights

    first, step_sizes, positions, log_weights = map(np.asarray, (run if host else jax.jit(run))(z))
    np.testing.assert_allclose(first, 0.01)
    accepted = (np.diff(positions, axis=0, prepend=z[None]) != 0).any(axis=2)
    step, num_accepted = np.full(8, 0.01), np.zeros(8)
    for stage in range(1, num):
        num_accepted += accepted[stage - 1]
        step = np.clip(step * np.where(num_accepted / stage > 0.65, 1.02, 0.98), 1e-4, 0.5)
        np.testing.assert_allclose(step_sizes[stage - 1], step, rtol=1e-4)
    if not host:
        assert step_sizes.max() == 0.5
        assert not accepted.all()
    expected = path.log_ratio(0.0, 1 / (num - 1), jax.jit(jax.vmap(path.features))(z))
    np.testing.assert_allclose(log_weights[0], expected, rtol=1e-4, atol=1e-6)


def test_released_protocol_reports_like_any_algorithm(problem, data, key):
    z, x = data
    algorithm = ReleasedProtocol(4, SCHEDULE, num_leapfrog=2)
    bounds = algorithm.run(problem(x[0]), z[0], key=key)
    for result in (bounds.forward, bounds.reverse):
        np.testing.assert_allclose(result.stats["log_evidence"][-1], result.log_evidence, rtol=1e-6)
        assert "released protocol: log evidence" in result.summary()
        np.testing.assert_allclose(result.stats["step_size"], 0.01 * 1.02 ** np.arange(5))  # both begin at 0.01
    with pytest.raises(ValueError, match="must be at least 2, got 1"):
        ReleasedProtocol(1, SCHEDULE)


def test_a_step_size_for_each_chain_goes_through_chunks(problem, data, key):
    path, kernel = problem(data[1][0]), ReleasedProtocol(5, SCHEDULE, num_leapfrog=2).both_ways.kernel
    whole, chunked = (qp.AIS(5, SCHEDULE, kernel, chunk_size=size).run(path, key=key) for size in (None, 2))
    np.testing.assert_allclose(chunked.log_weights, whole.log_weights, rtol=1e-6)
    np.testing.assert_allclose(chunked.stats["step_size"], whole.stats["step_size"], rtol=1e-6)
    traced = jax.jit(lambda key: qp.AIS(5, SCHEDULE, kernel, chunk_size=2).run(path, key=key).log_weights)(key)
    assert np.isfinite(traced).all()


def test_a_guide_steers_alike_on_the_host_and_traced(model, data, key):
    z, x = data
    path = DecoderProblem(model.decoder, q=0.9, guide=jax.tree.map(lambda leaf: 0.5 * leaf, model.decoder))(x[0])
    host, traced = (evaluator_of(path, stream_of(key, host=host), with_slopes=True) for host in (True, False))

    def look(evaluator):
        particles = [evaluator.particles(z, with_slopes=True) for _ in range(2)][-1]
        return evaluator.score(0.3, particles), *particles.features, *particles.slopes.values

    here, there = look(host), look(traced)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    assert not np.array_equal(here[2], here[4])  # the target's own value is no value of the guide
    assert len(host.densities._programs) == 2  # of the target and of its guide, however often they are called


def test_a_device_without_memory_gets_smaller_batches():
    calls = []

    def run(x):
        calls.append(len(x))
        if len(x) > 3:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return 2 * x

    with pytest.warns(UserWarning, match="no memory for that many observations at once: 3 from now on"):
        doubled = _in_batches(run, (jnp.arange(7.0),), 6)
    np.testing.assert_array_equal(doubled, 2 * jnp.arange(7.0))
    assert calls == [6, 3, 3, 3]
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        _in_batches(lambda x: run(jnp.zeros(9)), (jnp.arange(7.0),), 1)


def test_errors_in_words(model, data, key):
    z, x = data
    with pytest.raises(ValueError, match="give `q` or `delta`"):
        DecoderProblem(model.decoder, q=0.9, delta=0.1)
    with pytest.raises(ValueError, match="`latents` must be one for each of the 8 observations, got 4"):
        evaluate_bounds(DecoderProblem(model.decoder), x, z[:4], ALGORITHM, key=key)
    # Without the check of types that only the tests have.
    with pytest.raises(TypeError, match="`algorithm` must be an AIS or a ReleasedProtocol, got BDMC"):
        inspect.unwrap(evaluate_lower)(DecoderProblem(model.decoder), x, ALGORITHM, key=key)
    with pytest.raises(TypeError, match="`algorithm` must be a BDMC or a ReleasedProtocol, got AIS"):
        inspect.unwrap(evaluate_bounds)(DecoderProblem(model.decoder), x, z, ALGORITHM.forward, key=key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x - 1, r"`x` must lie in \[0, 1\], got -1"),
        (lambda x: 255 * jnp.ones_like(x, jnp.uint8), r"`x` must lie in \[0, 1\], got 255"),
        (lambda x: x.at[3, 2].set(jnp.nan), r"`x` must lie in \[0, 1\], got nan"),
        (lambda x: x[0], r"one image of 12 pixels per row, got shape \(12,\): .* give a single one as `x\[None\]`"),
        (lambda x: x[:, :1], r"one image of 12 pixels per row, got shape \(8, 1\)"),
        (lambda x: x[:, :11], r"one image of 12 pixels per row, got shape \(8, 11\)"),
    ],
)
def test_bad_images(change, message, problem, data):
    z, x = data
    with pytest.raises(ValueError, match=message):
        evaluate_lower(problem, change(x), ALGORITHM.forward, key=KEY)
    with pytest.raises(ValueError, match=message):
        evaluate_bounds(problem, change(x), z, ALGORITHM, key=KEY)


def test_a_number_is_no_row_of_observations(key):
    with pytest.raises(ValueError, match="must have an axis of observations in front"):
        evaluate_lower(lambda x: None, jnp.ones(()), ALGORITHM.forward, key=key)
