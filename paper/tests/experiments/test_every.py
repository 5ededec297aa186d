"""Every experiment runs from the command line in its small version, and stored rows have claims and a page."""

import re

import jax
import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

import qpaths as qp
from qpaths.cli import app
from qpaths_paper.harness.experiment import Judgment, Row
from qpaths_paper.harness.folders import load
from qpaths_paper.harness.page import render
from qpaths_paper.harness.registry import find, find_all

PICTURES = ["fig2", "fig3", "fig_moments", "fig_student", "fig_escort"]

SYNTHETIC = ["toy_bdmc", "fig4", "table1", "fig_varying_n", "ablation", "atlas", "omniglot_bdmc", "omniglot_ais"]

NUM_PROGRAMS = {"fig4": 1, "table1": 2, "fig_varying_n": 2}
"""Programs in the small version, by the shape of the data and whether gradients are needed, as in the tuned column.

Neither q nor seed nor the number of moves or particles nor the schedule makes another one.
"""


LONG = {"ablation", "atlas", "omniglot_ais", "omniglot_bdmc", "table1"}
"""Small versions that take four CPU seconds and more; `make test-outside` runs them."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.outside if name in LONG else ()) for name in find_all()]
)
def test_smoke(name, tmp_path, caplog, monkeypatch):
    folder = tmp_path / name
    if name in NUM_PROGRAMS:
        qp.clear_cache()
    with jax.log_compiles():
        done = CliRunner().invoke(app, ["run", name, "--smoke", "--out", str(folder)])
    num_programs = sum("Compiling jit(values)" in record.getMessage() for record in caplog.records)
    assert done.exit_code == 0, done.output
    assert "verdict" in done.output
    stored = load(folder)
    assert len(stored.rows) == stored.num_planned
    page = render([stored])
    assert page.count("<img") == len(stored.experiment.pictures(stored.rows))
    assert not re.search(r"\bnan\b", re.sub(r'base64,[^"]*', "", page))
    if name in NUM_PROGRAMS:
        assert num_programs == NUM_PROGRAMS[name]
    if name in PICTURES:
        check_claims_on_densities(stored.experiment, stored.rows)
    plt.close("all")


def check_claims_on_densities(experiment, rows):
    """The claims hold for the rows that were computed, and not when every row holds the curves of its neighbor."""
    wrong = [claim.statement for claim in experiment.claims(rows) if claim.judgment is not Judgment.HOLDS]
    assert all("as defined" in statement for statement in wrong), wrong  # Figure 9: an effect of the slip
    shifted = [Row(row.settings, 0, other.values) for row, other in zip(rows, rows[1:] + rows[:1], strict=True)]
    assert Judgment.FAILS in {claim.judgment for claim in experiment.claims(shifted)}
    for some in (rows[:1], rows[-1:]):  # a sweep that is not finished has a page too
        experiment.claims(some)
        for picture in experiment.pictures(some):
            assert any(ax.lines for ax in picture.figure.axes)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_right_rows_hold(name, synthetic, claims):
    assert set(claims.verdicts(name, synthetic(name)).values()) == {Judgment.HOLDS}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_unfinished_sweeps_have_a_page(name, synthetic):
    experiment, rows = find(name), synthetic(name)
    for some in (rows[:1], rows[-1:], rows[::7]):
        experiment.claims(some)
        experiment.sheets(some)
        for picture in experiment.pictures(some):
            plt.close(picture.figure)
