"""The harness of `benchmarks/peers`: rows resume, hanging peers are stopped, the page follows from stored rows."""

import json
import sys

import jax
import numpy as np
import pytest

from benchmarks.peers import densities, harness, report, summary
from benchmarks.suites.public import targets

pytestmark = pytest.mark.outside


def _row(peer, problem="funnel", seed=0, effort="default", error=0.1, seconds=10.0, **others):
    found = {"peer": peer, "problem": problem, "seed": seed, "effort": effort, "limit": 60.0, "status": "done"}
    found |= {"log_evidence": error, "truth": 0.0, "truth_se": 0.0, "se": 0.05, "evaluations": 1000}
    found |= {"cpu_seconds": seconds, "import_seconds": 1.0, "versions": {peer: "1"}, "machine": "a machine"}
    return found | {"load": 1.0, "date": "2026-01-01T00:00:00", "python": "3.11"} | others


def test_rows_that_are_there_are_not_run_again(tmp_path):
    file, ran = tmp_path / "rows.jsonl", []

    def run(peer, problem, seed, effort, limit):
        ran.append((peer, problem, seed, effort))
        return _row(peer, problem, seed, effort, status="stopped" if peer == "slow" else "done", reason=None)

    harness.append(file, _row("quick", "funnel", 0))
    with file.open("a") as stream:
        stream.write('{"peer": "quick", "problem": "pi')  # an interrupted batch
    for _ in range(2):
        harness.run_all(["quick", "slow"], ["funnel"], 2, "default", 60, file, run, lambda *_, **__: None)
    harness.run_all(["slow"], ["funnel"], 1, "more", 60, file, run, lambda *_, **__: None)
    # The peer that was stopped runs neither with another seed nor with more effort.
    assert ran == [("slow", "funnel", 0, "default"), ("quick", "funnel", 1, "default")]
    assert len(harness.read(file)) == 3


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("while True: pass", "stopped"),
        ("import time; time.sleep(60)", "stopped"),
        ("raise ValueError('no gradient')", "failed"),
        ("print('{\"log_evidence\": NaN}')", "failed"),
        ("print('noise'); print('{\"log_evidence\": 1.5, \"truth\": 1.0}')", "done"),
    ],
    ids=["busy", "asleep", "raises", "nan", "answers"],
)
def test_a_cold_run_ends_in_a_row(monkeypatch, code, status):
    monkeypatch.setattr(harness, "WALL_PER_CPU", 0.5 if "sleep" in code else 60)
    row = harness.cold_run("a peer", "funnel", 0, "default", 1, [sys.executable, "-S", "-c", code])
    assert row["status"] == status
    assert row["cpu_seconds"] < 3
    assert json.loads(json.dumps(row, allow_nan=False))["peer"] == "a peer"
    if "gradient" in code:
        assert row["reason"] == "ValueError: no gradient"


def test_seconds_are_compared_at_the_smaller_error():
    rows = [_row("qpaths", error=0.1, seconds=5.0), _row("peer", error=0.2, seconds=11.0)]
    cells = summary.cells_of(rows)
    factor, is_bound, _ = summary.best_of(cells, "peer", "funnel")
    # Half the error takes four times the ten seconds after the import.
    assert (factor, is_bound) == (pytest.approx(41 / 5), False)
    rows += [_row("peer", error=0.05, seconds=17.0, effort="more")]
    factor, _, cell = summary.best_of(summary.cells_of(rows), "peer", "funnel")
    assert (factor, cell.effort) == (pytest.approx(17 / 17), "more")
    # A run that is closer than its error bar was lucky.
    rows[-1]["log_evidence"] = 0.001
    assert summary.best_of(summary.cells_of(rows), "peer", "funnel")[0] == pytest.approx(17 / 17)
    rows = [rows[0], _row("peer", status="stopped")]
    assert summary.best_of(summary.cells_of(rows), "peer", "funnel")[:2] == (60 / 5, True)


def test_the_page_says_where_a_peer_is_ahead(tmp_path):
    file, page = tmp_path / "rows.jsonl", tmp_path / "docs" / "peers.md"
    rows = [_row("qpaths", "pima", error=0.1, seconds=5.0), _row("qpaths", "funnel", error=0.1, seconds=5.0)]
    rows += [_row("dynesty", "pima", error=0.1, seconds=2.0), _row("dynesty", "funnel", error=0.3, seconds=50.0)]
    rows += [_row("particles", "funnel", status="failed", reason="ValueError: a | b")]
    rows += [{"peer": "tfp", "status": "not installed", "reason": "ERROR: none", "date": "2026-01-01"}]
    for row in rows:
        harness.append(file, row)
    report.write(file, page, tmp_path / "tables.md")
    text = page.read_text() + (tmp_path / "tables.md").read_text()
    assert "on 1 of 2 problems (wanted: 8 of 10): funnel." in text
    assert "dynesty (default) is ahead on pima: RMS error 0.1000 in 2.0 CPU s" in text
    assert "100% of 2 answers of qpaths are within two error bars. No package has a higher share." in text
    assert "Of 100 pairs of a package and a problem 97 have not been run yet; 0 have more effort too." in text
    assert "failed: ValueError: a / b" in text
    assert "TFP SMC could not be installed: ERROR: none" in text
    assert "| dynesty | default | 2 | 2 | 0 | 0 | 1 of 2 (50%) |" in text
    for name in ("cpu", "evaluations", "coverage"):
        assert (page.parent / "pictures" / f"peers_{name}.svg").stat().st_size > 1000


def test_densities_are_those_of_the_suite():
    for name in ("pima", "funnel", "mixture", "seeds", "credit", "brownian"):
        problem, other = densities.PROBLEMS[name](np), targets.PROBLEMS[densities.TARGETS.get(name, name)]()
        x = problem.from_normal(np.abs(np.random.default_rng(1).standard_normal((2, problem.dimension))))
        expected = jax.jit(jax.vmap(lambda x, other=other: (other.base.log_prob(x), other.target.log_prob(x))))(x)
        np.testing.assert_allclose((problem.log_prior(x), problem.log_target(x)), expected, rtol=2e-4, atol=1e-3)
        assert (problem.truth, problem.truth_se) == (other.truth, other.truth_se)


def test_the_stored_page_is_that_of_the_stored_rows(tmp_path):
    report.write(harness.ROWS, tmp_path / "peers.md", tmp_path / "tables.md")
    again = "rows or words changed: run `python -m benchmarks.peers.run report`"
    assert (tmp_path / "peers.md").read_text() == report.PAGE.read_text(), again
    assert (tmp_path / "tables.md").read_text() == report.TABLES.read_text(), again
