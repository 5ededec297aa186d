"""New data: the evidence of all of them, and the predictive density of the new ones."""

import jax
import numpy as np
import pytest

import qpaths as qp

from .models import data, log_evidence, normal_model, posterior, weighted


def test_updates_give_the_evidence_of_all_data(key):
    keys = jax.random.split(key, 4)
    y = data(keys[0], 12)
    first = weighted(normal_model(y[:4]), keys[1])
    result = first.update(y[4:9], key=keys[2]).update(y[9:], key=keys[3])
    assert abs(result.log_evidence - log_evidence(y)) < 5 * result.log_evidence_se < 0.5
    predictive = log_evidence(y) - log_evidence(y[:9])
    error = float(result.stats["log_predictive_se"][0])
    assert abs(result.stats["log_predictive"][0] - predictive) < 5 * error
    weights = np.exp(result.log_weights - result.log_weights.max())
    mean, sd = posterior(y)
    found = np.average(result.samples["mu"], weights=weights)
    assert abs(found - mean) < 5 * sd * np.sum(weights**2) ** 0.5 / weights.sum() + 0.02
    # The posterior of the first data alone is another one.
    assert abs(log_evidence(y[:4]) - log_evidence(y)) > 1
    np.testing.assert_allclose(np.log(np.mean(np.exp(result.log_weights))), result.log_evidence)


def test_data_that_are_there_already_and_data_of_another_kind_are_errors(key):
    keys = jax.random.split(key, 3)
    y = data(keys[0])
    result = qp.evidence(**normal_model(y), budget=20_000, key=keys[1])
    with pytest.raises(ValueError, match="in the model already"):
        result.update(np.asarray(y), key=keys[2])
    with pytest.raises(TypeError, match="`new_data` must be built as the data"):
        result.update({"y": y}, key=keys[2])
    with pytest.raises(ValueError, match="NaN"):
        result.update(y.at[0].set(np.nan), key=keys[2])


def test_a_model_without_data_cannot_be_updated(key):
    base = qp.Normal(0.0, 1.0)
    result = qp.evidence(base, lambda x: -(x**2), budget=20_000, key=key)
    with pytest.raises(TypeError, match="likelihood that takes data"):
        result.update(np.ones(3), key=key)
