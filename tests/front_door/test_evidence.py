"""The front door: right answers, honest errors where it cannot be right, and clear words for what is wrong."""

import inspect
import math
import re
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.algorithms.continued import Drift
from qpaths.algorithms.islands import Control, Identities, Islands, run_islands
from qpaths.core.arrays import stack, stream_of
from qpaths.core.cost import Cost
from qpaths.core.numerics import log_mean_exp
from qpaths.front_door import batches
from qpaths.front_door.batches import _of_answer, _of_islands
from qpaths.front_door.checks.balance import Balance, balance
from qpaths.front_door.checks.drift import drift_of_draws
from qpaths.front_door.inputs import probe
from qpaths.front_door.limits import SCORES_COST, Limits
from qpaths.front_door.problem import path_given
from qpaths.remarks import Confirmation, Finding, Level, Note, Stop, Verdict
from qpaths.results import Status
from qpaths.rows import Evaluator, HostDensities, evaluator_of, layout_of
from qpaths.stats.standard_errors import ErrorParts

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
BUDGET = 80_000


def log_likelihood(x, data=1.0):
    return jnp.sum(norm.logpdf(data, x, 0.5))


EXACT = 2 * float(norm.logpdf(1.0, 0.0, 1.25**0.5))


def _islands(log_evidence, se):
    num = len(log_evidence)
    stats = {name: np.zeros((num, 1)) for name in ("increment_variance", "length", "log_evidence_lag")}
    nothing = Identities(*(np.zeros((num, 0)) for _ in Identities._fields))
    arrays = np.asarray(log_evidence), np.full(num, se), np.zeros((num, 4, 1)), np.zeros((num, 4))
    return Islands(*arrays, stats, nothing)


def _with_draws(path, samples):
    """Islands whose draws are given, and the balance of their scores."""
    num, each, _ = samples.shape
    scores = np.asarray(jax.vmap(jax.vmap(jax.grad(path.target.log_prob)))(samples))
    weights = np.full(each, 1 / each)
    control = Control.from_draws(samples[0], scores[0], weights)
    means = stack([control.means(rows, score, weights) for rows, score in zip(samples, scores, strict=True)])
    islands = Islands(np.zeros(num), np.full(num, 0.1), samples, np.zeros((num, each)), {}, means)
    return balance(evaluator(path), islands)


def evaluator(path):
    return Evaluator.of(path, HostDensities(layout_of(path), True))


@pytest.fixture(scope="module")
def model():
    return {"log_prior": BASE.log_prob, "log_likelihood": log_likelihood, "sample_prior": BASE.sample}


@pytest.fixture(scope="module")
def result(model):
    return qp.evidence(**model, key=jax.random.key(1), budget=BUDGET)


def test_answer_and_draws(result):
    error = float(result.log_evidence) - EXACT
    assert abs(error) < 5 * float(result.log_evidence_se) < 0.1
    np.testing.assert_allclose(log_mean_exp(result.log_weights), result.log_evidence, atol=1e-9)
    weights = np.exp(result.log_weights - result.log_weights.max())
    np.testing.assert_allclose(weights / weights.sum() @ result.samples, [0.8, 0.8], atol=0.1)
    assert result.num_evaluations.total <= BUDGET
    assert result.verdict.chosen[0].kind is Note.FROM_REFERENCE
    assert result.verdict.stopped.kind is Stop.BUDGET
    assert result.verdict.level == "sound"
    assert "nothing looks unreliable" in str(result.verdict)
    assert str(result.verdict).splitlines()[0] in result.summary()


def test_verdict_is_saved(result, tmp_path):
    result.save(tmp_path / "result.npz")
    assert qp.load_result(tmp_path / "result.npz").verdict == result.verdict


