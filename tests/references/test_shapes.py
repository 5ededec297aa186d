"""Noise shaped by scans: tails of single coordinates come out as they are, also where no draw has been."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import kstest

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.core.numerics import log_ess
from qpaths.maps import Chain, Triangular
from qpaths.references.components import Component
from qpaths.references.coordinates import MappedDensities
from qpaths.references.shapes import fit_shapes, num_shaped
from qpaths.rows import Evaluator, evaluator_of

FACTOR = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-1.0, 0.3, 2.0]])
MAP = Chain.of(Triangular.of(np.zeros(3), FACTOR))


def log_gammas(noise):
    """Logs of gamma variables of shape 1/2: an exponential tail on the left, and hardly one on the right."""
    return jnp.sum(0.5 * noise - jnp.exp(noise)) - 1.5 * np.log(np.pi)


def setup():
    inverse = np.linalg.inv(FACTOR)
    target = qp.Density(lambda x: log_gammas(inverse @ x) + float(np.linalg.slogdet(inverse)[1]))
    base = qp.MultivariateNormal(jnp.zeros(3), 25 * jnp.eye(3))
    evaluator = evaluator_of(qp.GeometricPath(base, target), HostStream((0,)), with_slopes=True)
    noise = np.log(np.random.default_rng(0).gamma(0.5, size=(64, 3)))
    return evaluator, np.maximum(noise, -4.0)  # draws that have not been in the tail


def share(component, evaluator):
    """The effective share of draws, and the mean of their weights, whose truth is 1."""
    rows = component.draw(HostStream((1,)), 4000)
    log_weights = evaluator.values(rows).log_target - component.log_prob(rows)
    return float(np.exp(log_ess(log_weights))) / len(rows), float(np.mean(np.exp(log_weights)))


def test_exponential_tails_are_found_beyond_the_draws():
    evaluator, noise = setup()
    before = Component(8.0, MAP)
    shaped = fit_shapes(Evaluator(evaluator.path, MappedDensities(evaluator.densities, MAP)), noise, before)
    old, new = share(before, evaluator), share(shaped, evaluator)
    assert old[0] < 0.2
    assert new[0] > 0.9
    assert abs(new[1] - 1) < 5 * ((1 / new[0] - 1) / 4000) ** 0.5 + 0.005
    drawn = shaped.map.inverse(shaped.draw(HostStream((2,)), 2000)).noise
    assert all(kstest(np.exp(own), "gamma", args=(0.5,)).pvalue > 1e-4 for own in drawn.T)
    assert num_shaped(3) == 3 * num_shaped(1)


def test_the_gradient_is_that_of_the_density():
    evaluator, noise = setup()
    mapped = Evaluator(evaluator.path, MappedDensities(evaluator.densities, MAP))
    shaped = fit_shapes(mapped, noise, Component(8.0, MAP))
    x = jnp.asarray(noise[:10])
    expected = jax.vmap(jax.grad(lambda row: shaped.log_prob_and_slope(row[None])[0][0]))(x)
    np.testing.assert_allclose(shaped.log_prob_and_slope(np.asarray(x))[1], expected, rtol=1e-8, atol=1e-10)
