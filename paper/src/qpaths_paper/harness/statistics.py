"""Averages of stored rows with their uncertainty."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from qpaths.stats import few_replicas

Choice = TypeVar("Choice", str, float)


class Estimate(NamedTuple):
    """A number and its standard error, NaN where one run cannot tell it."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        return with_error(self.value, self.standard_error)


def mean(values: Any) -> Estimate:
    """The mean of independent values; two standard errors cover as often for few of them as for many."""
    values = np.asarray(values, float)
    if values.size < 2:
        return Estimate(float(values.mean()), float("nan"))
    return Estimate(float(values.mean()), float(few_replicas(values.size) * values.std(ddof=1) / values.size**0.5))


def median(values: Any) -> Estimate:
    """The median of independent values, its standard error by bootstrap."""
    return Estimate(float(np.median(values)), _bootstrap_se([np.asarray(values, float)], lambda medians: medians[0]))


def median_difference(first: Any, second: Any) -> Estimate:
    """The difference of the medians of two independent sets of values, its standard error by bootstrap."""
    sets = [np.asarray(first, float), np.asarray(second, float)]
    value = float(np.median(sets[0]) - np.median(sets[1]))
    return Estimate(value, _bootstrap_se(sets, lambda medians: medians[0] - medians[1]))


def median_deviation(values: Any) -> float:
    """The median distance from the median."""
    values = np.asarray(values, float)
    return float(np.median(np.abs(values - np.median(values))))


def mean_deviation(values: Any) -> float:
    """The mean distance from the mean, which pandas once called `mad`."""
    values = np.asarray(values, float)
    return float(np.mean(np.abs(values - np.mean(values))))


def choose_on_other_half(
    values: Mapping[Choice, Mapping[int, float]], score: Callable[[list[float]], Any]
) -> list[tuple[Choice, int]]:
    """Choose by the even indices for the odd ones, and by the odd indices for the even ones.

    The best of many noisy averages looks better than it is. A choice that is judged by values that did not choose it
    has no such advantage.

    Args:
        values: For each choice a value per index, such as the error by seed.
        score: A number for a list of values; the choice with the lowest one is taken.

    Returns:
        Pairs of a choice and an index to judge it by: first the even indices, then the odd ones.
    """
    pairs: list[tuple[Choice, int]] = []
    for half in (0, 1):
        others = {choice: [v for i, v in found.items() if i % 2 != half] for choice, found in values.items()}
        scores = {choice: score(found) for choice, found in others.items() if found}
        if scores:
            best = min(scores, key=lambda choice: scores[choice])
            pairs += [(best, i) for i in values[best] if i % 2 == half]
    return pairs


def _bootstrap_se(sets: Sequence[np.ndarray], statistic: Any, num: int = 400) -> float:
    """The spread of a statistic of medians over resampled sets; a fixed seed, so that the same rows give one page."""
    if min(values.size for values in sets) < 3:
        return float("nan")
    rng = np.random.default_rng(0)
    medians = [np.median(rng.choice(values, (num, values.size)), axis=1) for values in sets]
    return float(np.std(statistic(medians), ddof=1))


def in_words(difference: Estimate, unit: str) -> str:
    """A difference as `2.1 ± 0.3 nats smaller`, or larger."""
    word = "smaller" if difference.value < 0 else "larger"
    return f"{with_error(abs(difference.value), difference.standard_error)} {unit} {word}"


def with_error(value: float, standard_error: float) -> str:
    """A number to the digits that its standard error allows, with it."""
    if not np.isfinite(standard_error) or standard_error <= 0:
        return f"{value:.4g}"
    digits = max(0, 1 - int(np.floor(np.log10(standard_error))))
    return f"{value:.{digits}f} ± {standard_error:.{digits}f}"
