"""Regression experiments: the protocol, and what the published formula loses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.experiments.base import find
from qpaths.experiments.datasets import load, logistic_regression
from qpaths.experiments.fig_varying_n import subsample
from qpaths.experiments.regression import q_path, schedule_of, share_without_number
from qpaths.experiments.table1 import COLUMNS


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


def test_the_geometric_path_is_one_of_the_q_paths():
    """All columns are planned with the same schedule, kernel and particles: what is compared is q alone."""
    settings = {**find("table1").settings, "dataset": "pima", "schedule": "linear", "moves": 3}
    base, target = logistic_regression(load("pima"))
    plans = [column.plan(base, target, {**settings, "delta": 0.1}, jax.random.key(0)) for column in COLUMNS[:2]]
    assert plans[0][1:] == plans[1][1:]
    assert plans[0].num_particles == 10_000
    assert plans[0].kernel.num_steps == 3
    assert COLUMNS[0].deltas(settings) == [0.0]
    assert len(COLUMNS[1].deltas(settings)) == 20
