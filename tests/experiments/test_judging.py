"""Verdicts from values and their standard errors."""

from qpaths.experiments.experiment import Verdict
from qpaths.experiments.judging import all_of, judge


def test_a_verdict_needs_two_standard_errors():
    assert judge(0.5, 0.1, 0.0, 1.0) is Verdict.HOLDS
    assert judge(0.9, 0.1, 0.0, 1.0) is Verdict.OPEN
    assert judge(1.1, 0.1, 0.0, 1.0) is Verdict.OPEN
    assert judge(1.3, 0.1, 0.0, 1.0) is Verdict.FAILS
    assert judge(-0.3, 0.1, 0.0, 1.0) is Verdict.FAILS
    assert judge(0.5, float("nan"), 0.0, 1.0) is Verdict.OPEN
    assert all_of([Verdict.HOLDS, Verdict.OPEN]) is Verdict.OPEN
    assert all_of([Verdict.HOLDS, Verdict.OPEN, Verdict.FAILS]) is Verdict.FAILS
    assert all_of([Verdict.HOLDS]) is Verdict.HOLDS
    assert all_of([]) is Verdict.OPEN
