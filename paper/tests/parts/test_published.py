"""The paper's numbers are as printed."""

import pytest

from qpaths_paper.parts.published import delta_grid, figures


def test_the_paper_is_as_printed():
    table = {(line["dataset"], line["schedule"], line["move_steps"], line["path"]): line for line in figures("table1")}
    assert float(table["sonar", "adaptive", "5", "q_grid"]["median_abs_error"]) == pytest.approx(2.23, abs=0.005)
    assert len(figures("fig4")) == 77
    grid = delta_grid(20)
    assert len(grid) == 20
    assert grid[0] == pytest.approx(1e-5)
    assert any(delta == pytest.approx(1 - 0.9979308619188852) for delta in grid)  # the best of the linear Pima rows
