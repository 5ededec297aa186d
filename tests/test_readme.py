"""The examples of the README and the documentation run as they stand, and importing the package changes nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", ["README.md", *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md"))])
def test_examples_run(page):
    """The Python blocks of a page, one after the other in one program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    if blocks:
        done = _python("\n".join(blocks))
        assert done.returncode == 0, done.stderr
        assert "nan" not in done.stdout


def test_import_changes_no_setting_of_jax():
    done = _python("import qpaths, jax; print(jax.config.jax_enable_x64, jax.numpy.ones(1).dtype)")
    assert done.stdout.split() == ["False", "float32"], done.stderr
