"""The mathematics of the explorer: its functions against the library's numbers, and the numbers against the library."""

import json
import math
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE = shutil.which("node")

TOLERANCES = {
    "endpoint": 1e-13,
    "log density": 1e-14,
    "derivative": 1e-14,
    "log normalizer": 1e-10,
    "mean": 1e-10,
    "variance": 1e-9,
    "share of a step": 1e-10,
    "log normalizer in 2-D": 1e-5,
    "mean in 2-D": 1e-5,
    "variance in 2-D": 1e-5,
    "share of a step in 2-D": 1e-5,
    "length": 3e-3,  # the ends of the path beyond 1e-13 are left out, which counts for q = 1.2
    "run: position": 1e-13,
    "run: log weight": 1e-13,
    "run: effective share": 1e-13,
}


def _same(found, stored, where):
    """Every number of a tree equal to nine digits."""
    if isinstance(stored, dict):
        assert found.keys() == stored.keys(), where
        for name, value in stored.items():
            _same(found[name], value, f"{where}.{name}")
    elif isinstance(stored, list):
        assert len(found) == len(stored), where
        for i, (a, b) in enumerate(zip(found, stored, strict=True)):
            _same(a, b, f"{where}[{i}]")
    elif isinstance(stored, float):
        assert math.isclose(found, stored, rel_tol=1e-9, abs_tol=1e-11), f"{where}: run `python tools/make_numbers.py`"
    else:
        assert found == stored, where


def test_the_numbers_are_those_of_the_library(folder):
    made = runpy.run_path(str(folder.parents[1] / "tools" / "make_numbers.py"))["numbers"]()
    _same(made, json.loads((folder / "numbers.json").read_text()), "numbers")


def _in_node(folder):
    done = subprocess.run([NODE, HERE / "compare.js", folder], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def _beyond(worst):
    assert worst.keys() == TOLERANCES.keys()
    return {name: error for name, error in worst.items() if error is None or error > TOLERANCES[name]}


@pytest.mark.skipif(NODE is None, reason="no Node; the test in the browser compares the same numbers")
def test_the_page_agrees_with_the_library(folder):
    assert _beyond(_in_node(folder)) == {}


def test_the_page_agrees_with_the_library_in_a_browser(folder, desktop):
    desktop.open(folder / "index.html")
    compare, numbers = (HERE / "compare.js").read_text(), (folder / "numbers.json").read_text()
    worst = json.loads(desktop.evaluate(f"{compare}\nJSON.stringify(compare(Model, Sampler, {numbers}))"))
    assert _beyond(worst) == {}


MUTANTS = {
    "delta of the wrong sign": ("model.js", "const delta = 1 - q, n", "const delta = q - 1, n", "log normalizer"),
    "half a step too far": ("model.js", "2 * next[i] - here[i]", "2.01 * next[i] - here[i]", "share of a step"),
    "a wrong weight": ("model.js", "+ logCosh + Math.log(Math.PI", "+ 1.001 * logCosh + Math.log(Math.PI", "variance"),
    "weights one beta behind": ("sampler.js", "interpolate(betas[k - 1]", "interpolate(beta", "run: log weight"),
    "moves one beta behind": (
        "sampler.js",
        "const proposed = interpolate(beta,",
        "const proposed = interpolate(betas[k - 1],",
        "run: position",
    ),
}


@pytest.mark.skipif(NODE is None, reason="no Node")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_page_is_noticed(folder, tmp_path, mutant):
    file, old, new, quantity = MUTANTS[mutant]
    for name in ("model.js", "sampler.js", "numbers.json"):
        text = (folder / name).read_text()
        if name == file:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
    assert quantity in _beyond(_in_node(tmp_path))


@pytest.mark.skipif(NODE is None, reason="no Node")
def test_draws_have_the_moments_of_their_density(folder):
    """20,000 draws from a Student-t in the plane, df = 9: covariance `scale^2 df / (df - 2) [[1, c], [c, 1]]`.

    The tolerance is five standard deviations. That of a mean is sqrt(variance / n); the fourth moment of a coordinate
    is `3 (df - 2) / (df - 4)` times the squared variance, and a product has at most the variance of a square.
    """
    num, df, scale, correlation = 20_000, 9.0, 1.5, 0.6
    program = f"""
      const {{ draws }} = require({str(folder / "sampler.js")!r});
      const end = {{ kind: "student", mean: [2, -1], scale: {scale}, df: {df}, correlation: {correlation} }};
      const {{ xs, ys }} = draws(end, {num}, 3);
      const mean = (f) => xs.reduce((sum, x, i) => sum + f(x - 2, ys[i] + 1), 0) / {num};
      console.log(JSON.stringify([(x) => x, (x, y) => y, (x) => x * x, (x, y) => y * y, (x, y) => x * y].map(mean)));
    """
    done = subprocess.run([NODE, "-e", program], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    variance = scale**2 * df / (df - 2)
    of_mean = math.sqrt(variance / num)
    of_square = variance * math.sqrt((3 * (df - 2) / (df - 4) - 1) / num)
    wanted = [0.0, 0.0, variance, variance, correlation * variance]
    for value, right, deviation in zip(found, wanted, [of_mean, of_mean, *3 * [of_square]], strict=True):
        assert abs(value - right) < 5 * deviation
