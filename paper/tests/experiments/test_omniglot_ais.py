"""Bounds on real images: wrong rows change the verdicts."""


def test_real_images_judge_the_path_and_the_protocol(synthetic, claims):
    rows = synthetic("omniglot_ais")

    def worse(row):
        return {"negative_bounds": [bound + 40 for bound in row["negative_bounds"]]}

    wrong = claims.changed(rows, worse, column="tuned", q=0.994, num_distributions=500)
    claims.only(claims.flipped("omniglot_ais", rows, wrong), "a better bound than the released protocol")
    wrong = [row if row["q"] == 1 or row["column"] != "released" else claims.changed([row], worse)[0] for row in rows]
    flipped = claims.flipped("omniglot_ais", rows, wrong)
    claims.only(flipped, "the best q", "q = 0.992", "q = 0.994", "q = 0.996", "q = 0.998")
    # The low end of the range alone, at the largest number: the paper's "even for a large number".
    wrong = claims.changed(rows, worse, column="released", q=0.992, num_distributions=5000)
    claims.only(claims.flipped("omniglot_ais", rows, wrong), "q = 0.992 has a better bound")
