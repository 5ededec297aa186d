"""Figure 6: wrong rows change the verdicts."""

from qpaths_paper.parts.published import delta_grid


def test_the_stable_order_must_rise(synthetic, claims):
    rows = synthetic("fig_varying_n")
    wrong = claims.changed(rows, lambda row: {"share_lost": 0.0}, num_data=768)
    claims.only(claims.flipped("fig_varying_n", rows, wrong), "stable: no run", "stable: the formula")
    wrong = claims.changed(
        rows, lambda row: {"log_evidence": row["log_evidence"] + 200}, num_data=400, delta=delta_grid(20, 1e-4, 1.0)[-1]
    )
    claims.only(claims.flipped("fig_varying_n", rows, wrong), "the best q is a little below 1")


def test_the_two_readings_of_stable_are_judged_apart(synthetic, claims):
    """Runs that lose most particles but not all have a number: the notebook's rule does not see them."""
    rows = synthetic("fig_varying_n")
    wrong = claims.changed(rows, lambda row: {"share_lost": 0.9 * (row["delta"] > 0)}, num_data=50)
    claims.only(claims.flipped("fig_varying_n", rows, wrong), "stable: the formula has a number at most particles")
