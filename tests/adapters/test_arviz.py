"""Draws for ArviZ: weights become counts, names follow the point, and both versions of its interface are served."""

import dataclasses
import sys
import types

import arviz
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.adapters import from_prior
from qpaths.core.cost import Cost
from qpaths.remarks import Stop, Verdict
from qpaths.results import Kept

NUM = 1000
WEIGHTS = np.array([0.0, 0.1, 0.2, 0.7])


def _result(samples):
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.repeat(WEIGHTS, NUM // 4))
    return qp.Result(
        log_evidence=jnp.asarray(-1.5),
        log_evidence_se=jnp.asarray(0.25),
        samples=samples,
        log_weights=jnp.asarray(log_weights),
        betas=jnp.asarray([0.0, 1.0]),
        stats={},
        status=jnp.zeros((), int),
        num_evaluations=Cost(),
        algorithm="SMC",
    )


GROUP = jnp.repeat(jnp.arange(4.0), NUM // 4)


def test_draws_are_equally_weighted(key):
    data = _result(GROUP).to_arviz(key=key)
    draws = data["posterior"]["x"]
    assert draws.dims == ("chain", "draw")
    assert draws.shape == (1, NUM)
    counts = np.bincount(draws.values[0].astype(int), minlength=4)
    # Systematic resampling gives every block of equal weights its share, rounded up or down.
    assert np.abs(counts - NUM * WEIGHTS).max() <= 1
    assert counts[0] == 0
    # Copies of one sample do not stand next to each other: neighbors are as good as independent (5 sigma).
    assert abs(np.corrcoef(draws.values[0, :-1], draws.values[0, 1:])[0, 1]) < 5 * NUM**-0.5
    weight = np.exp(data["sample_stats"]["log_weight"].values[0])
    np.testing.assert_allclose(weight, WEIGHTS[draws.values[0].astype(int)])


def test_evidence_is_an_attribute():
    data = _result(GROUP).to_arviz()
    for attributes in (data.attrs, data["posterior"].attrs):
        assert (attributes["log_evidence"], attributes["log_evidence_se"]) == (-1.5, 0.25)
        assert attributes["algorithm"] == "SMC"


def test_the_default_key_is_fixed():
    first, second = (_result(GROUP).to_arviz()["posterior"]["x"].values for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = _result(GROUP).to_arviz(key=jax.random.key(1))["posterior"]["x"].values
    assert (first != other).any()


@pytest.mark.parametrize(
    ("samples", "shapes"),
    [
        (jnp.stack([GROUP] * 3, 1), {"x": (1, NUM, 3)}),
        ({"w": jnp.stack([GROUP] * 2, 1), "b": GROUP}, {"w": (1, NUM, 2), "b": (1, NUM)}),
        ({"a": {"b": GROUP, "c": (GROUP,)}}, {"a.b": (1, NUM), "a.c.0": (1, NUM)}),
        ((GROUP, [GROUP]), {"x.0": (1, NUM), "x.1.0": (1, NUM)}),
    ],
)
def test_names_follow_the_point(samples, shapes):
    posterior = _result(samples).to_arviz()["posterior"]
    assert {name: posterior[name].shape for name in posterior.data_vars} == shapes


def test_arviz_1_gets_its_groups_in_one_dictionary(monkeypatch):
    """As `arviz.from_dict` of version 1 takes them, where the groups of version 0 are keyword arguments."""

    class Tree(dict):
        attrs: dict

    def from_dict(data):
        tree = Tree({name: types.SimpleNamespace(variables=group, attrs={}) for name, group in data.items()})
        tree.attrs = {}
        return tree

    monkeypatch.setitem(sys.modules, "arviz", types.SimpleNamespace(__version__="1.2.0", from_dict=from_dict))
    data = _result({"w": GROUP}).to_arviz()
    assert data["posterior"].variables["w"].shape == data["sample_stats"].variables["log_weight"].shape == (1, NUM)
    assert data["posterior"].attrs["log_evidence"] == data.attrs["log_evidence"] == -1.5


def _with_islands(samples, **changes):
    """Four islands of 250 draws; the draws of an island have equal weights but for the first, which has few."""
    log_weights = np.zeros(NUM)
    log_weights[: NUM // 8] = -50.0
    islands = {"log_evidence": jnp.zeros(4), "log_evidence_se": jnp.ones(4)}
    result = dataclasses.replace(_result(samples), log_weights=jnp.asarray(log_weights), islands=islands)
    return dataclasses.replace(result, **changes)


def test_islands_are_chains(key):
    data = _with_islands(GROUP).to_arviz(key=key)
    draws = data["posterior"]["x"].values
    assert draws.shape == (4, NUM // 8)  # as many as the draws of the first island are worth
    assert [set(chain) for chain in draws] == [{0.0}, {1.0}, {2.0}, {3.0}]
    assert (data["sample_stats"]["log_weight"].values == 0).all()
    noise = np.random.default_rng(0).standard_normal(NUM)
    assert float(arviz.rhat(_with_islands(noise).to_arviz())["x"]) < 1.02
    assert float(arviz.rhat(_with_islands(noise + np.asarray(GROUP)).to_arviz())["x"]) > 1.2


def test_unconstrained_points_and_the_verdict(tmp_path):
    verdict = Verdict(Stop.NOTHING_FOUND())
    result = _with_islands({"s": jnp.exp(GROUP), "a": GROUP}, unconstrained={"s": GROUP, "a": GROUP}, verdict=verdict)
    data = result.to_arviz()
    np.testing.assert_allclose(np.log(data["posterior"]["s"]), data["unconstrained_posterior"]["s"], atol=1e-12)
    assert data.attrs["verdict"] == "sound"
    data.to_netcdf(str(tmp_path / "draws.nc"))
    assert arviz.from_netcdf(str(tmp_path / "draws.nc")).attrs["log_evidence"] == -1.5


def test_log_likelihood_of_each_observation(key):
    y = jnp.array([0.3, 1.0, 2.0])

    def log_likelihood(p):
        return {"y": -0.5 * (y - p["mu"]) ** 2}

    data = _with_islands({"mu": GROUP}).to_arviz(log_likelihood=log_likelihood)
    found = data["log_likelihood"]["y"]
    assert found.shape == (4, NUM // 8, 3)
    np.testing.assert_allclose(found[2, 0], -0.5 * (np.asarray(y) - 2.0) ** 2)
    plain = _with_islands({"mu": GROUP}).to_arviz(log_likelihood=lambda p: y * p["mu"])
    assert plain["log_likelihood"]["y"].shape == (4, NUM // 8, 3)
    with pytest.raises(TypeError, match="must be a model or a function of one sample, got 3"):
        _with_islands({"mu": GROUP}).to_arviz(log_likelihood=3)
    model = from_prior({"mu": qp.Normal(0.0, 1.0)}, lambda p: 0.0)
    with pytest.raises(ValueError, match="one log likelihood for all observations"):
        _with_islands({"mu": GROUP}, unconstrained={"mu": GROUP}).to_arviz(log_likelihood=model)


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[arviz\]'"):
        _result(GROUP).to_arviz()


def test_a_run_that_did_not_finish_has_no_posterior():
    partial = eqx.tree_at(lambda r: r.status, _result(GROUP), jnp.asarray(int(qp.Status.UNFINISHED)))
    with pytest.raises(ValueError, match="interrupted before the end"):
        partial.to_arviz()


def test_many_islands_become_a_few_long_chains():
    """A poor island has little weight in its chain, and does not shorten all of them."""
    rng, num_islands = np.random.default_rng(0), 40
    log_weights = np.zeros((num_islands, 25))
    log_weights[3] = -60.0
    log_weights[3, 0] = 0.0
    islands = {"log_evidence": jnp.zeros(num_islands), "log_evidence_se": jnp.ones(num_islands)}
    noise = rng.standard_normal(NUM)
    result = dataclasses.replace(_result(noise), log_weights=jnp.asarray(log_weights.ravel()), islands=islands)
    draws = result.to_arviz()["posterior"]["x"].values
    assert draws.shape[0] == 4
    assert draws.shape[1] == 226  # nine islands of 25, and one that is worth a single draw
    assert set(draws.ravel()) <= set(noise)
    assert not set(draws[0]) & set(draws[1])


def test_resampled_draws():
    result = _result({"a": GROUP, "b": jnp.stack([GROUP, -GROUP], 1)})
    draws = result.resample(100)
    assert {name: leaf.shape for name, leaf in draws.items()} == {"a": (100,), "b": (100, 2)}
    np.testing.assert_array_equal(draws["b"][:, 1], -draws["a"])
    assert np.abs(np.bincount(draws["a"].astype(int), minlength=4) - 100 * WEIGHTS).max() <= 1
    assert (result.resample(100, key=jax.random.key(1))["a"] != draws["a"]).any()
    with pytest.raises(ValueError, match="`num` must be a positive integer, got 0"):
        result.resample(0)


def test_tables_keep_the_weights(monkeypatch):
    result = _result({"a": GROUP, "b": jnp.stack([GROUP, -GROUP], 1)})
    table = result.to_dataframe()
    assert list(table.columns) == ["a", "b[0]", "b[1]", "weight"]
    assert table["weight"].sum() == pytest.approx(1)
    assert (table["a"] * table["weight"]).sum() == pytest.approx(np.sum(np.arange(4) * WEIGHTS))
    assert table.attrs["log_evidence"] == -1.5
    for package, name in (("getdist", "MCSamples"), ("anesthetic", "MCMCSamples")):
        monkeypatch.setitem(sys.modules, package, types.SimpleNamespace(**{name: lambda **given: given}))
        given = getattr(result, f"to_{package}")()
        rows, weights = given.get("samples", given.get("data")), given["weights"]
        assert rows.shape == (3 * NUM // 4, 3)
        assert (weights > 0).all()
        np.testing.assert_allclose(weights @ rows, [2.6, 2.6, -2.6])
        assert given.get("names", given.get("columns")) == ["a", "b[0]", "b[1]"]
    monkeypatch.setitem(sys.modules, "getdist", None)
    with pytest.raises(ImportError, match="pip install getdist"):
        result.to_getdist()


def test_names_and_labels_of_axes():
    model = from_prior({"w": qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))}, lambda p: 0.0)
    model = dataclasses.replace(model, dims={"w": ("school",)}, coords={"school": ["a", "b"]})
    result = dataclasses.replace(
        _result({"w": jnp.stack([GROUP] * 2, 1)}), origin=Kept(types.SimpleNamespace(model=model))
    )
    posterior = result.to_arviz()["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "school")
    assert posterior["w"].sel(school="b").shape == (1, NUM)
