"""Rules that turn a measured value with its standard error into a verdict on a claim."""

from collections.abc import Iterable

from .experiment import Verdict


def judge(value: float, standard_error: float, low: float, high: float) -> Verdict:
    """Judge whether a value lies in [low, high].

    The claim holds if the whole interval `value ± 2 standard_error` lies inside, and fails if all of it lies outside.
    Otherwise the verdict is open, as it is for NaN.
    """
    reach = 2 * standard_error
    if not (value == value and reach == reach):
        return Verdict.OPEN
    if low <= value - reach and value + reach <= high:
        return Verdict.HOLDS
    if value + reach < low or value - reach > high:
        return Verdict.FAILS
    return Verdict.OPEN


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine verdicts: one failure fails the whole, and all must hold for the whole to hold.

    The verdict on nothing is open.
    """
    verdicts = list(verdicts)
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    return Verdict.HOLDS if verdicts and all(v is Verdict.HOLDS for v in verdicts) else Verdict.OPEN


def yes_or_no(condition: bool) -> Verdict:
    """Judge a fact that has no noise."""
    return Verdict.HOLDS if condition else Verdict.FAILS
