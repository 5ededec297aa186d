"""Settings from the command line, verdicts, and the list of experiments."""

import pytest

from qpaths.experiments.base import UserError, Verdict, all_of, find, find_all, judge, modules, with_changes

DEFAULTS = {"num_particles": 10, "share": 0.5, "moves": [1, 3], "name": "pima"}


def test_changes_take_the_type_of_the_default():
    changed = with_changes(DEFAULTS, ["num_particles=20", "share=1", "moves=5", "name=x=y"])
    assert changed == {"num_particles": 20, "share": 1.0, "moves": [5], "name": "x=y"}
    assert isinstance(changed["share"], float)
    assert with_changes(DEFAULTS, []) == DEFAULTS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("num_partikels=3", "no setting 'num_partikels', did you mean 'num_particles'"),
        ("zzz=3", "no setting 'zzz'. The settings are: num_particles, share, moves, name"),
        ("num_particles=3.5", "'num_particles' must be a whole number, got '3.5'"),
        ("share=nan", "'share' must be a number, got 'nan'"),
        ("share=inf", "'share' must be a number, got 'inf'"),
        ("moves=1,,3", "'moves' must be a whole number, got ''"),
        ("name=", "'name' must be a word, got ''"),
        ("share", "takes key=value, got 'share'"),
    ],
)
def test_wrong_changes_are_told(change, words):
    with pytest.raises(UserError, match=words):
        with_changes(DEFAULTS, [change])


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("table1", "datasets=pima,iris", "`datasets` must be among pima, sonar, got 'iris'"),
        ("table1", "schedules=linear,adaptiv", "got 'adaptiv', did you mean 'adaptive'"),
        ("table1", "columns=geometric,best", "`columns` must be among geometric, ess, grid, tuned, got 'best'"),
        ("table1", "moves=1,0", "`moves` must be at least 1, got 0"),
        ("ablation", "problems=toy,iris", "`problems` must be among toy, pima, sonar, got 'iris'"),
        ("ablation", "variants=none,some", "`variants` must be among none, kernel alone, .* got 'some'"),
        ("ablation", "budget=90", "`budget` must be at least 92, got 90"),
        ("fig4", "num_distributions=1", "`num_distributions` must be at least 2, got 1"),
        ("fig_varying_n", "num_data=50,800", "`num_data` must lie between 1 and 768, got 800"),
        ("omniglot_bdmc", "num_images=0", "`num_images` must be at least 1, got 0"),
        ("omniglot_bdmc", "num_distributions=100,1", "`num_distributions` must be at least 2, got 1"),
        ("omniglot_ais", "base=prior,sky", "`base` must be among prior, encoder, got 'sky'"),
        ("omniglot_ais", "precision=high", "`precision` must be among mixed, float32, tensorfloat32, got 'high'"),
    ],
)
def test_a_value_that_cannot_run_is_told_before_the_sweep(name, change, words):
    experiment = find(name)
    experiment.check({**experiment.settings, **experiment.smoke})
    with pytest.raises(UserError, match=words):
        experiment.check(with_changes(experiment.settings, [change]))


def test_every_experiment_is_complete():
    """What the command line and the report rely on."""
    experiments = find_all()
    assert set(experiments) >= {"fig2", "fig3", "fig4", "table1", "toy_bdmc", "fig_varying_n"}
    for name, experiment in experiments.items():
        assert name in modules()  # `qpaths run NAME` and the file have one name
        assert set(experiment.smoke) <= set(experiment.settings)
        assert experiment.title
        assert experiment.duration
        runs = experiment.runs({**experiment.settings, **experiment.smoke}, 2)
        assert len({run.key for run in runs}) == len(runs)


def test_an_unknown_experiment_is_told_with_the_nearest():
    with pytest.raises(UserError, match="no experiment 'fig44', did you mean 'fig4'"):
        find("fig44")
    with pytest.raises(UserError, match="no experiment 'xyzzy': `qpaths list`"):
        find("xyzzy")


def test_a_verdict_needs_two_standard_errors():
    assert judge(0.5, 0.1, 0.0, 1.0) is Verdict.HOLDS
    assert judge(0.9, 0.1, 0.0, 1.0) is Verdict.OPEN
    assert judge(1.1, 0.1, 0.0, 1.0) is Verdict.OPEN
    assert judge(1.3, 0.1, 0.0, 1.0) is Verdict.FAILS
    assert judge(-0.3, 0.1, 0.0, 1.0) is Verdict.FAILS
    assert judge(0.5, float("nan"), 0.0, 1.0) is Verdict.OPEN
    assert all_of([Verdict.HOLDS, Verdict.OPEN]) is Verdict.OPEN
    assert all_of([Verdict.HOLDS, Verdict.OPEN, Verdict.FAILS]) is Verdict.FAILS
    assert all_of([Verdict.HOLDS]) is Verdict.HOLDS
    assert all_of([]) is Verdict.OPEN
