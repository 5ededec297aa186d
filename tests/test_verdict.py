"""A number that is not finite makes every result "wrong": comparisons with NaN are false, so that no check sees one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.comparison import Comparison
from qpaths.remarks import Finding, Stop, Verdict
from qpaths.results import BoundsResult

BAD = [np.nan, np.inf, -np.inf]
PATH = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
SMC = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk())


@pytest.fixture(scope="module")
def good():
    return SMC.run(PATH, key=jax.random.key(0))


@pytest.mark.parametrize("name", ["log_evidence", "log_evidence_se"])
@pytest.mark.parametrize("value", BAD)
def test_no_result_is_made_without_a_verdict_on_numbers_that_are_not_finite(good, name, value):
    assert good.verdict is None
    for given in (None, Verdict(Stop.ENDED(), (), (Finding.DISAGREEMENT(),))):
        with pytest.warns(UserWarning, match=f"SMC: `{name}` is {value}"):
            bad = dataclasses.replace(good, **{name: np.asarray(value)}, verdict=given)
        assert bad.verdict.level == "wrong"
        assert [f.kind for f in bad.verdict.findings if f.kind is Finding.NOT_FINITE] == [Finding.NOT_FINITE]
        assert "verdict: wrong" in bad.summary()
        assert dataclasses.replace(bad).verdict == bad.verdict  # said once


def test_a_finding_that_is_wrong_already_is_enough(good):
    nothing = Verdict(Stop.NOTHING_FOUND(), (), (Finding.NOTHING_REACHED(error="none"),))
    assert dataclasses.replace(good, log_evidence=np.asarray(-np.inf), verdict=nothing).verdict is nothing


def test_a_compiled_run_says_it_in_its_summary():
    """Nothing is known of the numbers while the program is compiled."""
    path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: jnp.where(x > 99.0, 0.0, -jnp.inf))
    result = jax.jit(lambda key: SMC.run(path, key=key))(jax.random.key(0))
    assert not np.isfinite(float(result.log_evidence))
    assert result.verdict is None
    assert "verdict: wrong" in result.summary()


@pytest.mark.parametrize("name", ["lower", "upper", "lower_se", "upper_se"])
@pytest.mark.parametrize("value", BAD)
def test_bounds_that_are_not_finite_are_wrong(good, name, value):
    numbers = dict.fromkeys(("lower", "upper", "lower_se", "upper_se"), jnp.asarray(1.0))
    assert BoundsResult(**numbers, forward=good, reverse=good).verdict is None
    bounds = BoundsResult(**numbers | {name: jnp.asarray(value)}, forward=good, reverse=good)
    assert bounds.verdict.level == "wrong"
    assert f"`{name}` is {value}" in bounds.summary()


@pytest.mark.parametrize(
    "algorithm",
    [
        qp.AIS(2, qp.LinearSchedule(3), qp.RandomWalk()),
        qp.ThermodynamicIntegration(SMC, num_replicates=2),
        qp.ParallelTempering(3, 1, qp.RandomWalk(), num_chains=2, num_scans=2),
    ],
    ids=lambda algorithm: type(algorithm).__name__,
)
def test_every_algorithm_says_it(algorithm, monkeypatch):
    for name in ("pt.jackknife_se", "ti.few_replicas"):
        monkeypatch.setattr(f"qpaths.algorithms.{name}", lambda *arguments: np.float64(np.nan))
    numbers = np.float64(0.0), np.float64(np.nan)
    monkeypatch.setattr("qpaths.algorithms.ais.importance_log_evidence", lambda log_weights: numbers)
    with pytest.warns(UserWarning, match="`log_evidence_se` is nan"):
        result = algorithm.run(PATH, key=jax.random.key(0))
    assert result.verdict.level == "wrong"


@pytest.mark.parametrize("error", [np.nan, np.inf])
def test_a_comparison_does_not_prefer_a_model_without_a_standard_error(good, error):
    with pytest.warns(UserWarning, match="is not|says nothing"):
        results = {
            "a": dataclasses.replace(good, log_evidence=np.asarray(-1.0), log_evidence_se=np.asarray(error)),
            "b": dataclasses.replace(good, log_evidence=np.asarray(-9.0), log_evidence_se=np.asarray(0.1)),
        }
    table = qp.compare(results)
    assert table.levels == ("wrong", "")
    assert "cannot be told" in table.conclusion
    assert "Beware of a (wrong)" in table.conclusion
    alone = Comparison(("a", "b"), np.array([-1.0, -9.0]), np.array([error, 0.1]), np.zeros(2), ("", ""))
    assert "cannot be told" in alone.conclusion
