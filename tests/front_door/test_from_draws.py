"""The evidence from draws: right with its error, wary of what the draws miss, and clear about mistakes."""

import warnings

import arviz
import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import qpaths as qp
from qpaths.adapters import from_numpyro, from_prior
from qpaths.remarks import Note

DIMENSION = 3
COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 0.5]])
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE))
LOG_MASS = 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]


def _normal(x):
    return -0.5 * x @ PRECISION @ x


def _draws(rng, num=1000, chains=4, correlation=0.0):
    """Of the normal distribution, perhaps autocorrelated along each chain."""
    noise = rng.multivariate_normal(np.zeros(DIMENSION), COVARIANCE, size=(chains, num))
    for i in range(1, num):
        noise[:, i] = correlation * noise[:, i - 1] + (1 - correlation**2) ** 0.5 * noise[:, i]
    return noise


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_error_is_honest_with_autocorrelated_draws(correlation):
    """20 seeds: the mean square of error over standard error is 1 for an honest one (chi-squared: 0.37 to 2.1).

    A standard error that counts all draws as independent gives about 4 at a correlation of 0.9 (checked here by hand).
    """
    scores, errors = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        result = qp.evidence_from_draws(_normal, _draws(rng, 400, 4, correlation), key=jax.random.key(seed))
        scores.append((float(result.log_evidence) - LOG_MASS) / float(result.log_evidence_se))
        errors.append(float(result.log_evidence_se))
    assert 0.3 < np.mean(np.square(scores)) < 2.5
    assert np.median(errors) < (0.02 if correlation else 0.01)


def test_a_model_and_every_container_of_draws(key):
    y = jnp.array([1.2, 0.4, 0.9, 1.5])

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 2))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        numpyro.deterministic("twice", 2 * mu)
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)

    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model),
        num_warmup=300,
        num_samples=500,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(key, y)
    own = from_numpyro(model, y)
    by_prior = from_prior(
        {"mu": dist.Normal(0, 2), "sigma": dist.HalfNormal(1.0)},
        lambda p: dist.Normal(p["mu"], p["sigma"]).log_prob(y).sum(),
    )
    grid_mu, grid_sigma = np.meshgrid(np.linspace(-6, 8, 800), np.linspace(1e-3, 8, 1600), indexing="ij")
    log_joint = dist.Normal(0, 2).log_prob(grid_mu) + dist.HalfNormal(1.0).log_prob(grid_sigma)
    log_joint += sum(dist.Normal(grid_mu, grid_sigma).log_prob(one) for one in y)
    cell = (14 / 799) * ((8 - 1e-3) / 1599)
    exact = float(jax.nn.logsumexp(log_joint)) + np.log(cell)
    by_chain = {name: np.asarray(leaf) for name, leaf in mcmc.get_samples(group_by_chain=True).items()}
    containers = {
        "mcmc": mcmc,
        "idata": arviz.from_dict(posterior=by_chain),
        "dataset": arviz.from_dict(posterior=by_chain)["posterior"],
        "by chain": by_chain,
    }
    results = {name: qp.evidence_from_draws(own, draws, key=key) for name, draws in containers.items()}
    results["prior objects"] = qp.evidence_from_draws(by_prior, mcmc, key=key)
    for name, result in results.items():
        assert abs(float(result.log_evidence) - exact) < 5 * float(result.log_evidence_se), name
        assert float(result.log_evidence_se) < 0.02
        if name != "prior objects":  # which draws other points from its prior
            np.testing.assert_allclose(float(result.log_evidence), float(results["mcmc"].log_evidence), rtol=1e-6)
        assert result.verdict.level == "sound", str(result.verdict)
    flat = qp.evidence_from_draws(own, mcmc.get_samples(), key=key)
    assert abs(float(flat.log_evidence) - exact) < 5 * float(flat.log_evidence_se)
    result = results["mcmc"]
    assert set(result.samples) == {"mu", "sigma", "twice"}
    assert result.samples["sigma"].shape == (1000,)
    assert "bridge sampling" in result.summary()


def test_a_result_from_draws_is_saved(tmp_path, key):
    result = qp.evidence_from_draws(_normal, _draws(np.random.default_rng(0)), key=key)
    result.save(tmp_path / "draws.npz")
    again = qp.load_result(tmp_path / "draws.npz")
    assert str(again.verdict) == str(result.verdict)
    assert float(again.log_evidence) == float(result.log_evidence)


def _two_modes(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x - 4) ** 2), -0.5 * jnp.sum((x + 4) ** 2))


TWO_LOG_MASS = np.log(2) + 1.5 * np.log(2 * np.pi)