def test_stops_at_the_wanted_error_and_goes_on_from_a_file(model, result, tmp_path):
    """The file holds the pilots and two batches; the call that goes on makes the batches that are missing, the same."""
    file = tmp_path / "state.npz"
    rough = qp.evidence(**model, key=jax.random.key(1), budget=BUDGET, standard_error=0.02, checkpoint=file)
    assert rough.verdict.stopped.kind is Stop.STANDARD_ERROR
    assert float(rough.log_evidence_se) <= 0.02
    assert rough.num_evaluations.total < result.num_evaluations.total
    whole = qp.evidence(**model, key=jax.random.key(1), budget=BUDGET, checkpoint=file)
    assert float(whole.log_evidence) == float(result.log_evidence)
    assert float(whole.log_evidence_se) == float(result.log_evidence_se)
    with pytest.warns(
        UserWarning,
        match="too small for the standard error that you wanted: .* a standard error of 1e-05 would take about",
    ):
        more = qp.evidence(**model, key=jax.random.key(1), budget=2 * BUDGET, standard_error=1e-5, checkpoint=file)
    assert more.log_weights.size > result.log_weights.size
    with pytest.raises(ValueError, match="belongs to another run: `key` was"):
        qp.evidence(**model, key=jax.random.key(2), budget=BUDGET, checkpoint=file)
    other = {**model, "log_likelihood": lambda x: log_likelihood(x) - 1.0}
    with pytest.raises(ValueError, match="belongs to another run: `path` was"):
        qp.evidence(**other, key=jax.random.key(1), budget=BUDGET, checkpoint=file)
    other["log_likelihood"].__qualname__ = "log_likelihood"  # what a function computes cannot be seen from its name
    with pytest.raises(ValueError, match="belongs to other densities"):
        qp.evidence(**other, key=jax.random.key(1), budget=BUDGET, checkpoint=file)


def test_interrupt_returns_what_there_is(model, result, monkeypatch):
    once = batches.run_islands
    calls = []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return once(*arguments, **options)

    monkeypatch.setattr(batches, "run_islands", interrupted)
    partial = qp.evidence(**model, key=jax.random.key(1), budget=BUDGET)
    assert Status(int(partial.status)) == Status.UNFINISHED
    assert partial.log_weights.size < result.log_weights.size
    assert partial.verdict.stopped.kind is Stop.INTERRUPTED


def test_base_that_never_meets_the_target_ends_in_a_warning():
    far = qp.Density(lambda x: jnp.where(jnp.all(jnp.abs(x - 40.0) < 1), 0.0, -jnp.inf))
    with pytest.warns(UserWarning, match="no particle reached the target"):
        found = qp.evidence(BASE, far, key=jax.random.key(1), budget=BUDGET)
    assert float(found.log_evidence) == -jnp.inf
    assert float(found.log_evidence_se) == jnp.inf
    assert found.verdict.level == "wrong"


def test_target_40_standard_deviations_away_is_found_by_climbing():
    far = qp.Density(lambda x: -0.5 * jnp.sum((x - 40 / 2**0.5) ** 2))
    found = qp.evidence(BASE, far, key=jax.random.key(0), budget=20_000)
    error = abs(float(found.log_evidence) - float(jnp.log(2 * jnp.pi)))
    assert error < 4 * float(found.log_evidence_se) < 0.1
    assert Confirmation.TOO_FAR in [note.check for note in found.verdict.chosen if note.kind is Note.CHECKED]


