"""Other priors: curves over a hyperparameter against exact evidences, by weights and beyond their reach."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import qpaths as qp
from qpaths.plotting import plot_sensitivity

from .models import SCALE, data, log_evidence, normal_model, posterior, weighted


@pytest.fixture
def keys(key):
    return jax.random.split(key, 4)


@pytest.fixture
def y(keys):
    return data(keys[0])


@pytest.fixture
def result(keys, y):
    return weighted(normal_model(y), keys[1], num=1000)


def test_a_curve_over_a_scale_is_exact_at_every_value(keys, y, result):
    scales = [0.05, 0.1, 0.3, 1.0, 2.0, 5.0, 30.0]
    curve = qp.sensitivity(result, {"mu": scales}, key=keys[2])
    exact = np.array([log_evidence(y, scale) for scale in scales])
    assert (abs(curve.log_evidence - exact) < 5 * curve.log_evidence_se).all()
    assert (curve.log_evidence_se < 0.3).all()
    means = np.array([posterior(y, scale)[0] for scale in scales])
    assert (abs(curve.mean["mu"] - means) < 5 * curve.mean_se["mu"] + 1e-9).all()
    assert curve.num_moves > 0  # weights alone do not reach a scale of 0.05
    # The evidence without a change of the prior is wrong at the ends.
    assert np.ptp(exact) > 2
    assert str(curve).count("\n") == len(scales)
    assert curve.doubtful == []
    upper, lower = plot_sensitivity(curve)
    np.testing.assert_array_equal(upper.lines[0].get_ydata(), curve.log_evidence)
    assert lower.get_xscale() == "log"
    plt.close(upper.figure)


def test_weights_reach_near_values_and_cost_nothing(keys, y, result):
    curve = qp.sensitivity(result, {"mu.scale": [1.8, 2.0, 2.2]}, key=keys[2])
    assert curve.num_moves == 0
    assert curve.num_evaluations.total == 0
    assert curve.change[1] == 0
    curve = qp.sensitivity(result, {"mu.loc": [-0.5, 0.5]}, key=keys[2])
    exact = [np.diff([log_evidence(y), log_evidence(y - loc)])[0] for loc in (-0.5, 0.5)]
    assert (abs(curve.change - exact) < 5 * curve.change_se).all()


def test_values_may_be_distributions(keys, y, result):
    curve = qp.sensitivity(result, {"mu": [qp.Normal(0.0, 1.0), qp.Normal(0.5, 3.0)]}, key=keys[2])
    exact = [log_evidence(y, 1.0), log_evidence(y - 0.5, 3.0)]
    assert (abs(curve.log_evidence - exact) < 5 * curve.log_evidence_se).all()


def test_powers_of_likelihood_and_prior(keys, y, result):
    curve = qp.sensitivity(result, {"likelihood": [0.5, 2.0]}, key=keys[2])
    x = np.linspace(-10, 10, 20001)
    log_prior = -0.5 * (x / SCALE) ** 2 - np.log(SCALE * (2 * np.pi) ** 0.5)
    likelihood = np.sum(-0.5 * (np.asarray(y)[:, None] - x) ** 2 - 0.5 * np.log(2 * np.pi), axis=0)
    for power, found, error in zip([0.5, 2.0], curve.log_evidence, curve.log_evidence_se, strict=True):
        exact = np.log(np.trapezoid(np.exp(log_prior + power * likelihood), x))
        assert abs(found - exact) < 5 * error
    curve = qp.sensitivity(result, {"prior": [0.8, 1.25]}, key=keys[3])
    for power, found, error in zip([0.8, 1.25], curve.log_evidence, curve.log_evidence_se, strict=True):
        exact = np.log(np.trapezoid(np.exp(power * log_prior + likelihood), x))
        assert abs(found - exact) < 5 * error


def test_a_prior_of_another_kind_needs_no_jacobian_of_ours(keys):
    """A scale under two priors whose unconstrained coordinates differ."""
    own = {
        "prior": {"s": qp.families.Gamma(2.0, 1.0)},
        "log_likelihood": lambda p, y: -jnp.sum(jnp.log(p["s"]) + 0.5 * (y / p["s"]) ** 2),
        "data": jnp.array([0.5, -1.5, 1.0]),
    }
    result = weighted(own, keys[1], num=1000)
    s = np.linspace(1e-3, 60, 200_001)
    log_likelihood = -3 * np.log(s) - 0.5 * 3.5 / s**2

    def exact(log_prior):
        return np.log(np.trapezoid(np.exp(log_prior + log_likelihood), s))

    other = result.reweight(prior={"s": qp.families.Gamma(3.0, 1.0)})
    wanted = exact(2 * np.log(s) - s - np.log(2))
    assert abs(other.log_evidence - wanted) < 5 * other.log_evidence_se < 0.3
    assert abs(exact(np.log(s) - s) - result.log_evidence) < 5 * result.log_evidence_se


def test_a_prior_that_the_draws_do_not_cover_is_doubted_or_reached_by_a_path(keys, y, result):
    far = {"mu": qp.Normal(-9.0, 0.1)}
    exact = log_evidence(y + 9.0, 0.1)
    with pytest.warns(UserWarning, match="hardly cover"):
        doubtful = result.reweight(prior=far)
    assert doubtful.verdict.level == "doubtful"
    carried = result.reweight(prior=far, key=keys[2])
    assert abs(carried.log_evidence - exact) < 5 * carried.log_evidence_se < 1.5
    assert carried.known.model.parts["mu"].loc == -9.0


def test_names_that_are_not_in_the_prior_and_priors_of_other_variables(keys, y, result):
    with pytest.raises(ValueError, match="no hyperparameter `tau`: the prior has mu"):
        qp.sensitivity(result, {"tau": [1.0]}, key=keys[2])
    with pytest.raises(ValueError, match="has no number `rate`"):
        qp.sensitivity(result, {"mu.rate": [1.0]}, key=keys[2])
    with pytest.raises(ValueError, match="finite numbers"):
        qp.sensitivity(result, {"mu": [1.0, np.nan]}, key=keys[2])
    with pytest.raises(TypeError, match="one name with values"):
        qp.sensitivity(result, {"mu": [1.0], "nu": [2.0]}, key=keys[2])
    with pytest.raises(ValueError, match="must have the variables"):
        result.reweight(prior={"nu": qp.Normal(0.0, 1.0)})


def test_a_prior_with_mass_where_the_old_one_has_none_is_an_error(keys):
    positive = {
        "prior": {"s": qp.families.Gamma(2.0, 1.0)},
        "log_likelihood": lambda p, y: -jnp.sum((y - p["s"]) ** 2),
        "data": jnp.ones(2),
    }
    with pytest.raises(ValueError, match="where the old one has none"):
        weighted(positive, keys[1]).reweight(prior={"s": qp.Normal(0.0, 1.0)})
