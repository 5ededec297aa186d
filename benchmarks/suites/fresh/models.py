"""The second former held-out suite: models that no tuning decision had looked at before they were first run.

    python -m benchmarks.suites.fresh.models [names]

These models have been looked at: runs on them failed, and these failures led to changes of the library. So they no
longer show how qpaths does on models nobody here has seen; `benchmarks/suites/sealed/models.py` is now the held-out
suite. `benchmarks/suites/run.py --suite fresh` still runs these models. Never remove or change a model for its result;
add new ones instead.

The command does not run qpaths. It computes the truths again, also on a finer grid, and checks each model by two other
routes: the mean likelihood over draws of the prior, and importance sampling of the model's own density, prior times
likelihood. Where this is hopeless it uses the same model with fewer groups.
"""

import inspect
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import gammaln, logsumexp

from benchmarks.suites.fresh import latent, regressions, series, shapes
from benchmarks.suites.held_out.models import by_prior_draws
from benchmarks.suites.problems import Model

TRUTHS = {
    "correlated": (-116.89975, 0.0005),
    "lasso": (-96.25529, 0.0005),
    "spike": (-62.14007, 0.0),
    "plates": (-72.65425, 0.0005),
    "separation": (-3.53665, 0.0005),
    "abilities": (-173.12218, 0.0005),
    "blurred": (-79.84499, 0.0005),
    "factor": (-94.99037, 0.0005),
    "nile": (-146.73736, 0.0005),
    "hidden": (-127.55374, 0.0005),
    "triangle": (-215.76767, 0.0005),
    "kinetics": (-30.35029, 0.0005),
    "rings": (4.16085, 0.0005),
    "clusters": (-63.40796, 0.0),
    "directions": (-22.99537, 0.0005),
    "distant": (-14.73765, 0.0),
}
"""The log evidence, and a bound on the error of quadrature: two grids differ by less than 0.0001."""

FUNCTIONS = {
    "correlated": (regressions.correlated, regressions.correlated_truth),
    "lasso": (regressions.lasso, regressions.lasso_truth),
    "spike": (regressions.spike, regressions.spike_truth),
    "plates": (regressions.plates, regressions.plates_truth),
    "separation": (regressions.separation, regressions.separation_truth),
    "abilities": (latent.abilities, latent.abilities_truth),
    "blurred": (latent.blurred, latent.blurred_truth),
    "factor": (latent.factor, latent.factor_truth),
    "nile": (series.nile, series.nile_truth),
    "hidden": (series.hidden, series.hidden_truth),
    "triangle": (series.triangle, series.triangle_truth),
    "kinetics": (shapes.kinetics, shapes.kinetics_truth),
    "rings": (shapes.rings, shapes.rings_truth),
    "clusters": (shapes.clusters, shapes.clusters_truth),
    "directions": (shapes.directions, shapes.directions_truth),
    "distant": (shapes.distant, shapes.distant_truth),
}
"""The model, and its log evidence by another route."""

MODELS = {name: lambda name=name: Model(*FUNCTIONS[name][0](), *TRUTHS[name]) for name in FUNCTIONS}

FEWER = {"correlated": 2, "lasso": 2, "spike": 2, "plates": 1, "abilities": 2, "blurred": 1, "factor": 2, "nile": 3}
FEWER |= {"rings": 1}
"""So many groups for the check by sampling."""


def by_own_density(model, num=200_000, rounds=6, freedom=3.0):
    """The log integral of prior times likelihood by importance sampling, and its standard error.

    The proposal is a Student-t distribution with the mean and covariance that the round before has found.
    """
    log_prior, log_likelihood, sample_prior = model
    draws = jax.vmap(sample_prior)(jax.random.split(jax.random.key(1), num))
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], draws))[1]
    points = jax.vmap(lambda x: ravel_pytree(x)[0])(draws)
    log_weights = jax.vmap(log_likelihood)(draws)
    log_joint = jax.jit(jax.vmap(lambda point: log_prior(unravel(point)) + log_likelihood(unravel(point))))
    rng, size = np.random.default_rng(0), points.shape[1]
    constant = gammaln((freedom + size) / 2) - gammaln(freedom / 2) - 0.5 * size * np.log(freedom * np.pi)
    for _ in range(rounds):
        weights = np.exp(np.asarray(log_weights - jnp.max(log_weights)))
        mean = np.average(points, axis=0, weights=weights)
        factor = np.linalg.cholesky(np.cov(np.asarray(points).T, aweights=weights).reshape(size, size))
        white = rng.standard_normal((num, size)) / np.sqrt(rng.chisquare(freedom, (num, 1)) / freedom)
        points = mean + white @ factor.T
        log_t = constant - 0.5 * (freedom + size) * np.log1p(np.sum(white**2, axis=1) / freedom)
        log_weights = log_joint(points) - log_t + np.sum(np.log(np.diag(factor)))
    log_weights = np.asarray(log_weights)
    weights = np.exp(log_weights - log_weights.max())
    return float(logsumexp(log_weights) - np.log(num)), float(np.std(weights) / weights.mean() / num**0.5)


def main():
    for name in sys.argv[1:] or FUNCTIONS:
        start = time.perf_counter()
        function, quadrature = FUNCTIONS[name]
        value = quadrature()
        text = f"{name}: {value:.5f}"
        if "finer" in inspect.signature(quadrature).parameters:
            text += f", on a finer grid {quadrature(finer=1.3):.5f}"
        size = [FEWER[name]] if name in FEWER else []
        against = quadrature(*size) if size else value
        of = f" of a smaller model ({size[0]})" if size else ""
        checks = [by_prior_draws(function(*size))]
        if name != "separation":  # The quadrature is of its own density; the posterior has no mean.
            checks.append(by_own_density(function(*size)))
        text += f"; checks{of}: {' and '.join('{:.4f} +- {:.4f}'.format(*check) for check in checks)}"
        print(f"{text} against {against:.4f} ({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