@pytest.mark.parametrize("seed", range(5))
def test_draws_that_miss_a_mode(seed):
    rng = np.random.default_rng(seed)
    with pytest.warns(UserWarning, match="the draws miss a mode"):
        result = qp.evidence_from_draws(_two_modes, rng.standard_normal((4, 500, 3)) + 4, key=jax.random.key(seed))
    assert result.verdict.level == "doubtful"
    assert float(result.log_evidence) < TWO_LOG_MASS - 0.5


def test_draws_that_miss_a_mode_of_a_model(key):
    model = from_prior({"x": dist.Normal(0, 5).expand([2])}, lambda p: _two_modes(p["x"]))
    draws = {"x": np.random.default_rng(0).standard_normal((1000, 2)) * 0.98 + 3.8}
    with pytest.warns(UserWarning, match="the draws miss a mode: an ascent from the prior"):
        qp.evidence_from_draws(model, draws, key=key)


def test_draws_from_both_modes(key):
    """Two groups get two references. One wide reference for both has a standard error of 0.01 and more."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((4, 500, 3)) + 4 * np.sign(rng.standard_normal((4, 500, 1)))
    result = qp.evidence_from_draws(_two_modes, draws, key=key)
    assert abs(float(result.log_evidence) - TWO_LOG_MASS) < 5 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.006
    assert result.verdict.level == "sound"


def test_draws_that_are_too_narrow(key):
    """Draws that do not come from the density, without scores that would put it right."""
    precision = np.linalg.inv(COVARIANCE)
    density = qp.Density(lambda x: -0.5 * x @ precision @ x, backend="numpy")
    with pytest.warns(UserWarning, match="finds mass where|do not come from the density"):
        result = qp.evidence_from_draws(density, 0.6 * _draws(np.random.default_rng(0), 250), key=key)
    assert result.verdict.level == "doubtful"
    assert abs(float(result.log_evidence) - LOG_MASS) < 3 * float(result.log_evidence_se)


def test_chains_that_disagree(key):
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((2, 500, 2)) * np.array([1.0, 3.0])[:, None, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = qp.evidence_from_draws(lambda x: -0.5 * jnp.sum(x**2), draws, key=key)
    assert "the chains disagree" in str(result.verdict)


def test_a_numpy_density(key):
    precision = np.linalg.inv(COVARIANCE)
    density = qp.Density(lambda x: -0.5 * x @ precision @ x, backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = qp.evidence_from_draws(density, _draws(np.random.default_rng(0), 250), key=key)
    assert abs(float(result.log_evidence) - LOG_MASS) < 5 * float(result.log_evidence_se)


def test_mistakes_are_named(key):
    model = from_prior({"mu": dist.Normal(0, 1), "s": dist.HalfNormal(1.0)}, lambda p: -(p["mu"] ** 2) / p["s"])
    rng = np.random.default_rng(0)
    mu, s = rng.standard_normal(400), np.abs(rng.standard_normal(400))
    cases = [
        (model, {"mu": mu, "sigma": s}, "no variable `s`, only mu, sigma"),
        (model, {"mu": mu, "s": s[:300]}, "same chains and draws"),
        (model, {"mu": mu, "s": np.stack([s, s, s], 1)[..., None]}, r"draws of `s` must have the shape \(draws, \)"),
        (model, {"mu": mu, "s": np.where(s > 2, np.nan, s)}, "`s` is not a finite number in draw"),
        (model, {"mu": mu, "s": np.where(s > 2, 0.0, s)}, "boundary of the support"),
        (model, {"mu": mu, "s": -s}, "boundary of the support|is not a finite|log density is"),
        (model, np.stack([mu, s], 1), "by name, got ndarray"),
        (model, {"mu": mu[:10], "s": s[:10]}, "10 draws in 2 dimensions, and at least 24"),
        (_normal, rng.standard_normal((2, 3, 4, 5)), r"shape \(draws, dimension\)"),
        (lambda x: jnp.where(x[0] > 0, 0.0, -jnp.inf), rng.standard_normal((400, 2)), "cannot come from it"),
        (_normal, np.tile(rng.standard_normal((400, 1)), 3), "lie in a subspace"),
        (model, arviz.from_dict(prior={"mu": mu[None], "s": s[None]}), "no group `posterior`"),
    ]
    for target, draws, message in cases:
        with pytest.raises((TypeError, ValueError), match=message):
            qp.evidence_from_draws(target, draws, key=key)


@pytest.mark.parametrize("far", [-1e5, -1e20, -1e200])
@pytest.mark.parametrize("seed", range(3))
def test_a_density_with_huge_finite_values_far_out(far, seed):
    """A log scale inside an exponential: draws of a wide reference find -exp(60) and less."""

    def log_density(x):
        inside = -0.5 * jnp.sum(x**2)
        return jnp.where(jnp.max(jnp.abs(x)) < 6.0, inside, inside + far)

    draws = np.random.default_rng(seed).standard_normal((4, 300, 2))
    result = qp.evidence_from_draws(log_density, draws, key=jax.random.key(seed))
    assert abs(float(result.log_evidence) - np.log(2 * np.pi)) < 5 * float(result.log_evidence_se) < 0.1
    assert result.verdict.level == "sound"


def _steep(rate, x):
    """A normal density that falls to -exp(rate |x|) and less outside of where its draws are."""
    beyond = jnp.maximum(jnp.abs(x) - 5.0, 0.0)
    return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.minimum(jnp.exp(rate * beyond) - 1.0, 1e300))


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(rate=st.floats(1.0, 60.0), seed=st.integers(0, 1000))
def test_a_log_scale_in_an_exponential_never_misleads(rate, seed):
    """Whatever the rate: a finite answer within its error, or a verdict that is not sound."""
    draws = np.random.default_rng(seed).standard_normal((4, 200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        density = jax.tree_util.Partial(_steep, jnp.asarray(rate))
        result = qp.evidence_from_draws(density, draws, key=jax.random.key(seed))
    assert abs(float(result.log_evidence) - np.log(2 * np.pi)) < 5 * float(result.log_evidence_se) < 0.2


def test_eight_schools_whose_log_scale_is_in_an_exponential(key):
    """Non-centered: exact given the scale, so that draws are independent. Its evidence was -1e75 +- nan and "sound"."""
    y, s = (np.array(v, float) for v in ([28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]))

    def log_joint(x):
        z, mu, tau = x[:8], x[8], jnp.exp(x[9])
        prior = jnp.sum(dist.Normal(0, 1).log_prob(z)) + dist.Normal(0, 5).log_prob(mu)
        prior += dist.HalfCauchy(5).log_prob(tau) + x[9]
        return prior + jnp.sum(dist.Normal(mu + tau * z, s).log_prob(y))

    result = qp.evidence_from_draws(log_joint, _schools(y, s, np.random.default_rng(0)), key=key)
    assert abs(float(result.log_evidence) + 31.31135) < 5 * float(result.log_evidence_se) < 0.1
    assert result.verdict.level == "sound"


def _schools(y, s, rng, chains=4, num=500):
    """Exact posterior draws: the log scale from a grid, then the mean and the effects from normal distributions."""
    grid = np.linspace(-14, 6, 20001)
    variance = s**2 + np.exp(2 * grid[:, None])
    precision = 1 / 25 + np.sum(1 / variance, axis=1)
    center = np.sum(y / variance, axis=1) / precision
    log_prob = grid - np.log1p(np.exp(2 * grid) / 25) - 0.5 * np.log(precision) - 0.5 * np.sum(np.log(variance), axis=1)
    log_prob += 0.5 * center**2 * precision - 0.5 * np.sum(y**2 / variance, axis=1)
    weights = np.exp(log_prob - log_prob.max())
    chosen = rng.choice(len(grid), chains * num, p=weights / weights.sum())
    tau = np.exp(grid[chosen])[:, None]
    mu = (center[chosen] + rng.standard_normal(chains * num) / precision[chosen] ** 0.5)[:, None]
    of_z = 1 + tau**2 / s**2
    z = tau / s**2 * (y - mu) / of_z + rng.standard_normal((chains * num, 8)) / of_z**0.5
    return np.concatenate([z, mu, np.log(tau)], axis=1).reshape(chains, num, 10)


def test_an_answer_that_is_no_number_is_wrong(key, monkeypatch):
    monkeypatch.setattr("qpaths.front_door.from_draws.bridge", lambda forward, reverse: np.full(1, np.nan))
    with pytest.warns(UserWarning, match="EvidenceFromDraws: `log_evidence` is nan"):
        result = qp.evidence_from_draws(_normal, _draws(np.random.default_rng(0), 100), key=key)
    assert result.verdict.level == "wrong"


@pytest.mark.filterwarnings("ignore:evidence_from_draws")
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_points_at_which_the_density_fails_have_no_mass(key, backend, as_a_user):
    """A density that is NaN beyond 2.5, where no draw is: the references reach it, and the answer is that without."""
    rows = np.random.default_rng(0).standard_normal((1600, 2))
    rows = rows[rows[:, 0] < 2.5]
    xp = np if backend == "numpy" else jnp
    density = qp.Density(lambda x: xp.where(x[0] < 2.5, -0.5 * xp.sum(x**2), xp.nan), backend=backend)
    result = qp.evidence_from_draws(density, rows, key=key)
    exact = np.log(2 * np.pi) + float(scipy.stats.norm.logcdf(2.5))
    assert abs(float(result.log_evidence) - exact) < 4 * float(result.log_evidence_se)
    (note,) = [note for note in result.verdict.chosen if note.kind is Note.FAULTS]
    assert 10 < note.num < 1000
    assert "is nan at the point [" in note.what
    with pytest.raises(ValueError, match="`faults` must be 'reject' or 'raise', got 'no'"):
        qp.evidence_from_draws(density, rows, key=key, faults="no")
