"""Models side by side: factors, probabilities with their uncertainty, and what is refused."""

import dataclasses
import io

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import qpaths as qp
from qpaths.core.cost import Cost
from qpaths.remarks import Finding, Stop, Verdict


def _result(log_evidence, error=0.01, **changes):
    result = qp.Result(
        log_evidence=jnp.asarray(log_evidence),
        log_evidence_se=jnp.asarray(error),
        samples=jnp.zeros((4, 1)),
        log_weights=jnp.zeros(4),
        betas=jnp.asarray([0.0, 1.0]),
        stats={},
        status=jnp.zeros((), int),
        num_evaluations=Cost(),
        algorithm="SMC",
    )
    return dataclasses.replace(result, **changes)


def test_factors_and_probabilities():
    table = qp.compare({"a": _result(-12.0, 0.03), "b": _result(-10.0, 0.04), "c": _result(-30.0)})
    assert table.names == ("b", "a", "c")
    value, error = table.log_bayes_factor("a", "b")
    assert value == pytest.approx(-2.0)
    assert error == pytest.approx(0.05)
    np.testing.assert_allclose(table.probabilities, [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2)), 0.0], atol=1e-8)
    low, high = table.intervals[1]
    # By the delta method the standard deviation is p (1 - p) 0.05, and 90 % lie within 1.645 of them.
    p = table.probabilities[1]
    np.testing.assert_allclose([low, high], p + 1.645 * 0.05 * p * (1 - p) * np.array([-1, 1]), rtol=0.02)
    assert "b has the higher evidence: 2.000 +- 0.050 nats above a" in str(table)
    with pytest.raises(KeyError, match="no model 'd', only b, a, c"):
        table.log_bayes_factor("d", "a")


def test_prior_probabilities_of_models():
    table = qp.compare({"a": _result(-10.0), "b": _result(-10.0)}, prior={"a": 3, "b": 1})
    np.testing.assert_allclose(table.probabilities[table.names.index("a")], 0.75)
    for prior, message in (({"a": 1.0}, "for each of a, b, got a"), ({"a": 1.0, "b": 0.0}, "positive probabilities")):
        with pytest.raises(ValueError, match=message):
            qp.compare({"a": _result(-10.0), "b": _result(-10.0)}, prior=prior)


def test_what_cannot_be_told_is_said():
    assert "cannot be told" in str(qp.compare({"a": _result(-10.0, 0.05), "b": _result(-10.1, 0.05)}))
    assert "cannot be told" not in str(qp.compare({"a": _result(-10.0, 0.01), "b": _result(-10.1, 0.01)}))
    assert "nothing to compare" in str(qp.compare({"a": _result(-10.0)}))


def test_a_doubtful_result_is_named():
    doubtful = Verdict(Stop.NOTHING_FOUND(), (), (Finding.DISAGREEMENT(),))
    table = qp.compare(
        {"a": _result(-10.0, verdict=doubtful), "b": _result(-20.0, verdict=Verdict(Stop.NOTHING_FOUND()))}
    )
    assert "Beware of a (doubtful)" in str(table)
    assert "b (" not in str(table).splitlines()[-1]


def test_different_data_are_refused():
    same, other, none = _result(-1.0, data=("x", "y")), _result(-2.0, data=("z",)), _result(-3.0)
    with pytest.raises(ValueError, match="`a` and `b` were computed on different data"):
        qp.compare({"a": same, "b": other, "c": none})
    qp.compare({"a": same, "b": _result(-2.0, data=("y",)), "c": none})


def test_what_is_no_evidence_is_refused():
    with pytest.raises(TypeError, match="`a` must be a `Result` of a run, got float"):
        qp.compare({"a": 1.0})
    with pytest.raises(TypeError, match="dictionary of results by name, or the results themselves, got "):
        qp.compare({})
    with pytest.warns(UserWarning, match="`log_evidence` is -inf"):
        collapsed = _result(-np.inf, status=jnp.asarray(int(qp.Status.COLLAPSED)))
    with pytest.raises(ValueError, match="`a` has no evidence to compare"):
        qp.compare({"a": collapsed})


def test_tables():
    table = qp.compare({"a <b>": _result(-12.0), "b": _result(-10.0)})
    frame = table.to_pandas()
    assert list(frame.index) == ["b", "a <b>"]
    np.testing.assert_allclose(frame["log_bayes_factor"], [0.0, -2.0])
    assert "a &lt;b&gt;" in table._repr_html_()
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table)
    assert "-12.000" in console.export_text()


def test_data_are_known_by_their_numbers(key):
    """The same data in another precision or container are the same; other numbers are not."""
    from qpaths.after import digests

    y = np.array([0.1, 0.2, 0.3])
    assert digests({"y": y}) == digests([y.astype(np.float32)]) != digests({"y": y + 1e-3})
    assert digests(None) == ()


def test_results_without_names():
    """One line compares two results."""
    one, two = _result(-10.0), _result(-12.0)
    for table in (qp.compare(one, two), qp.compare([one, two])):
        assert table.names == ("model 1", "model 2")
    for wrong in ((), ({}, one), ([],)):
        with pytest.raises(TypeError, match="dictionary of results by name, or the results themselves"):
            qp.compare(*wrong)


def test_names_are_shown_as_given():
    """Brackets are no markup, and HTML no tags."""
    names = ["gp[rbf]", "gp[matern]", "[/]", "<b>x</b>", "a_b$"]
    table = qp.compare({name: _result(-10.0 - i) for i, name in enumerate(names)})
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    text = console.file.getvalue()
    assert all(name in text for name in names)
    assert "<b>" not in table._repr_html_()
    assert r"a\_b\$ &" in table.to_latex()


def test_a_table_for_latex():
    lines = qp.compare({"a": _result(-10.0, 0.00031), "b": _result(-12.0, 0.02)}).to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrrl}"
    assert lines[4].startswith("a & -10.00000 & 0.00031 & 0.000 & 0.000 & ")  # errors have two digits
    assert lines[5].startswith("b & -12.000 & 0.020 & -2.000 & 0.020 & ")
    assert lines[-1] == r"\end{tabular}"
    assert all(line.count("&") == 7 for line in (lines[2], *lines[4:6]))
