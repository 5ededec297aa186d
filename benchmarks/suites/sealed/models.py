"""The sealed held-out suite: models that no tuning decision has looked at, and none may look at.

    python -m benchmarks.suites.sealed.models [names]

It takes the place of `fresh/models.py`, whose models have been looked at. No default, threshold, rule or bug fix of
qpaths was chosen by a look at runs on these models, and it must stay so. The models were written, and their truths
computed, before qpaths ran on any of them. `benchmarks/suites/run.py --suite sealed` runs them to report how the
library does on models nobody here has seen. If a run fails here, reproduce the failure on a model that is not in this
file, and fix it there. Never remove or change a model for its result; add new ones instead.

The command does not run qpaths. It computes the truths again, also on a finer grid, and checks each model by two other
routes: importance sampling of the model's own density, prior times likelihood, and the mean likelihood over draws of
the prior. Where a route is hopeless it uses the same model with fewer groups or data. It fails if the finer grid moves
a truth by more than 0.0001, or a check is more than four standard errors off. On a busy machine set
OPENBLAS_NUM_THREADS=1: many small matrices are slow with several threads.
"""

import inspect
import sys
import time

import jax

from benchmarks.suites.held_out.models import by_prior_draws
from benchmarks.suites.problems import Model
from benchmarks.suites.sealed import curves, fields, groups, mixtures
from benchmarks.suites.sealed.checks import by_conditional_draws, by_own_density

TRUTHS = {
    "absences": (-93.01090, 0.0005),
    "sunflowers": (8.71779, 0.0005),
    "copula": (-43.20827, 0.0005),
    "animals": (-45.04393, 0.0005),
    "kink": (-19.78523, 0.0005),
    "doses": (-10.91192, 0.0),
    "visits": (-85.68268, 0.0005),
    "litters": (-39.25111, 0.0005),
    "published": (2.23060, 0.0005),
    "hospitals": (-29.09887, 0.0005),
    "reversion": (-35.91576, 0.0005),
    "field": (-90.71781, 0.0005),
    "wiggles": (-7.79465, 0.0005),
    "lines": (-26.35150, 0.0),
    "compass": (-44.69833, 0.0005),
    "blocks": (-24.05484, 0.0),
}
"""The log evidence, and a bound on the error of quadrature: two grids differ by less than 0.0001."""

FUNCTIONS = {
    "absences": (curves.absences, curves.absences_truth),
    "sunflowers": (curves.sunflowers, curves.sunflowers_truth),
    "copula": (curves.copula, curves.copula_truth),
    "animals": (curves.animals, curves.animals_truth),
    "kink": (curves.kink, curves.kink_truth),
    "doses": (curves.doses, curves.doses_truth),
    "visits": (groups.visits, groups.visits_truth),
    "litters": (groups.litters, groups.litters_truth),
    "published": (groups.published, groups.published_truth),
    "hospitals": (groups.hospitals, groups.hospitals_truth),
    "reversion": (fields.reversion, fields.reversion_truth),
    "field": (fields.field, fields.field_truth),
    "wiggles": (fields.wiggles, fields.wiggles_truth),
    "lines": (mixtures.lines, mixtures.lines_truth),
    "compass": (mixtures.compass, mixtures.compass_truth),
    "blocks": (mixtures.blocks, mixtures.blocks_truth),
}
"""The model, and its log evidence by another route."""

MODELS = {name: lambda name=name: Model(*FUNCTIONS[name][0](), *TRUTHS[name]) for name in FUNCTIONS}

FEWER = {"sunflowers": 2, "visits": 3, "litters": 2, "published": 2, "hospitals": 3, "reversion": 2, "field": 2}
"""So many groups or data for the mean over draws of the prior."""

LATENT = {
    "visits": ("patients", 4_000),
    "litters": ("log_frailties", 10_000),
    "published": ("effects", 10_000),
    "hospitals": ("effects", 10_000),
    "reversion": ("states", 1_000),
    "field": ("field", 20_000),
}
"""The latent values of each group, and the number of draws, for the check by the model's own density."""

SMALLER = {"field": 6}
"""So many cells for that check: given the scales, 60 cells with Student-t noise are too far from normal."""


def check(name):
    """The line to print about a model, and whether all of it agrees."""
    start = time.perf_counter()
    function, quadrature = FUNCTIONS[name]
    value = quadrature()
    text, agrees = f"{name}: {value:.5f}", abs(value - TRUTHS[name][0]) < 0.0001
    if "finer" in inspect.signature(quadrature).parameters:
        finer = quadrature(finer=1.3)
        text += f", on a finer grid {finer:.5f}"
        agrees &= abs(finer - value) < 0.0001

    def own_density(model):
        return by_conditional_draws(model, *LATENT[name]) if name in LATENT else by_own_density(model)

    for route, sizes, sample in (("its own density", SMALLER, own_density), ("prior draws", FEWER, by_prior_draws)):
        size = [sizes[name]] if name in sizes else []
        estimate, error = sample(function(*size))
        against = quadrature(*size)
        text += f"; by {route}{f' of a smaller model ({size[0]})' if size else ''} {estimate:.4f} +- {error:.4f}"
        text += f" against {against:.4f}" if size else ""
        agrees &= abs(estimate - against) < 4 * error
    return f"{text} ({time.perf_counter() - start:.0f} s){'' if agrees else ' DISAGREES'}", agrees


def main():
    all_agree = True
    for name in sys.argv[1:] or FUNCTIONS:
        text, agrees = check(name)
        print(text, flush=True)
        all_agree &= agrees
    sys.exit(not all_agree)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
