"""Mistakes in what a user gives are found and named, and sound models pass."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import cauchy, norm

import qpaths as qp
from qpaths.core.arrays import stream_of
from qpaths.front_door.exchange import Axes, draws_inside, moved_draws, sign_probability, step_sizes
from qpaths.front_door.inputs import base_alone, log_mass, probe
from qpaths.front_door.problem import model_path
from qpaths.remarks import Finding, Level, Note
from qpaths.rows import evaluator_of


def square(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


def _evaluator(log_prior, sample, likelihood=square, backend="jax"):
    path, _ = model_path(None, None, log_prior, likelihood, sample, None, backend)
    return evaluator_of(path, stream_of(jax.random.key(0), host=True), with_slopes=backend == "jax")


def _probe(key, log_prior, sample, likelihood=square, backend="jax"):
    return probe(_evaluator(log_prior, sample, likelihood, backend), stream_of(key, host=True))


def log_prior(x):
    """A mean with standard deviation 2, and the log of a scale with a half-normal distribution."""
    return norm.logpdf(x["mean"], 0.0, 2.0) + jnp.log(2) + norm.logpdf(jnp.exp(x["log_scale"])) + x["log_scale"]


def sample(key):
    a, b = jax.random.split(key)
    return {"mean": 2 * jax.random.normal(a), "log_scale": jnp.log(jnp.abs(jax.random.normal(b)))}


def _wide(key):
    return sample(key) | {"mean": 4 * jax.random.normal(key)}


def _shared_key(key):
    return {"mean": 2 * jax.random.normal(key), "log_scale": jnp.log(jnp.abs(jax.random.normal(key)))}


def _frozen(key):
    return sample(key) | {"mean": jnp.asarray(np.random.default_rng(0).normal())}


@pytest.mark.parametrize(
    ("density", "sampler", "kind", "values"),
    [
        (log_prior, _wide, Finding.SAMPLER, {"coordinates": "mean", "worst": "mean"}),
        (
            lambda x: log_prior(x) - x["log_scale"],
            sample,
            Finding.JACOBIAN,
            {"coordinates": "log_scale", "function": "exp"},
        ),
        (log_prior, _shared_key, Finding.DEPENDENCE, {"first": "log_scale", "second": "mean"}),
        (log_prior, _frozen, Finding.FROZEN, {"coordinates": "mean"}),
        (
            lambda x: jnp.where(jnp.abs(x["mean"]) < 3, log_prior(x), -jnp.inf),
            sample,
            Finding.OUTSIDE,
            {"total": 512},
        ),
    ],
    ids=["wide", "jacobian", "shared key", "frozen", "outside"],
)
def test_each_mistake_in_a_sampler_is_named_with_its_coordinate(density, sampler, kind, values, key):
    (finding,) = _probe(key, density, sampler).findings
    assert finding.kind is kind
    assert kind.level is Level.WRONG
    assert values.items() <= dict(finding.values).items()
    if kind is Finding.SAMPLER:
        assert 1.7 < finding.ratio < 2.3
        assert "times as wide" in str(finding)


def test_no_gradient_is_needed(key):
    def numpy_prior(x):
        return -0.5 * float(np.sum((x / 2.0) ** 2)) - 2 * np.log(2.0) - np.log(2 * np.pi)

    for width, kinds in ((2.0, []), (4.0, [Finding.SAMPLER])):
        found = _probe(key, numpy_prior, lambda g: g.normal(0, width, 2), lambda x: -float(x[0] ** 2), "numpy")
        assert [finding.kind for finding in found.findings] == kinds


def _uniform(key):
    return jax.random.uniform(key, (3,))


def _in_unit_cube(x):
    return jnp.where(jnp.all((x > 0) & (x < 1)), 0.0, -jnp.inf)


def _funnel(key):
    a, b = jax.random.split(key)
    v = 3 * jax.random.normal(a)
    return jnp.concatenate([v[None], jnp.exp(0.5 * v) * jax.random.normal(b, (9,))])


@pytest.mark.parametrize(
    ("density", "sampler"),
    [
        (log_prior, sample),
        (lambda x: jnp.sum(cauchy.logpdf(x)), lambda key: jax.random.cauchy(key, (3,))),
        (_in_unit_cube, _uniform),
        (
            lambda x: norm.logpdf(x[0], 0.0, 3.0) + jnp.sum(norm.logpdf(x[1:], 0.0, jnp.exp(0.5 * x[0]))),
            _funnel,
        ),
    ],
    ids=["scale", "Cauchy", "uniform", "funnel"],
)
def test_sound_priors_pass(density, sampler, key):
    """Stein's identities fail at hard bounds and have huge noise in a funnel; the exact test decides."""
    evaluator = _evaluator(density, sampler)
    assert not any(probe(evaluator, stream_of(one, host=True)).findings for one in jax.random.split(key, 5))


