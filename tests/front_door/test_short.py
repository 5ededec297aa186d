"""Runs that are too short: seconds that are not enough are told at once, and what is no number is not printed."""

import dataclasses

import jax
import pytest

import qpaths as qp
from qpaths.front_door.evidence import _warn_if_impossible
from qpaths.front_door.limits import Limits
from qpaths.remarks import Finding, Stop, Verdict


def test_a_run_that_was_too_short_has_no_number():
    path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
    result = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).run(path, key=jax.random.key(0))
    short = (Finding.PILOT_FELL_SHORT(cost=700),)
    few = Finding.LARGE_ERROR(error=1.5, most=0.5), Finding.FEW_EFFECTIVE(total=200, ess=4.0, fewest=100)
    for findings in (short, few):
        text = dataclasses.replace(result, verdict=Verdict(Stop.NOTHING_FOUND(), (), findings)).summary()
        assert "at least about" in text
        assert "(standard error)" not in text
    text = dataclasses.replace(result, verdict=Verdict(Stop.NOTHING_FOUND(), (), few[:1])).summary()
    assert "(standard error)" in text


def test_too_few_seconds_are_told_at_once(recwarn):
    limits = Limits.of(None, 10.0, None)
    _warn_if_impossible(limits.paced(16, 0.016, 0.0))
    assert not recwarn
    with pytest.warns(UserWarning, match="enough for about 160 evaluations, and the shortest .* about 188 seconds"):
        _warn_if_impossible(limits.paced(16, 1.0, 0.0))
    assert limits.paced(16, 0.16, 0.0).finite_budget == pytest.approx(3_000)
    assert limits.paced(16, 0.016, 0.0).finite_budget == 10_000
