"""Settings of the paper's experiments: a value that cannot run is an error before the first run."""

import pytest

from qpaths_paper.harness.errors import UserError
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
