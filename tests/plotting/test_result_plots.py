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


@pytest.fixture(scope="module")
def run():
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
    return qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run(path, key=jax.random.key(0))


def _legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_run_along_a_path(run):
    axes = plot_run(run)
    assert axes.shape == (3, 1)
    np.testing.assert_allclose(axes[0, 0].lines[0].get_ydata()[-1], float(run.log_evidence), atol=0.05)
    assert axes[2, 0].lines[0].get_ydata()[-1] == 1.0
    assert _legend(axes[1, 0]) == ["ESS / particles", "acceptance"]
    unmoved = dataclasses.replace(run, stats={**run.stats, "acceptance": np.full(5, np.nan)})
    assert _legend(plot_run(unmoved)[1, 0]) == ["ESS / particles"]  # what is not drawn has no legend
    assert f"log evidence {float(run.log_evidence):.3f} +- " in axes[0, 0].figure.get_suptitle()


def test_a_run_with_weights_alone_shows_its_weights(result):
    """A run of one step has islands, weights and parts of its error to show, and no path."""
    parts = {"within": 0.003, "between": 0.002, "tail": 1e-9, "drift": 0.004}
    result = dataclasses.replace(
        result, betas=np.array([0.0, 1.0]), error_parts=parts, log_evidence_se=np.asarray(0.005)
    )
    islands, weights, errors = plot_run(result).ravel()
    assert islands.get_xlabel() == "island"
    drawn = weights.lines[0].get_ydata()
    assert (np.diff(drawn) <= 0).all()
    np.testing.assert_allclose(drawn.sum() / result.log_weights.size, 1.0, rtol=0.05)
    assert "Pareto k" in _legend(weights)[0]
    lengths = {
        label.get_text(): bar.get_width() for label, bar in zip(errors.get_yticklabels(), errors.patches, strict=True)
    }
    assert lengths == {"noise of each island": 0.003, "drift of draws": 0.004}  # no smaller view, no trace


def test_axes_hold_the_posterior_and_not_all_draws():
    """Draws without weight reach far beyond the posterior, as those of a wide prior do."""
    generator = np.random.default_rng(0)
    near, far = generator.normal(1.0, 0.1, 4000), generator.normal(0.0, 1e4, 400)
    log_weights = np.concatenate([np.zeros(4000), np.full(400, -40.0)])
    leaf = np.concatenate([near, far])
    result = _result_of({"tau": leaf, "b$_{\\frac$": leaf + generator.normal(0.0, 0.1, 4400)}, log_weights)
    for ax in plot_posterior(result).ravel()[[0, 2, 3]]:
        low, high = ax.get_xlim()
        assert 0.2 < low < 0.9
        assert 1.1 < high < 1.8
    title = plot_posterior(result, names=["tau"])[0, 0].get_title()
    np.testing.assert_allclose(
        [float(word.strip("(,)")) for word in title.split()[2:]], [1.0, 1 - 0.1645, 1 + 0.1645], atol=0.01
    )


def test_names_are_drawn_as_given(run, tmp_path):
    name = r"$\frac{$<b>[/]"
    named = dataclasses.replace(run, samples={name: run.samples[:, 0], "x": run.samples[:, 1]})
    for number, axes in enumerate((plot_posterior(named), plot_posterior(named, names=[name]))):
        axes[0, 0].figure.savefig(tmp_path / f"{number}.png")
    plot_compare(qp.compare({name: run})).figure.savefig(tmp_path / "compare.png")


def test_an_island_far_away_does_not_set_the_scale(result):
    values = np.array(result.islands["log_evidence"])
    values[0] += 50.0
    ax = plot_islands(dataclasses.replace(result, islands={**result.islands, "log_evidence": values}))
    assert ax.get_ylim()[1] < values[1:].max() + 20
    assert f"1 beyond the axis, to {values[0]:.2f}" in _legend(ax)


def _result_of(samples, log_weights):
    ones = np.ones(1)
    stats = {"beta": ones, "ess": ones, "acceptance": ones, "step_size": ones, "log_evidence": ones}
    return qp.Result(
        log_evidence=np.asarray(0.0),
        log_evidence_se=np.asarray(0.1),
        samples=samples,
        log_weights=log_weights,
        betas=np.array([0.0, 1.0]),
        stats=stats,
        status=np.asarray(0),
        num_evaluations=qp.core.Cost(),
        algorithm="Test",
    )


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
    assert single[0, 0].get_title().startswith("sigma = ")
    with pytest.raises(ValueError, match="no variable 'tau' among the samples, only mu, sigma"):
        plot_posterior(result, names=["tau"])


def test_many_numbers_are_panels(result):
    num = result.log_weights.shape[0]
    wide = dataclasses.replace(result, samples={"theta": np.random.default_rng(0).standard_normal((num, 3, 5))})
    axes = plot_posterior(wide)
    assert [ax.get_title().split(" = ")[0] for ax in axes.flat][:2] == ["theta[0][0]", "theta[0][1]"]
    assert axes.size == 12
    assert "12 of 15 numbers" in axes[0, 0].figure.get_suptitle()


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
