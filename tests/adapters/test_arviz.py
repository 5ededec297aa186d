"""Draws for ArviZ: weights become counts, names follow the point, and both versions of its interface are served."""

import sys
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.cost import Cost

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


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'qpaths\[arviz\]'"):
        _result(GROUP).to_arviz()


def test_a_run_that_did_not_finish_has_no_posterior():
    partial = eqx.tree_at(lambda r: r.status, _result(GROUP), jnp.asarray(int(qp.Status.UNFINISHED)))
    with pytest.raises(ValueError, match="interrupted before the end"):
        partial.to_arviz()
