"""Groups of coordinates, and exchanges of labels and signs: found where they hold, and nowhere else."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.maps import Chain, Scale
from qpaths.references.structure import Images, Structure, find_images
from qpaths.rows import Layout, evaluator_of

STREAM = HostStream((1,))
Y = jnp.array([-2.0, -1.9, 0.1, 2.2])


def images_of(prior, log_likelihood):
    model = qp.adapters.from_prior(prior, log_likelihood)

    def joint(x):
        return model.prior.log_prob(x) + model.log_likelihood(x)

    path = qp.GeometricPath(model.prior, qp.Density(joint))
    return find_images(evaluator_of(path, STREAM, with_slopes=False), STREAM)[0]


def normals(*names, size=3):
    return {name: qp.MultivariateNormal(jnp.zeros(size), jnp.eye(size)) for name in names}


def mixture(p):
    return jnp.sum(logsumexp(norm.logpdf(Y[:, None], p["m"], jnp.exp(p["s"])), axis=1))


def network(p):
    return jnp.sum(norm.logpdf(Y, jnp.tanh(Y[:, None] * p["a"] + p["b"]) @ p["w"]))


@pytest.mark.parametrize(
    ("log_likelihood", "names", "num"),
    [
        (mixture, ("m", "s"), 6),  # labels
        (network, ("a", "b", "w"), 48),  # labels, and a sign for each unit
        (lambda p: jnp.sum(norm.logpdf(Y[0], p["m"] ** 2)), ("m",), 48),  # each coordinate by itself
        (lambda p: norm.logpdf(Y[0], jnp.sum(p["m"]) ** 2), ("m",), 12),  # labels, and one sign for all
        (lambda p: norm.logpdf(Y[0], p["m"] @ jnp.array([1.0, 2.0, 3.0])), ("m",), 1),
    ],
)
def test_images_are_those_that_leave_the_density_as_it_is(log_likelihood, names, num):
    assert len(images_of(normals(*names), log_likelihood)) == num


def test_a_small_difference_between_labels_is_seen():
    def nearly(p):
        return mixture(p) + 1e-3 * jnp.sum(p["m"] * jnp.array([0.0, 0.0, 1.0]))

    assert len(images_of(normals("m", "s"), nearly)) == 2


def test_blocks_of_one_vector_are_labels_too():
    """Two places, two scales, and what they share at the end."""

    def log_likelihood(p):
        place, scale = p["x"][:2], jnp.exp(p["x"][2:4])
        return jnp.sum(logsumexp(norm.logpdf(Y[:, None], place, scale), axis=1)) + p["x"][4]

    assert len(images_of(normals("x", size=5), log_likelihood)) == 2


def test_images_of_points_and_of_curvature_fit_together():
    rng = np.random.default_rng(0)
    images = Images(np.array([[0, 1, 2], [2, 0, 1]]), np.array([[1.0, 1, 1], [1, -1, 1]]))
    root = rng.normal(size=(3, 3))
    precision, row = root @ root.T, rng.normal(size=3)
    for number in range(2):
        x = images.of(row)[number]
        np.testing.assert_allclose(x @ images.of_matrix(precision, number) @ x, row @ precision @ row)
        np.testing.assert_allclose(images.back(x[None], np.array([number]))[0], row)
        chain = images.after(Chain.of(Scale(np.zeros(3), np.ones(3))), number)
        np.testing.assert_allclose(chain.forward(row[None]).points[0], x)
    first, by = images.orbits(np.array([row, rng.normal(size=3), images.of(row)[1]]))
    assert list(first) == [0, 1, 0]
    assert list(by) == [0, 0, 1]


def test_groups_follow_from_shapes():
    two = {"period": np.zeros(2), "wave": np.zeros((2, 2)), "offset": np.zeros(())}
    structure = Structure.of(Layout.of(two))
    assert structure.has_labels
    assert [sorted(group) for group in structure.groups] == [[1, 3, 4], [2, 5, 6]]
    plain = Structure.of(Layout.of({"a": np.zeros(()), "b": np.zeros(())}))
    assert not plain.has_labels
    assert [list(group) for group in plain.groups] == [[0], [1]]
