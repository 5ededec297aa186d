"""JAX's default precision: every public function of families, paths and the deformed algebra, against 64 bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths import families, paths
from qpaths.families import Nodes, divergences, q_family
from qpaths.testing import check_path
from tests.families.test_exponential import PAIRS
from tests.families.test_q_exponential import MEMBERS
from tests.paths import test_parametric, test_pointwise

CAUCHY = qp.StudentT(1.0, -4.0, 3.0**0.5), qp.StudentT(1.0, 4.0, 1.0)
NORMALS = qp.Normal(-1.0, 3.0**0.5), qp.Normal(1.5, 0.8)
RATES = qp.families.Gamma(2.0, 1.0), qp.families.Gamma(5.0, 3.0)
LINES = [((), *NORMALS), ((), *CAUCHY), ((0.0,), *RATES)]


def _in_32_bits(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def _same(function, *arguments, rtol=2e-4, atol=2e-4):
    """The function in 32 bits, from arguments in 32 bits, has the numbers that it has in 64, and no others."""
    exact = function(*arguments)
    with jax.enable_x64(False):
        found = function(*_in_32_bits(arguments))
        leaves = [leaf for leaf in jax.tree.leaves(found) if isinstance(leaf, jax.Array)]
        assert leaves
        assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol), found, exact)


def _divergences(line, base, target):
    nodes = Nodes.line(*line)
    p, r = nodes.log_values(base), nodes.log_values(target)
    return {
        "mass": nodes.integral(p),
        "kl": divergences.kl_divergence(p, r, nodes),
        "alpha": [divergences.alpha_divergence(p, r, alpha, nodes) for alpha in (-1.0, -0.4, 0.0, 0.5, 1.0)],
        "mixed": divergences.mixed_divergence(p, r, p, 0.3, 0.2, nodes),
        "jensen_shannon": divergences.jensen_shannon_divergence(p, r, 0.5, -1.0, nodes),
        "bhattacharyya": divergences.log_bhattacharyya(p, r, nodes),
        "escort": divergences.escort_expectation(jnp.tanh, base, 1.5, nodes),
    }


@pytest.mark.parametrize(("line", "base", "target"), LINES)
def test_divergences_on_infinite_lines(line, base, target):
    _same(lambda *ends: _divergences(line, *ends), base, target, rtol=1e-3)


def test_nodes_of_other_kinds(key):
    def both(member):
        product = Nodes.product(Nodes.line(num=101), Nodes.line(num=101))
        return product.integral(product.log_values(member))

    _same(both, qp.MultivariateNormal(jnp.zeros(2), jnp.array([[1.0, 0.3], [0.3, 0.7]])))
    with jax.enable_x64(False):
        draws = Nodes.monte_carlo(qp.Normal(0.0, 2.0), 4000, key=key)
        np.testing.assert_allclose(draws.integral(draws.log_values(qp.Normal(0.0, 1.0))), 1.0, atol=0.1)
        finite = Nodes.line(-(3**0.5), 3**0.5)
        np.testing.assert_allclose(
            finite.integral(finite.log_values(families.QGaussian(0.0, 0.0, 1.0))), 1.0, rtol=1e-4
        )


@pytest.mark.parametrize("name", [*PAIRS, *MEMBERS])
def test_families(name, key):
    member, other = PAIRS[name] if name in PAIRS else (MEMBERS[name], MEMBERS[name])
    x = member.sample(key)

    def numbers(member, other, x):
        out = {
            "log_prob": member.log_prob(x),
            "natural": member.natural,
            "moments": member.moments,
            "free_energy": member.free_energy(member.natural),
            "divergence": member.divergence(other),
            "dual": member.legendre_dual(member.moments),
            "mixed": jax.tree.leaves(member.mix_moments(other, 0.3)),
            "inverse": jax.tree.leaves(member.with_natural(member.natural)),
        }
        if hasattr(member, "escort"):
            out["multiplicative"] = member.multiplicative()
            out["published"] = jax.tree.leaves(member.mix_moments_as_published(other, 0.3))
            out["escort"] = jax.tree.leaves(member.escort()) if 1 - member.delta > 0 else x
        return out

    _same(numbers, member, other, x, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("function", [q_family.q_from_df, q_family.q_from_shape])
def test_orders(function):
    _same(function, jnp.asarray(0.7))
    inverse = {q_family.q_from_df: q_family.df_from_q, q_family.q_from_shape: q_family.shape_from_q}[function]
    _same(inverse, jnp.asarray(1.4))


def test_the_deformed_algebra():
    u, x = jnp.array([0.0, 1e-3, 1.0, 40.0]), jnp.array([-30.0, -0.4, 0.0, 1.5])
    for q in (-1.0, 0.5, 0.9999, 1.0, 1.3):
        _same(lambda u, q=q: qp.log_q(u, q), u)
        _same(lambda x, q=q: qp.exp_q(x, q), x, rtol=1e-4)
        _same(lambda u, q=q: qp.log_power_mean(jnp.log(u[1:]), jnp.array([0.2, 0.3, 0.5]), q), u)
    _same(lambda u: qp.log_generalized_mean(jnp.log(u[1:]), jnp.ones(3), jnp.exp, jnp.log), u)


@pytest.mark.parametrize("name", test_pointwise.PATHS)
def test_pointwise_paths(name, key):
    with jax.enable_x64(False):
        check_path(_in_32_bits(test_pointwise.PATHS[name]), jax.random.normal(key, (16, 2), jnp.float32))


@pytest.mark.parametrize("name", test_parametric.CONFORMING)
def test_parametric_paths(name, key):
    path = test_parametric.PATHS[name]

    def numbers(path, points):
        features = jax.vmap(path.features)(points)
        betas = (0.0, 0.375, 1.0)
        return [(path.log_density_from(beta, features), path.derivative_from(beta, features)) for beta in betas]

    _same(numbers, path, jax.vmap(path.sample_base)(jax.random.split(key, 16)), rtol=2e-3, atol=2e-3)


def test_the_projection_says_where_32_bits_are_not_enough():
    _same(lambda *ends: jax.tree.leaves(paths.AlphaProjectionPath(*ends, q=0.998).at(0.999)), *NORMALS, rtol=1e-3)
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"`q` must be at most 1 - 0.001 in this precision"):
        paths.AlphaProjectionPath(*_in_32_bits(NORMALS), q=0.99999)
