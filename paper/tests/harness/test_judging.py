"""Verdicts from values and their standard errors."""

from qpaths_paper.harness.experiment import Judgment
from qpaths_paper.harness.judging import all_of, judge, smaller
from qpaths_paper.harness.statistics import Estimate


def test_a_verdict_needs_two_standard_errors():
    assert judge(0.5, 0.1, 0.0, 1.0) is Judgment.HOLDS
    assert judge(0.9, 0.1, 0.0, 1.0) is Judgment.OPEN
    assert judge(1.1, 0.1, 0.0, 1.0) is Judgment.OPEN
    assert judge(1.3, 0.1, 0.0, 1.0) is Judgment.FAILS
    assert judge(-0.3, 0.1, 0.0, 1.0) is Judgment.FAILS
    assert judge(0.5, float("nan"), 0.0, 1.0) is Judgment.OPEN
    assert all_of([Judgment.HOLDS, Judgment.OPEN]) is Judgment.OPEN
    assert all_of([Judgment.HOLDS, Judgment.OPEN, Judgment.FAILS]) is Judgment.FAILS
    assert all_of([Judgment.HOLDS]) is Judgment.HOLDS
    assert all_of([]) is Judgment.OPEN


def test_all_differences_must_be_below_zero():
    found = {"a": Estimate(-2.0, 0.1), "b": Estimate(-1.0, 0.1)}
    (claim,) = smaller("x", "y", found)
    assert (claim.ours, claim.judgment) == ("least: 1.00 ± 0.10 nats smaller", Judgment.HOLDS)
    (claim,) = smaller("x", "y", {**found, "c": Estimate(1.0, 0.1)}, lambda where, least: f"{where}: {least}")
    assert (claim.ours, claim.judgment) == ("c: 1.00 ± 0.10 nats larger", Judgment.FAILS)
    assert list(smaller("x", "y", {})) == []
