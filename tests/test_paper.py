"""The page about the paper: every name and test on it exists, no cell is empty, and its slips are slips."""

import importlib
import inspect
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.search import ess_heuristic, rho_rule
from qpaths_paper.experiments.fig_varying_n import subsample
from qpaths_paper.parts.datasets import load, logistic_regression
from qpaths_paper.parts.published import figures

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text()
LINES = [line.strip("|").split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]


def test_no_cell_is_empty():
    assert len(LINES) > 90
    for cells in LINES:
        assert all(cell.strip() for cell in cells), cells


def test_every_test_on_the_page_exists():
    named = set(re.findall(r"`([\w/]*tests/[\w/]+\.py)::(\w+)`", PAGE))
    assert len(named) > 60
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file} has no {name}"


def test_every_name_on_the_page_exists():
    names = set(re.findall(r"`(qpaths(?:_paper)?\.[\w.]+)`", PAGE))
    assert len(names) > 50
    for name in names:
        _find(name)


EQUATIONS = """
abstract_mean alpha_abstract alpha_abstract2 alpha_div amari_lagrange delta_eq dpsi_dtheta escort ess_loss expq
functional geo_path geo_path_nat_params geopath0 geopath_ lagrange lkd_ratio_fam lkd_ratio_partition lnq lnq_int
lnq_mixture moments_path moments_path_theta normalization1 normalization2 powermean q_energy q_exp_prod q_exp_sum
qexp_fam qexp_fam1 qexp_fam_qf qexp_form qpath_exp_form qpath_mix_form qpath_mix_form22 rho_choice std_exp_fam student
vrep_alpha vrep_exp vrep_moments
"""


FIGURES = [*(f"Figure {number}" for number in (1, 2, 3, 4, 5, 6, 8, 9, 10)), "Figure 7a", "Figures 7b and 11"]


def test_every_equation_figure_and_table_of_the_paper_has_a_line():
    """Equations by their names in the source of the paper, the others by their numbers."""
    subjects = " ".join(cells[0] for cells in LINES)
    for name in [*EQUATIONS.split(), *FIGURES, "Table 1", "Table 2", "Algorithm 1", "Lemma 1", "Lemma 2"]:
        assert re.search(rf"(?<!\w){name}(?!\w)", subjects), f"{name} is not on the page"


