"""Targets with a known log evidence, on which `reach.py` and `run.py` run the front door.

Most are those on which samplers of normalizing constants are compared (Heng et al., 2020; Arbel et al., 2021; Vargas et
al., 2023; Blessing et al., 2024). The truths are exact, by quadrature, or by long runs of other programs.
"""

from benchmarks.suites.problems import rotated, shuffled
from benchmarks.suites.public import posteriors, shapes

PROBLEMS = {
    "pima": lambda: posteriors.regression("pima"),
    "sonar": lambda: posteriors.regression("sonar"),
    "sonar_300k": lambda: posteriors.regression("sonar")._replace(wanted=0.02, budget=300_000),
    "sonar_unit": lambda: posteriors.suite_regression("sonar"),
    "credit": lambda: posteriors.suite_regression("credit", prior_scale=None),
    "credit_prior": lambda: posteriors.suite_regression("credit", prior_scale=10.0),
    "cancer": lambda: posteriors.suite_regression("cancer"),
    "cancer_prior": lambda: posteriors.suite_regression("cancer", prior_scale=10.0),
    "ionosphere": lambda: posteriors.suite_regression("ionosphere"),
    "normal50": lambda: shapes.normal(50),
    "normal150": lambda: shapes.normal(150),
    "normal500": lambda: shapes.normal(500),
    "normal2000": lambda: shapes.normal(2000),
    "logistic5000": lambda: shapes.logistic(5000),
    "lgcp30": lambda: posteriors.cox(30),
    "lgcp40": lambda: posteriors.cox(40),
    "lgcp40_white": lambda: posteriors.cox(40, white=True),
    "funnel": shapes.funnel,
    "funnel_rotated": lambda: rotated(shapes.funnel()),
    "funnel_shuffled": lambda: shuffled(shapes.funnel()),
    "funnels": shapes.funnels,
    "funnels_rotated": lambda: rotated(shapes.funnels()),
    "funnels_shuffled": lambda: shuffled(shapes.funnels()),
    "twisted": shapes.twisted,
    "twisted_rotated": lambda: rotated(shapes.twisted()),
    "twisted_shuffled": lambda: shuffled(shapes.twisted()),
    "brownian": posteriors.brownian,
    "seeds": posteriors.seeds,
    "seeds_prior": lambda: posteriors.seeds(from_prior=True),
    "eight_schools": posteriors.eight_schools,
    "hierarchical_logit": posteriors.hierarchical_logit,
    "volatility": posteriors.volatility,
    "manywell": shapes.manywell,
    "manywell64": lambda: shapes.manywell(64),
    "mixture2": lambda: shapes.mixture(2),
    "mixture50": lambda: shapes.mixture(50),
}
