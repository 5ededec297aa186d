"""The page of reference log evidences: made from its source, equal to the truths of the benchmarks, complete."""

import json
import runpy
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import densities
from benchmarks.suites.public.targets import PROBLEMS
from benchmarks.suites.references import truths_of
from benchmarks.suites.run import PUBLIC, PUBLISHED

ROOT = Path(__file__).parents[2]
MAKE = runpy.run_path(str(ROOT / "tools" / "make_evidences.py"))
FOUND = MAKE["load"]()
TARGETS = [target for group in FOUND["groups"] for target in group["targets"]]
OURS = {target["benchmark"]: target for target in TARGETS if "benchmark" in target}


def test_the_page_and_the_file_are_current():
    again = "the source changed: run `python tools/make_evidences.py`"
    assert MAKE["PAGE"].read_text() == MAKE["page"](FOUND), again
    assert MAKE["PAGE"].with_suffix(".json").read_text() == MAKE["records"](FOUND), again


SLOW = {"lgcp30", "lgcp40", "eight_schools"}  # large matrices, and a fine grid


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.outside if n in SLOW else ()) for n in OURS])
def test_a_value_is_the_truth_of_the_benchmark(name):
    problem, target = PROBLEMS[name](), OURS[name]
    digit = Decimal(1).scaleb(Decimal(target["log_evidence"]).as_tuple().exponent)
    assert abs(problem.truth - float(target["log_evidence"])) <= float(digit) / 2 * (1 + 1e-9)
    assert problem.truth_se == float(target["standard_error"])


def test_suites_without_models_here_take_their_truths_from_the_source():
    assert truths_of("eprv3")["2a, 1 planets"] == (-386.0839, 0.0035)
    assert truths_of("posteriordb")["eight_schools_noncentered"][0] == pytest.approx(-31.31135, abs=1e-5)


def test_every_public_target_is_on_the_page():
    same = {"seeds_prior": "seeds"}  # another base, the same target
    assert {same.get(name, name) for name in PUBLIC} <= set(OURS)
    with_data = {"pima", "sonar", "credit", "cancer", "ionosphere", "brownian", "seeds", "funnel"}
    for name in with_data & set(densities.PROBLEMS):
        assert densities.PROBLEMS[name](np).truth == pytest.approx(float(OURS[name]["log_evidence"]), abs=1e-9)


def test_published_figures_are_those_of_the_tables():
    for name, figures in PUBLISHED.items():
        listed = [(f["what"].split(",")[0], f["value"]) for f in OURS[name]["published"] if f["source"] == "dds"]
        listed = {what: value for what, value in listed if "(" in value}
        assert {method: f"{mean:g} ({sd:g})" for method, (mean, sd) in figures.items()} == {
            what: "{:g} ({:g})".format(*map(float, value.rstrip(")").split(" ("))) for what, value in listed.items()
        }


def test_every_target_says_how_it_was_obtained_and_names_are_unique():
    names = [target["name"] for target in TARGETS]
    assert len(set(names)) == len(names)
    for target in TARGETS:
        assert target["method"] in FOUND["methods"]
        assert target.get("infinite") or {"log_evidence", "standard_error"} <= target.keys()
        assert all(figure["source"] in FOUND["sources"] for figure in target.get("published", []))
    cited = {figure["source"] for target in TARGETS for figure in target.get("published", [])}
    cited |= {name for name in FOUND["sources"] for group in FOUND["groups"] if f"[{name}]" in group["text"]}
    assert cited == set(FOUND["sources"])
    assert {target["method"] for target in TARGETS} == set(FOUND["methods"])


def test_the_file_can_be_read_by_programs():
    stored = json.loads(MAKE["PAGE"].with_suffix(".json").read_text())
    values = {target["name"]: target.get("log_evidence") for target in stored["targets"]}
    assert values["German credit, flat prior"] - values["German credit, N(0, 10^2)"] > 80
    assert values["Breast cancer, flat prior"] is None


def test_the_flat_prior_of_the_cancer_data_has_no_evidence():
    """A plane separates the labels, so that the likelihood does not fall along a ray."""
    from scipy.optimize import linprog

    table = np.loadtxt(ROOT / "benchmarks" / "suites" / "data" / "breast_cancer.csv", delimiter=",")
    design = np.column_stack([np.ones(len(table)), table[:, :-1] / table[:, :-1].std(axis=0)])
    signed = design * np.where(table[:, -1] == 1, 1.0, -1.0)[:, None]
    found = linprog(np.zeros(signed.shape[1]), A_ub=-signed, b_ub=-np.ones(len(signed)), bounds=(None, None))
    assert found.status == 0
