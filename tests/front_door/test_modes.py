"""Modes that a run has met count, and an answer without a search for modes is not sound."""

import dataclasses
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.references.ascents import Mode
from qpaths.references.known import Missing
from qpaths.remarks import Finding, Level

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
