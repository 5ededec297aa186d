"""Data annealing: blocks in turn, with given powers, and out again; evidence after each block in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.paths import DataPath
from qpaths.testing import GridWorld, check_path

Y = np.array([0.3, -0.8, 1.9, 0.4, 1.1])
PRIOR = qp.MultivariateNormal(jnp.zeros(1), 4.0 * jnp.eye(1))
CUT = jnp.array([-jnp.inf, 0.0, 0.0])


def blocks(x):
    return jax.scipy.stats.norm.logpdf(jnp.asarray(Y), x[0])


def skewed(x):
    return jnp.array([-0.5 * x[0] ** 2, jnp.where(x[0] > -1.0, x[0], -jnp.inf), jnp.tanh(x[0])])


def exact(num):
    """Log evidence of the first blocks: a normal law with the prior's variance in common."""
    return float(jnp.asarray(qp.MultivariateNormal(jnp.zeros(num), jnp.eye(num) + 4.0).log_prob(jnp.asarray(Y[:num]))))


PATHS = {
    "in turn": DataPath(PRIOR, blocks),
    "cut": DataPath(PRIOR, skewed),
    "tempered": DataPath(PRIOR, skewed, powers=[[0.0, 0.0, 0.0], [0.5, 0.1, 0.0], [1.0, 1.0, 2.0]]),
}


@pytest.mark.parametrize("name", PATHS)
def test_conformance(name, key):
    check_path(PATHS[name], key=key)


def test_blocks_enter_in_turn():
    path, x = PATHS["in turn"], jnp.array([0.7])
    values, base = blocks(x), PRIOR.log_prob(x)
    for beta, power in ((0.0, [0, 0, 0, 0, 0]), (0.2, [1, 0, 0, 0, 0]), (0.5, [1, 1, 0.5, 0, 0]), (1.0, np.ones(5))):
        np.testing.assert_allclose(path.log_density(beta, x), base + jnp.sum(jnp.asarray(power) * values), rtol=1e-14)
    assert path.ends.tolist() == [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]


def test_evidence_after_each_block(key):
    path = PATHS["in turn"]
    found = qp.SMC(2000, qp.FixedSchedule(path.ends), qp.RandomWalk(3)).run(path, key=key)
    np.testing.assert_allclose(found.stats["log_evidence"], [exact(k) for k in range(1, 6)], atol=0.12)
    assert abs(float(found.log_evidence) - exact(5)) < 5 * float(found.log_evidence_se)


def test_one_datum_is_let_go(key):
    """From the exact posterior of all data to that of all but one: the ratio of their evidences."""
    precision = 5 + 0.25
    posterior = qp.MultivariateNormal(jnp.array([Y.sum() / precision]), jnp.eye(1) / precision)
    path = DataPath(posterior, lambda x: blocks(x)[4:], powers=[[0.0], [-1.0]])
    found = qp.SMC(2000, qp.LinearSchedule(5), qp.RandomWalk()).run(path, key=key)
    assert abs(float(found.log_evidence) - (exact(4) - exact(5))) < 5 * float(found.log_evidence_se)


def world_path(world):
    """The target of a world in three parts, one of which excludes states."""
    ratio = world.log_target - world.log_base
    parts = jnp.stack([0.4 * jnp.where(jnp.isfinite(ratio), ratio, 0.0), 0.6 * ratio, 0.3 * jnp.sin(jnp.arange(25.0))])
    return DataPath(
        world.base, jax.tree_util.Partial(lambda p, x: p[:, x[0].astype(int)], parts), [[0] * 3, [1, 0, 0], [1, 1, 0]]
    )


def test_exact_mean_of_the_weights():
    world = GridWorld()
    mean, _ = world.weight_moments(world_path(world), [0.0, 0.2, 0.5, 0.8, 1.0])
    np.testing.assert_allclose(mean, np.exp(world.log_evidence), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataPath(PRIOR, lambda x: x[0]), r"vector with a number for each block of data, got shape \(\)"),
        (lambda: DataPath(PRIOR, blocks, [[1.0], [0.0]]), "must begin with zeros"),
        (lambda: DataPath(PRIOR, blocks, [[0.0], [0.8], [0.5]]), r"must move one way .* for block 0: .* sort them"),
        (lambda: DataPath(PRIOR, blocks, [[0.0], [np.nan]]), "all finite"),
        (lambda: DataPath(PRIOR, blocks, [0.0, 1.0]), "two rows or more"),
        (lambda: DataPath(PRIOR, blocks, [[0.0], [1.0]]).log_density(0.5, jnp.zeros(1)), "for each column of `powers`"),
        (lambda: DataPath(lambda x: x, blocks), "`base` has no `sample`"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