def test_a_sampler_of_half_the_cube_is_found(key):
    (finding,) = _probe(key, _in_unit_cube, lambda key: _uniform(key) * jnp.array([1.0, 0.5, 1.0])).findings
    assert (finding.kind, finding.coordinates) == (Finding.SAMPLER, "x[1]")


def test_moved_draws_keep_the_density_they_have(key):
    """In a case where the law after a move is known; leapfrog without its acceptance step must be rejected."""
    evaluator = base_alone(_evaluator(lambda x: jnp.sum(norm.logpdf(x)), lambda key: jax.random.normal(key, (4,))))
    draw, move = stream_of(key, host=True).split(2)
    rows = evaluator.draw(draw, 8192)
    drawn = draws_inside(evaluator, rows)
    axes = Axes.of(rows[:512])
    steps = step_sizes(axes, rows[:512], drawn.slopes[:512])
    before, after = rows, moved_draws(evaluator, drawn, axes, steps, move).position
    assert np.mean(before != after) > 0.5
    assert sign_probability(np.abs(after[:, 0]) - np.abs(before[:, 0])) > 1e-4
    # The half of the distance that is farther out does not have the density.
    wrong = before + 1.5 * (after - before)
    assert sign_probability(np.abs(wrong[:, 0]) - np.abs(before[:, 0])) < 1e-6


def test_probability_of_signs_is_a_bound(key):
    """Over all 2^10 signs of ten differences the bound is at least the share of sums as large."""
    sizes = np.arange(1.0, 11.0)
    signs = 1 - 2.0 * ((np.arange(1024)[:, None] >> np.arange(10)) & 1)
    sums = np.abs(signs @ sizes)
    for row in signs[::37]:
        share = np.mean(sums >= np.abs(row @ sizes))
        assert sign_probability(row * sizes) >= share
    assert sign_probability(sizes) < 0.05
    assert sign_probability(np.zeros(3)) == 1.0


def test_mass_from_both_sides(key):
    """A prior with mass exp(0.7), one with mass 1, and one whose tails are too heavy to tell."""

    def mass(shift, law=norm, draw=jax.random.normal):
        evaluator = base_alone(_evaluator(lambda x: shift + jnp.sum(law.logpdf(x)), lambda key: draw(key, (2,))))
        first, second = stream_of(key, host=True).split(2)
        return log_mass(evaluator, evaluator.draw(first, 2000), second)

    value, error = mass(0.7)
    assert abs(value - 0.7) < 5 * error < 0.15
    assert mass(0.0) is None
    assert mass(0.7, cauchy, jax.random.cauchy) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_base_that_falls_like_an_exponential_of_an_exponential(seed):
    """The log of an exponential number: draws of a wide reference find values of -exp(30) and less."""

    def mass(shift):
        base = lambda x: shift + jnp.sum(x - jnp.exp(x))  # noqa: E731
        evaluator = base_alone(_evaluator(base, lambda key: jnp.log(jax.random.exponential(key, (3,)))))
        first, second = stream_of(jax.random.key(seed), host=True).split(2)
        return log_mass(evaluator, evaluator.draw(first, 2000), second)

    assert mass(0.0) is None
    value, error = mass(0.7)
    assert abs(value - 0.7) < 5 * error < 0.15