def _find(name):
    """The object of a dotted name, or an error that says what is missing."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("q", [0.3, 0.9, 2.0])
def test_the_constants_of_the_q_logarithm_have_opposite_signs(q):
    u, a = 2.7, 1 / (1 - q)
    assert float(qp.log_q(u, q)) == pytest.approx(a * u ** (1 - q) - a)
    assert abs(float(qp.log_q(u, q)) - (a * u ** (1 - q) + a)) > 0.5


def test_the_bracket_is_not_negative_and_its_log_may_be():
    log_w = np.linspace(-30, 5, 100)
    bracket = 1 + 0.1 * 0.5 * np.asarray(qp.log_q(np.exp(log_w), 0.9))
    assert (bracket >= 0).all()
    assert np.log(bracket).min() < 0


def test_more_data_increase_the_weights():
    sizes = []
    for num in (50, 200, 768):
        base, target = logistic_regression(subsample(num, 0))
        draws = jax.vmap(base.sample)(jax.random.split(jax.random.key(0), 200))
        log_w = jax.vmap(lambda x, b=base, t=target: t.log_prob(x) - b.log_prob(x))(draws)
        sizes.append(float(jnp.mean(jnp.abs(log_w))))
    assert sizes[0] < sizes[1] < sizes[2]


def test_sizes_of_the_data_sets():
    assert load("pima").predictors.shape == (768, 9)
    assert load("sonar").predictors.shape == (208, 61)


def test_the_start_of_algorithm_1_is_rho():
    """With delta_0 = max |log w| in its place, `delta log w` would be the square of it: beyond any number."""
    log_w = np.array([-300.0, -40.0])
    assert np.exp(rho_rule(log_w) * log_w).min() == pytest.approx(np.exp(-1))
    assert np.exp(np.abs(log_w).max() * log_w).max() == 0.0


def test_the_reindexed_products_begin_at_zero():
    x, delta = np.array([0.3, -0.2, 0.5, 0.1]), 0.4

    def total(first):
        return sum(x[n] * np.prod(1 + delta * x[first:n]) for n in range(len(x)))

    product = float(jnp.prod(qp.exp_q(x, 1 - delta)))
    assert float(qp.exp_q(total(0), 1 - delta)) == pytest.approx(product)
    assert float(qp.exp_q(total(1), 1 - delta)) != pytest.approx(product, rel=1e-3)


def test_the_caption_counts_its_own_table_rightly():
    table = {}
    for line in figures("table1"):
        key = line["dataset"], line["schedule"], line["move_steps"]
        table.setdefault(key, {})[line["path"]] = float(line["median_abs_error"])
    ordered = [t["q_grid"] < t["q_ess_heuristic"] < t["geometric"] for t in table.values()]
    assert (sum(ordered), len(ordered)) == (8, 12)


def test_the_released_energy_has_no_value_at_one():
    """Its last version is `log((1-beta) a^(1-q) + beta b^(1-q)) / (1-q)`, by log-sum-exp, also at q = 1."""
    log_a, log_b, beta, q = -3.0, -5.0, 0.25, 1.0
    with np.errstate(all="ignore"):
        scaled = np.array([(1 - q) * log_a, (1 - q) * log_b])
        total = scaled.max() + np.log(np.sum([1 - beta, beta] * np.exp(scaled - scaled.max())))
        assert np.isnan(np.divide(total, 1 - q))
    # With more moves the printed errors of the geometric path fall, so moves were accepted there.
    errors = {
        line["move_steps"]: float(line["median_abs_error"])
        for line in figures("table1")
        if (line["dataset"], line["schedule"], line["path"]) == ("pima", "linear", "geometric")
    }
    assert errors["5"] < errors["3"] < errors["1"]


def test_the_evaluations_of_figure_4_are_those_of_a_thousand_particles():
    """The released results have 6,912,000 for one move: a first weight and 8 moves of the 9 steps, for each datum."""
    num_data, num_steps, moves = 768, 9, 1
    assert 6_912_000 / (num_data * (1 + moves * (num_steps - 1))) == 1000


def _shares_where_both_ends_are_low(base, target, q):
    """The share of the mass where both ends are below 0.3 of their peaks, at nine betas between them."""
    x = jnp.linspace(-60.0, 60.0, 20_001)
    ends = [jax.vmap(end.log_prob)(x) for end in (base, target)]
    low = jnp.all(jnp.stack([end < end.max() + jnp.log(0.3) for end in ends]), axis=0)
    path = qp.QPath(base, target, q=q)
    masses = [jnp.exp(path.interpolate(beta, *ends)) for beta in np.linspace(0.1, 0.9, 9)]
    return np.array([float(mass[low].sum() / mass.sum()) for mass in masses])


def test_heavier_tails_need_a_larger_q_to_concentrate_where_both_ends_are_low():
    """Appendix D.2 quotes Figure 2 for q = 2, which has no such panel: between these normals the mass is there."""
    normal = qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0)
    student = qp.StudentT(1.0, -4.0, 3.0**0.5), qp.StudentT(1.0, 4.0, 1.0)
    assert _shares_where_both_ends_are_low(*normal, 2.0).min() > 0.9
    assert _shares_where_both_ends_are_low(*normal, 1.0).min() < 0.2
    early, late = (_shares_where_both_ends_are_low(*student, q) for q in (2.0, 10.0))
    assert (early < late).all()
    assert np.ptp(late) < 0.02 < np.ptp(early)  # at q = 10 beta hardly matters, as for the minimum


def test_a_tempered_likelihood_is_the_path_of_q_1_alone():
    """Section 7.2 writes the distributions between as p(z) p(x|z)^beta, whatever q is."""
    log_prior, log_likelihood, beta = np.array([-1.0, -2.0, -0.5]), np.array([-90.0, -3.0, -20.0]), 0.3
    tempered = log_prior + beta * log_likelihood
    for q, is_same in ((1.0, True), (0.994, False)):
        path = qp.QPath(qp.Normal(0.0, 1.0), qp.Normal(0.0, 1.0), q=q)
        between = path.interpolate(beta, log_prior, log_prior + log_likelihood)
        assert np.allclose(between, tempered, rtol=1e-12) == is_same


def test_the_settings_of_algorithm_1_are_the_defaults():
    """Appendix G: 100 restarts, and a spread of 0.1 in the decimal logarithm of rho."""
    defaults = {name: one.default for name, one in inspect.signature(ess_heuristic).parameters.items()}
    assert (defaults["num_restarts"], defaults["spread"], defaults["target_ess"]) == (100, 0.1, 0.5)


def test_the_defaults_of_the_samplers_are_those_of_the_paper():
    """Half of the particles effective, and steps of 2.38 / sqrt(d) times the spread of the particles."""
    assert qp.AdaptiveSchedule().target_ess == 0.5
    assert qp.RandomWalk().scale == 2.38
    assert inspect.signature(logistic_regression).parameters["prior_scale"].default == 5.0


def test_the_tail_of_the_generalized_pareto():
    """`(1 + xi (x - mu) / sigma)^(-1 / xi)`, the tail function (appendix D.1)."""
    member, x = qp.families.GeneralizedPareto(0.4, 1.0, 2.0), 4.0
    nodes = qp.families.Nodes.line(x)
    np.testing.assert_allclose(nodes.integral(nodes.log_values(member)), (1 + 0.4 * (x - 1) / 2.0) ** -2.5, rtol=1e-9)
