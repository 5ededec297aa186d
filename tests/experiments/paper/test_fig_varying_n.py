"""Figure 6: wrong rows change the verdicts."""

from qpaths.experiments.paper.parts.published import delta_grid


def test_the_stable_order_must_rise(synthetic, claims):
    rows = synthetic("fig_varying_n")
    wrong = claims.changed(rows, lambda row: {"share_lost": 0.0}, num_data=768)
    claims.only(claims.flipped("fig_varying_n", rows, wrong), "the smallest q at which the formula")
    wrong = claims.changed(
        rows, lambda row: {"log_evidence": row["log_evidence"] + 200}, num_data=400, delta=delta_grid(20, 1e-4, 1.0)[-1]
    )
    claims.only(claims.flipped("fig_varying_n", rows, wrong), "the best q is a little below 1")
