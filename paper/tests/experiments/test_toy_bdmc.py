"""Gaps of the toys: wrong rows change the verdicts."""


def test_toy_gaps_that_are_off_are_seen(synthetic, claims):
    rows = synthetic("toy_bdmc")
    # A gap that is 3 % too large, at one number of distributions only.
    wrong = claims.changed(
        rows,
        lambda row: {"gap": 1.03 * row["gap"]},
        endpoints="gaussian",
        path="moment",
        num_distributions=101,
    )
    claims.only(claims.flipped("toy_bdmc", rows, wrong), "measured gaps agree", "moment averaging: the gap is")
    # A q-path that is worse than the geometric one, exactly so and as measured.
    wrong = claims.changed(
        rows,
        lambda row: {"gap": 1.5 * row["gap"], "exact_gap": 1.5 * row["exact_gap"]},
        endpoints="student_t",
        path="grid",
        num_distributions=5,
    )
    claims.only(claims.flipped("toy_bdmc", rows, wrong), "Student-t endpoints: the best q beats geometric")
