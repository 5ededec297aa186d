"""Hostile input: every third case of `benchmarks/reliability/hostile.py` ends as it should."""

import pytest

from benchmarks.reliability.hostile import CASES, outcome

pytestmark = [pytest.mark.outside, pytest.mark.usefixtures("as_a_user")]


@pytest.mark.parametrize("number", [i for i in range(0, len(CASES), 3) if CASES[i].seconds is None], ids=str)
def test_hostile_input_ends_as_it_should(number):
    case = CASES[number]
    got, text, _ = outcome(case)
    assert got in case.wanted, f"{case.name}: {text}"


def test_a_wrong_answer_is_seen(key):
    """The matrix must be able to fail: a sound answer far from the truth, an error without its words, no finding."""
    del key
    (case,) = (case for case in CASES if case.name == "as it should be (jax)")
    assert outcome(case._replace(truth=case.truth + 1.0))[0] == "silent"
    assert outcome(case._replace(wanted=("doubtful",)))[0] == "silent"

    def fails():
        raise KeyError("p")

    assert outcome(case._replace(call=fails))[0] == "unclear"
    assert outcome(case._replace(call=fails, wanted=("told",), words="the prior"))[0] == "unclear"
