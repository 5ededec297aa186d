"""Discrete sites of NumPyro models are summed out: against closed forms, brute force and the forward algorithm."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.special import betaln, logsumexp
from scipy.stats import multivariate_normal, norm

import qpaths as qp
from qpaths.adapters import from_numpyro
from qpaths.adapters.enumeration import Term, joint_values, marginalize

Y = np.array([-1.9, 1.2, 0.4, 2.9, -0.7, 2.2])
MEANS = np.array([-1.0, 2.0])


def _log_likelihood(model, point, *args):
    own = from_numpyro(model, *args)
    return float(jax.jit(own.log_likelihood)(jax.tree.map(jnp.asarray, point), own.data))


def test_nested_plates_by_brute_force():
    """g is shared, a in each of 2 rows, b in each of 2 x 3 cells; every factor depends on some of them."""
    draw = np.random.default_rng(0).normal
    terms = [
        Term(("g",), draw(size=2)),
        Term(("g", "a", "outer"), draw(size=(2, 3, 2))),
        Term(("b", "outer", "inner", "a"), draw(size=(2, 2, 3, 3))),
        Term(("g", "b", "outer", "inner"), draw(size=(2, 2, 2, 3))),
        Term(("outer", "inner"), draw(size=(2, 3))),
    ]
    plates = {"g": frozenset(), "a": frozenset({"outer"}), "b": frozenset({"outer", "inner"})}
    logs = []
    for g in range(2):
        for a in itertools.product(range(3), repeat=2):
            for flat in itertools.product(range(2), repeat=6):
                b = np.reshape(flat, (2, 3))
                total = terms[0].logs[g] + sum(terms[1].logs[g, a[i], i] for i in range(2)) + terms[4].logs.sum()
                total += sum(terms[2].logs[b[i, j], i, j, a[i]] for i in range(2) for j in range(3))
                total += sum(terms[3].logs[g, b[i, j], i, j] for i in range(2) for j in range(3))
                logs.append(total)
    np.testing.assert_allclose(marginalize(terms, plates), logsumexp(logs), rtol=1e-12)


def test_variables_that_meet_only_in_two_plates_are_refused():
    terms = [Term(("a", "rows"), np.zeros((2, 3))), Term(("b", "columns"), np.zeros((2, 4)))]
    meeting = Term(("a", "b", "rows", "columns"), np.zeros((2, 2, 3, 4)))
    plates = {"a": frozenset({"rows"}), "b": frozenset({"columns"})}
    np.testing.assert_allclose(marginalize(terms, plates), 7 * np.log(2))
    with pytest.raises(
        ValueError, match="`a`, `b` cannot be summed out: they meet in a site of the plates columns, rows"
    ):
        marginalize([*terms, meeting], plates)


def test_joint_values():
    assert joint_values("x", [5, 7], ()).tolist() == [5, 7]
    assert joint_values("x", [0, 1], (2, 1)).tolist() == [[[0], [0]], [[0], [1]], [[1], [0]], [[1], [1]]]
    with pytest.raises(ValueError, match=r"`x` has 1,048,576 values, .* `numpyro.plate`"):
        joint_values("x", [0, 1], (20,))


def mixture(y):
    """Which of two known components each observation is from, with a share that is not known."""
    share = numpyro.sample("share", dist.Beta(2.0, 3.0))
    with numpyro.plate("rows", len(y)):
        which = numpyro.sample("which", dist.Bernoulli(share))
        center = numpyro.deterministic("center", jnp.asarray(MEANS)[which])
        numpyro.sample("y", dist.Normal(center, 1.0), obs=y)
    numpyro.deterministic("odds", share / (1 - share))


def test_evidence_of_a_mixture(key):
    """Given the assignments the share is Beta: the sum over all 64 of them is exact."""
    own = from_numpyro(mixture, jnp.asarray(Y))
    result = qp.evidence(own, budget=40_000, key=key)
    logs = [
        betaln(2 + sum(which), 3 + len(Y) - sum(which)) - betaln(2, 3) + norm(MEANS[list(which)], 1).logpdf(Y).sum()
        for which in itertools.product((0, 1), repeat=len(Y))
    ]
    assert abs(float(result.log_evidence) - logsumexp(logs)) < 4 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.02
    assert set(result.samples) == {"share", "odds"}  # `center` depends on the assignments
    assert own.pointwise is None
    assert own.simulate(key, own.prior.sample(key))["y"].shape == Y.shape


def choice(x, y):
    """A line or a constant: the indicator is shared by all observations."""
    sloped = numpyro.sample("sloped", dist.Bernoulli(0.3))
    w = numpyro.sample("w", dist.Normal(0, 2).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(w[0] + jnp.where(sloped == 1, w[1] * x, 0.0), 0.8), obs=y)


def _choice_exact(x, y):
    def log_evidence(design):
        return multivariate_normal(np.zeros(len(x)), 4 * design @ design.T + 0.64 * np.eye(len(x))).logpdf(y)

    one = np.ones((len(x), 1))
    return np.logaddexp(np.log(0.7) + log_evidence(one), np.log(0.3) + log_evidence(np.c_[one, x]))


def test_evidence_with_a_model_indicator(key):
    x = np.linspace(-1, 1, len(Y))
    own = from_numpyro(choice, x, jnp.asarray(Y))
    result = qp.evidence(own, budget=60_000, key=key)
    assert abs(float(result.log_evidence) - _choice_exact(x, Y)) < 4 * float(result.log_evidence_se)
    assert float(result.log_evidence_se) < 0.02


def test_a_prior_that_depends_on_a_discrete_site(key):
    """The prior of mu is a mixture; what the likelihood says is the rest of the joint density."""

    def model(y):
        wide = numpyro.sample("wide", dist.Categorical(jnp.array([0.6, 0.4])))
        mu = numpyro.sample("mu", dist.Normal(0, jnp.array([1.0, 5.0])[wide]))
        numpyro.sample("y", dist.Normal(mu + wide, 1.0), obs=y)

    own = from_numpyro(model, jnp.asarray(Y))
    for mu in (-2.0, 0.3, 4.0):
        prior = np.log([0.6, 0.4]) + norm(0, [1.0, 5.0]).logpdf(mu)
        joint = prior + norm(mu + np.arange(2), 1.0).logpdf(Y[:, None]).sum(axis=0)
        point = {"mu": jnp.asarray(mu)}
        np.testing.assert_allclose(own.prior.log_prob(point), logsumexp(prior), rtol=1e-12)
        np.testing.assert_allclose(own.log_likelihood(point, own.data), logsumexp(joint) - logsumexp(prior), rtol=1e-12)
    assert own.simulate is None  # `wide` given mu is not what the model draws
    draws = jax.vmap(own.prior.sample)(jax.random.split(key, 4000))["mu"]
    variance, fourth = 0.6 + 0.4 * 25, 3 * (0.6 + 0.4 * 625)
    assert abs(np.var(draws) - variance) < 5 * ((fourth - variance**2) / 4000) ** 0.5


def test_a_hidden_markov_model_by_the_forward_algorithm():
    """3^8 paths: one state is summed out after the other."""
    times = 8
    y = np.sin(np.arange(times))
    moves = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])

    def model(y):
        level = numpyro.sample("level", dist.Normal(0, 1))
        state = 0
        for t in range(times):
            state = numpyro.sample(f"state{t}", dist.Categorical(jnp.asarray(moves)[state]))
            numpyro.sample(f"y{t}", dist.Normal(level * state, 0.5), obs=y[t])

    alpha = np.log([1.0, 1e-300, 1e-300])
    for t in range(times):
        alpha = logsumexp(alpha[:, None] + np.log(moves), axis=0) + norm(0.7 * np.arange(3), 0.5).logpdf(y[t])
    np.testing.assert_allclose(_log_likelihood(model, {"level": 0.7}, y), logsumexp(alpha), rtol=1e-12)


def test_sites_of_several_plates_and_shapes():
    """A group's state, each member's, and a pair of switches in one site, of which the members see the sum."""
    y = np.arange(6.0).reshape(3, 2) / 2

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        switches = numpyro.sample("switches", dist.Bernoulli(0.3).expand([2]).to_event(1))
        with numpyro.plate("groups", 2, dim=-1):
            state = numpyro.sample("state", dist.Binomial(2, 0.4))
            with numpyro.plate("members", 3, dim=-2):
                sign = numpyro.sample("sign", dist.DiscreteUniform(1, 2))
                numpyro.sample("y", dist.Normal(mu * sign + state + switches.sum(), 1.0), obs=y)

    logs = []
    for switches in itertools.product((0, 1), repeat=2):
        total = np.log(np.where(switches, 0.3, 0.7)).sum()
        for group in range(2):
            states = []
            for state, share in enumerate([0.36, 0.48, 0.16]):
                rows = [norm(0.9 * sign + state + sum(switches), 1).logpdf(y[:, group]) for sign in (1, 2)]
                states.append(np.log(share) + (logsumexp(rows, axis=0) - np.log(2)).sum())
            total += logsumexp(states)
        logs.append(total)
    np.testing.assert_allclose(_log_likelihood(model, {"mu": 0.9}, jnp.asarray(y)), logsumexp(logs), rtol=1e-6)


def _in_rows(of_values, in_plate=True):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y)):
            which = numpyro.sample("which", dist.Bernoulli(0.4))
            if in_plate:
                numpyro.sample("y", dist.Normal(mu + of_values(which), 1.0), obs=y)
        if not in_plate:
            numpyro.sample("y", dist.Normal(mu + of_values(which), 1.0), obs=y)

    return model


def _support(y):
    wide = numpyro.sample("wide", dist.Bernoulli(0.5))
    numpyro.sample("u", dist.Uniform(0, 1.0 + wide))
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def _all_discrete(y):
    numpyro.sample("y", dist.Normal(numpyro.sample("k", dist.Bernoulli(0.5)), 1), obs=y)


def _many(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    total = sum(numpyro.sample(f"k{i}", dist.Categorical(jnp.ones(6) / 6)) for i in range(5))
    numpyro.sample("y", dist.Normal(mu + total, 1), obs=y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_in_rows(jnp.cumsum), "row of the site `y` depends on the values of `which` in other rows"),
        (_in_rows(lambda which: jnp.roll(which, 1)), "row of the site `y` depends on the values of `which` in other"),
        (_in_rows(lambda which: which, in_plate=False), "`y` depends on the discrete site `which`, .* plate `rows`"),
        (_support, "support of `u` depends on the discrete site `wide`"),
        (_all_discrete, "discrete latent sites only, k, so its evidence is a sum"),
        (_many, "`k0`, `k1`, `k2`, `k3`, `k4` have 7,776 values together"),
    ],
)
def test_what_cannot_be_summed_is_named(model, message):
    def attempt():
        own = from_numpyro(model, jnp.asarray(Y))
        return own.log_likelihood(own.prior.sample(jax.random.key(0)), own.data)

    with pytest.raises(ValueError, match=message):
        attempt()
