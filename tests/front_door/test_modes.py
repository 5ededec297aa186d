"""Modes that a run has met count, and an answer without a search for modes is not sound."""

import dataclasses
import importlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core import Cost
from qpaths.core.arrays import HostStream
from qpaths.front_door.checks.base import Run
from qpaths.front_door.checks.second import Second
from qpaths.references.ascents import Mode
from qpaths.references.components import Component
from qpaths.references.known import Missing
from qpaths.references.reference import Reference
from qpaths.remarks import Confirmation, Finding, Level, Note, Stop, Verdict
from qpaths.rows import evaluator_of

pytestmark = pytest.mark.filterwarnings("ignore:evidence")
module = importlib.import_module("qpaths.front_door.evidence")
KEY = jax.random.key(0)


def kinds(result):
    return [finding.kind for finding in result.verdict.findings]


def two_modes_blind(dimension, budget, step=False):
    """Two normals of the same mass at +-1.5 under a wide normal prior, without a gradient; and the exact log evidence.

    With `step` the log likelihood is rounded, so that differences say nothing.
    """

    def log_prior(rows):
        return -0.5 * np.sum(rows**2, axis=1) / 9 - 0.5 * dimension * np.log(2 * np.pi * 9)

    def log_joint(rows):
        value = np.logaddexp(*(-2.0 * np.sum((rows - side) ** 2, axis=1) for side in (1.5, -1.5)))
        return log_prior(rows) + (np.floor(value) if step else value)

    base = qp.Density(log_prior, lambda generator: 3 * generator.normal(size=dimension), backend="numpy", batched=True)
    result = qp.evidence(base, qp.Density(log_joint, backend="numpy", batched=True), budget=budget, key=KEY)
    exact = np.log(2) + dimension * (-0.5 * np.log(9.25 / 0.25) - 0.5 * 1.5**2 / 9.25)
    return result, exact


def test_two_modes_without_gradient_are_found_by_differences():
    result, exact = two_modes_blind(10, 200_000)
    assert abs(result.log_evidence - exact) < 0.03
    assert result.verdict.level == Level.SOUND


@pytest.mark.parametrize(("budget", "step"), [(20_000, False), (40_000, True)])
def test_no_answer_is_sound_where_nothing_looked_for_modes(budget, step):
    """There are too few evaluations for differences, or the density has steps."""
    result, _ = two_modes_blind(10, budget, step)
    assert Finding.NOT_SEARCHED in kinds(result)
    assert result.verdict.level != Level.SOUND
    assert "nothing looks unreliable" not in result.summary()


@pytest.mark.parametrize("seed", range(2))
def test_eight_equal_wells_are_all_found(seed):
    """The log density at each top is zero, where rounding errors are no share of the value."""
    dimension = 10
    centers = jnp.asarray(np.random.default_rng(5).uniform(-6, 6, (8, dimension)))
    target = qp.Density(lambda x: jax.nn.logsumexp(-0.5 * jnp.sum((x - centers) ** 2, axis=-1) / 0.09))
    base = qp.MultivariateNormal(jnp.zeros(dimension), 25 * jnp.eye(dimension))
    result = qp.evidence(base, target, budget=300_000, key=jax.random.key(seed))
    assert abs(result.log_evidence - (np.log(8) + 0.5 * dimension * np.log(2 * np.pi * 0.09))) < 0.02
    assert result.verdict.level == Level.SOUND


BASE = qp.MultivariateNormal(jnp.zeros(2), 16 * jnp.eye(2))
FAR = np.array([6.0, 6.0])


def wells(x):
    return jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - FAR) ** 2))


def test_modes_that_draws_miss_restart_the_search(monkeypatch):
    """The second search starts from them; what the first one cost is counted."""
    looks, mode = [], Mode(FAR, 0.0, np.eye(2))

    def look(run, checks):
        looks.append((run.recipe, run.spent))
        seen = original(run, checks)
        return seen._replace(modes=(mode,)) if len(looks) == 1 else seen

    def tune(*arguments, **settings):
        recipe = tuned(*arguments, **settings)
        return recipe if looks else dataclasses.replace(recipe, modes=())

    original, tuned = module.look, module.tune_population
    monkeypatch.setattr(module, "look", look)
    monkeypatch.setattr(module, "tune_population", tune)
    result = qp.evidence(BASE, qp.Density(wells), budget=200_000, standard_error=0.02, key=KEY)
    (_, first), (recipe, second) = looks
    assert len(recipe.modes) >= 1
    assert second.total > first.total
    assert recipe.num_evaluations.total > first.total
    assert Finding.UNCOVERED not in kinds(result)
    assert abs(result.log_evidence - np.log(4 * np.pi)) < 0.1
    assert result.num_evaluations.total <= 200_000


