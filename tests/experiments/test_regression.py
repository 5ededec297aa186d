"""Regression experiments: the protocol, what the published formula loses, and that nothing compiles twice."""

import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.algorithms.base import advance, complete
from qpaths.experiments.base import find
from qpaths.experiments.datasets import load
from qpaths.experiments.fig_varying_n import subsample
from qpaths.experiments.regression import q_path, schedule_of, share_without_number


def test_the_published_formula_loses_what_double_precision_cannot_hold():
    base = qp.Normal(0.0, 1.0)
    target = qp.Density(lambda x: base.log_prob(x) - jnp.where(x > 0, 300.0, 400.0))
    samples = jnp.array([-1.0, -2.0, 1.0, 2.0])
    assert share_without_number(q_path(base, target, 0.1), samples) == 0.5  # exp(-40) is lost beside 1, exp(-30) not
    assert share_without_number(q_path(base, target, 0.01), samples) == 0.0
    assert share_without_number(q_path(base, target, 0.0), samples) == 0.0
    assert np.isfinite(float(q_path(base, target, 0.1).log_density(1.0, -1.0)))  # and nothing is lost here


def test_subsamples_are_nested_parts_of_the_data():
    data = load("pima")
    small, large = subsample(50, 3), subsample(200, 3)
    np.testing.assert_array_equal(small.predictors, large.predictors[:50])
    everything = {tuple(row) for row in data.predictors}
    assert all(tuple(row) in everything for row in large.predictors)
    assert (subsample(50, 4).predictors != small.predictors).any()
    with pytest.raises(ValueError, match="between 1 and 768, got 769"):
        subsample(769, 0)


def test_schedules_are_those_of_the_paper():
    assert schedule_of("linear", 10).betas.shape == (10,)
    assert schedule_of("adaptive", 10).target_ess == 0.5
    with pytest.raises(ValueError, match="among linear, adaptive, got 'cubic'"):
        schedule_of("cubic", 10)


@pytest.mark.parametrize("schedule", ["linear", "adaptive"])
def test_neither_q_nor_seed_nor_column_compiles_anew(schedule):
    experiment = find("table1")
    settings = {**experiment.settings, **experiment.smoke, "schedules": [schedule]}
    runs = experiment.runs(settings, 2)
    assert {run.settings["column"] for run in runs} >= {"geometric", "grid"}
    first = experiment.run_one(runs[0].settings, runs[0].seed)
    sizes = complete._cache_size(), advance._cache_size()
    others = [experiment.run_one(run.settings, run.seed) for run in runs[1:]]
    assert (complete._cache_size(), advance._cache_size()) == sizes
    assert len({values["log_evidence"] for values in [first, *others]}) == len(runs)
    again = experiment.run_one(runs[0].settings, runs[0].seed)
    assert again == first
    assert first["delta_used"] == 0.0
    if schedule == "linear":  # one evaluation per particle at the start, and one per move
        assert {values["likelihoods"] for values in others} == {200 * (1 + 9)}
