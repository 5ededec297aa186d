"""Left-out data against exact refits, by weights and by paths."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.after import leave_out as module

from .models import data, log_evidence, normal_model, weighted


@pytest.fixture
def keys(key):
    return jax.random.split(key, 4)


@pytest.fixture
def y(keys):
    """Eight observations, and one far away that the others do not expect."""
    return jnp.append(data(keys[0]), 9.0)


def _each(p, y):
    return jax.scipy.stats.norm.logpdf(y, p["mu"])


def _exact(y):
    return np.array([log_evidence(y) - log_evidence(np.delete(np.asarray(y), j)) for j in range(len(y))])


def test_each_observation_has_its_predictive_density(keys, y):
    result = weighted(normal_model(y), keys[1], num=2000)
    left_out = qp.loo(result, key=keys[2], log_likelihood=_each)
    z = (left_out.pointwise - _exact(y)) / left_out.pointwise_se
    assert abs(z).max() < 5
    assert left_out.elpd == pytest.approx(left_out.pointwise.sum())
    # The density in the full posterior is another one.
    posterior = left_out.elpd + left_out.p_loo
    assert posterior - _exact(y).sum() > 5 * left_out.pointwise_se.sum()
    assert "over 9 observations" in str(left_out)


def test_paths_take_out_what_weights_do_not_reach(keys, y, monkeypatch):
    monkeypatch.setattr(module, "_MOST_SHAPE", -np.inf)
    few = y[-3:]
    result = weighted(normal_model(few), keys[1])
    left_out = qp.loo(result, key=keys[2], log_likelihood=_each)
    assert left_out.exact.all()
    assert left_out.num_evaluations.total > 0
    assert (abs(left_out.pointwise - _exact(few)) < 5 * left_out.pointwise_se).all()


def test_more_parameters_have_a_path(keys, y, monkeypatch):
    monkeypatch.setattr(module, "_MOST_SHAPE", -np.inf)
    monkeypatch.setattr(module, "MOST_DIMENSIONS", 0)
    few = y[-3:]
    left_out = qp.loo(weighted(normal_model(few), keys[1]), key=keys[2], log_likelihood=_each)
    assert left_out.exact.all()
    assert (abs(left_out.pointwise - _exact(few)) < 5 * left_out.pointwise_se).all()


def test_an_evidence_that_does_not_fit_makes_all_of_them_doubtful(keys, y, monkeypatch):
    monkeypatch.setattr(module, "_MOST_SHAPE", -np.inf)
    result = weighted(normal_model(y[-3:]), keys[1])
    wrong = dataclasses.replace(result, log_evidence=result.log_evidence + 0.5)
    with pytest.warns(UserWarning, match="3 are doubtful"):
        left_out = qp.loo(wrong, key=keys[2], log_likelihood=_each)
    assert left_out.findings.keys() == {0, 1, 2}


def test_folds_are_taken_out_together(keys, y):
    result = weighted(normal_model(y), keys[1])
    labels = np.arange(9) % 3
    left_out = qp.loo(result, key=keys[2], log_likelihood=_each, folds=labels)
    y = np.asarray(y)
    for j in range(9):
        others = y[labels != labels[j]]
        exact = log_evidence(np.append(others, y[j])) - log_evidence(others)
        assert abs(left_out.pointwise[j] - exact) < 5 * left_out.pointwise_se[j]
    with pytest.raises(ValueError, match="between 2 and the 9 observations"):
        qp.loo(result, key=keys[2], log_likelihood=_each, folds=1)


def test_arviz_reads_it(keys, y):
    arviz = pytest.importorskip("arviz")
    left_out = qp.loo(weighted(normal_model(y), keys[1]), key=keys[2], log_likelihood=_each)
    made = left_out.to_arviz()
    assert type(made).__name__ == "ELPDData"
    assert "elpd_loo" in str(made)
    assert arviz is not None


def test_log_likelihoods_that_are_missing_or_of_another_model(keys, y):
    result = weighted(normal_model(y), keys[1])
    with pytest.raises(TypeError, match=r"loo\(result, log_likelihood=f, key=key\)"):
        qp.loo(result, key=keys[2])
    with pytest.raises(ValueError, match="do not sum to that of the model"):
        qp.loo(result, key=keys[2], log_likelihood=lambda p, y: 2 * _each(p, y))
