"""Regression experiments: the protocol, and what the published formula loses."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.cost import Cost
from qpaths.experiments.paper.fig_varying_n import subsample
from qpaths.experiments.paper.parts.datasets import load, logistic_regression
from qpaths.experiments.paper.parts.regression import q_path, schedule_of, share_without_number
from qpaths.experiments.paper.parts.table1_columns import COLUMNS
from qpaths.experiments.registry import find


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


_LINE = {**find("table1").settings, "dataset": "pima", "schedule": "linear", "moves": 3, "delta": 0.1}
_LINE = {**_LINE, "num_particles": 500}


def test_the_geometric_path_is_one_of_the_q_paths(monkeypatch):
    """The columns of the paper share schedule, kernel and particles: what is compared is q alone."""
    geometric, ess, grid = (column.plan(_LINE, 0) for column in COLUMNS[:3])
    assert geometric[1:] == grid[1:] == (ess.num_particles, 0)
    for plan in (ess, grid):
        assert eqx.tree_equal(plan.recipe.schedule, geometric.recipe.schedule)
        assert eqx.tree_equal(plan.recipe.kernel, geometric.recipe.kernel)
    assert geometric.num_particles == 500
    assert geometric.recipe.kernel.num_steps == 3
    assert 0 < float(ess.recipe.path.delta) < 0.1
    assert COLUMNS[0].deltas(_LINE) == [0.0]
    assert len(COLUMNS[2].deltas(_LINE)) == 20


@pytest.mark.parametrize(("schedule", "num_steps"), [("linear", 9), ("adaptive", 14)])
def test_the_tuned_column_costs_as_much_as_the_others(schedule, num_steps, monkeypatch):
    """With stand-ins for what `tune` returns, which is tested elsewhere."""
    path, betas = q_path(*logistic_regression(load("pima")), 0.0), jnp.array([0.0, 0.5, 1.0])
    kernel = qp.kernels.FrozenKernel(qp.RandomWalk(2), betas, jnp.tile(0.1 * jnp.eye(9), (3, 1, 1)))
    cost = Cost(7, 7, 0, 0)
    tuned = qp.Recipe(path, qp.FixedSchedule(betas), kernel, 1.0, (), (), cost)
    monkeypatch.setattr("qpaths.experiments.paper.parts.table1_columns._tuned", lambda dataset, budget, seed: tuned)
    row = find("table1").run_one({**_LINE, "schedule": schedule, "column": "tuned"}, 0)
    assert row["likelihoods"] == 500 * (1 + num_steps * 3) // 5 * 5
    assert row["spent"] == cost.total


@pytest.mark.parametrize("variant", ["none", "q alone"])
def test_variants_of_the_ablation_cost_the_same(variant):
    settings = {"problem": "toy", "variant": variant, "budget": 20_000, "num_distributions": 10, "moves": 5}
    row = find("ablation").run_one({**settings, "num_pilot": 100}, 0)
    assert 0.99 * 20_000 < row["likelihoods"] <= 20_000
