"""What a path costs against closed forms, and learned paths that are shorter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.families import Nodes, divergences
from qpaths.paths import Pilot, SplinePath, VaryingQPath, describe, learn


def exact_pilot(path, num, states, key):
    """Exact draws along a path between members of one family."""
    betas = np.linspace(0.0, 1.0, num)
    keys = jax.random.split(key, num)
    rows = [jax.vmap(path.at(float(b)).sample)(jax.random.split(k, states)) for b, k in zip(betas, keys, strict=True)]
    return Pilot(betas, jax.vmap(jax.vmap(path.features))(jnp.stack(rows)))


def test_closed_forms_between_normals(key):
    """The derivative is normal with standard deviation 2, so that length and barrier are known."""
    path = qp.GeometricPath(qp.Normal(-1.0, 1.0), lambda x: -0.5 * (x - 1.0) ** 2 + 3.0)
    normal = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0))
    found = describe(path, Pilot(np.linspace(0.0, 1.0, 9), _of(path, normal, key)))
    np.testing.assert_allclose(found.length, 2.0, rtol=0.03)
    np.testing.assert_allclose(found.barrier, 2 / np.pi**0.5, rtol=0.03)  # E |D - D'| / 2
    np.testing.assert_allclose(found.log_z[-1], 3.0 + 0.5 * np.log(2 * np.pi), atol=0.03)
    np.testing.assert_allclose(found.round_trips, 1 / (2 + 4 / np.pi**0.5), rtol=0.03)
    np.testing.assert_allclose(found.mean, np.linspace(-2, 2, 9) + 3.0 + 0.5 * np.log(2 * np.pi), atol=0.15)
    np.testing.assert_allclose(found.equal_betas(5), np.linspace(0, 1, 5), atol=0.03)
    assert "barrier" in str(found)


def _of(path, normal, key):
    betas = np.linspace(0.0, 1.0, 9)
    keys = jax.random.split(key, 9)
    rows = [jax.vmap(normal.at(float(b)).sample)(jax.random.split(k, 4000)) for b, k in zip(betas, keys, strict=True)]
    return jax.vmap(jax.vmap(path.features))(jnp.stack(rows))


@pytest.mark.parametrize("q", [1.0, 0.5])
def test_bregman_information_is_the_least_mixed_divergence(q, key):
    ends = qp.Normal(-1.0, 1.0), qp.Normal(1.0, 0.7)
    path = qp.GeometricPath(*ends) if q == 1 else qp.QPath(*ends, q=q)
    grid, betas = jnp.linspace(-8.0, 8.0, 8001), np.linspace(0.0, 1.0, 9)
    features = jax.vmap(path.features)(grid)
    keys = jax.random.split(key, 9)
    rows = [
        jax.random.categorical(k, path.log_density_from(b, features), shape=(4000,))
        for k, b in zip(keys, betas, strict=True)
    ]
    pilot = Pilot(betas, jax.tree.map(lambda leaf: leaf[jnp.stack(rows)], features))
    nodes = Nodes.line()
    base, target = (nodes.log_values(end) for end in ends)
    middle = path.interpolate(0.5, base, target)
    exact = divergences.mixed_divergence(base, target, middle, 0.5, 2 * q - 1, nodes)
    np.testing.assert_allclose(describe(path, pilot).information[4], exact, rtol=0.05)


def test_a_learned_spline_is_at_most_half_as_long(key):
    """N(-4, 0.1) to N(4, 0.1): Syed et al. (2021)."""
    path = qp.GeometricPath(qp.Normal(-4.0, 0.1), qp.Normal(4.0, 0.1))
    learned = learn(SplinePath, exact_pilot(path, 60, 100, key), path=path, num_knots=6)
    assert _length(learned) < 0.5 * _length(path)


def test_a_learned_q_is_no_longer(key):
    path = qp.GeometricPath(qp.Normal(-2.0, 1.0), qp.Normal(2.0, 1.0))
    learned = learn(VaryingQPath, exact_pilot(path, 20, 200, key), path=path, num_knots=3)
    assert _length(learned) < 0.95 * _length(path)


def _length(path):
    """The Fisher-Rao length by quadrature."""
    grid = jnp.linspace(-12.0, 12.0, 20_001)
    features = jax.vmap(path.features)(grid)
    betas = np.linspace(0.0, 1.0, 401)[:-1] + 1 / 800
    total = 0.0
    for beta in betas:
        weights = jax.nn.softmax(path.log_density_from(beta, features))
        slope = path.derivative_from(beta, features)
        total += float(jnp.sqrt(weights @ (slope - weights @ slope) ** 2)) / 400
    return total


def test_bad_input():
    path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 1.0))
    with pytest.raises(ValueError, match="`pilot` must have features"):
        describe(path, Pilot(np.array([0.0, 1.0]), None))
    pilot = Pilot(np.array([0.0, 1.0]), jax.vmap(jax.vmap(path.features))(np.zeros((2, 3))))
    with pytest.raises(ValueError, match="`start` must be given"):
        learn(lambda p: path, pilot, path=path)
    with pytest.raises(ValueError, match="`num_knots` must be at least 2, got 1"):
        learn(SplinePath, pilot, path=path, num_knots=1)
