"""The command line, as a user calls it."""

import resource
import runpy
import subprocess
import sys
import warnings

import pytest
from typer.testing import CliRunner

import qpaths as qp
from qpaths.cli import app
from qpaths.experiments.registry import find_all
from qpaths.experiments.store import Store


def _call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_package_runs_as_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["qpaths", "list"])
    for name in ("end_on_signals", "ignore_signals"):  # the signals of the tests are their own
        monkeypatch.setattr(f"qpaths.cli.commands.{name}", lambda: None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("qpaths", run_name="__main__")
    assert ended.value.code == 0
    assert "table1" in capsys.readouterr().out


def test_demo_compares_three_paths(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "new"), "--particles", "4000"])
    assert done.exit_code == 0, done.output
    assert all(label in done.output for label in ("geometric", "0.9979", "tuned", "chosen:"))
    picture = tmp_path / "new" / "demo.png"
    assert str(picture) in done.output.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


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
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        done = _call("evidence", model, "--budget", 20_000, "--out", tmp_path / "wrong")
    assert any("does not draw from its density" in str(warning.message) for warning in found)
    assert done.exit_code == 4, done.output
    assert "verdict: wrong" in done.output
    model.write_text("log_prior = log_likelihood = abs\n")
    done = _call("evidence", model)
    assert done.exit_code == 2
    assert "must define the function `sample_prior`" in done.output
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
        (PRIOR_FILE.replace("def log_likelihood", "def likelihood"), "must define the function `log_likelihood`"),
        (PRIOR_FILE.replace("dist.HalfNormal(1.0)", "1.0"), "prior of `sigma` must be a distribution"),
    ],
)
def test_mistakes_in_a_model_file(tmp_path, text, message):
    (tmp_path / "model.py").write_text(text)
    done = _call("evidence", tmp_path / "model.py", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())


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
    for arguments in (["--help"], ["run", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout
        imported, seconds = done.stderr.splitlines()
        assert imported == "[]"
        assert float(seconds) < 1


def test_every_command_has_help():
    for command in ("list", "run", "report", "demo", "evidence", "compare", "data"):
        done = _call(command, "--help")
        assert done.exit_code == 0
        assert "Usage" in done.output


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
        (["go"], "No such command 'go'; `qpaths --help` shows what can be given"),
        (["--go"], "No such option: --go; `qpaths --help` shows what can be given"),
        (["run", "fig2", "--set", "orders=1"], "the setting 'orders' is now called 'q'"),
        (["run", "fig2", "--model", "paper"], "to change a setting of an experiment, give `--set model=VALUE`"),
        (["data", "foo"], "there is no data set 'foo'. Data sets to check: omniglot"),
        (
            ["evidence", "ends.py"],
            "ends.py calls sys.exit(3): it must only define `model`, `prior` and `log_likelihood`, or",
        ),
        (["evidence", "fails.py"], "qpaths: `log_likelihood` raised RuntimeError at the point rate = "),
    ],
)
def test_errors_are_one_line_and_code_2(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").touch()
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
    done = _call("--debug", "run")
    assert done.exit_code == 2
    assert "Usage:" in done.stderr


def test_a_damaged_row_is_told_before_the_sweep(tmp_path, monkeypatch):
    experiment = find_all()["fig2"]
    settings = {**experiment.settings, **experiment.smoke}
    with Store.create(tmp_path, experiment, settings, 1) as store:
        store.add(experiment.runs(settings, 1)[0], {}, store.add_environment({}), 1.0)
        with store.connection:
            store.connection.execute("UPDATE rows SET content = '[]'")
    monkeypatch.setattr("qpaths.experiments.sweep._results", lambda *given: pytest.fail("the sweep began"))
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

    monkeypatch.setattr("qpaths.cli.console.find_all", broken)
    done = _call("list")
    assert done.exit_code == 1
    assert done.stderr == "qpaths: unexpected KeyError: 'lost' (--debug shows where)\n"


def test_ctrl_c_is_code_130(monkeypatch, tmp_path):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("qpaths.experiments.sweep.sweep", interrupted)
    done = _call("run", "fig2", "--smoke", "--out", tmp_path)
    assert done.exit_code == 130
    assert "the same command goes on from there" in done.stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_where_an_error_comes_from(place, tmp_path):
    command = ["report", str(tmp_path)]
    done = _call(*(["--debug", *command] if place == "before" else [*command, "--debug"]))
    assert "holds no runs" in str(done.exception)


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
