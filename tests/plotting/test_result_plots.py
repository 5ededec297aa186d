"""Pictures of results: names on the axes, the axes that were given, and no other figure touched."""

import dataclasses

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import qpaths as qp
from qpaths.plotting import plot_compare, plot_islands, plot_path, plot_posterior, plot_run

mpl.use("Agg")


@pytest.fixture(scope="module")
def result():
    prior = {"mu": qp.Normal(0.0, 2.0), "sigma": qp.families.Gamma(2.0, 2.0)}
    data = jnp.array([0.3, 1.2, 0.8])
    return qp.evidence(
        prior=prior,
        log_likelihood=lambda p: jnp.sum(jax.scipy.stats.norm.logpdf(data, p["mu"], p["sigma"])),
        budget=40_000,
        key=jax.random.key(0),
    )


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_the_run(result):
    axes = plot_run(result)
    assert axes.shape == (3, 1)
    line = axes[0, 0].lines[0]
    np.testing.assert_allclose(line.get_ydata()[-1], float(result.log_evidence), atol=0.05)
    assert axes[2, 0].lines[0].get_ydata()[-1] == 1.0


def test_islands_show_each_estimate(result):
    ax = plot_islands(result)
    drawn = [line for line in ax.lines if len(line.get_ydata()) == len(result.islands["log_evidence"])]
    np.testing.assert_allclose(drawn[0].get_ydata(), result.islands["log_evidence"])
    with pytest.raises(ValueError, match="a result of Evidence has no islands"):
        plot_islands(dataclasses.replace(result, islands=None))


def test_the_posterior_has_names_and_pairs(result):
    axes = plot_posterior(result)
    assert axes.shape == (2, 2)
    assert (axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel(), axes[1, 1].get_xlabel()) == ("mu", "sigma", "sigma")
    assert axes[1, 0].lines[0].get_ydata().min() > 0
    single = plot_posterior(result, names=["sigma"])
    assert single.shape == (1, 1)
    assert single[0, 0].get_title() == "sigma"
    with pytest.raises(ValueError, match="no variable 'tau' among the samples, only mu, sigma"):
        plot_posterior(result, names=["tau"])


def test_many_numbers_are_panels(result):
    num = result.log_weights.shape[0]
    wide = dataclasses.replace(result, samples={"theta": np.random.default_rng(0).standard_normal((num, 3, 5))})
    axes = plot_posterior(wide)
    assert [ax.get_title() for ax in axes.flat][:2] == ["theta[0][0]", "theta[0][1]"]
    assert axes.size == 12


def test_models_side_by_side(result):
    comparison = qp.compare({"one": result, "two": dataclasses.replace(result, log_evidence=np.asarray(-20.0))})
    ax = plot_compare(comparison)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two"]


def test_no_other_figure_is_touched(result):
    """An open figure stays as it is, and given axes are used."""
    other, before = plt.subplots()
    comparison = qp.compare({"one": result})
    grid = np.linspace(-3, 3, 50)
    path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 1.0))
    for draw in (plot_run, plot_islands, plot_posterior):
        draw(result)
    plot_compare(comparison)
    plot_path(path, grid, [0.0, 1.0])
    assert not before.lines
    assert not before.collections
    assert not before.patches
    assert plot_islands(result, ax=before) is before
    assert before.lines
    axes = plt.subplots(3)[1]
    assert plot_run(result, ax=axes).ravel()[0] is axes[0]
    with pytest.raises(ValueError, match=r"`ax` must hold 3 axes \(3 x 1\), got 1"):
        plot_run(result, ax=before)
    plt.close(other)
