"""The atlas of q: problems with the evidence that they claim, a path of changing order, choices on held-out seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths_paper.experiments.atlas import EXPERIMENT
from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.experiment import Judgment, Row
from qpaths_paper.parts.atlas_figures import Cell, cells_of
from qpaths_paper.parts.atlas_problems import PROBLEMS, atlas_problem
from qpaths_paper.parts.varying import VaryingQPath


def _shuffled(rows, seed):
    """The same rows with the estimates of each row in another order: no q is better than another."""
    rng = np.random.default_rng(seed)
    return [
        Row(row.settings, row.seed, {**row.values, "log_evidence": list(rng.permutation(row["log_evidence"]))})
        for row in rows
    ]


def test_the_evidence_of_conjugate_problems(key):
    """At any point: prior times likelihood over the posterior, here from the gradient and Hessian at that point."""
    for name in ("far", "correlated"):
        base, target, log_evidence = atlas_problem(name)
        x = jax.random.normal(key, base.mean.shape)
        slope, hessian = jax.jit(jax.grad(target.log_prob))(x), jax.jit(jax.hessian(target.log_prob))(x)
        mode = x - jnp.linalg.solve(hessian, slope)
        posterior = qp.MultivariateNormal(mode, jnp.linalg.inv(-hessian))
        np.testing.assert_allclose(target.log_prob(x) - posterior.log_prob(x), log_evidence, rtol=1e-8)


def test_the_evidence_of_problems_on_a_grid(key):
    """The mean likelihood of draws from the prior, within five standard errors; a grid that is too coarse is off."""
    for name in ("sparse data", "decoder"):
        base, target, log_evidence = atlas_problem(name)
        draws = jax.jit(jax.vmap(base.sample))(jax.random.split(key, 20_000))
        weights = np.exp(jax.jit(jax.vmap(lambda x: target.log_prob(x) - base.log_prob(x)))(draws) - log_evidence)
        assert abs(weights.mean() - 1) < 5 * weights.std() / 20_000**0.5
        assert weights.std() / 20_000**0.5 < 0.03


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_are_finite_where_the_base_draws(name, key):
    base, target, log_evidence = atlas_problem(name)
    values = jax.jit(jax.vmap(target.log_prob))(jax.jit(jax.vmap(base.sample))(jax.random.split(key, 50)))
    assert np.isfinite(log_evidence)
    assert np.isfinite(values).any()
    assert not np.isnan(values).any()


def test_a_path_of_changing_order(key):
    base, target = qp.Normal(0.0, 1.0), qp.Normal(2.0, 0.5)
    path = VaryingQPath(base, target, 0.3, -0.1)
    values = np.array([-1.0, -3.0, 0.5]), np.array([-2.0, -2.99999, 40.0])
    for beta in (0.1, 0.5, 0.9):
        same = qp.QPath(base, target, delta=0.3 - 0.4 * beta)
        np.testing.assert_array_equal(path.interpolate(beta, *values), same.interpolate(beta, *values))
        step = 1e-5
        quotient = (path.interpolate(beta + step, *values) - path.interpolate(beta - step, *values)) / (2 * step)
        np.testing.assert_allclose(path.derivative(beta, *values), quotient, rtol=1e-6)
        assert np.max(np.abs(same.derivative(beta, *values) - quotient)) > 0.01  # the order alone adds this much
    for beta, end in ((0.0, values[0]), (1.0, values[1])):
        np.testing.assert_array_equal(path.interpolate(beta, *values), end)
    estimate = qp.SMC(2000, qp.LinearSchedule(8), qp.RandomWalk(3)).run(path, key=key)
    assert abs(float(estimate.log_evidence)) < 5 * float(estimate.log_evidence_se)


def test_gains_are_those_of_held_out_seeds(synthetic, claims):
    """Where all q are alike the best of nine looks better on the seeds that chose it, and not on the others."""
    rows = synthetic("atlas")
    right = cells_of(rows)["far", "nothing"]
    assert right.of_q().chosen == "0.9"
    assert 1.4 < right.of_q().ratio < 2.9
    assert right.of_varying().chosen == "0.9:1"
    verdicts = [claims.verdicts("atlas", _shuffled(rows, seed)) for seed in range(5)]
    assert sum(verdict is Judgment.HOLDS for found in verdicts for verdict in found.values()) <= 3


def test_runs_without_an_estimate_count_against_a_path(synthetic):
    rows = [row for row in synthetic("atlas") if (row["problem"], row["tuned"]) == ("far", "nothing")]
    lost = [Row(r.settings, r.seed, {**r.values, "log_evidence": [None, *r["log_evidence"][1:]]}) for r in rows]
    assert Cell(lost).rms()[0] == 1e3
    assert Cell(lost).of_q().chosen == "0.9"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": [0.5, 0.9]}, "must hold 1, the geometric path"),
        ({"varying": ["0.9-1"]}, "pairs such as 0.9:1"),
        ({"problems": ["farr"]}, "farr"),
        ({"budget": 10}, "budget"),
    ],
)
def test_bad_settings(change, message):
    with pytest.raises(UserError, match=message):
        EXPERIMENT.check({**EXPERIMENT.settings, **change})
