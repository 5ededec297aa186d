"""The ablation: a part that can be left out changes the verdict."""

from qpaths_paper.parts.published import TRUTHS


def test_a_part_that_can_be_left_out_is_seen(synthetic, claims):
    rows = synthetic("ablation")
    better = claims.changed(
        rows, lambda row: {"log_evidence": TRUTHS["sonar"].log_evidence}, problem="sonar", variant="all but q"
    )
    claims.only(claims.flipped("ablation", rows, better), "sonar: no part can be left out")


def test_an_order_above_one_that_helps_is_seen(synthetic, claims):
    rows = synthetic("ablation")
    better = claims.changed(
        rows, lambda row: {"log_evidence": TRUTHS["pima"].log_evidence}, problem="pima", variant="q above 1 alone"
    )
    claims.only(claims.flipped("ablation", rows, better), "pima: q > 1 brings no benefit")
