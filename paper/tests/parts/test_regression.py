"""Regression experiments: the protocol, and what the published formula loses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.cost import Cost
from qpaths.core.numerics import log_ess
from qpaths.paths.base import EndpointValues
from qpaths_paper.experiments.fig_varying_n import subsample
from qpaths_paper.harness.registry import find
from qpaths_paper.parts.datasets import load, logistic_regression, sum_log_sigmoid
from qpaths_paper.parts.regression import (
    ReleasedPath,
    by_geometric_ess,
    q_path,
    schedule_of,
    share_without_number,
)
from qpaths_paper.parts.table1_columns import COLUMNS


def test_the_published_formula_loses_what_double_precision_cannot_hold():
    base = qp.Normal(0.0, 1.0)
    target = qp.Density(lambda x: base.log_prob(x) - jnp.where(x > 0, 300.0, 400.0))
    features = EndpointValues(np.zeros(4), np.array([-400.0, -400.0, -300.0, -300.0]))
    assert share_without_number(q_path(base, target, 0.1), features) == 0.5  # exp(-40) is lost in 1, exp(-30) not
    assert share_without_number(q_path(base, target, 0.01), features) == 0.0
    assert share_without_number(q_path(base, target, 0.0), features) == 0.0
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
    plans = {column.name: column.plan(_LINE, 0) for column in COLUMNS if column.name != "tuned"}
    geometric, ess, grid = plans["geometric"], plans["ess"], plans["grid"]
    assert geometric[1:] == grid[1:] == (ess.num_particles, 0, False)
    for plan in plans.values():
        assert eqx.tree_equal(plan.recipe.schedule, geometric.recipe.schedule)
        assert eqx.tree_equal(plan.recipe.kernel, geometric.recipe.kernel)
    assert geometric.num_particles == 500
    assert geometric.recipe.kernel.num_steps == 3
    assert 0 < float(ess.recipe.path.delta) < 0.1
    assert COLUMNS[0].deltas(_LINE) == [0.0]
    grids = {column.name: len(column.deltas(_LINE)) for column in COLUMNS}
    assert grids["grid"] == 20
    assert grids["grid_code"] == 12


def test_the_released_schedule_ignores_q():
    """Both take the next beta from the draws of the prior; the weights of a q-path spread less there."""
    path, schedule = q_path(*logistic_regression(load("pima")), 0.1), schedule_of("adaptive", 10)
    rows = []
    for as_released in (True, False):
        algorithm = qp.SMC(500, schedule, qp.RandomWalk(1))
        _, state = algorithm.begin(path, key=jax.random.key(0))
        ratio = state.particles.features.log_target - state.particles.features.log_base
        beta = by_geometric_ess()(state)
        weights = beta * ratio if as_released else path.interpolate(beta, 0 * ratio, ratio)
        rows.append(float(np.exp(log_ess(np.asarray(weights)))) / 500)
    assert rows[0] == pytest.approx(0.5, abs=1e-3)
    assert rows[1] > 0.9  # a step that asks nothing of the q-path


def test_the_released_heuristic_leaves_beta_free():
    """On the linear schedule the text fixes the first beta at 1/9 and finds a q much further from 1."""
    settings = {**_LINE, "num_particles": 1000}
    columns = {column.name: column for column in COLUMNS}
    text, code = (float(columns[name].plan(settings, 0).recipe.path.delta) for name in ("ess", "ess_code"))
    assert 0.001 < text < 0.01
    assert code < 0.3 * text


def test_the_released_first_step_is_geometric():
    path = ReleasedPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 0.5), delta=0.3)
    features = path.features(jnp.asarray(0.7))
    ratio = features.log_target - features.log_base
    assert float(path.log_ratio(0.0, 0.2, features)) == pytest.approx(float(0.2 * ratio))
    plain = qp.QPath(path.base, path.target, delta=0.3)
    assert float(path.log_ratio(0.2, 0.6, features)) == pytest.approx(float(plain.log_ratio(0.2, 0.6, features)))
    assert float(path.log_ratio(0.0, 0.2, features)) != pytest.approx(float(plain.log_ratio(0.0, 0.2, features)))


@pytest.mark.parametrize(("schedule", "num_steps"), [("linear", 9), ("adaptive", 14)])
def test_the_tuned_column_costs_as_much_as_the_others(schedule, num_steps, monkeypatch):
    """With stand-ins for what `tune` returns, which is tested elsewhere."""
    path, betas = q_path(*logistic_regression(load("pima")), 0.0), jnp.array([0.0, 0.5, 1.0])
    kernel = qp.kernels.FrozenKernel(qp.RandomWalk(2), betas, jnp.tile(0.1 * jnp.eye(9), (3, 1, 1)))
    cost = Cost(7, 7, 0, 0)
    tuned = qp.Recipe(path, qp.FixedSchedule(betas), kernel, 1.0, (), (), cost)
    monkeypatch.setattr("qpaths_paper.parts.table1_columns._tuned", lambda dataset, budget, seed: tuned)
    row = find("table1").run_one({**_LINE, "schedule": schedule, "column": "tuned"}, 0)
    # The pilots and the run together; the run has no moves at beta = 1.
    total = 500 * (1 + (num_steps - 1) * 3)
    assert total - 3 < row["likelihoods"] + row["spent"] <= total
    assert row["spent"] == cost.total


@pytest.mark.parametrize("variant", ["none", "q alone"])
def test_variants_of_the_ablation_cost_the_same(variant):
    settings = {"problem": "toy", "variant": variant, "budget": 20_000, "num_distributions": 10, "moves": 5}
    row = find("ablation").run_one({**settings, "num_pilot": 100}, 0)
    assert 0.99 * 20_000 < row["likelihoods"] <= 20_000


def test_single_precision_is_enough_for_the_likelihood():
    """Near the posterior the rounding is far below the errors that are compared."""
    for name in ("pima", "sonar"):
        exact, rounded = (logistic_regression(load(name), dtype=dtype)[1] for dtype in (np.float64, np.float32))
        weights = 0.3 * np.random.default_rng(0).normal(size=(50, load(name).predictors.shape[1]))
        values = [
            jax.vmap(one.log_prob)(jnp.asarray(weights, dt)) for one, dt in ((exact, float), (rounded, np.float32))
        ]
        assert np.abs(np.asarray(values[0]) - np.asarray(values[1], float)).max() < 3e-4


@pytest.mark.parametrize("num", [5, 16, 37, 768])
@pytest.mark.parametrize("scale", [0.1, 8.0, 1e4])
def test_the_sum_of_log_sigmoids_and_its_gradient(num, scale):
    """Also where numbers do not fill the products, and where a product without the absolute value would overflow."""
    x = (scale * np.random.default_rng(num).normal(size=num)).astype(np.float32)
    value, gradient = jax.value_and_grad(sum_log_sigmoid)(jnp.asarray(x))
    exact = -np.logaddexp(0.0, -x.astype(float))
    assert value.dtype == gradient.dtype == np.float32
    np.testing.assert_allclose(value, exact.sum(), rtol=3e-7, atol=1e-7 * num)
    np.testing.assert_allclose(gradient, np.exp(-np.logaddexp(0.0, x.astype(float))), rtol=1e-5, atol=1e-30)
