"""Every experiment runs from the command line in its small version, and its rows have a page."""

import re

import matplotlib.pyplot as plt
import pytest
from typer.testing import CliRunner

from qpaths import report
from qpaths.cli import app
from qpaths.experiments.base import find_all


@pytest.mark.parametrize("name", find_all())
def test_smoke(name, tmp_path):
    folder = tmp_path / name
    done = CliRunner().invoke(app, ["run", name, "--smoke", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    assert "verdict" in done.output
    stored = report.load(folder)
    assert len(stored.rows) == stored.num_planned
    page = report.render([stored])
    assert page.count("<img") == len(stored.experiment.pictures(stored.rows))
    assert not re.search(r"\bnan\b", re.sub(r'base64,[^"]*', "", page))
    plt.close("all")
