"""Rules that turn a measured value with its standard error into a verdict on a claim."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .experiment import Claim, Judgment
from .statistics import Estimate, in_words


def judge(value: float, standard_error: float, low: float, high: float) -> Judgment:
    """Judge whether a value lies in [low, high].

    The claim holds if the whole interval `value ± 2 standard_error` lies inside, and fails if all of it lies outside.
    Otherwise the verdict is open, as it is for NaN.
    """
    reach = 2 * standard_error
    if not (value == value and reach == reach):
        return Judgment.OPEN
    if low <= value - reach and value + reach <= high:
        return Judgment.HOLDS
    if value + reach < low or value - reach > high:
        return Judgment.FAILS
    return Judgment.OPEN


def all_of(verdicts: Iterable[Judgment]) -> Judgment:
    """Combine verdicts: one failure fails the whole, and all must hold for the whole to hold.

    The verdict on nothing is open.
    """
    verdicts = list(verdicts)
    if Judgment.FAILS in verdicts:
        return Judgment.FAILS
    return Judgment.HOLDS if verdicts and all(v is Judgment.HOLDS for v in verdicts) else Judgment.OPEN


def below(estimates: Iterable[tuple[float, float]], bound: float = 0.0) -> Judgment:
    """Judge whether all of some values with their standard errors are below a bound."""
    return all_of(judge(*estimate, -math.inf, bound) for estimate in estimates)


def above(estimates: Iterable[tuple[float, float]], bound: float = 0.0) -> Judgment:
    """Judge whether all of some values with their standard errors are above a bound."""
    return all_of(judge(*estimate, bound, math.inf) for estimate in estimates)


def smaller(
    statement: str, paper: str, found: Mapping[Any, Estimate], ours: Callable[[Any, str], str] | None = None
) -> Iterator[Claim]:
    """Claim that all of some differences are below zero; nothing is claimed where there are none.

    Args:
        statement: What is claimed.
        paper: The paper's number.
        found: The differences in nats, by where they were found.
        ours: Our number in words, from where the least gain is and that gain in words; `least: ...` by default.
    """
    if found:
        where = max(found, key=lambda one: found[one].value)
        least = in_words(found[where], "nats")
        yield Claim(statement, paper, ours(where, least) if ours else f"least: {least}", below(found.values()))


def yes_or_no(condition: bool) -> Judgment:
    """Judge a fact that has no noise."""
    return Judgment.HOLDS if condition else Judgment.FAILS