def test_ignored_coordinate_is_a_note(key):
    def likelihood(x):
        return -0.5 * x["mean"] ** 2

    found = _probe(key, log_prior, sample, likelihood)
    assert found.findings == []
    (note,) = found.notes
    assert (note.kind, note.coordinates) == (Note.IGNORED, "log_scale")

    # The likelihood does not see the mean of an effect either, but it sees the effect.
    def hierarchical(x):
        return norm.logpdf(x[0]) + norm.logpdf(x[1], x[0])

    def draw(key):
        mean, effect = jax.random.normal(key, (2,))
        return jnp.array([mean, mean + effect])

    assert _probe(key, hierarchical, draw, lambda x: -(x[1] ** 2)).notes == ()
    # A likelihood of steps has no slope anywhere, and depends on its argument.
    assert _probe(key, hierarchical, draw, lambda x: jnp.where(x[1] > 0, 1.0, 0.0)).notes == ()


def test_evidence_says_that_the_answer_is_wrong():
    with pytest.warns(UserWarning, match="does not draw from its density"):
        result = qp.evidence(
            log_prior=lambda x: jnp.sum(norm.logpdf(x, 0.0, 2.0)),
            log_likelihood=lambda x: jnp.sum(norm.logpdf(1.0, x, 0.5)),
            sample_prior=lambda key: 4 * jax.random.normal(key, (2,)),
            key=jax.random.key(0),
            budget=60_000,
        )
    assert result.verdict.level == "wrong"


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_an_error_of_the_user_is_told_from_one_of_ours_whatever_its_words(backend):
    def log_likelihood(x):
        raise ValueError("`rate` of my own check")

    def sample(source):
        return source.normal(size=2) if backend == "numpy" else jax.random.normal(source, (2,))

    words = {"numpy": "`log_likelihood` raised ValueError at", "jax": "`log_likelihood` does not take a draw"}[backend]
    with pytest.raises(ValueError, match=f"^{words}.*`rate` of my own check"):
        _probe(jax.random.key(0), lambda x: -0.5 * (x**2).sum(), sample, log_likelihood, backend)


def _failing(values, fails):
    """A log likelihood that is NaN, infinite or an error in a part of space, for NumPy."""

    def log_likelihood(x):
        if fails(x):
            if values is None:
                raise FloatingPointError("the solver failed")
            return values
        return -0.5 * np.sum((x - 3) ** 2)

    return log_likelihood


STANDARD = {"log_prior": lambda x: -0.5 * np.sum(x**2) - np.log(2 * np.pi), "sample_prior": lambda g: g.normal(size=2)}


@pytest.mark.parametrize("values", [None, np.nan, np.inf])
def test_points_at_which_a_density_fails_have_no_mass(values):
    """As asked, the first one is an error; by default the run goes on, and the verdict says how many there are."""
    log_likelihood = _failing(values, lambda x: x[0] > 1.5)
    model = {**STANDARD, "backend": "numpy", "key": jax.random.key(0), "budget": 20_000}
    words = r"the solver failed" if values is None else "log_likelihood` is "
    with pytest.raises((RuntimeError, FloatingPointError), match=words):
        qp.evidence(**model, log_likelihood=log_likelihood, faults="raise")
    with pytest.warns(UserWarning, match="of the draws from the prior and .*points without mass"):
        result = qp.evidence(**model, log_likelihood=log_likelihood)
    (finding,) = [one for one in result.verdict.findings if one.kind in (Finding.FAULTS, Finding.MANY_FAULTS)]
    assert 0.03 < finding.before < 0.12  # 6.7 % of the draws from the prior
    assert 0.1 < finding.after < 0.5  # and half of those from the posterior, which is what makes it wrong
    assert finding.kind is Finding.MANY_FAULTS
    assert result.verdict.level == "wrong"
    assert ("the solver failed" if values is None else f"is {values} at the point") in finding.what
    exact = -2 * np.log(2) - 4.5
    assert abs(float(result.log_evidence) - exact) < 4 * float(result.log_evidence_se)


