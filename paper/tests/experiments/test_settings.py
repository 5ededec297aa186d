"""Settings of the paper's experiments: a value that cannot run is an error before the first run."""

import numpy as np
import pytest

import qpaths as qp
from qpaths_paper.experiments import fig_escort, fig_varying_n, table1, toy_bdmc
from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.experiment import Row
from qpaths_paper.harness.registry import find
from qpaths_paper.harness.settings import with_changes


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("table1", "datasets=pima,iris", "`datasets` must be among pima, sonar, got 'iris'"),
        ("table1", "schedules=linear,adaptiv", "got 'adaptiv', did you mean 'adaptive'"),
        (
            "table1",
            "columns=geometric,best",
            "`columns` must be among geometric, ess, ess_code, grid, grid_code, tuned, got 'best'",
        ),
        ("table1", "moves=1,0", "`moves` must be at least 1, got 0"),
        ("ablation", "problems=toy,iris", "`problems` must be among toy, pima, sonar, got 'iris'"),
        ("ablation", "variants=none,some", "`variants` must be among none, kernel alone, .* got 'some'"),
        ("ablation", "budget=90", "`budget` must be at least 92, got 90"),
        ("fig4", "num_distributions=1", "`num_distributions` must be at least 2, got 1"),
        ("fig_varying_n", "num_data=50,800", "`num_data` must lie between 1 and 768, got 800"),
        ("omniglot_bdmc", "num_images=0", "`num_images` must be at least 1, got 0"),
        ("omniglot_bdmc", "num_distributions=100,1", "`num_distributions` must be at least 2, got 1"),
        ("omniglot_ais", "base=prior,sky", "`base` must be among prior, encoder, got 'sky'"),
        ("omniglot_ais", "precision=high", "`precision` must be among mixed, fast, float32, tensorfloat32, got 'high'"),
    ],
)
def test_a_value_that_cannot_run_is_told_before_the_sweep(name, change, words):
    experiment = find(name)
    experiment.check({**experiment.settings, **experiment.smoke})
    with pytest.raises(UserError, match=words):
        experiment.check(with_changes(experiment.settings, [change]))


SETTINGS = {
    "table1": ({"num_particles": 10_000, "num_distributions": 10, "moves": [1, 3, 5], "num_q": 20}, 10),
    "fig_varying_n": ({"num_particles": 10_000, "num_distributions": 10, "moves": 5}, 10),
    "fig4": ({"num_particles": 1000, "num_distributions": 10}, 16),  # those of the released code
    "toy_bdmc": ({"num_samples": 2500, "num_distributions": [3, 5, 7, 9, 11, 21, 41, 61, 101], "num_q": 20}, 40),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_those_of_the_paper(name):
    experiment, (settings, num_seeds) = find(name), SETTINGS[name]
    assert {key: experiment.settings[key] for key in settings} == settings
    assert experiment.num_seeds == num_seeds


def test_endpoints_of_figure_10():
    scale = {"gaussian": (qp.Normal(-4.0, 3.0**0.5), qp.Normal(4.0, 1.0))}
    scale["student_t"] = qp.StudentT(1.0, -4.0, 3.0**0.5), qp.StudentT(1.0, 4.0, 1.0)
    for endpoints, ends in scale.items():
        for kind in toy_bdmc._kinds(endpoints):
            path = toy_bdmc.path_of(endpoints, kind, 0.1)
            assert (path.base, path.target) == ends


@pytest.mark.parametrize("q", [1.01, 1.5, 2.0])
def test_figure_9_draws_the_q_path_of_the_order_of_the_family(q):
    row = fig_escort._run_one({"q": q, "path": "q-path", "num_betas": 5, "num_points": 31}, 0)
    df = (3 - q) / (q - 1)
    path = qp.QPath(qp.StudentT(df, -4.0, 3.0**0.5), qp.StudentT(df, 4.0, 1.0), q=q)
    expected = [path.at(beta).member.log_prob(x) for beta in (0.25, 0.75) for x in row["grid"]]
    found = np.log(np.concatenate([row["densities"][1], row["densities"][3]]))
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_q_is_chosen_on_other_seeds():
    """Two q, each of which is right for the seeds that choose the other one: nothing is gained."""
    of_line = {"dataset": "pima", "schedule": "linear", "moves": 1, "column": "grid"}
    truth = table1.TRUTHS["pima"].log_evidence
    rows = [
        Row({**of_line, "delta": delta}, seed, {"log_evidence": truth - (1.0 if seed % 2 == parity else 100.0)})
        for delta, parity in ((1e-4, 0), (1e-2, 1))
        for seed in range(10)
    ]
    np.testing.assert_allclose(table1.Errors(rows).fair(("pima", "linear", 1), "grid"), 100.0)
    rows = [
        Row({"num_data": 50, "delta": delta}, seed, {"log_evidence": -9.0 + gain, "share_lost": 0.0})
        for delta, gains in ((0.0, (0, 0)), (1e-4, (5, -20)), (1e-2, (-20, 5)))
        for seed in range(10)
        for gain in [gains[seed % 2]]
    ]
    assert fig_varying_n._ByNumber(rows).fair_gain(50).value == pytest.approx(-20.0)
