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


def test_blocks_of_data_have_the_evidence_after_each(key):
    keys = jax.random.split(key, 2)
    y = data(keys[0], 24).reshape(12, 2)
    model = normal_model(None)
    result = qp.evidence(**model | {"batches": list(y)}, budget=30_000, key=keys[1])
    model.pop("data")
    exact = np.array([log_evidence(y[: k + 1].ravel()) for k in range(12)])
    z = (result.stats["log_evidence"] - exact) / result.stats["log_evidence_se"]
    assert abs(z).max() < 5
    assert (result.stats["log_evidence_se"] < 0.2).all()
    predictive = (result.stats["log_predictive"] - np.diff(exact, prepend=0.0)) / result.stats["log_predictive_se"]
    assert abs(predictive).max() < 5
    assert float(result.log_evidence) == result.stats["log_evidence"][-1]
    assert result.betas.shape == (13,)
    # The order of the blocks matters for all but the last number: the sum of another order must not pass.
    assert abs(exact[::-1] - exact)[0] > 1


def test_blocks_must_have_one_shape_and_replace_the_data(key):
    model = normal_model(np.ones(2))
    with pytest.raises(ValueError, match="in place of `data`"):
        qp.evidence(**model, batches=[np.ones(2)], key=key)
    with pytest.raises(ValueError, match="at least one"):
        qp.evidence(**model | {"data": None}, batches=[], key=key)
    result = weighted(model, key)
    from qpaths.after import by_blocks

    with pytest.raises(ValueError, match="must have one shape"):
        by_blocks(result.known, result, [np.zeros(2), np.zeros(3)], key)
