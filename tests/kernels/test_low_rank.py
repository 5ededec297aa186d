"""Low-rank preconditioners: products, and fits with fewer particles than dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.io import Codec, classes_around
from qpaths.kernels.factors import LeapfrogParams, LowRank, low_rank

RNG = np.random.default_rng(0)
DIMENSION = 100
ROTATION = np.linalg.qr(RNG.standard_normal((DIMENSION, DIMENSION)))[0]
SPREAD = np.geomspace(0.1, 10.0, DIMENSION)


def covariance(wide, narrow):
    """Ones but for four wide and four narrow directions, in coordinates with scales of their own."""
    values = np.ones(DIMENSION)
    values[:4], values[4:8] = wide, narrow
    return SPREAD[:, None] * ((ROTATION * values) @ ROTATION.T) * SPREAD


def whitened(matrix, scale):
    """Eigenvalues of the covariance in the coordinates of a scale."""
    root = scale.diagonal[:, None] * (
        np.eye(DIMENSION) + (scale.directions * (scale.stretches - 1)) @ scale.directions.T
    )
    inverse = np.linalg.inv(root)
    return np.linalg.eigvalsh(inverse @ matrix @ inverse.T)


@pytest.mark.parametrize("xp", [np, jnp])
def test_products_are_those_of_the_matrix(xp):
    groups, num = 2, 3
    diagonal, stretches = RNG.uniform(0.5, 2.0, (groups, 5)), RNG.uniform(0.2, 4.0, (groups, 2))
    directions = np.stack([np.linalg.qr(RNG.standard_normal((5, 2)))[0] for _ in range(groups)])
    params = LeapfrogParams(LowRank(*map(xp.asarray, (diagonal, directions, stretches))), xp.ones(groups))
    vectors = RNG.standard_normal((groups * num, 5))
    for g in range(groups):
        own = slice(g * num, (g + 1) * num)
        matrix = diagonal[g][:, None] * (np.eye(5) + (directions[g] * (stretches[g] - 1)) @ directions[g].T)
        np.testing.assert_allclose(params.forward(xp.asarray(vectors))[own], vectors[own] @ matrix.T, rtol=1e-12)
        np.testing.assert_allclose(params.backward(xp.asarray(vectors))[own], vectors[own] @ matrix, rtol=1e-12)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize(("wide", "narrow"), [(400.0, 1.0), (1.0, 1 / 400), (400.0, 1 / 400)])
def test_fewer_particles_than_dimensions_show_the_directions_that_differ(xp, wide, narrow):
    matrix = covariance(wide, narrow)
    x = RNG.standard_normal((60, DIMENSION)) @ np.linalg.cholesky(matrix).T
    scores = -np.linalg.solve(matrix, x.T).T
    fitted = LowRank(*map(np.asarray, low_rank(xp.asarray(x), xp.asarray(scores), xp.full(60, 1 / 60), 20)))
    alone = fitted._replace(stretches=np.ones(20))
    before, after = whitened(matrix, alone), whitened(matrix, fitted)
    assert after[-1] / after[0] < 0.1 * before[-1] / before[0]


def test_noise_is_not_taken_for_a_direction():
    x = RNG.standard_normal((60, DIMENSION))
    np.testing.assert_array_equal(low_rank(x, -x, np.full(60, 1 / 60), 20).stretches, 1.0)


def test_a_frozen_low_rank_kernel_is_unbiased_and_survives_a_file(key):
    """With 24 particles in 30 dimensions; the log of the mean over many runs is the truth, 0."""
    matrix = covariance(100.0, 1.0)[:30, :30]
    base = qp.MultivariateNormal(jnp.zeros(30), jnp.asarray(2 * matrix))
    path = qp.GeometricPath(base, qp.MultivariateNormal(jnp.zeros(30), jnp.asarray(matrix)))
    pilot = qp.SMC(24, qp.LinearSchedule(6), qp.HMC(1, 3, preconditioner="low_rank"))
    frozen = qp.tune(path, key=key, kernel=pilot.kernel, budget=20_000).kernel
    codec = Codec(classes_around(frozen, frozen.kernel))
    again = codec.decode(*codec.encode(frozen))
    jax.tree.map(np.testing.assert_array_equal, again.params, frozen.params)
    smc = qp.SMC(24, qp.LinearSchedule(6), again)
    ratios = np.exp([float(smc.run(path, key=k).log_evidence) for k in jax.random.split(key, 60)])
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / 60**0.5 < 1
