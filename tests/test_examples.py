"""Every example runs as it stands, is short, and prints the right answer."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def _pairs(text):
    """Numbers with their standard errors: `-31.3 +- 0.004`."""
    return [tuple(map(float, pair)) for pair in re.findall(r"(-?\d+\.\d+) \+- (\d+\.\d+)", text)]


def _check_equinox(text):
    gap, error = _pairs(text)[2]
    assert -5 * error < gap < 0.2


def _near(exact, number=0):
    def check(text):
        value, error = _pairs(text)[number]
        assert abs(value - exact) < 5 * error

    return check


def _check_nuts(text):
    (first, error), (second, other) = _pairs(text)[0], _pairs(text)[-1]
    assert abs(first - second) < 5 * (error**2 + other**2) ** 0.5


def _check_factor(text):
    value, error = _pairs(text)[-1]
    exact = float(re.search(r"exact: (-?\d+\.\d+)", text)[1])
    assert abs(value - exact) < 5 * error + 0.001


CHECKS = {
    "own_path": _near(-2.4094),
    "from_nuts_draws": _check_nuts,
    "bayes_factor": _check_factor,
    "equinox_decoder": _check_equinox,
    "eight_schools": _near(-31.3113),  # by quadrature over tau, see benchmarks/reliability/ecosystem_models.py
    "mixture": lambda text: "two has the higher evidence" in text or pytest.fail(text),
    "ode_in_scipy": lambda text: "'capacity': 0.99" in text or pytest.fail(text),
    "pymc_regression": lambda text: "slope 1." in text or pytest.fail(text),
}


def test_every_example_has_a_check():
    assert set(CHECKS) == {example.stem for example in EXAMPLES}


@pytest.mark.outside
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example):
    text = example.read_text()
    assert len(text.splitlines()) < 40
    if "import pymc" in text and importlib.util.find_spec("pymc") is None:
        pytest.skip("PyMC is not installed")
    # The compiler's usual optimizations, which the tests turn off: these are programs that run for a while.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout
    CHECKS[example.stem](done.stdout)