def test_modes_that_draws_miss_are_a_finding_and_widen_the_error(monkeypatch):
    missing = Missing((Mode(FAR, 0.0, np.eye(2)),), 0.9, 0.0, 2.3)
    monkeypatch.setattr("qpaths.front_door.checks.known_modes.missing_mass", lambda *_: (missing, 0))
    monkeypatch.setattr(module, "_AGAIN_SHARE", 2.0)  # no room for another search
    result = qp.evidence(BASE, qp.Density(wells), budget=60_000, key=KEY)
    assert Finding.UNCOVERED in kinds(result)
    assert result.error_parts["uncovered"] == 2.3
    assert result.log_evidence_se >= 2.3
    assert "2.3 nats too small" in str(result.verdict)


def test_known_modes_go_through_a_file(tmp_path):
    file = tmp_path / "call.npz"
    settings = {"budget": 60_000, "key": KEY, "checkpoint": file}
    first, again = (qp.evidence(BASE, qp.Density(wells), **settings) for _ in range(2))
    assert float(first.log_evidence) == float(again.log_evidence)
    assert float(first.log_evidence_se) == float(again.log_evidence_se)
    assert first.verdict.level == again.verdict.level


class RunSoFar(Run):
    """A run of which only some parts are there."""

    left = 1e9

    def __init__(self, **parts):
        self.__dict__.update(parts)


def run_with(notes, log_evidence, path=None, base=None):
    """What a check sees of a run with an answer."""
    path = qp.GeometricPath(BASE, qp.Density(wells)) if path is None else path
    stream = HostStream((3,))
    return RunSoFar(
        evaluator=evaluator_of(path, stream, with_slopes=True),
        kernel=qp.HMC(num_leapfrog=5),
        recipe=SimpleNamespace(notes=notes, path=SimpleNamespace(base=base)),
        islands=SimpleNamespace(pooled=(log_evidence, 0.01)),
        spent=Cost(target=200_000),
        stream=stream,
    )


SEVERAL = Note.FROM_REFERENCE(shape="", source="", share=0.05, length=1.0, num_modes=2)
ALONE = Note.FROM_REFERENCE(shape="", source="", share=0.05, length=1.0, num_modes=None)


def test_a_second_search_that_finds_more_mass_is_a_finding():
    exact = np.log(4 * np.pi)
    seen = Second().look(run_with((SEVERAL,), exact - 2))
    (finding,) = seen.findings
    assert finding.kind is Finding.SECOND
    assert abs(finding.apart - 2) < 0.5
    assert seen.errors["uncovered"] == finding.apart
    assert 0 < seen.cost.total < 0.15 * 200_000


def test_a_second_search_that_agrees_leads_to_all_modes():
    seen = Second().look(run_with((SEVERAL,), np.log(4 * np.pi)))
    assert not seen.findings
    assert seen.agrees
    near = [np.linalg.norm(seen.places - center, axis=1).min() < 2 for center in (0.0, FAR)]
    assert all(near)


def test_a_mode_that_a_run_from_the_base_has_confirmed_needs_no_second_search():
    confirmed = (ALONE, Note.CHECKED(check=Confirmation.CONFIRMED))
    assert Second().look(run_with(confirmed, 0.0)).cost.total == 0
    alone = (ALONE, Note.CHECKED(check=Confirmation.TOO_FAR))
    assert Second().look(run_with(alone, 0.0)).cost.total > 0


def test_a_narrow_mode_in_two_dimensions_is_seen_by_draws_of_the_base():
    def target(x):
        narrow = jnp.sum(jax.scipy.stats.norm.logpdf(x, 2.0, 0.03))
        return jnp.logaddexp(jnp.log(0.7) + narrow, jnp.log(0.3) + jnp.sum(jax.scipy.stats.norm.logpdf(x)))

    path = qp.GeometricPath(BASE, qp.Density(target))
    layout = evaluator_of(path, HostStream((3,)), with_slopes=True).layout
    reference = Reference((Component.linear(30.0, np.zeros(2), np.eye(2)),), np.ones(1), BASE, 0.05, layout)
    confirmed = (ALONE, Note.CHECKED(check=Confirmation.CONFIRMED))
    seen = Second().look(run_with(confirmed, np.log(0.3), path, reference))
    assert np.linalg.norm(seen.places - 2.0, axis=1).max() < 0.3
    wide = qp.GeometricPath(BASE, qp.Density(lambda x: jnp.sum(jax.scipy.stats.norm.logpdf(x))))
    assert Second().look(run_with(confirmed, 0.0, wide, reference)).places is None


@pytest.mark.parametrize("check", list(Confirmation))
def test_a_summary_says_where_no_second_search_was_possible(check):
    text = str(Verdict(Stop.BUDGET(spent=1, budget=2, pilots=1, needed=None), (Note.CHECKED(check=check),)))
    was_possible = check in (Confirmation.CONFIRMED, Confirmation.COMPLETED)
    assert ("nothing looks unreliable" in text) == was_possible
    assert ("no second search for modes was possible" in text) != was_possible
