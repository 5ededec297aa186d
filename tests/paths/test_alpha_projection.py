"""The alpha-projection path within an exponential family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.families.divergences import mixed_divergence
from qpaths.families.nodes import Nodes

BETA = 0.4
NORMALS = qp.Normal(-1.0, 3.0**0.5), qp.Normal(2.0, 1.0)
GAMMAS = qp.families.Gamma(2.0, 2.0), qp.families.Gamma(9.0, 3.0)


@pytest.mark.parametrize(
    ("ends", "nodes", "q"),
    [(NORMALS, Nodes.line(scale=2.0), 0.8), (GAMMAS, Nodes.line(0.0), 0.3)],
    ids=["normal", "gamma"],
)
def test_minimises_the_mixed_alpha_divergences_within_the_family(ends, nodes, q, key):
    base, target = ends
    log_base, log_target = nodes.log_values(base), nodes.log_values(target)

    @jax.jit
    def objective(natural):
        log_r = jax.vmap(base.with_natural(natural).log_prob)(nodes.points)
        return mixed_divergence(log_base, log_target, log_r, BETA, 2 * q - 1, nodes)

    path = qp.paths.AlphaProjectionPath(base, target, q=q)
    natural = jax.jit(lambda beta: path.member(beta))(BETA).natural
    np.testing.assert_allclose(jax.jit(jax.grad(objective))(natural), 0, atol=1e-10)
    least = objective(natural)
    for step in 0.05 * jax.random.normal(key, (20, 2)):
        assert objective(tuple(v * jnp.exp(s) for v, s in zip(natural, step, strict=True))) > least
    # The minimum over all measures is lower, and that over the family depends on q.
    free = nodes.log_values(qp.QPath(base, target, q=q).at(BETA))
    assert mixed_divergence(log_base, log_target, free, BETA, 2 * q - 1, nodes) < least
    moment = qp.MomentPath(base, target).at(BETA).natural
    assert objective(moment) > least + 1e-6


def test_limits():
    moment = qp.MomentPath(*NORMALS).at(BETA)
    geometric = qp.GeometricPath(*NORMALS).at(BETA).member
    at = jax.jit(jax.vmap(lambda q: qp.paths.AlphaProjectionPath(*NORMALS, q=q).at(BETA)))
    found = at(jnp.array([0.0, 0.25, 0.5, 0.75, 1 - 1e-6]))
    np.testing.assert_allclose([found.loc[0], found.scale[0]], [moment.loc, moment.scale], rtol=1e-12)
    np.testing.assert_allclose([found.loc[-1], found.scale[-1]], [geometric.loc, geometric.scale], rtol=1e-4)
    middle = np.asarray(found.scale[:-1])
    assert (np.diff(middle) < 0).all()
    assert middle[-1] > geometric.scale


def test_two_dimensions_match_the_moments_of_the_mixed_tilted_endpoints():
    """Minka's fixed point, with both tilted endpoints as geometric means from their own closed form."""
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    target = qp.MultivariateNormal(jnp.array([2.0, 1.0]), jnp.array([[1.0, 0.6], [0.6, 0.8]]))
    q = 0.7
    path = qp.paths.AlphaProjectionPath(base, target, q=q)
    member = jax.jit(lambda beta: path.member(beta))(BETA)
    parts = [qp.GeometricPath(end, member).at(q) for end in (base, target)]
    masses = np.array([(1 - BETA) * np.exp(parts[0].log_mass), BETA * np.exp(parts[1].log_mass)])
    weights = masses / masses.sum()
    matched = jax.tree.map(lambda a, b: weights[0] * a + weights[1] * b, *(part.member.moments for part in parts))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), member.moments, matched)


def test_the_lowest_of_several_minima_counts():
    """Far ends have a wide and a narrow minimum. A grid of members tells which is lower, with no iteration.

    At beta = 0.62 the iteration from the averaged moments alone ends in the wide one, and at 0.66 it is gone.
    """
    base, target, q = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0), 0.5
    nodes = Nodes.line(scale=2.0, num=201)
    log_base, log_target = nodes.log_values(base), nodes.log_values(target)

    @jax.jit
    @jax.vmap
    def objective(loc, scale, beta):
        log_r = jax.vmap(qp.Normal(loc, scale).log_prob)(nodes.points)
        return mixed_divergence(log_base, log_target, log_r, beta, 2 * q - 1, nodes)

    path = qp.paths.AlphaProjectionPath(base, target, q=q)
    betas = jnp.array([0.3, 0.55, 0.59, 0.6, 0.62, 0.64, 0.66])
    members = jax.jit(jax.vmap(lambda beta: path.member(beta)))(betas)
    found = objective(members.loc, members.scale, betas)
    grid = jnp.stack([g.ravel() for g in jnp.meshgrid(jnp.linspace(-4.5, 4.5, 46), jnp.geomspace(0.8, 5.0, 40))])
    for beta, least in zip(betas, found, strict=True):
        assert jnp.min(objective(*grid, jnp.full(grid.shape[1], beta))) > least - 1e-9
    assert (members.scale[:3] > 2).all()
    assert (members.scale[3:] < 1.1).all()
