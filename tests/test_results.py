"""What a person sees of a result: its summary, its answer in a line, and its page in a notebook."""

import dataclasses
import html
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core import Cost
from qpaths.remarks import Finding, Note, Stop, Verdict

NOTE = Note.KEPT(q=1.0)
FINDING = Finding.SPREAD(spread=0.6)
VERDICT = Verdict(
    Stop.BUDGET(spent=900, budget=1000, pilots=100, needed=3_358_380_400_796, wanted=0.005), (NOTE,), (FINDING,)
)


@pytest.fixture
def result():
    generator = np.random.default_rng(0)
    samples = {"mu": generator.normal(3.0, 1.0, 40_000), "z<b>": generator.normal(size=(40_000, 40))}
    ones = np.ones(1)
    return qp.Result(
        log_evidence=np.asarray(-1.25),
        log_evidence_se=np.asarray(0.01),
        samples=samples,
        log_weights=np.where(samples["mu"] > 3.0, -np.inf, 0.0),  # the posterior is the left half
        betas=np.array([0.0, 1.0]),
        stats=dict.fromkeys(("beta", "ess", "acceptance", "step_size", "log_evidence"), ones),
        status=np.asarray(0),
        num_evaluations=Cost(),
        algorithm="Evidence",
        verdict=VERDICT,
    )


def test_a_summary_ends_at_the_verdict(result):
    """It says each finding once, and nothing of how the run was set up; `str(result.verdict)` has that."""
    lines = result.summary().splitlines()
    assert lines[0] == "Evidence: log evidence -1.2500 +- 0.0100 (standard error)"
    assert lines[-1].strip() == "verdict: doubtful."
    assert sum(str(FINDING) in line for line in lines) == 1
    assert not any("chosen" in line or str(NOTE) in line for line in lines)
    assert f"chosen: {NOTE}." in str(result.verdict).splitlines()
    assert len(lines) <= 20
    assert repr(NOTE) == f"<Note.KEPT: {NOTE}>"  # in lists of remarks, too


def test_a_summary_has_credible_intervals(result):
    (line,) = (line for line in result.summary().splitlines() if line.startswith("  mu: "))
    numbers = [float(word.strip("()")) for word in line.split() if word.strip("()").replace(".", "").isdigit()]
    # Quantiles of the left half of a normal distribution: those at 0.25, 0.025 and 0.475 of all of it.
    np.testing.assert_allclose(numbers, [2.326, 1.04, 2.937], atol=0.03)
    assert "  and 35 more numbers" in result.summary().splitlines()
    nothing = dataclasses.replace(result, log_weights=np.full(40_000, -np.inf))
    assert "  mu: " not in nothing.summary()


def test_a_result_fits_a_screen(result):
    assert repr(result) == "<Evidence: log evidence -1.2500 +- 0.0100 (standard error), doubtful; 40000 samples>"
    page = result._repr_html_()
    assert page == f"<pre>{html.escape(result.summary())}</pre>"
    assert "<b>" not in page
    inside = []
    jax.jit(lambda one: inside.append(repr(one)) or one.log_evidence)(dataclasses.replace(result, verdict=None))
    assert inside == ["<Evidence: a result inside a compiled program>"]


def test_numbers_beyond_measure_are_words(result):
    """An error of 686795349 nats is none to be read."""
    unknown = dataclasses.replace(result, log_evidence_se=np.asarray(686795349.368))
    assert "log evidence unknown: about -1.25, with an error of more than 100 nats" in unknown.summary()
    assert "more than ten billion" in result.summary()
    assert "3,358" not in result.summary()
    large = Finding.LARGE_ERROR(error=686795349.368, most=0.5)
    assert str(large).startswith("the standard error of more than a thousand nats is above 0.5")
    assert str(Finding.LARGE_ERROR(error=0.7, most=0.5)).startswith("the standard error of 0.7 nats")


@pytest.mark.parametrize(
    "call", [qp.evidence, lambda model, **key: qp.evidence_from_draws(model, jnp.zeros((9, 1)), **key)]
)
@pytest.mark.usefixtures("as_a_user")
def test_models_of_other_packages_are_told_their_adapter(call, key):
    class PyMC:
        free_RVs = ()  # noqa: N815

    class Bambi:
        backend, response_component = None, None

    for model, adapter in ((PyMC(), "from_pymc(model)"), (Bambi(), "from_pymc(model.backend.model)")):
        with pytest.raises((TypeError, ValueError), match=re.escape(f"adapters.{adapter}")):
            call(model, key=key)
    with pytest.raises((TypeError, ValueError), match=r"from_numpyro\(model, \*args\)"):
        call(lambda x, y: None, key=key)


@pytest.mark.usefixtures("as_a_user")
def test_an_integer_is_no_key():
    with pytest.raises(TypeError, match=r"`key` must be a random key of JAX, got 0: give `jax.random.key\(0\)`"):
        qp.evidence_from_draws(lambda x: -jnp.sum(x**2), np.random.default_rng(0).normal(size=(100, 2)), key=0)
