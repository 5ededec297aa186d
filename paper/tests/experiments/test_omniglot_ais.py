"""Bounds on real images: wrong rows change the verdicts."""


def test_real_images_judge_the_path_and_the_protocol(synthetic, claims):
    rows = synthetic("omniglot_ais")

    def worse(row):
        return {"negative_bounds": [bound + 40 for bound in row["negative_bounds"]]}

    wrong = claims.changed(rows, worse, column="tuned", q=0.994, num_distributions=500)
    claims.only(claims.flipped("omniglot_ais", rows, wrong), "a better bound than the released protocol")
    wrong = [row if row["q"] == 1 or row["column"] != "released" else claims.changed([row], worse)[0] for row in rows]
    claims.only(claims.flipped("omniglot_ais", rows, wrong), "released protocol, linear, from the prior: the best q")
