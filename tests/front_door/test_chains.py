"""Chains of another density are found out; chains that only move slowly are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import cauchy

import qpaths as qp
from qpaths.core.arrays import stream_of
from qpaths.densities import as_density, has_gradient
from qpaths.front_door.exchange import drifting
from qpaths.remarks import DrawsFinding
from qpaths.rows import HostDensities, Layout, OneDensity

SHAPE = (4, 500, 4)


def _chains(rng, correlation):
    """Autocorrelated normal draws."""
    noise = rng.standard_normal(SHAPE)
    for i in range(1, SHAPE[1]):
        noise[:, i] = correlation * noise[:, i - 1] + (1 - correlation**2) ** 0.5 * noise[:, i]
    return noise


def _normal(x):
    return -0.5 * jnp.sum(x**2)


def _funnel(x):
    return -0.5 * (x[0] ** 2 / 9 + jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) + 3 * x[0])


def _in_a_box(x):
    return jnp.where(jnp.all(jnp.abs(x - 0.5) < 0.5), 0.0, -jnp.inf)


HONEST = {
    "normal": (_normal, lambda z: z),
    "cauchy": (lambda x: -jnp.sum(jnp.log1p(x**2)), lambda z: cauchy.ppf(ndtr(z))),
    "funnel": (_funnel, lambda z: np.concatenate([3 * z[..., :1], z[..., 1:] * np.exp(1.5 * z[..., :1])], axis=-1)),
    "box": (_in_a_box, ndtr),
}


def _drifting(density, chains, seed):
    layout, density = Layout.of(chains[0, 0]), as_density(density, "log_density")
    with_slopes = has_gradient(density)
    evaluator = OneDensity(density, "log_density", HostDensities(layout, with_slopes), with_slopes)
    at = evaluator.particles(chains.reshape(-1, chains.shape[2]), with_slopes=evaluator.with_slopes)
    names = [f"x[{j}]" for j in range(chains.shape[2])]
    return drifting(evaluator, at, chains.shape[:2], names, stream_of(jax.random.key(seed), host=True))[0]


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_draws_of_the_density_raise_no_alarm(name, correlation):
    """The probability of an alarm is 1e-4 in each of 10 runs."""
    density, transform = HONEST[name]
    for seed in range(10):
        assert _drifting(density, transform(_chains(np.random.default_rng(seed), correlation)), seed) == []


@pytest.mark.parametrize("seed", range(3))
def test_draws_of_another_density_are_found_out(seed):
    """One scale, one place, the tails, or how two coordinates depend on each other."""
    chains = _chains(np.random.default_rng(seed), 0.5)
    assert "x[2]" in _drifting(_normal, chains * np.array([1, 1, 1.5, 1]), seed)
    assert "x[1]" in _drifting(_normal, chains + np.array([0, 0.5, 0, 0]), seed)
    assert _drifting(_normal, np.sign(chains) * np.abs(chains) ** 1.5, seed)
    turned = chains.copy()
    turned[..., 0] = 0.6 * turned[..., 1] + 0.8 * turned[..., 0]
    assert _drifting(_normal, turned, seed) == ["how coordinates depend on each other"]
    blind = qp.Density(lambda x: -0.5 * float(np.sum(x**2)), backend="numpy")
    assert "x[2]" in _drifting(blind, chains * np.array([1, 1, 1.7, 1]), seed)


@pytest.mark.parametrize("factor", [0.7, 1.5])
def test_the_finding_widens_the_standard_error(factor, key):
    chains = _chains(np.random.default_rng(0), 0.5) * np.array([1, 1, factor, 1])
    with pytest.warns(UserWarning, match=r"the draws do not come from the density: .* change the draws in .*x\[2\]"):
        result = qp.evidence_from_draws(_normal, chains, key=key)
    assert DrawsFinding.OTHER_DENSITY in [finding.kind for finding in result.verdict.findings]
    assert result.verdict.level == "doubtful"
    assert abs(float(result.log_evidence) - 2 * np.log(2 * np.pi)) < 2 * float(result.log_evidence_se)
