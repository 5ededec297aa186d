"""The registry: experiments are found by listing packages; adding one is one new file."""

import pytest
from typer.testing import CliRunner

from qpaths.cli import app
from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.folders import load
from qpaths_paper.harness.registry import find, find_all, find_data_sets, modules


def _call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_every_experiment_is_complete():
    """What the command line and the report rely on."""
    experiments = find_all()
    assert set(experiments) >= {"fig2", "fig3", "fig4", "table1", "toy_bdmc", "fig_varying_n"}
    assert set(experiments) == set(modules())  # a file of `paper/` is an experiment, and has its name
    for experiment in experiments.values():
        assert set(experiment.smoke) <= set(experiment.settings)
        assert experiment.title
        assert experiment.duration
        runs = experiment.runs({**experiment.settings, **experiment.smoke}, 2)
        assert len({run.key for run in runs}) == len(runs)


def test_an_unknown_experiment_is_an_error_with_a_suggestion():
    with pytest.raises(UserError, match="no experiment 'fig44', did you mean 'fig4'"):
        find("fig44")
    with pytest.raises(UserError, match="no experiment 'xyzzy': `qpaths list`"):
        find("xyzzy")


def test_data_sets_are_those_of_the_experiments():
    assert set(find_data_sets()) == {"omniglot"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_new_file_is_listed_run_and_reported(jobs, coins, tmp_path):
    """One new file, and no other change; with two jobs the worker processes find it too."""
    assert "coins of" in _call("list").output
    done = _call("run", "coins", "--smoke", "--set", "biases=0.25,0.5", "--jobs", jobs, "--out", tmp_path / "rows")
    assert done.exit_code == 0, done.output
    assert "shares are below the bias" in done.output
    assert [row["bias"] for row in load(tmp_path / "rows").rows] == [0.25, 0.25, 0.5, 0.5]
    done = _call("report", tmp_path / "rows")
    assert done.exit_code == 0, done.output
    page = (tmp_path / "rows" / "report.html").read_text()
    for words in ("coins: coins of several biases", "not in the paper", "An experiment that one file adds", "Shares"):
        assert words in page


def test_a_new_file_leaves_the_others_as_they_are(coins):
    assert set(find_all()) > {"coins", "fig2"}
    assert "no experiment 'coinss', did you mean 'coins'" in _call("run", "coinss").stderr


def test_a_package_that_cannot_be_imported_is_an_error(monkeypatch):
    monkeypatch.setenv("QPATHS_EXPERIMENTS", "no_such_package")
    with pytest.raises(UserError, match="QPATHS_EXPERIMENTS names 'no_such_package', which cannot be imported"):
        find("fig2")
    monkeypatch.setenv("QPATHS_EXPERIMENTS", "json.decoder")
    with pytest.raises(UserError, match=r"'json\.decoder', which is a module: name the package"):
        find("fig2")


def test_a_file_and_its_experiment_have_one_name(coins):
    (coins / "other.py").write_text((coins / "coins.py").read_text())
    with pytest.raises(UserError, match="other holds the experiment 'coins': give both the same name"):
        find("other")