def test_target_40_standard_deviations_away_has_an_honest_standard_error_from_the_base():
    far = qp.Density(lambda x: -0.5 * jnp.sum((x - 40 / 2**0.5) ** 2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = qp.evidence(BASE, far, key=jax.random.key(0), budget=20_000, reference=False)
    error = abs(float(found.log_evidence) - float(jnp.log(2 * jnp.pi)))
    assert error < 3 * float(found.log_evidence_se)
    assert any("did not get from the base to the target" in str(warning.message) for warning in caught)


def test_certificate_on_simulated_data(model):
    simulated = []

    def simulate(key, x):
        simulated.append(x + 0.5 * jax.random.normal(key, x.shape))
        return simulated[-1]

    found = qp.evidence(**model, data=jnp.ones(2), simulate=simulate, key=jax.random.key(1), budget=BUDGET)
    plain = qp.evidence(**model, data=jnp.ones(2), key=jax.random.key(1), budget=BUDGET)
    assert found.num_evaluations.total > 1.1 * plain.num_evaluations.total  # the certificate comes on top
    bounds = next(note for note in found.verdict.chosen if note.kind is Note.CERTIFICATE)
    lower, lower_se, upper, upper_se = bounds.lower, bounds.lower_se, bounds.upper, bounds.upper_se
    exact = float(jnp.sum(norm.logpdf(simulated[0], 0.0, 1.25**0.5)))
    assert lower - 4 * lower_se < exact < upper + 4 * upper_se
    assert upper - lower < 1.0
    with pytest.raises(ValueError, match="`simulate` needs"):
        qp.evidence(**model, simulate=simulate, key=jax.random.key(0))


def test_prior_that_is_not_normalized_and_constant_likelihood_are_seen():
    shifted = qp.Density(lambda x: BASE.log_prob(x) + 1.0, BASE.sample)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = qp.evidence(shifted, shifted, key=jax.random.key(1), budget=BUDGET)
    messages = " ".join(str(warning.message) for warning in caught)
    assert re.search(r"does not integrate to 1 but to exp\((0.99|1.0)", messages)
    assert "the likelihood is constant" in messages
    assert [f.kind for f in found.verdict.findings][:2] == [Finding.NOT_NORMALIZED, Finding.CONSTANT]
    assert found.verdict.level == "wrong"
    np.testing.assert_allclose(found.log_evidence, 0.0, atol=0.05)


def test_probe_of_endpoints_in_single_precision(key):
    prior = qp.MultivariateNormal(jnp.zeros(2, jnp.float32), jnp.eye(2, dtype=jnp.float32))
    prior = qp.Density(prior.log_prob, prior.sample)

    def probed(prior, likelihood):
        stream = stream_of(key, host=True)
        return probe(evaluator_of(path_given(prior, likelihood, None), stream, with_slopes=False), stream)

    constant = probed(prior, lambda x: jnp.float32(-3.1))
    assert constant.is_normalized
    assert ["likelihood is constant, 0.0450492" in str(finding) for finding in constant.findings] == [True]
    assert not probed(prior, lambda x: 1e-3 * x[0]).findings
    shifted = qp.Density(lambda x: prior.log_prob(x) - 0.1, prior.sample)
    assert not probed(shifted, lambda x: x[0]).is_normalized


def test_a_wanted_error_that_would_take_for_ever_ends_the_run():
    def stop(num_islands, error, budget=np.inf):
        islands = _islands(np.zeros(num_islands), error * num_islands**0.5)
        spent, batch = Cost.gradients(1_000_000), Cost.gradients(500)
        return Limits(budget, np.inf, 0.01).stop(islands, spent, batch, Cost(), seconds=1.0)

    found = stop(32, 0.1)
    assert found.kind is Stop.OUT_OF_REACH
    np.testing.assert_allclose(found.needed, 2e8)
    assert "a standard error of 0.01 would take about 200,000,000" in str(found)
    assert stop(8, 0.1) is None  # too early to tell
    assert stop(32, 0.05) is None
    assert stop(32, 0.1, budget=1e12) is None


def test_last_batch_has_as_many_islands_as_the_budget_and_the_time_allow():
    island = Cost(target=1000)
    limits = Limits(100_000.0, 60.0, 0.0)
    checked = SCORES_COST.total + 13_000  # and what is kept for other checks

    def num(spent, elapsed=0.0, each=0.0):
        return limits.num_islands(Cost(target=spent - checked), island, elapsed, each)

    assert [num(20_000), num(92_000), num(95_500), num(99_500)] == [8, 8, 4, 0]
    assert [num(20_000, 42.0, 1.0), num(20_000, 42.0, 3.0), num(20_000, 42.0, 11.0)] == [8, 3, 0]
    found = limits.stop(_islands(np.zeros(8), 1.0), Cost(target=20_000), island, Cost(), 50.0, num=0)
    assert str(found).startswith("stopped after 50 of 60 seconds and 20,000 of 100,000 evaluations")
    assert limits.left(Cost(target=40_000), 40.0) == 20_000  # in the 20 seconds that are left
    assert limits.left(Cost(target=90_000), 40.0) == 10_000


@pytest.mark.parametrize("budget", [30_000, 47_000, 110_000])
def test_budget_is_used(model, budget):
    result = qp.evidence(**model, key=jax.random.key(3), budget=budget)
    assert result.verdict.stopped.kind is Stop.BUDGET
    assert result.verdict.stopped.budget == budget
    assert 0.85 * budget < result.num_evaluations.total <= budget


def test_seconds_count_from_the_call_on():
    """A likelihood that takes 0.1 ms: the pilots alone would take longer than what is given without a look at it."""

    def slow(x):
        time.sleep(1e-4)
        return float(-0.5 * np.sum((x - 1.0) ** 2))

    start = time.monotonic()
    result = qp.evidence(
        log_prior=lambda x: float(-0.5 * np.sum(x**2) - np.log(2 * np.pi)),
        log_likelihood=slow,
        sample_prior=lambda generator: generator.normal(size=2),
        backend="numpy",
        key=jax.random.key(0),
        seconds=8,
    )
    took = time.monotonic() - start
    assert result.verdict.stopped.kind is Stop.SECONDS
    assert took < 16
    assert abs(result.verdict.stopped.seconds - took) < 2


def test_no_answer_is_sound_beside_a_lag_or_a_large_error_or_few_draws():
    def kinds(lag=0.0, spread=0.01, spare=0.0):
        log_evidence = np.linspace(-spread, spread, 8)
        islands = _islands(log_evidence, 0.05)
        log_weights = np.zeros((8, 40))
        log_weights[:, 1:] -= spare
        stats = islands.stats | {"log_evidence_lag": np.full((8, 1), lag)}
        changed = islands._replace(log_weights=log_weights, stats=stats)
        return [f.kind for f in _of_answer(changed, changed.parts)]

    assert kinds() == []
    assert kinds(lag=0.015) == []
    assert kinds(lag=-0.122) == [Finding.LAG]
    assert kinds(lag=-0.122 + 0.3 * np.array([[1.0], [-1.0]] * 4)) == []  # known to 0.1: it may be nothing
    # Large lags of both signs, known to 0.4: they may be nothing, and the error says so.
    assert kinds(lag=0.5 + 1.2 * np.array([[1.0], [-1.0]] * 4)) == [Finding.LARGE_ERROR]
    assert kinds(spread=4.0) == [Finding.LARGE_ERROR]
    assert Finding.FEW_EFFECTIVE in kinds(spare=9.0)
    verdict = Verdict(Stop.NOTHING_FOUND(), (), (Finding.LAG(lag=0.1, error=0.01),))
    assert "nothing looks unreliable" not in str(verdict)
    assert str(verdict).endswith("verdict: doubtful.")
    assert [level.exit_code for level in Level] == [0, 3, 4]


def test_a_lag_that_is_larger_than_the_error_widens_it():
    """All runs share a lag, so that their mean does not show it."""

    def error(lag, extra=0.0):
        islands = _islands(np.linspace(-0.01, 0.01, 8), 0.05)
        islands = islands._replace(stats=islands.stats | {"log_evidence_lag": np.full((8, 1), lag)})
        return islands.parts._replace(scores=extra).total

    alone = error(0.0)
    assert error(0.9 * alone) == alone
    assert error(-3.0 * alone) == pytest.approx(10**0.5 * alone)
    assert error(-3.0 * alone, extra=4.0 * alone) == pytest.approx(17**0.5 * alone)


def test_each_part_of_the_error_counts():
    """The larger view of the islands, what no particle saw, and what checks have found."""
    parts = ErrorParts(within=0.03, between=0.04)
    assert parts.total == 0.04
    for name in ErrorParts._fields:
        assert parts._replace(**{name: 0.5}).total >= 0.5
    assert parts._replace(tail=0.01, collapse=0.02).total == pytest.approx(0.07)
    checks = ("scores", "virials", "drift", "scans", "uncovered")
    assert parts._replace(**dict.fromkeys(checks, 0.1)).total == pytest.approx((0.04**2 + 5 * 0.1**2) ** 0.5)


def test_the_parts_of_the_error_come_with_the_result(model, tmp_path):
    result = qp.evidence(**model, key=jax.random.key(0), budget=30_000)
    assert ErrorParts(**result.error_parts).total == result.log_evidence_se
    result.save(tmp_path / "result.npz")
    again = qp.load_result(tmp_path / "result.npz")
    assert {name: float(part) for name, part in again.error_parts.items()} == result.error_parts


def test_scores_of_draws_that_miss_a_side_do_not_balance():
    """Draws of a normal distribution without its lower tenth: all islands miss the same, and only the scores tell."""
    rng = np.random.default_rng(0)
    path = qp.GeometricPath(BASE, BASE)
    draws = rng.standard_normal((8, 4000, 2))

    def of(samples):
        return _with_draws(path, np.stack([rows[:300] for rows in samples]))

    assert of(draws) == Balance()
    cut = of([rows[rows[:, 0] > -1.28] for rows in draws])
    assert 0.1 < cut.imbalance < 0.3
    assert cut.where == (0,)
    assert 0.1 < cut.narrow < 0.4
    bounded = qp.GeometricPath(BASE, qp.Density(lambda x: jnp.where(x[0] > -1.28, BASE.log_prob(x), -jnp.inf)))
    samples = np.stack([rows[rows[:, 0] > -1.28][:300] for rows in draws])
    assert _with_draws(bounded, samples) == Balance()


def test_a_density_with_steps_has_no_balance_of_scores():
    """The gradient of a function with steps does not see them, so that means of scores are not zero."""
    rng = np.random.default_rng(0)
    height = lambda x: jnp.floor(2 * x[0]) ** 2 / 8  # noqa: E731
    path = qp.GeometricPath(BASE, qp.Density(lambda x: BASE.log_prob(x) - height(x)))
    draws = rng.standard_normal((64_000, 2))
    kept = draws[rng.random(len(draws)) < np.exp(-(np.floor(2 * draws[:, 0]) ** 2) / 8)]
    samples = kept[: 8 * 4000].reshape(8, 4000, 2)
    assert _with_draws(path, samples) == Balance()
    narrow = qp.GeometricPath(BASE, qp.Density(BASE.log_prob))  # what the scores of these draws say without the check
    assert _with_draws(narrow, samples).imbalance + _with_draws(narrow, samples).narrow > 0.05


def test_scores_tell_that_the_neck_of_a_funnel_is_missing():
    """Noise of the wide coordinates hides it in the scores themselves; the virials take that noise away."""
    rng = np.random.default_rng(0)
    wide = qp.MultivariateNormal(jnp.zeros(6), 100 * jnp.eye(6))
    log_prob = lambda x: norm.logpdf(x[0], scale=2) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(x[0] / 2)))  # noqa: E731
    path = qp.GeometricPath(wide, qp.Density(log_prob))

    def of(first):
        rest = np.exp(first / 2)[..., None] * rng.standard_normal((*first.shape, 5))
        return _with_draws(path, np.concatenate([first[..., None], rest], axis=-1))

    first = 2 * rng.standard_normal((8, 5000))
    assert of(first[:, :500]) == Balance()
    ends = np.stack([row[row > -2][:500] for row in first])  # 16 % are missing
    missing = of(ends)
    assert 0.1 < np.hypot(missing.imbalance, missing.narrow) < 0.6


