"""Figures hold the curves they promise."""

import matplotlib as mpl
import numpy as np
from scipy.integrate import trapezoid

import qpaths as qp
from qpaths.plotting import path_densities, plot_paths, plot_ridges

mpl.use("Agg")

BASE, TARGET = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)
GRID, BETAS = np.linspace(-12, 9, 421), np.linspace(0, 1, 5)


def test_densities_are_normalized():
    density = path_densities(qp.QPath(BASE, TARGET, q=0.5), GRID, BETAS)
    np.testing.assert_allclose(trapezoid(density, GRID, axis=1), 1.0)
    # Between normal endpoints the geometric path is normal: precisions and precision-weighted means mix linearly.
    geometric = path_densities(qp.GeometricPath(BASE, TARGET), GRID, [0.5])[0]
    precision = 0.5 / 3 + 0.5
    exact = qp.Normal((0.5 * -4 / 3 + 0.5 * 4) / precision, precision**-0.5)
    np.testing.assert_allclose(geometric, np.exp([float(exact.log_prob(x)) for x in GRID]), atol=1e-9)


def test_plot_paths_draws_every_density():
    figure = plot_paths({f"q = {q}": qp.QPath(BASE, TARGET, q=q) for q in (0.0, 1.0)}, GRID, BETAS, title="title")
    lines = [len(ax.lines) for ax in figure.axes if ax.lines]
    assert lines == [5, 5]
    mpl.pyplot.close(figure)


def test_heavy_tails_are_normalized_over_the_line():
    path = qp.QPath(qp.StudentT(1.0, -4.0, 1.0), qp.StudentT(1.0, 4.0, 2.0), q=2.0)
    density = path_densities(path, GRID, BETAS, heavy_tails=True)
    for beta, row in zip(BETAS, density, strict=True):
        member = path.at(beta).member if 0 < beta < 1 else path.at(beta)
        np.testing.assert_allclose(row[::20], np.exp([float(member.log_prob(x)) for x in GRID[::20]]), rtol=1e-8)


def test_ridges_rise_with_beta():
    # Axes of its own: those that another test left open may hold lines.
    ax = plot_ridges(qp.QPath(BASE, TARGET, q=0.9), GRID, BETAS, ax=mpl.pyplot.figure().gca())
    bottoms = [line.get_ydata()[0] for line in ax.lines]
    assert bottoms == sorted(bottoms, reverse=True)  # the front ridge, the base, is drawn last
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1"]
    mpl.pyplot.close(ax.figure)
