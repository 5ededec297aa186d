"""Figure 4: wrong rows change the verdicts."""

import dataclasses

from qpaths_paper.parts.published import TRUTHS


def test_one_run_without_a_number_is_seen(synthetic, claims):
    rows = synthetic("fig4")
    wrong = [dataclasses.replace(rows[0], values={**rows[0].values, "log_evidence": float("nan")}), *rows[1:]]
    assert "every run has a finite log evidence" in claims.flipped("fig4", rows, wrong)


def test_a_geometric_path_that_wins_is_seen(synthetic, claims):
    rows = synthetic("fig4")
    wrong = claims.changed(
        rows, lambda row: {"log_evidence": TRUTHS["pima"].log_evidence - 1e-3 * row.seed}, q=1.0, moves=7
    )
    claims.only(
        claims.flipped("fig4", rows, wrong), "q = 0.99722 has", "q = 0.99722 varies less", "q in [0.9954, 0.9983]"
    )


def test_medians_that_are_not_the_papers_are_seen(synthetic, claims):
    rows = synthetic("fig4")
    wrong = claims.changed(rows, lambda row: {"log_evidence": row["log_evidence"] + 300}, q=0.97846)
    claims.only(claims.flipped("fig4", rows, wrong), "our medians are the paper's")


def test_an_order_above_one_that_helps_is_seen(synthetic, claims):
    rows = synthetic("fig4")
    wrong = claims.changed(rows, lambda row: {"log_evidence": TRUTHS["pima"].log_evidence - 1e-3 * row.seed}, q=1.001)
    claims.only(claims.flipped("fig4", rows, wrong), "no benefit at any number of moves", "no benefit in the mean")


def test_every_order_of_the_range_counts(synthetic, claims):
    rows = synthetic("fig4")
    wrong = claims.changed(rows, lambda row: {"log_evidence": row["log_evidence"] - 500}, q=0.99536, moves=3)
    assert any("q in [0.9954, 0.9983]" in statement for statement in claims.flipped("fig4", rows, wrong))