def test_virials_tell_that_tails_are_missing():
    """Draws without both tails: scores balance, since the two sides are alike. Heavy tails alone are no finding."""
    rng = np.random.default_rng(0)
    path = qp.GeometricPath(BASE, qp.Density(lambda x: jnp.sum(jax.scipy.stats.t.logpdf(x, 3.0))))

    def of(num_missing):
        draws = rng.standard_t(3, (16, 1000, 2))
        outside = np.abs(draws[..., :num_missing]) > 4  # 2.8 % of the mass in each coordinate
        draws[..., :num_missing] *= np.where(outside, 0.1, 1.0)
        return _with_draws(path, draws)

    assert of(0) == Balance()
    one, both = of(1), of(2)
    assert one.imbalance == 0
    assert one.where == (0,)
    assert 0.03 < one.narrow < 0.3
    assert both.where == (0, 1)
    assert 0.06 < both.narrow < 0.6
    wide = 1.5 * rng.standard_t(3, (16, 1000, 2))
    assert _with_draws(path, wide).narrow == 0


@pytest.mark.parametrize("num_steps", [1, 5])
def test_weights_with_a_heavy_tail_widen_the_error(num_steps):
    """The mass of a Pareto tail beyond n particles is n^(k - 1) in each step, and beyond single draws k w / (1 - k)."""
    rng = np.random.default_rng(0)

    def with_tail(index):
        islands = _islands(np.zeros(8), 0.01)
        stats = {name: np.zeros((8, num_steps)) for name in (*islands.stats, "log_evidence_lag")}
        quantiles = rng.permutation((np.arange(16_000) + 0.5) / 16_000).reshape(8, 2000)
        return islands._replace(log_weights=-index * np.log(quantiles), stats=stats)

    index = 1.2 if num_steps == 1 else 0.85
    light, heavy = with_tail(0.3), with_tail(index)
    np.testing.assert_allclose([light.tail_index, heavy.tail_index], [0.3, index], atol=0.05)
    assert light.unseen < 1e-3
    assert not any(finding.kind is Finding.HEAVY_WEIGHTS for finding in _of_answer(light, light.parts))
    np.testing.assert_allclose(heavy.unseen, 1.0 if num_steps == 1 else num_steps * 2000 ** (heavy.tail_index - 1))
    assert heavy.pooled[1] > heavy.unseen
    assert any(finding.kind is Finding.HEAVY_WEIGHTS for finding in _of_answer(heavy, heavy.parts))
    between = with_tail(0.6)
    assert between.is_heavy == (num_steps > 1)
    if num_steps == 1:
        # Of weights u^(-k) the share with u < 1 / (2 n) is (2 n)^(k - 1), and two standard errors reach that far.
        beyond = (2 * 16_000) ** (between.tail_index - 1)
        assert 0.4 * beyond < 2 * between.unseen < 2 * beyond


