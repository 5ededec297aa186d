"""Every experiment runs from the command line in its small version, and its rows have a page."""

import re

import jax
import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

import qpaths as qp
from qpaths import report
from qpaths.cli import app
from qpaths.experiments.base import Row, Verdict, find_all

PICTURES = ["fig2", "fig3", "fig_moments", "fig_student", "fig_escort"]

NUM_PROGRAMS = {"fig4": 1, "table1": 2, "fig_varying_n": 2}
"""Programs in the small version, by the shape of the data and whether gradients are needed, as in the tuned column.

Neither q nor seed nor the number of moves or particles nor the schedule makes another one.
"""


@pytest.mark.parametrize("name", find_all())
def test_smoke(name, tmp_path, caplog):
    folder = tmp_path / name
    qp.clear_cache()
    with jax.log_compiles():
        done = CliRunner().invoke(app, ["run", name, "--smoke", "--out", str(folder)])
    num_programs = sum("Compiling jit(values)" in record.getMessage() for record in caplog.records)
    assert done.exit_code == 0, done.output
    assert "verdict" in done.output
    stored = report.load(folder)
    assert len(stored.rows) == stored.num_planned
    page = report.render([stored])
    assert page.count("<img") == len(stored.experiment.pictures(stored.rows))
    assert not re.search(r"\bnan\b", re.sub(r'base64,[^"]*', "", page))
    if name in NUM_PROGRAMS:
        assert num_programs == NUM_PROGRAMS[name]
    if name in PICTURES:
        check_claims_on_densities(stored.experiment, stored.rows)
    plt.close("all")


def check_claims_on_densities(experiment, rows):
    """The claims hold for the rows that were computed, and not when every row holds the curves of its neighbour."""
    assert {claim.verdict for claim in experiment.claims(rows)} == {Verdict.HOLDS}
    shifted = [Row(row.settings, 0, other.values) for row, other in zip(rows, rows[1:] + rows[:1], strict=True)]
    assert Verdict.FAILS in {claim.verdict for claim in experiment.claims(shifted)}
    for some in (rows[:1], rows[-1:]):  # a sweep that is not finished has a page too
        experiment.claims(some)
        for picture in experiment.pictures(some):
            assert any(ax.lines for ax in picture.figure.axes)
