"""What `benchmarks/suites/run.py` counts, and that an interrupted suite goes on."""

import numpy as np
import pytest

from benchmarks.suites import runner

pytestmark = pytest.mark.outside


def row(seed, error, se, verdict="sound", truth_se=0.0):
    answer = {"log_evidence": 3.0 + error, "se": se, "verdict": verdict, "findings": []}
    return {"target": "a", "seed": seed, "budget": None, "truth": 3.0, "truth_se": truth_se} | answer


def test_coverage_counts_runs_without_an_answer_as_misses():
    raised = {"target": "a", "seed": 9, "budget": None, "truth": 3.0, "truth_se": 0.0, "raised": "ValueError"}
    nothing = row(3, -np.inf, np.inf, "wrong")
    summary = runner.Summary([row(0, 0.1, 0.1), row(1, 0.3, 0.1), raised, nothing])
    assert summary.num_covered == 1
    assert len(summary.rows) == 4
    assert summary.count("verdict") == "sound (2), raised (1), wrong (1)"


def test_only_sound_runs_far_off_are_confidently_wrong():
    rows = [row(0, 0.5, 0.1), row(1, -0.5, 0.1, "doubtful"), row(2, 0.5, 0.1, truth_se=0.2), row(3, -0.41, 0.1)]
    assert [r["seed"] for r in runner.Summary(rows).confidently_wrong] == [0, 3]


def test_half_a_row_is_left_out_and_run_again(tmp_path):
    file = tmp_path / "rows.jsonl"
    assert runner.read(file) == []
    runner.append(file, row(0, 0.1, 0.1))
    with file.open("a") as stream:
        stream.write('{"target": "a", "se')
    runner.append(file, row(1, 0.1, 0.1))
    assert [runner.key_of(r) for r in runner.read(file)] == [("a", 0, None), ("a", 1, None)]
