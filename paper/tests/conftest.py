"""Rows as if they had been run, at full size: what is made of rows is tested without making them."""

import functools
import os
import types

import matplotlib as mpl
import numpy as np
import pytest

from qpaths_paper.harness.experiment import Row
from qpaths_paper.harness.registry import find
from qpaths_paper.parts.published import TRUTHS, figures
from tests.conftest import _few_programs, key  # noqa: F401

mpl.use("Agg")

PAPER = {(float(line["q"]), int(line["move_steps"])): line for line in figures("fig4")}


def _toy(settings, rng):
    """Gaps in the exact proportions, with errors of half a percent."""
    num_steps = settings["num_distributions"] - 1
    scale = {"gaussian": 43.3333, "student_t": 4.667}[settings["endpoints"]] / num_steps
    factors = {"geometric": 1.0, "moment": 1.0, "escort_moment": 3.5, "family": 2.0, "exact_escort": 1.2}
    factor = {**factors, "half": 0.2, "mixture": 0.3}.get(settings["path"])
    if factor is None:
        factor = 1 - (4.55 if settings["endpoints"] == "gaussian" else 0.25) * settings["delta"]
    exact = factor * scale
    gap = exact * (1 + 0.005 * rng.standard_normal())
    return {"lower": -gap / 2, "upper": gap / 2, "gap": gap, "gap_se": 0.005 * exact, "exact_gap": exact}


def _smc(log_evidence, delta):
    return {
        "log_evidence": float(log_evidence),
        "log_evidence_se": 1.0,
        "delta_used": delta,
        "num_steps": 9,
        "acceptance": 0.2,
        "likelihoods": 100_000,
        "share_lost": float(delta > 0.05),
    }


def _error(delta, rng):
    """Smallest at 1 - q = 0.002, as with a linear schedule."""
    distance = abs(np.log10(max(delta, 1e-5) / 0.002))
    return (8 + 40 * distance) * np.exp(0.2 * rng.standard_normal())


def _bounds(settings, rng):
    """Gaps that fall with the number of distributions and are smallest at q = 0.996; images differ alike in all."""
    scale = {"released": 35.0, "kernel": 4.0, "tuned": 1.2, "split": 0.8}[settings["column"]]
    order = 1 - 0.5 * np.exp(-(((settings["q"] - 0.9955) / 0.003) ** 2))
    gap = scale * (100 / settings["num_distributions"]) ** 1.1 * order / 0.947
    images = np.linspace(0.5, 1.5, 400)
    gaps = gap * (images + 0.05 * rng.standard_normal(400))
    lower = -110.0 - 0.7 * gap
    common = {"distributions_used": settings["num_distributions"], "leapfrog_used": 10, "pilot_seconds": 1.0}
    common |= {"acceptance": 0.9, "seconds": settings["num_distributions"] / 200}
    if "images" in settings:
        return {**common, "negative_bounds": list(110 + 20 * images + 0.7 * gaps)}
    bounds = {"lower": lower, "upper": lower + gap, "lower_se": 0.6, "num_crossed": 0}
    return {**common, **bounds, "gaps": list(gaps), "single_gap": 2 * gap, "single_gap_se": 0.1}


def _values(name, settings, rng):
    if name.startswith("omniglot"):
        return _bounds(settings, rng)
    if name == "toy_bdmc":
        return _toy(settings, rng)
    if name == "fig4":
        line = PAPER[min(settings["q"], 1.0), settings["moves"]]
        median, sd = float(line["median_log_evidence"] or -700), float(line["sd"] or 50)
        median -= 300 * (settings["q"] > 1)
        return _smc(median + 0.25 * sd * rng.standard_normal(), 1 - settings["q"])
    if name == "table1":
        scale = 1.0 if settings["schedule"] == "linear" else 0.05
        delta = {"ess": 1e-3, "ess_code": 1e-3, "tuned": 0.0}.get(settings["column"], settings["delta"])
        error = 0.01 * rng.gamma(2.0) if settings["column"] == "tuned" else scale * _error(delta, rng)
        return {**_smc(TRUTHS[settings["dataset"]].log_evidence - error, delta), "spent": 0}
    if name == "atlas":
        names = [f"{q:g}" for q in settings["q"]] + settings["varying"]
        sizes = np.array([{"0.9": 0.5, "0.9:1": 0.25}.get(name, 1.0) for name in names])
        return {"log_evidence": list(-7.0 - 0.1 * sizes * rng.gamma(100.0)), "truth": -7.0, "num_particles": 500}
    if name == "ablation":
        truth = {"toy": 0.0, **{name: truth.log_evidence for name, truth in TRUTHS.items()}}[settings["problem"]]
        size = {"none": 30.0, "q above 1 alone": 90.0, "all": 0.1}.get(settings["variant"], 5.0)
        return {**_smc(truth - size * rng.gamma(4.0), 0.0), "num_particles": 1000}
    values = _smc(-settings["num_data"] / 2 - _error(settings["delta"], rng), settings["delta"])
    exponent = settings["delta"] * settings["num_data"]
    return {**values, "share_lost": 1.0 if exponent > 80 else 0.7 if exponent > 37 else 0.0}


