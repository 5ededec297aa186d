"""The commands that the package adds to `qpaths`, as a user calls them."""

import os
import re
import resource
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from qpaths.cli import app
from qpaths_paper.harness.registry import find_all
from qpaths_paper.harness.store import Store


def _call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def _start(*arguments):
    code = "from qpaths.cli import main; main()"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _read_until(process, words):
    """The lines up to the first that has some words."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError("".join(lines))


def test_every_command_has_help():
    for command in ("list", "run", "report", "demo", "data"):
        done = _call(command, "--help")
        assert done.exit_code == 0
        assert "Usage" in done.output
        assert f" {command} " in _call("--help").output


def test_demo_compares_three_paths(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "new"), "--particles", "4000"])
    assert done.exit_code == 0, done.output
    assert all(label in done.output for label in ("geometric", "0.9979", "tuned", "chosen:"))
    picture = tmp_path / "new" / "demo.png"
    assert str(picture) in done.output.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_list_shows_every_experiment():
    done = _call("list")
    assert done.exit_code == 0
    for name, experiment in find_all().items():
        assert name in done.output
        assert experiment.duration in done.output


def test_a_run_is_stored_and_goes_on(tmp_path):
    done = _call("run", "fig2", "--smoke", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "0 of 4 runs" in done.stderr
    assert "holds" in done.stdout
    assert "rehearsal" in done.stdout
    done = _call("run", "fig2", "--smoke", "--out", tmp_path)
    assert done.exit_code == 0
    assert done.stderr == "4 of 4 runs\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "fig22"], "no experiment 'fig22', did you mean 'fig2'?"),
        (["run", "fig2", "--set", "num_beta=3"], "no setting 'num_beta', did you mean 'num_betas'?"),
        (["run", "fig2", "--set", "num_betas=few"], "'num_betas' must be a whole number, got 'few'"),
        (["run", "fig2", "--seeds", "3"], "nothing in fig2 is random"),
        (["run", "fig_escort", "--set", "q=5", "--smoke"], "`q` must lie between 1 and 3"),
        (["run", "table1", "--set", "datasets=iris", "--smoke"], "must be among pima, sonar, got 'iris'"),
        (["run", "table1", "--set", "datasets=pima,iris"], "`datasets` must be among pima, sonar, got 'iris'"),
        (["run", "fig2", "--smoke", "--out", "a_file"], "the folder a_file cannot be made (File exists)"),
        (["run", "fig2", "--smoke", "--out", "a_file/in"], "the folder a_file/in cannot be made (Not a directory)"),
        (["report", "nowhere"], "there is no folder nowhere"),
        (["run"], "`qpaths run --help` shows what can be given"),
        (["run", "fig4", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["run", "fig2", "--jobs", "x"], "Invalid value for '--jobs'"),
        (["run", "fig2", "--jobs", "2", "--cluster", "tcp://head:8786"], "give one of the two"),
        (["run", "fig2", "--set", "orders=1"], "the setting 'orders' is now called 'q'"),
        (["run", "fig2", "--model", "paper"], "to change a setting of an experiment, give `--set model=VALUE`"),
        (["data", "foo"], "there is no data set 'foo'. Data sets to check: omniglot"),
    ],
)
def test_errors_are_one_line_and_code_2(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
    done = _call(*arguments)
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("qpaths: ")
    assert words in line
    assert "Traceback" not in done.output


def test_a_damaged_row_is_told_before_the_sweep(tmp_path, monkeypatch):
    experiment = find_all()["fig2"]
    settings = {**experiment.settings, **experiment.smoke}
    with Store.create(tmp_path, experiment, settings, 1) as store:
        store.add(experiment.runs(settings, 1)[0], {}, store.add_environment({}), 1.0)
        with store.connection:
            store.connection.execute("UPDATE rows SET content = '[]'")
    monkeypatch.setattr("qpaths_paper.harness.sweep._results", lambda *given: pytest.fail("the sweep began"))
    done = _call("run", "fig2", "--smoke", "--out", tmp_path)
    assert done.exit_code == 2
    assert "row 1 of" in done.stderr


def test_a_folder_of_another_experiment_is_refused(tmp_path):
    _call("run", "fig2", "--smoke", "--out", tmp_path)
    done = _call("run", "fig3", "--smoke", "--out", tmp_path)
    assert done.exit_code == 2
    assert "holds runs of fig2, not of fig3" in done.stderr
    with Store.open(tmp_path) as store:
        assert store.count() == 4


def test_a_fault_of_the_program_is_code_1(monkeypatch):
    def broken():
        raise KeyError("lost")

    monkeypatch.setattr("qpaths_paper.console.find_all", broken)
    done = _call("list")
    assert done.exit_code == 1
    assert done.stderr == "qpaths: unexpected KeyError: 'lost' (--debug shows where)\n"


def test_ctrl_c_is_code_130(monkeypatch, tmp_path):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("qpaths_paper.harness.sweep.sweep", interrupted)
    done = _call("run", "fig2", "--smoke", "--out", tmp_path)
    assert done.exit_code == 130
    assert "the same command goes on from there" in done.stderr


def test_a_full_disk_is_one_line(tmp_path):
    """No file may grow beyond 150 kB: the database is refused room in the middle of the sweep."""
    limit = 150_000
    done = subprocess.run(
        [sys.executable, "-c", "from qpaths.cli import main; main()", "run", "fig2", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2, done.stderr
    assert "free some room on the disk" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    with Store.open(tmp_path) as store:
        stored = len(store.rows())
    assert 0 < stored < 4
    assert _call("run", "fig2", "--out", tmp_path).exit_code == 0
    with Store.open(tmp_path) as store:
        assert len(store.rows()) == 4


def test_interrupted_run_keeps_its_rows(tmp_path):
    process = _start("run", "fig2", "--smoke", "--out", tmp_path / "rows")
    _read_until(process, "1 of 4 runs")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    if process.returncode == 143:
        stored = int(re.search(r"(\d) of 4 runs are stored", output)[1])
        process = _start("run", "fig2", "--smoke", "--out", tmp_path / "rows")
        output, _ = process.communicate(timeout=120)
        assert int(re.search(r"(\d) of 4 runs", output)[1]) >= stored
    assert process.returncode == 0, output  # it may have been done before the signal came
    assert os.listdir(tmp_path / "rows")
