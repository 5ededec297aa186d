"""Every tutorial runs, what it asserts holds, and the stored pages are what they make, apart from numbers."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tools" / "make_tutorials.py"


@pytest.mark.outside
def test_tutorials_run_and_pages_are_current():
    pytest.importorskip("pymc")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_differences_see_words_but_not_numbers():
    differences = runpy.run_path(str(SCRIPT))["differences"]
    page = "Text of 3 lines.\n\n```text\nlog evidence -2.41 +- 0.03, sound\n```\n"
    assert not differences(page, page.replace("-2.41 +- 0.03", "-2.4073 +- 0.1"))
    assert "doubtful" in differences(page, page.replace("sound", "doubtful"))
    assert differences(page, page.replace("3 lines", "4 lines"))


def test_a_picture_needs_a_text_alternative(tmp_path):
    page = runpy.run_path(str(SCRIPT))["page"]
    tutorial = tmp_path / "drawing.py"
    tutorial.write_text("# %%\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\n")
    with pytest.raises(ValueError, match="cells that draw"):
        page(tutorial, save=False)
    tutorial.write_text("# %% picture: A line.\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\n")
    assert "![A line.](pictures/drawing_1.svg)" in page(tutorial, save=False)
