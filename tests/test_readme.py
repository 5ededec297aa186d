"""The examples of the README and the documentation run as they stand, and importing the package changes nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.speed.stranger import instructions

ROOT = Path(__file__).parents[1]


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


# `test_tutorials.py` runs the tutorials, and the example of the home page is that of the README.
PAGES = ["README.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md") if p.name != "index.md")]


@pytest.mark.outside
@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page):
    """The Python blocks of a page, one after the other in one program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    if blocks:
        done = _python("\n".join(blocks))
        assert done.returncode == 0, done.stderr
        assert "nan" not in done.stdout


def test_the_home_page_shows_the_example_of_the_readme():
    shown = re.compile(r"```python\n.*?\n    Evidence: .*?verdict: sound\.\n", flags=re.DOTALL)
    readme, home = ((ROOT / page).read_text() for page in ("README.md", "docs/index.md"))
    assert shown.findall(home) == shown.findall(readme)
    assert shown.findall(home)


def test_the_picture_of_both_says_what_the_rows_say():
    said = [
        re.search(r"within (0\.\d+) nats of zero", (ROOT / page).read_text())[1]
        for page in ("README.md", "docs/index.md")
    ]
    rows = [json.loads(line) for line in (ROOT / "benchmarks/results/rows/suite.jsonl").read_text().splitlines()]
    errors = [abs(row["log_evidence"] - row["truth"]) for row in rows if row["target"] in ("funnel", "brownian")]
    assert said[0] == said[1]
    assert max(errors) <= float(said[0])


def _log_evidence_on_a_grid():
    """That of the model in the README, by a sum over two variables."""
    mu, log_sigma = np.linspace(-8, 25, 1000)[:, None], np.linspace(-6, 6, 1000)
    log_joint = stats.norm.logpdf(mu, 8, 3) + stats.norm.logpdf(log_sigma)
    log_joint = log_joint + sum(stats.norm.logpdf(y, mu, np.exp(log_sigma)) for y in (9.8, 10.4, 10.1, 11.2))
    cell = (mu[1, 0] - mu[0, 0]) * (log_sigma[1] - log_sigma[0])
    return np.logaddexp.reduce(log_joint.ravel()) + np.log(cell)


@pytest.mark.outside
def test_the_readme_shows_the_right_answer():
    text = (ROOT / "README.md").read_text()
    exact = float(re.search(r"on a fine grid: (-\d+\.\d+)", text)[1])
    value, error = map(float, re.search(r"log evidence (-\d+\.\d+) \+- (\d+\.\d+)", text).groups())
    assert abs(exact - _log_evidence_on_a_grid()) < 1e-3
    assert abs(value - exact) < 3 * error
    printed = _python(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1]).stdout
    now, error = map(float, re.search(r"log evidence (-\d+\.\d+) \+- (\d+\.\d+)", printed).groups())
    assert abs(now - exact) < 4 * error
    assert "verdict: sound" in printed


def test_a_script_can_follow_the_readme():
    install, example, own = instructions((ROOT / "README.md").read_text())
    assert install.startswith("pip install '.")
    assert own != example
    with pytest.raises(ValueError, match="pip install"):
        instructions("# A page without instructions")


def test_import_changes_no_setting_of_jax():
    done = _python("import qpaths, jax; print(jax.config.jax_enable_x64, jax.numpy.ones(1).dtype)")
    assert done.stdout.split() == ["False", "float32"], done.stderr
