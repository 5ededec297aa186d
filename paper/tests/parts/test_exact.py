"""Exact transitions on the line: draws have the right law, and gaps the right mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qpaths.families.nodes import Nodes
from qpaths_paper.experiments.toy_bdmc import path_of
from qpaths_paper.parts.exact import exact_bounds, invert

NUM = 500
"""Draws at each beta, as in the small version of `toy_bdmc`: a process that runs both compiles one program."""


def test_inverted_draws_follow_the_distribution():
    """At evenly spaced shares of the mass the points are the quantiles, also of Cauchy tails."""
    line = Nodes.line(num=2001, scale=2.0)
    member = path_of("student_t", "geometric", 0.0).target
    mass = jax.nn.softmax(line.log_values(member) + line.log_weights)
    shares = jnp.array([0.001, 0.1, 0.25, 0.5, 0.75, 0.999])
    np.testing.assert_allclose(invert(line, mass, shares), 4 + jnp.tan(jnp.pi * (shares - 0.5)), rtol=2e-4)


@pytest.mark.parametrize(("endpoints", "kind"), [("gaussian", "geometric"), ("student_t", "escort_moment")])
def test_gaps_have_the_mean_that_quadrature_gives(endpoints, kind, key):
    path = path_of(endpoints, kind, 0.0)
    for num in (3, 11):
        runs = [exact_bounds(path, num, NUM, key=one) for one in jax.random.split(key, 8)]
        lower, upper, _, exact_gap = np.mean(runs, axis=0)
        if kind == "geometric":
            np.testing.assert_allclose(exact_gap, 43.333333 / (num - 1), rtol=1e-6)
        gap_se = np.linalg.norm([run.gap_se for run in runs]) / len(runs)
        assert abs(upper - lower - exact_gap) < 5 * gap_se
        # Draws that are one beta behind in both directions give an impossible gap, of the other sign.
        assert lower < 0 < upper


def test_one_program_serves_every_number_and_q(key):
    """Neither q nor the number of distributions recompiles."""
    exact_bounds(path_of("gaussian", "grid", 0.1), 3, NUM, key=key)
    size = exact_bounds._cache_size()
    for delta, num in ((0.0, 5), (0.01, 9), (-1.0, 4)):
        exact_bounds(path_of("gaussian", "grid", delta), num, NUM, key=key)
    assert exact_bounds._cache_size() == size
