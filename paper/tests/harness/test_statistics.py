"""Averages with their uncertainty."""

import numpy as np
import pytest

from qpaths_paper.harness.statistics import (
    Estimate,
    choose_on_other_half,
    in_words,
    mean,
    median,
    median_deviation,
    median_difference,
    with_error,
)


def test_the_error_of_a_mean():
    values = np.arange(400) % 2
    estimate = mean(values)
    assert estimate.value == 0.5
    assert estimate.standard_error == pytest.approx(0.5 / 20, rel=0.01)
    assert mean([0.0, 1.0]).standard_error == pytest.approx(0.5 * 12.706 / 1.96, rel=1e-3)  # Student's t, one degree
    assert np.isnan(mean([1.0]).standard_error)


def test_the_error_of_a_median():
    """That of a normal sample of n is 1.2533 sigma / sqrt(n); its own error is a tenth or so."""
    values = np.random.default_rng(0).standard_normal(1000)
    assert median(values).standard_error == pytest.approx(1.2533 / 1000**0.5, rel=0.3)
    assert median(values) == median(values)
    assert np.isnan(median([1.0, 2.0]).standard_error)
    difference = median_difference(values + 1, values[:500])
    assert abs(difference.value - 1) < 5 * difference.standard_error
    assert median_deviation([1.0, 2.0, 4.0, 9.0]) == 1.5


def test_numbers_have_the_digits_that_are_known():
    assert with_error(1.23456, 0.0123) == "1.235 ± 0.012"
    assert with_error(123.456, 12.3) == "123 ± 12"
    assert with_error(-0.5, float("nan")) == "-0.5"
    assert in_words(Estimate(-2.0, 0.3), "nats") == "2.00 ± 0.30 nats smaller"
    assert in_words(Estimate(2.0, 0.3), "nats") == "2.00 ± 0.30 nats larger"


def test_a_choice_is_judged_by_values_that_did_not_choose_it():
    values = {"a": {0: 1.0, 1: 9.0, 2: 1.0, 3: 9.0}, "b": {0: 9.0, 1: 1.0, 2: 9.0, 3: 1.0}}
    # By the odd seeds `b` is best, and the even ones judge it; and the other way round.
    assert choose_on_other_half(values, np.mean) == [("b", 0), ("b", 2), ("a", 1), ("a", 3)]
    assert choose_on_other_half(values, lambda found: -np.mean(found)) == [("a", 0), ("a", 2), ("b", 1), ("b", 3)]
    assert choose_on_other_half({"a": {0: 1.0}, "b": {0: 2.0}}, np.mean) == []
    # Only `b` has odd seeds to be chosen by; `a` is chosen by the even ones, and has no odd seed to judge it.
    assert choose_on_other_half({"a": {0: 1.0}, "b": {0: 2.0, 1: 2.0}}, np.mean) == [("b", 0)]
