"""Many data sets: the right evidences, honest errors, and a second look where draws do not do."""

import concurrent.futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.after import many as module

from .models import log_evidence, normal_model


@pytest.fixture
def keys(key):
    return jax.random.split(key, 4)


def _sets(key, num=12, size=6):
    return jax.random.normal(key, (num, size)) + jnp.linspace(-4, 4, num)[:, None]


@pytest.fixture
def unaudited(monkeypatch):
    """`evidence` checks nothing: its calls take seconds."""
    monkeypatch.setattr(module, "_NUM_AUDITED", 0)


def _many(y, key, **settings):
    return qp.evidence_many(**normal_model(None) | {"data": y}, key=key, **settings)


def test_each_data_set_has_its_evidence_and_its_posterior(keys, unaudited):
    y = _sets(keys[0])
    many = _many(y, keys[1])
    exact = np.array([log_evidence(own) for own in y])
    z = (many.log_evidence - exact) / many.log_evidence_se
    assert abs(z).max() < 5
    assert (many.log_evidence_se < 0.02).all()
    assert many.levels == ("sound",) * 12
    variance = 1 / (6 + 0.25)
    np.testing.assert_allclose(many.mean["mu"], variance * np.asarray(y).sum(axis=1), atol=0.1 * variance**0.5)
    np.testing.assert_allclose(many.sd["mu"], variance**0.5, rtol=0.1)
    assert many.samples["mu"].shape == (12, 100)
    # An answer for another data set must not pass.
    assert abs((np.roll(many.log_evidence, 1) - exact) / many.log_evidence_se).max() > 5


def test_an_answer_does_not_depend_on_the_other_data_sets(keys, unaudited):
    y = _sets(keys[0])
    few, many = _many(y[:3], keys[1]), _many(y, keys[1])
    np.testing.assert_allclose(few.log_evidence, many.log_evidence[:3], rtol=1e-12)
    one = many[2]
    assert float(one.log_evidence) == many.log_evidence[2]
    assert str(one.verdict.level) == "sound"
    assert "12 sound" in many.summary()


def test_workers_give_the_same_numbers(keys, unaudited):
    y = _sets(keys[0], 4)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        spread = _many(y, keys[1], executor=pool)
    np.testing.assert_allclose(spread.log_evidence, _many(y, keys[1]).log_evidence, rtol=1e-12)


def test_a_call_goes_on_from_its_file(keys, unaudited, tmp_path, monkeypatch):
    y, file = _sets(keys[0], 4), tmp_path / "many.npz"
    first = _many(y, keys[1], checkpoint=file)
    monkeypatch.setattr(module.Weigher, "__call__", lambda *a: pytest.fail("everything is known"))
    again = _many(y, keys[1], checkpoint=file)
    np.testing.assert_array_equal(first.log_evidence, again.log_evidence)
    with pytest.raises(ValueError, match="belongs to another run"):
        _many(y + 1, keys[1], checkpoint=file)


def test_draws_that_do_not_do_are_replaced_by_a_run_of_evidence(keys, unaudited, monkeypatch):
    y = _sets(keys[0], 2)
    monkeypatch.setattr(module, "_FEWEST", 10**9)  # no number of draws is enough
    many = _many(y, keys[1], budget=30_000)
    assert all(abs(many.log_evidence[i] - log_evidence(y[i])) < 5 * many.log_evidence_se[i] for i in range(2))
    assert all("Stop" in type(verdict.stopped.kind).__name__ for verdict in many.verdicts)
    assert many.samples["mu"].shape == (2, 100)


def test_the_audit_sees_answers_that_are_wrong_in_the_same_way(keys, monkeypatch):
    y, call = _sets(keys[0], 3), module.Weigher.__call__

    def shifted(self, numbers):
        log_weights, *others = call(self, numbers)
        return log_weights + 0.5, *others

    monkeypatch.setattr(module, "_NUM_AUDITED", 1)
    monkeypatch.setattr(module.Weigher, "__call__", shifted)
    with pytest.warns(UserWarning, match="3 of 3 data sets are doubtful"):
        many = _many(y, keys[1], budget=30_000)
    assert many.levels == ("doubtful",) * 3
    assert "`evidence` gives another answer" in str(many[0].verdict)


def test_data_sets_must_have_one_shape(keys):
    with pytest.raises(ValueError, match=r"`x` of data set 0 has \(3,\), that of data set 1 \(4,\).*Pad them"):
        _many([np.zeros(3), np.zeros(4)], keys[0])
    with pytest.raises(TypeError, match="axis of data sets in front"):
        _many({"a": np.zeros((3, 2)), "b": np.zeros((4, 2))}, keys[0])
    with pytest.raises(ValueError, match="empty"):
        _many([], keys[0])
    with pytest.raises(ValueError, match="length 0"):
        _many(np.zeros((0, 3)), keys[0])
    with pytest.raises(ValueError, match="`prior` and `log_likelihood` must be given"):
        qp.evidence_many(data=np.zeros((3, 2)), key=keys[0])


def test_padded_data_sets_have_the_evidence_of_what_is_there(keys, unaudited):
    y = _sets(keys[0], 2)
    norm = jax.scipy.stats.norm.logpdf
    masked = {"y": y, "there": jnp.array([[1.0] * 6, [1.0] * 4 + [0.0] * 2])}
    model = {
        "prior": {"mu": qp.Normal(0.0, 2.0)},
        "log_likelihood": lambda p, d: (d["there"] * norm(d["y"], p["mu"])).sum(),
    }
    many = qp.evidence_many(**model, data=masked, key=keys[1])
    exact = log_evidence(y[0]), log_evidence(y[1, :4])
    assert (abs(many.log_evidence - exact) < 5 * many.log_evidence_se).all()


def test_models_are_compared_for_each_data_set(keys, unaudited):
    y = _sets(keys[0], 3)
    first = _many(y, keys[1])
    wide = qp.evidence_many(
        prior={"mu": qp.Normal(0.0, 20.0)}, log_likelihood=normal_model(y)["log_likelihood"], data=y, key=keys[2]
    )
    table = qp.compare_many({"narrow": first, "wide": wide})
    factor, error = table.log_bayes_factor("narrow", "wide")
    exact = np.array([log_evidence(own) - log_evidence(own, 20.0) for own in y])
    assert (abs(factor - exact) < 5 * error).all()
    assert sum(table.wins.values()) + str(table).count("do not tell") >= 3
    with pytest.raises(ValueError, match="different data sets"):
        qp.compare_many({"a": first, "b": _many(y + 1, keys[1])})
    with pytest.raises(KeyError, match="no model 'c'"):
        table.log_bayes_factor("narrow", "c")
