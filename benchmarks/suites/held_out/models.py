"""The former held-out suite: models that no tuning decision had looked at before its fourth run.

    python -m benchmarks.suites.held_out.models [names]

After the fourth run these models were looked at when the library was improved. `benchmarks/suites/sealed/models.py` is
now the held-out suite. `benchmarks/suites/run.py --suite held-out` still runs these models. Never remove or change a
model for its result; add new ones instead.

The command does not run qpaths. It computes the truths again, and checks each model by another route: the mean
likelihood over draws of the prior. Where this is hopeless it uses the same model with fewer groups.
"""

import sys
import time

import jax
import numpy as np
from scipy.special import logsumexp

from benchmarks.suites.held_out import bounds, curves, groups
from benchmarks.suites.problems import Model

TRUTHS = {
    "conjugate": (-86.58535, 0.0),
    "tumors": (-161.14430, 0.0005),
    "pumps": (-36.57769, 0.0005),
    "random_effects": (-130.90771, 0.0005),
    "gaussian_process": (-21.60176, 0.0005),
    "horseshoe": (-69.31124, 0.0005),
    "ordinal": (-61.43190, 0.0005),
    "two_groups": (-89.59282, 0.0005),
    "robust": (-40.51917, 0.0005),
    "banana": (-12.40223, 0.0005),
    "decay": (25.44211, 0.0005),
    "autoregression": (-85.83413, 0.0005),
    "correlation": (-44.12433, 0.0005),
    "survival": (-38.24311, 0.0005),
    "change_point": (-175.81101, 0.0),
    "multinomial": (-20.70080, 0.0),
    "frequency": (-50.82476, 0.0005),
    "interval": (-34.98020, 0.0005),
}
"""The log evidence, and a bound on the error of quadrature: two grids, where compared, differ by less than 0.0002."""

FUNCTIONS = {
    "conjugate": groups.conjugate,
    "tumors": groups.tumors,
    "pumps": groups.pumps,
    "random_effects": groups.random_effects,
    "gaussian_process": groups.gaussian_process,
    "horseshoe": groups.horseshoe,
    "ordinal": curves.ordinal,
    "two_groups": curves.two_groups,
    "robust": curves.robust,
    "banana": curves.banana,
    "decay": curves.decay,
    "autoregression": curves.autoregression,
    "correlation": curves.correlation,
    "survival": curves.survival,
    "change_point": bounds.change_point,
    "multinomial": bounds.multinomial,
    "frequency": bounds.frequency,
    "interval": bounds.interval,
}

MODELS = {name: lambda name=name: Model(*FUNCTIONS[name](), *TRUTHS[name]) for name in FUNCTIONS}


def grid(name, **axes):
    """Quadrature of the model's own density; with a finer grid where asked."""
    return lambda finer=1.0: curves.on_grid(
        FUNCTIONS[name](), **{axis: (low, high, 1 + round(finer * num)) for axis, (low, high, num) in axes.items()}
    )


def banana_truth(num=4):
    axes = {"along": (-8.0, 8.0, 2001), "across": (-10.0, 20.0, 3001)}
    return num * curves.on_grid(curves.banana(1), **axes)


QUADRATURES = {
    "conjugate": groups.conjugate_truth,
    "tumors": groups.tumors_truth,
    "pumps": groups.pumps_truth,
    "random_effects": groups.random_effects_truth,
    "gaussian_process": groups.gaussian_process_truth,
    "horseshoe": groups.horseshoe_truth,
    "ordinal": grid("ordinal", slope=(-8, 10, 90), threshold=(-8, 8, 100), log_gap=(-5, 4, 60)),
    "two_groups": curves.two_groups_truth,
    "robust": grid("robust", intercept=(-3, 4, 200), slope=(-4, 8, 200), log_scale=(-4, 3, 100)),
    "banana": banana_truth,
    "decay": curves.decay_truth,
    "autoregression": grid("autoregression", first=(-10, 14, 200), second=(-14, 10, 200), log_scale=(-2, 2.5, 100)),
    "correlation": grid("correlation", logit=(-10, 16, 200), log_first=(-3, 3, 150), log_second=(-3, 3, 150)),
    "survival": grid("survival", log_shape=(-4, 4, 150), log_scale=(-8, 8, 200), effect=(-8, 8, 200)),
    "change_point": bounds.change_point_truth,
    "multinomial": bounds.multinomial_truth,
    "frequency": bounds.frequency_truth,
    "interval": bounds.interval_truth,
}

FEWER = {
    "tumors": (groups.tumors, groups.tumors_truth, 3),
    "pumps": (groups.pumps, groups.pumps_truth, 3),
    "random_effects": (groups.random_effects, groups.random_effects_truth, 4),
    "horseshoe": (groups.horseshoe, groups.horseshoe_truth, 1),
    "gaussian_process": (groups.gaussian_process, groups.gaussian_process_truth, 6),
}
"""Smaller models for the check: the model and the quadrature with so many groups."""


def by_prior_draws(model, num_batches=40, batch=50_000):
    """The log of the mean likelihood over draws of the prior, and its standard error."""
    _, log_likelihood, sample_prior = model

    @jax.jit
    def weigh(key):
        return jax.vmap(lambda key: log_likelihood(sample_prior(key)))(jax.random.split(key, batch))

    keys = jax.random.split(jax.random.key(0), num_batches)
    log_weights = np.concatenate([np.asarray(weigh(key)) for key in keys])
    weights = np.exp(log_weights - log_weights.max())
    error = np.std(weights) / weights.mean() / len(weights) ** 0.5
    return float(logsumexp(log_weights) - np.log(len(weights))), float(error)


def main():
    for name in sys.argv[1:] or FUNCTIONS:
        start = time.perf_counter()
        value = QUADRATURES[name]()
        text = f"{name}: {value:.5f}"
        if QUADRATURES[name].__code__.co_varnames[:1] == ("finer",):
            text += f", on a finer grid {QUADRATURES[name](1.3):.5f}"
        model, quadrature, *size = FEWER.get(name, (FUNCTIONS[name], None))
        check = by_prior_draws(model(*size))
        against = quadrature(*size) if quadrature else value
        of = f" of a smaller model ({size[0]})" if size else ""
        text += f"; check{of}: {check[0]:.4f} +- {check[1]:.4f} against {against:.4f}"
        print(f"{text} ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
