"""Averages of stored rows with their uncertainty."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..standard_errors import few_replicas


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