def test_failures_far_from_the_posterior_are_a_finding_or_a_note():
    """In JAX: 6.7 % of the draws from the prior fail, or 0.1 %, and no point around the posterior."""

    def run(bound):
        return qp.evidence(
            prior={"x": qp.Normal(0.0, 1.0), "y": qp.Normal(0.0, 1.0)},
            log_likelihood=lambda p: jnp.where(p["x"] < bound, jnp.nan, -50 * ((p["x"] - 1) ** 2 + p["y"] ** 2)),
            key=jax.random.key(1),
            budget=20_000,
        )

    exact = -np.log(101) - 50 / 101
    with pytest.warns(UserWarning, match="of the draws from the prior and 0.0% of points around the final draws"):
        often = run(-1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rarely = run(-3.0)
    assert [finding.kind for finding in often.verdict.findings] == [Finding.FAULTS]
    assert re.search(r"is nan at the point x = -\d.*, y = ", often.verdict.findings[0].what)
    assert rarely.verdict.level == "sound"
    for result in (often, rarely):
        assert abs(float(result.log_evidence) - exact) < 4 * float(result.log_evidence_se)


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_a_density_that_fails_at_all_draws_is_an_error(backend):
    xp = np if backend == "numpy" else jnp
    standard = lambda x: -0.5 * xp.sum(x**2) - np.log(2 * np.pi)  # noqa: E731
    sample = STANDARD["sample_prior"] if backend == "numpy" else lambda key: jax.random.normal(key, (2,))
    settings = {"sample_prior": sample, "backend": backend, "key": jax.random.key(0), "budget": 20_000}
    with pytest.raises(FloatingPointError, match=r"`log_likelihood` is nan at the draw \[.*fails at all others"):
        qp.evidence(log_prior=standard, log_likelihood=lambda x: np.nan * x[0], **settings)
    with pytest.raises(FloatingPointError, match=r"`log_prior` is nan at the draw \[.*fails at all others"):
        qp.evidence(log_prior=lambda x: np.nan * x[0], log_likelihood=standard, **settings)


def test_what_is_no_number_is_an_error_also_where_faults_are_rejected(as_a_user):
    model = {**STANDARD, "backend": "numpy", "key": jax.random.key(0), "budget": 20_000}
    for wrong, got in ((None, "None"), (np.zeros(2), r"shape \(2,\)")):
        with pytest.raises(ValueError, match=rf"^`log_likelihood` must return one number for one point, got {got}"):
            qp.evidence(**model, log_likelihood=lambda x: wrong)
    with pytest.raises(ValueError, match="`faults` must be 'reject' or 'raise', got 'ignore'"):
        qp.evidence(**model, log_likelihood=lambda x: 0.0, faults="ignore")


def test_a_sampler_of_few_values_has_no_density(key):
    """A normal density with a sampler of three values. A kernel of the user's own may move such values."""

    def log_prior(x):
        return jax.scipy.stats.norm.logpdf(x).sum()

    def sample(key):
        return jax.random.choice(key, jnp.array([-1.2, 0.0, 1.2]), (2,))

    (finding,) = _probe(key, log_prior, sample).findings
    assert (finding.kind, finding.num) == (Finding.DISCRETE, 3)
    evaluator = _evaluator(log_prior, sample, square, "jax")
    found = probe(evaluator, stream_of(key, host=True), is_continuous=False).findings
    assert Finding.DISCRETE not in [finding.kind for finding in found]
