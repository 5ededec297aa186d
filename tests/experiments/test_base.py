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
        ("moves=1,,3", "'moves' must be a whole number, got ''"),
        ("name=", "'name' must be a word, got ''"),
        ("share", "takes key=value, got 'share'"),
    ],
)
def test_wrong_changes_are_told(change, words):
    with pytest.raises(UserError, match=words):
        with_changes(DEFAULTS, [change])


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
