"""Runs that are too short: seconds that are not enough are told at once, and what is no number is not printed."""

import dataclasses
import re
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core import never_silent
from qpaths.front_door.evidence import _warn_if_impossible
from qpaths.front_door.limits import Ledger, Limits
from qpaths.remarks import Finding, Stop, Verdict
from qpaths.rows import layout_of
from qpaths.rows.numpy_density import numpy_rows

NORMAL = jnp.zeros(1), jnp.eye(1)
ROWS = np.zeros((7, 1))


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


def test_a_long_wait_is_never_silent():
    """A line comes before the first one is due, then while nothing else is shown; calls are counted."""
    lines = []
    ledger = Ledger(Limits.of(None, 100.0, None))
    density = qp.Density(lambda x: float(-x[0]), backend="numpy")
    numpy_rows(density, "target", layout_of(qp.GeometricPath(qp.MultivariateNormal(*NORMAL), density)), ROWS, False)
    with never_silent(lambda line, share: lines.append(line), ledger.words, every=0.1) as show:
        _wait(lambda: len(lines) > 0)
        show("pilots", None)
        shown = len(lines)
        _wait(lambda: len(lines) > shown)
    assert "pilots" in lines
    assert re.fullmatch(r"\d+ s, 7 calls, [\d,]+/s, \d+ s left", lines[-1])


def _wait(holds):
    """Wait until something holds, which a busy machine may delay."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < 20
        time.sleep(0.01)