COINS = '''"""Coins, as an experiment of somebody else."""

import time

import jax

from qpaths_paper.harness.experiment import Claim, Experiment, Run, Sheet
from qpaths_paper.harness.judging import yes_or_no


def _run_one(settings, seed):
    time.sleep(settings["pause"])
    return {"share": float(jax.random.uniform(jax.random.key(seed))) * settings["bias"]}


EXPERIMENT = Experiment(
    name="coins",
    title="coins of several biases",
    paper=None,
    duration="1 s",
    about="An experiment that one file adds.",
    settings={"biases": [0.5, 1.0], "pause": 0.0},
    smoke={"biases": [0.5]},
    runs=lambda settings, num_seeds: [
        Run({"bias": bias, "pause": settings["pause"]}, seed)
        for bias in settings["biases"]
        for seed in range(num_seeds)
    ],
    run_one=_run_one,
    claims=lambda rows: [
        Claim("shares are below the bias", "none", "all", yes_or_no(all(r["share"] < r["bias"] for r in rows)))
    ],
    sheets=lambda rows: [Sheet("Shares", ["seed", "share"], [[str(r.seed), str(r["share"])] for r in rows])],
    num_seeds=4,
    smoke_seeds=2,
)
'''


@pytest.fixture
def coins(tmp_path, monkeypatch):
    """A package with one experiment, `coins`, that the registry searches: here and in other processes."""
    package = "experiments_of_" + "".join(c if c.isalnum() else "_" for c in tmp_path.name)
    folder = tmp_path / "mine"
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text("")
    (folder / package / "coins.py").write_text(COINS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("QPATHS_EXPERIMENTS", package)
    return folder / package


@functools.cache
def _rows(name):
    experiment, rng = find(name), np.random.default_rng(1)
    runs = experiment.runs(experiment.settings, min(experiment.num_seeds, 10))
    made = [Row(run.settings, run.seed, _values(name, run.settings, rng)) for run in runs]
    return sorted(made, key=lambda row: (str(row.settings), row.seed))


@pytest.fixture(scope="session")
def synthetic():
    """`synthetic(name)`: the rows of a full sweep of an experiment with noise, in the order of its store."""
    return lambda name: list(_rows(name))


def verdicts(name, rows):
    """The verdict on each statement."""
    return {claim.statement: claim.judgment for claim in find(name).claims(rows)}


def changed(rows, change, **where):
    """The rows with some of them changed."""

    def matches(row):
        return all(row[name] == value for name, value in where.items())

    assert any(map(matches, rows)), where
    return [Row(row.settings, row.seed, {**row.values, **change(row)}) if matches(row) else row for row in rows]


def flipped(name, rows, wrong):
    """The statements whose verdict is another one for the wrong rows."""
    before, after = verdicts(name, rows), verdicts(name, wrong)
    assert set(before) == set(after)
    return [statement for statement, verdict in after.items() if verdict is not before[statement]]


def only(statements, *words):
    """Fail unless each of the statements has its word, and there is no other statement."""
    assert len(statements) == len(words), statements
    for statement, word in zip(sorted(statements), sorted(words), strict=True):
        assert word in statement


@pytest.fixture
def claims():
    """What tests of claims need: `verdicts`, `changed`, `flipped` and `only`."""
    return types.SimpleNamespace(verdicts=verdicts, changed=changed, flipped=flipped, only=only)
