"""Every example runs as it stands and prints something; the one for a decoder of one's own is as short as promised."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example):
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "nan" not in done.stdout
    if example.stem == "own_decoder":
        assert len(example.read_text().splitlines()) < 40
        lower, upper = map(float, re.findall(r"-\d+\.\d+", done.stdout))
        assert lower < upper < lower + 1.0