def test_a_base_with_lighter_tails_than_the_target_is_not_sound():
    """From a standard normal base a funnel loses its mouth in every step: 0.4 nats, and no island shows it."""
    funnel = qp.Density(lambda x: norm.logpdf(x[0], scale=3) + jnp.sum(norm.logpdf(x[1:], scale=jnp.exp(x[0] / 2))))
    base = qp.MultivariateNormal(jnp.zeros(10), jnp.eye(10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = qp.evidence(base, funnel, key=jax.random.key(0), budget=400_000, reference=False)
    assert result.verdict.level is Level.DOUBTFUL
    assert {Finding.HEAVY_WEIGHTS, Finding.DRIFT} & {finding.kind for finding in result.verdict.findings}
    assert abs(float(result.log_evidence)) < 3 * float(result.log_evidence_se)


def test_pooled_error_is_the_larger_view():
    spread = np.linspace(-0.7, 0.7, 8)
    assert _islands(spread, 0.01).pooled[1] > 0.15
    assert _islands(spread, 0.01).disagreement > 0.999
    np.testing.assert_allclose(_islands(np.zeros(8), 0.4).pooled[1], 0.4 / 8**0.5)
    far = _islands(np.zeros(8), 0.4)
    far.stats["increment_variance"][:] = 400.0
    far.stats["length"][:] = 3.0
    assert far.pooled[1] > 50


@pytest.mark.parametrize("spread", [1.0, 2.0, 4.0])
def test_log_normal_islands_are_covered(spread):
    """The mean of 16 of them has an error that their own spread, which saturates, does not show."""
    rng = np.random.default_rng(0)
    runs = [_islands(spread * rng.standard_normal(16) - 0.5 * spread**2, 0.01) for _ in range(400)]
    within = [abs(value) < 2 * error for value, error in (run.pooled for run in runs)]
    assert np.mean(within) > 0.85
    saturated = [abs(r.pooled[0]) < 2 * np.std(np.exp(r.log_evidence - r.pooled[0]), ddof=1) / 4 for r in runs]
    assert np.mean(saturated) < np.mean(within) - 0.05
    assert np.mean([Finding.SPREAD in [f.kind for f in _of_islands(run)] for run in runs]) > 0.99
    assert Finding.SPREAD not in [finding.kind for finding in _of_islands(_islands(rng.normal(0, 0.1, 16), 0.1))]


def test_draws_that_drift_are_a_finding(monkeypatch, model):
    """Moves that leave another target as it is must be seen, and what they show widens the standard error."""
    sound = qp.evidence(**model, key=jax.random.key(0))
    drift = Drift(0.02, 0.2)
    monkeypatch.setattr("qpaths.front_door.checks.drift.drift_of_draws", lambda *_: (drift, Cost()))
    with pytest.warns(UserWarning, match="2.0% of the draws are there, and 20.0% belong there"):
        found = qp.evidence(**model, key=jax.random.key(0))
    assert str(sound.verdict.level) == "sound"
    assert str(found.verdict.level) == "doubtful"
    np.testing.assert_allclose(found.log_evidence_se, np.hypot(sound.log_evidence_se, np.log(0.98 / 0.8)), rtol=1e-6)


def test_draws_without_the_tails_of_the_target_drift():
    """The islands of a run, complete and with all draws far out left out."""
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    path = qp.GeometricPath(base, qp.Density(lambda x: -0.125 * jnp.sum(x**2)))
    recipe = qp.tune(path, key=jax.random.key(0), budget=100_000, reference=False)
    islands = run_islands(recipe, 1000, stream=stream_of(jax.random.key(1), host=True))
    stream = stream_of(jax.random.key(2), host=True)
    spent = Cost(target=500_000)
    near = np.sum(np.square(islands.samples), axis=-1) < 4 * 4
    cut = islands._replace(log_weights=np.where(near, islands.log_weights, -np.inf))
    complete, cost = drift_of_draws(recipe, islands, spent, np.inf, stream)
    assert complete.error == 0
    assert 10_000 < cost.total <= 50_000
    found, _ = drift_of_draws(recipe, cut, spent, np.inf, stream)
    np.testing.assert_allclose(found.error, -np.log1p(-np.exp(-2)), rtol=0.5)  # 14 % of the mass is far out
    assert drift_of_draws(recipe, cut, spent, 1000.0, stream) == (Drift(), Cost())


@pytest.mark.usefixtures("as_a_user")
def test_an_infinite_limit_is_none():
    """A call without an end would be the answer to `budget=inf`."""
    assert Limits.of(math.inf, None, None) == Limits(math.inf, math.inf, 0.005)
    assert Limits.of(None, math.inf, None) == Limits.of(None, None, None)
    assert Limits.of(math.inf, 3.0, None) == Limits.of(None, 3.0, None)


def test_bad_input(model):
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="`budget` must be positive, got -5"):
        qp.evidence(**model, key=key, budget=-5)
    with pytest.raises(ValueError, match="`budget` must be at least 3,000"):
        qp.evidence(**model, key=key, budget=100)
    with pytest.raises(ValueError, match="`seconds` must be positive"):
        qp.evidence(**model, key=key, seconds=0)
    with pytest.raises(ValueError, match="`standard_error` must be positive"):
        qp.evidence(**model, key=key, standard_error=0.0)
    with pytest.raises(ValueError, match="give either `base` and `target`"):
        qp.evidence(BASE, BASE, **model, key=key)
    with pytest.raises(ValueError, match="`sample_prior` must be given"):
        qp.evidence(log_prior=BASE.log_prob, log_likelihood=log_likelihood, key=key)
    broken = {**model, "log_likelihood": lambda x: jnp.where(x[0] > 1, jnp.nan, 0.0)}
    with pytest.raises(FloatingPointError, match="is nan"):
        qp.evidence(**broken, key=key, budget=BUDGET, faults="raise")
    with pytest.raises(FileNotFoundError, match="a folder that does not exist"):
        qp.evidence(**model, key=key, checkpoint="/no/such/folder/file.npz")
    with pytest.raises(IsADirectoryError, match="`checkpoint` must be a file"):
        qp.evidence(**model, key=key, checkpoint="/")
    with pytest.raises(TypeError, match="must take a point and the data"):
        qp.evidence(**{**model, "log_likelihood": lambda x: -x[0]}, data=1.0, key=key)


def test_a_path_of_ones_own(key):
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    target = qp.Density(lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
    exact = np.log(1 / 5) - 4 / 5
    slopes = []
    for path in (qp.GeometricPath(base, target), qp.QPath(base, target, q=0.5)):
        result = qp.evidence(path=path, budget=40_000, key=key)
        assert abs(float(result.log_evidence) - exact) < 5 * float(result.log_evidence_se)
        slopes.append(result.stats["derivative_mean"][-1])
    assert abs(slopes[0] - slopes[1]) > 0.02  # each path comes to the target in its own way
    with pytest.raises(TypeError, match="`path` must be a path such as"):
        inspect.unwrap(qp.evidence)(path=base, key=key)
    with pytest.raises(ValueError, match="`path` has its own endpoints, got also target"):
        qp.evidence(path=path, target=target, key=key)


def test_a_path_with_a_vector_of_features(key):
    """Blocks of data as a path of its own: the checks look at its densities, not at two numbers."""
    data = jnp.array([0.3, -0.8, 1.9])
    prior = qp.MultivariateNormal(jnp.zeros(1), 4.0 * jnp.eye(1))
    path = qp.paths.DataPath(prior, lambda x: jax.scipy.stats.norm.logpdf(data, x[0]))
    result = qp.evidence(path=path, key=key, budget=60_000)
    exact = qp.MultivariateNormal(jnp.zeros(3), jnp.eye(3) + 4.0).log_prob(data)
    assert abs(float(result.log_evidence) - float(exact)) < 5 * float(result.log_evidence_se)
