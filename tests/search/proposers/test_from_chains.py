"""Chains at the target: they arrive, their draws are those of the target, and their fit is a start of the path."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.remarks import Source
from qpaths.search.proposers import from_chains as chains
from qpaths.search.proposers.from_chains import Chains, moved_chains
from qpaths.search.start import choose_start
from qpaths.search.state import Search

SCALES = jnp.geomspace(0.02, 1.0, 20)


def search_of(log_target, dimension, base_scale=3.0, max_cost=200_000.0):
    base = qp.MultivariateNormal(jnp.zeros(dimension), base_scale**2 * jnp.eye(dimension))
    path = qp.GeometricPath(base, qp.Density(log_target))
    return Search(path, qp.HMC(num_leapfrog=5), 400, HostStream((1,)), max_cost)


def test_draws_are_those_of_the_target():
    """Step size and scales adapt to coordinates whose scales differ by 50, from starts that are far outside."""
    search = search_of(lambda x: jnp.sum(norm.logpdf(x, 1.0, SCALES)), 20)
    rows, scores = moved_chains(search, 120)
    assert rows.shape == scores.shape
    assert len(rows) == 32 * 60
    np.testing.assert_allclose((rows.mean(axis=0) - 1) / SCALES, 0.0, atol=0.3)
    np.testing.assert_allclose(rows.std(axis=0) / SCALES, 1.0, atol=0.25)
    np.testing.assert_allclose(scores, (1 - rows) / SCALES**2, rtol=1e-6, atol=1e-6)
    assert search.spent.target_gradient == 32 * (1 + 120 * 10)


def test_a_chain_that_has_not_arrived_is_left_out(monkeypatch):
    """A plateau far out, where the target is a million nats lower and flat: chains that begin there stay."""
    search = search_of(lambda x: jnp.where(x[0] > -50.0, jnp.sum(norm.logpdf(x)), -1e6), 16, 1.0)
    near = chains._starts(search, HostStream((3,)))
    monkeypatch.setattr(chains, "_starts", lambda *_: np.concatenate([near, np.full((4, 16), -100.0)]))
    rows, _ = moved_chains(search, 60)
    assert len(rows) == len(near) * 30
    assert (rows[:, 0] > -50).all()


def test_they_suit_many_dimensions_and_long_paths():
    few, many = (search_of(lambda x: jnp.sum(norm.logpdf(x)), d) for d in (4, 20))
    assert not Chains().suits(few)
    assert Chains().suits(many)
    many.chains = np.zeros((0, 20)), np.zeros((0, 20))
    assert not Chains().suits(many)  # once is enough
    cheap = search_of(lambda x: jnp.sum(norm.logpdf(x)), 20, max_cost=20_000.0)
    assert not Chains().suits(cheap)


def test_effects_that_nothing_else_finds():
    """Item responses: scales of effects and of abilities, which ascents lead to zero, and no map of the base shows."""
    rng = np.random.default_rng(0)
    num, items = 30, 10
    ability, level = rng.normal(size=num), rng.normal(size=items)
    answers = jnp.asarray(rng.random((num, items)) < 1 / (1 + np.exp(level - ability[:, None])), float)

    def log_target(x):
        log_scale, theta, b = x[0], x[1 : 1 + num], x[1 + num :]
        logits = jnp.exp(log_scale) * theta[:, None] - b
        log_likelihood = jnp.sum(answers * logits - jax.nn.softplus(logits))
        return norm.logpdf(log_scale) + jnp.sum(norm.logpdf(theta)) + jnp.sum(norm.logpdf(b)) + log_likelihood

    base = qp.MultivariateNormal(jnp.zeros(1 + num + items), jnp.eye(1 + num + items))
    path = qp.GeometricPath(base, qp.Density(log_target))
    plain = choose_start(path, qp.HMC(num_leapfrog=5), 400, HostStream((1,)), 250_000.0)
    assert plain.pilot.reached
    search = Search(path, qp.HMC(num_leapfrog=5), 400, HostStream((2,)), 250_000.0)
    search.ask(Chains())
    assert search.best is not None
    assert search.attempts[-1].source is Source.CHAINS
    value, error = search.found[1].mass
    assert abs(value - plain.pilot.mass[0]) < 4 * np.hypot(error, plain.pilot.mass[1]) < 2
    assert search.found[1].barrier < 2
