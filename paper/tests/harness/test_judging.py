"""Verdicts from values and their standard errors."""

from qpaths_paper.harness.experiment import Judgment
from qpaths_paper.harness.judging import all_of, judge


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
