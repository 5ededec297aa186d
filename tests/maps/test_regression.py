"""Regressions of a mean and a log scale: terms that are there are found, and no others."""

import numpy as np

from qpaths.maps.regression import clear_terms, mean_and_log_scale


def neck(num=2000):
    """A coordinate with mean `0.3 b` and scale `exp(2 a)`, and a third column that has nothing to do with it."""
    rng = np.random.default_rng(0)
    before = rng.standard_normal((num, 3))
    own = 0.3 * before[:, 1] + np.exp(2 * before[:, 0]) * rng.standard_normal(num)
    features = np.column_stack([np.ones(num), before])
    return features, own


def test_only_terms_that_are_clear_of_noise_are_kept():
    features, own = neck()
    mean, log_scale = clear_terms(features, features, own)
    np.testing.assert_allclose(mean[1:], [0.0, 0.3, 0.0], atol=0.01)
    np.testing.assert_allclose(log_scale[1:], [2.0, 0.0, 0.0], atol=0.1)
    assert mean[1] == mean[3] == log_scale[2] == log_scale[3] == 0.0
    # Without the choice none of them is zero, and far down the neck each is many scales large.
    every = np.concatenate(mean_and_log_scale(features, features, own, np.ones(len(own))))
    assert (every != 0).all()


def test_a_term_that_is_small_and_clear_stays():
    rng = np.random.default_rng(1)
    features = np.column_stack([np.ones(4000), rng.standard_normal((4000, 2))])
    own = 0.1 * features[:, 2] + np.exp(features[:, 1]) * rng.standard_normal(4000)
    assert abs(clear_terms(features, features, own)[0][2] - 0.1) < 0.02
