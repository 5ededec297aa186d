"""From prior to prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.paths import PriorPath
from qpaths.testing import GridWorld, check_path


def prior(scale):
    return qp.MultivariateNormal(jnp.zeros(1), scale**2 * jnp.eye(1))


def likelihood(x):
    return -0.5 * (x[0] - 1.0) ** 2


def draw(key):
    """The posterior under the first prior, whose variance is 1."""
    return 0.5 + 0.5**0.5 * jax.random.normal(key, (1,))


PATHS = {"prior": PriorPath(prior, 1.0, 3.0, likelihood, draw)}


def test_conformance(key):
    check_path(PATHS["prior"], key=key)


def test_evidence_is_that_of_the_two_priors(key):
    found = qp.SMC(2000, qp.LinearSchedule(4), qp.RandomWalk()).run(PATHS["prior"], key=key)
    # The integral of N(x; 0, s^2) exp(-(x - 1)^2 / 2) is N(1; 0, s^2 + 1) but for a constant.
    exact = float(qp.Normal(0.0, 10.0**0.5).log_prob(1.0) - qp.Normal(0.0, 2.0**0.5).log_prob(1.0))
    assert abs(float(found.log_evidence) - exact) < 5 * float(found.log_evidence_se)


def test_points_and_hyperparameters_may_be_trees(key):
    path = PriorPath(
        lambda h: qp.Density(lambda x: qp.Normal(h["mean"], 1.0).log_prob(x["mu"])), {"mean": 0.0}, {"mean": 2.0}
    )
    x = {"mu": jnp.array(0.4)}
    np.testing.assert_allclose(path.log_density(0.25, x), qp.Normal(0.5, 1.0).log_prob(0.4), rtol=1e-14)


def test_exact_mean_of_the_weights():
    world = GridWorld()
    states = jnp.arange(25.0)

    def of(h):
        table = jax.nn.log_softmax(world.log_base + h * states)
        return qp.Density(lambda x: table[x[0].astype(int)])

    path = PriorPath(of, 0.0, 0.3)
    mean, _ = world.weight_moments(path, [0.0, 0.2, 0.5, 0.8, 1.0])
    np.testing.assert_allclose(mean, 1.0, rtol=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match=r"the prior at beta = 0.5 is none, with hyperparameters 0.0: .* positive"):
        PriorPath(lambda h: qp.Normal(0.0, h), 1.0, -1.0)
    with pytest.raises(ValueError, match="`start` and `stop` must have the same hyperparameters"):
        PriorPath(lambda h: qp.Normal(0.0, h["scale"]), {"scale": 1.0}, {"tau": 1.0})
