"""Equally weighted draws: the right law, no copies, and what they say they are worth."""

import dataclasses

import jax
import numpy as np
import pytest

import qpaths as qp

from .models import data, normal_model, posterior, weighted


@pytest.fixture
def keys(key):
    return jax.random.split(key, 4)


def _off(draws, y):
    """Standard errors by which mean and standard deviation are off."""
    mean, sd = posterior(y)
    x, worth = draws.samples["mu"], draws.ess["mu"]
    return abs(x.mean() - mean) / sd * worth**0.5, abs(x.std() / sd - 1) * (2 * worth) ** 0.5


def test_draws_have_the_mean_and_the_spread_of_the_posterior(keys):
    y = data(keys[0])
    result = weighted(normal_model(y), keys[1])
    draws = result.draws(3000, key=keys[2])
    assert draws.samples["mu"].shape == (3000,)
    assert max(_off(draws, y)) < 5
    assert 0.98 < draws.r_hat["mu"] < 1.05
    # Draws of the prior are far from those of the posterior: an implementation that ignores the weights must fail.
    flat = dataclasses.replace(result, log_weights=np.zeros_like(result.log_weights))
    unmoved = np.asarray(flat.samples["mu"])
    assert abs(unmoved.std() / posterior(y)[1] - 1) > 1


def test_copies_are_moved_apart_and_the_ess_counts_what_is_left_of_them(keys):
    y = data(keys[0])
    result = weighted(normal_model(y), keys[1], num=20)
    few = np.exp(2 * np.log(np.exp(result.log_weights).sum()) - np.log(np.exp(2 * result.log_weights).sum()))
    draws = result.draws(1000, key=keys[2])
    assert len(np.unique(draws.samples["mu"])) > 900
    assert few < draws.ess["mu"] <= 1000


def test_islands_that_disagree_show_in_r_hat(keys):
    y = data(keys[0])
    result = weighted(normal_model(y), keys[1])
    moved = {"mu": np.asarray(result.samples["mu"]) + 50.0 * (np.arange(4000) >= 2000)}
    flat = np.zeros_like(result.log_weights)
    torn = dataclasses.replace(result, samples=moved, unconstrained=moved, log_weights=flat)
    # Two modes as far apart as the islands: moves do not pass between them.
    wells = qp.Density(lambda x: jax.numpy.logaddexp(-(x["mu"] ** 2), -((x["mu"] - 50) ** 2)))
    prior = qp.Density(lambda x: -(x["mu"] ** 2) / 1e4, lambda key: {"mu": 100 * jax.random.normal(key)})
    torn = qp.with_model(dataclasses.replace(torn, unconstrained=None), prior, wells)
    assert torn.draws(800, key=keys[2]).r_hat["mu"] > 1.5


def test_a_result_from_a_file_needs_its_model_again(keys, tmp_path):
    y = data(keys[0])
    model = normal_model(y)
    result = weighted(model, keys[1])
    result.save(tmp_path / "result.npz")
    stored = qp.load_result(tmp_path / "result.npz")
    with pytest.raises(ValueError, match=r"does not hold its model.*with_model"):
        stored.draws(10, key=keys[2])
    again = qp.with_model(stored, **model)
    one, other = (r.draws(50, key=keys[2]).samples["mu"] for r in (result, again))
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="points of shapes"):
        qp.with_model(stored, **model | {"prior": {"nu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p, y: 0.0})
    with pytest.raises(TypeError, match="'likelihood'"):
        qp.with_model(stored, likelihood=None)


@pytest.mark.parametrize("num", [0, -1, True])
def test_the_number_of_draws_must_be_a_positive_integer(keys, num):
    with pytest.raises(ValueError, match="`num` must be a positive integer"):
        weighted(normal_model(data(keys[0])), keys[1]).draws(num, key=keys[2])


def test_evidence_keeps_the_model_and_what_the_run_was_made_with(keys):
    y = data(keys[0])
    result = qp.evidence(**normal_model(y), budget=20_000, key=keys[1])
    assert result.known.recipe is not None
    assert max(_off(result.draws(1000, key=keys[2]), y)) < 5
