"""Gaps on decoder models: wrong rows change the verdicts."""

import dataclasses

import numpy as np

from qpaths_paper.harness.experiment import Judgment, Row


def _of_the_paper(rows):
    return [dataclasses.replace(row, settings={**row.settings, "model": "paper"}) for row in rows]


def _larger(factor):
    return lambda row: {"gaps": [factor * gap for gap in row["gaps"]]}


def test_bounds_that_cross_or_widen_are_seen(synthetic, claims):
    rows = synthetic("omniglot_bdmc")
    wrong = claims.changed(rows, _larger(-1), column="split", q=1.0, num_distributions=100)
    assert any("below the upper bound" in statement for statement in claims.flipped("omniglot_bdmc", rows, wrong))
    wrong = claims.changed(rows, _larger(1.9), column="tuned", num_distributions=1000)
    claims.only(claims.flipped("omniglot_bdmc", rows, wrong))
    wrong = claims.changed(rows, _larger(3), column="tuned", num_distributions=1000)
    claims.only(claims.flipped("omniglot_bdmc", rows, wrong), "more distributions never widen")
    wrong = claims.changed(rows, _larger(2.5), column="released", q=0.996, num_distributions=5000)
    claims.only(claims.flipped("omniglot_bdmc", rows, wrong), "released protocol, from the prior: q = 0.996")


def test_a_best_q_that_only_seems_best_is_seen(synthetic, claims):
    """All q alike: the least of four means is below the geometric one, and yet the verdict is not that it wins."""
    rng = np.random.default_rng(4)
    rows = [
        Row(row.settings, row.seed, {**row.values, "gaps": list(rng.gamma(2.0, 100 / row["num_distributions"], 400))})
        for row in synthetic("omniglot_bdmc")
    ]
    verdicts = claims.verdicts("omniglot_bdmc", rows)
    assert all(verdict is not Judgment.HOLDS for statement, verdict in verdicts.items() if "best q" in statement)


def test_figures_of_the_papers_weights(synthetic, claims):
    rows = synthetic("omniglot_bdmc")
    paper = _of_the_paper(rows)
    added = set(claims.verdicts("omniglot_bdmc", paper)) - set(claims.verdicts("omniglot_bdmc", rows))
    assert len(added) == 6
    released = next(statement for statement in added if "q = 1.0, 100 distributions" in statement)
    assert claims.verdicts("omniglot_bdmc", paper)[released] is Judgment.HOLDS
    wrong = claims.changed(paper, _larger(1.2), column="released", q=1.0, num_distributions=100)
    assert claims.verdicts("omniglot_bdmc", wrong)[released] is Judgment.FAILS


def test_one_image_cannot_tell_what_its_noise_is(synthetic, claims):
    """Neither that bounds are ordered nor that they narrow, however the one gap looks."""
    for sign in (1, -1):
        rows = claims.changed(synthetic("omniglot_bdmc"), lambda row: {"gaps": [sign * row["gaps"][0]]})
        verdicts = claims.verdicts("omniglot_bdmc", rows)
        found = [v for words, v in verdicts.items() if "below the upper bound" in words or "never widen" in words]
        assert found == [Judgment.OPEN, Judgment.OPEN]
