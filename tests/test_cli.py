"""The command line, as a user calls it."""

from typer.testing import CliRunner

from qpaths.cli import app


def test_demo_draws_the_picture(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    picture = tmp_path / "new" / "q_paths.png"
    assert str(picture) in done.output.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_help_is_shown_without_arguments():
    done = CliRunner().invoke(app, [])
    assert "demo" in done.output
