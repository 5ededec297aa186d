"""The command line, as a user calls it."""

import math
import runpy
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import qpaths as qp
from qpaths.cli import app, errors


def _call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_package_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["qpaths", "--version"])
    for name in ("end_on_signals", "ignore_signals"):  # the signals of the tests are their own
        monkeypatch.setattr(f"qpaths.cli.commands.{name}", lambda: None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("qpaths", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"qpaths {qp.__version__}\n"


def test_evidence_of_a_file(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(
        "import jax\nimport jax.numpy as jnp\n"
        "def log_prior(x): return jnp.sum(jax.scipy.stats.norm.logpdf(x))\n"
        "def log_likelihood(x): return -2.0 * jnp.sum((x - 1.0) ** 2)\n"
        "def sample_prior(key): return jax.random.normal(key, (2,))\n"
    )
    done = _call("evidence", model, "--budget", 50_000, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    result = qp.load_result(tmp_path / "out" / "result.npz")
    assert abs(float(result.log_evidence) + 2.4094) < 5 * float(result.log_evidence_se)
    assert (tmp_path / "out" / "posterior.png").read_bytes().startswith(b"\x89PNG")
    model.write_text(model.read_text().replace("jax.random.normal", "3 * jax.random.normal"))
    done = _call("evidence", model, "--budget", 2e4, "--out", tmp_path / "wrong")
    assert done.output.count("does not draw from its density") == 1
    assert done.exit_code == 4, done.output
    assert "verdict: wrong" in done.output
    model.write_text("log_prior = log_likelihood = abs\n")
    done = _call("evidence", model)
    assert done.exit_code == 2
    assert "has no function `sample_prior`" in done.output
    done = _call("evidence", tmp_path / "none.py")
    assert done.exit_code == 2
    assert "there is no file" in done.output


NUMPYRO_FILE = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

def model(y):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

args = (jnp.array({data}),)
"""

PRIOR_FILE = """
import jax.numpy as jnp
import numpyro.distributions as dist

prior = {"sigma": dist.HalfNormal(1.0)}
data = jnp.array([1.2, 0.4])

def log_likelihood(p, y):
    return dist.Normal(0, p["sigma"]).log_prob(y).sum()
"""


def test_models_of_files_are_compared(tmp_path):
    files = {
        "first": NUMPYRO_FILE.format(data="[1.2, 0.4]"),
        "second": PRIOR_FILE,
        "other": NUMPYRO_FILE.format(data="[5.0, 6.0]"),
    }
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
        done = _call("evidence", tmp_path / f"{name}.py", "--budget", 30_000, "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
        assert (tmp_path / name / "run.png").read_bytes().startswith(b"\x89PNG")
    result = qp.load_result(tmp_path / "first" / "result.npz")
    assert set(result.samples) == {"mu"}
    done = _call("compare", tmp_path / "first", tmp_path / "second", "--picture", tmp_path / "both.png")
    assert done.exit_code == 0, done.output
    assert "has the higher evidence" in done.output.replace("\n", " ")
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    done = _call("compare", tmp_path / "first", tmp_path / "other")
    assert done.exit_code == 2
    assert "different data" in done.output
    done = _call("compare", tmp_path / "none")
    assert done.exit_code == 2
    assert "there is no result" in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = 3", "must be a NumPyro model"),
        (NUMPYRO_FILE.format(data="[1.0]").replace("args", "unused"), "must define `args` or `kwargs`"),
        (NUMPYRO_FILE.format(data="[float('nan')]"), "observed site `y` has 1 NaN"),
        (PRIOR_FILE.replace("def log_likelihood", "def likelihood"), "has no function `log_likelihood`"),
        (PRIOR_FILE.replace("dist.HalfNormal(1.0)", "1.0"), "prior of `sigma` must be a distribution"),
    ],
)
def test_mistakes_in_a_model_file(tmp_path, text, message):
    (tmp_path / "model.py").write_text(text)
    done = _call("evidence", tmp_path / "model.py", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())


def test_a_changed_model_starts_anew(tmp_path):
    """The loop of everybody: edit the file and run again."""
    model, out = tmp_path / "model.py", tmp_path / "out"
    for data in ("[1.2, 0.4]", "[2.0, 2.0]"):
        model.write_text(NUMPYRO_FILE.format(data=data))
        done = _call("evidence", model, "--budget", 20_000, "--out", out)
        assert done.exit_code == 0, done.output
    assert "has changed: starting anew" in done.output
    assert (out / "checkpoint-before.npz").exists()
    # Two observations at 2 with variance 1, and a mean with variance 4: their covariance is 1 on the diagonal, plus 4.
    truth = -math.log(2 * math.pi) - 0.5 * math.log(9) - 0.5 * 8 / 9
    assert abs(float(qp.load_result(out / "result.npz").log_evidence) - truth) < 0.05
    (out / "checkpoint.npz").write_bytes(b"none of ours")
    done = _call("evidence", model, "--budget", 20_000, "--out", out)
    assert done.exit_code == 2
    assert "`--fresh` starts anew, and `--out DIR`" in " ".join(done.output.split())
    done = _call("evidence", model, "--budget", 20_000, "--out", out, "--fresh", "--seed", 1)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sum()", "sum( "), "line 9"),
        (("data = jnp", "data = jnq"), "line 6"),
        (("dist.Normal(0, p", "undefined(0, p"), "line 9: `log_likelihood` does not take"),
    ],
)
def test_errors_in_a_model_file_have_their_line(tmp_path, change, message):
    (tmp_path / "model.py").write_text(PRIOR_FILE.replace(*change))
    done = _call("evidence", tmp_path / "model.py", "--out", tmp_path / "runs" / "out")
    assert done.exit_code == 2, done.output
    assert f"model.py, {message}" in " ".join(done.output.split())
    assert not (tmp_path / "runs").exists()  # nothing is left of a run that failed


def test_a_picture_that_fails_is_a_warning(tmp_path, monkeypatch):
    model = tmp_path / "$\\frac{$[x].py"
    model.write_text(PRIOR_FILE.replace('"sigma"', '"$_{"'))
    done = _call("evidence", model, "--budget", 20_000, "--out", tmp_path / "fine")
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "fine").glob("*.png"))) == 2

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qpaths.cli.model_file.plot_posterior", fails)
    with pytest.warns(UserWarning, match="posterior.png could not be drawn .*No space left.*the result is stored"):
        done = _call("evidence", model, "--budget", 20_000, "--out", tmp_path / "full")
    assert done.exit_code == 0, done.output
    assert "log evidence" in done.output
    assert (tmp_path / "full" / "run.png").exists()


def test_help_is_shown_without_arguments():
    done = CliRunner().invoke(app, [])
    assert "demo" in done.output


def test_version():
    done = _call("--version")
    assert (done.exit_code, done.output) == (0, f"qpaths {qp.__version__}\n")


def test_help_imports_nothing_heavy():
    """The help of the program and of a command: below 1 s of processor time, and without JAX, NumPy and matplotlib."""
    code = (
        "import resource, sys; from qpaths.cli import app\n"
        "try: app()\n"
        "finally:\n"
        "    print(sorted({'jax', 'numpy', 'matplotlib', 'scipy', 'equinox'} & set(sys.modules)), file=sys.stderr)\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_utime, file=sys.stderr)"
    )
    for arguments in (["--help"], ["evidence", "--help"], ["run", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout
        imported, seconds = done.stderr.splitlines()
        assert imported == "[]"
        assert float(seconds) < 1


def test_every_command_has_help():
    for command in ("evidence", "compare"):
        done = _call(command, "--help")
        assert done.exit_code == 0
        assert "Usage" in done.output


@pytest.mark.parametrize("command", ["list", "run", "report", "demo", "data"])
def test_commands_of_the_paper_say_how_to_install_them(command, monkeypatch):
    monkeypatch.setattr(errors, "_added", dict)
    done = _call(command, "fig2")
    assert done.exit_code == 2
    assert "which is not installed: pip install qpaths-paper" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "evidence" in _call("--help").output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["go"], "No such command 'go'; `qpaths --help` shows what can be given"),
        (["--go"], "No such option: --go; `qpaths --help` shows what can be given"),
        (
            ["evidence", "ends.py"],
            "ends.py calls sys.exit(3): it must only define `model`, `prior` and `log_likelihood`, or",
        ),
        (
            ["evidence", "fails.py"],
            "qpaths: fails.py, line 4: `log_likelihood` raised RuntimeError at the point rate = ",
        ),
    ],
)
def test_errors_are_one_line_and_code_2(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(3)\n")
    fails = "from scipy import stats\nprior = {'rate': stats.gamma(2)}\n"
    fails += "def log_likelihood(p):\n    raise RuntimeError('the solver failed')\n"
    (tmp_path / "fails.py").write_text(fails)
    done = _call(*arguments)
    assert done.exit_code == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("qpaths: ")
    assert words in line
    assert "Traceback" not in done.output


def test_debug_shows_a_wrong_usage_as_it_came():
    done = _call("--debug", "compare")
    assert done.exit_code == 2
    assert "Usage:" in done.stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_where_an_error_comes_from(place, tmp_path):
    command = ["compare", str(tmp_path / "none")]
    done = _call(*(["--debug", *command] if place == "before" else [*command, "--debug"]))
    assert "there is no result" in str(done.exception)
