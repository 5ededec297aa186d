"""Sequential Monte Carlo for logistic regression, as in the paper: what several experiments run.

Read `run_smc` first. The rows of all these experiments have the values that it returns.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qpaths.algorithms import SMC
from qpaths.annealing import State, anneal
from qpaths.core import PRNGKey, namespace, quiet
from qpaths.densities import DensityLike
from qpaths.kernels import RandomWalk
from qpaths.paths import EndpointValues, QPath
from qpaths.recipe import Recipe
from qpaths.schedules import AbstractSchedule, AdaptiveSchedule, LinearSchedule, next_beta

from ..harness.experiment import Settings
from .datasets import Regression, logistic_regression

SCHEDULES = "linear", "adaptive"
"""Names of the paper's schedules; `schedule_of` makes them."""


def schedule_of(kind: str, num_distributions: int) -> AbstractSchedule:
    """The paper's two schedules: linear, or the next beta where the ESS falls to half."""
    if kind == "linear":
        return LinearSchedule(num_distributions)  # type: ignore[call-arg]
    if kind == "adaptive":
        return AdaptiveSchedule(0.5)
    raise ValueError(f"`schedules` must be among linear, adaptive, got {kind!r}.")


def q_path(base: DensityLike, target: DensityLike, delta: float) -> QPath:
    """The q-path; `delta` is an array, so that one program serves every q, the geometric path included."""
    return QPath(base, target, delta=jnp.asarray(float(delta)))


class ReleasedPath(QPath):
    """The q-path with the first weights of the released code: it learns q at the first step, and weighs it with q = 1.

    Moves at the first beta leave the q-path invariant all the same, so the estimate of the evidence is not unbiased.
    """

    def log_ratio(self, beta: Any, new_beta: Any, features: Any) -> Any:
        ratio = features.log_target - features.log_base
        xp = namespace(ratio)
        return xp.where(beta == 0, new_beta * ratio, super().log_ratio(beta, new_beta, features))


def by_geometric_ess(target_ess: float = 0.5) -> Callable[[State], Any]:
    """The next beta as the released code finds it: by the weights of the geometric path, whatever q is."""

    def choose(state: State) -> Any:
        ratio = state.particles.features.log_target - state.particles.features.log_base
        return next_beta(lambda new: (new - state.beta) * ratio, state.beta, state.log_weights, target_ess)

    return choose


def run_smc(recipe: Recipe, num_particles: int, *, key: PRNGKey, as_released: bool = False) -> dict[str, Any]:
    """One run of SMC with systematic resampling at every step, and what a row keeps of it.

    The kernel is fitted to all particles, those that it moves included, as in the paper. That biases the evidence, and
    where few moves lose the particles anyway the bias happens to lie on the side of the truth. As in the released code,
    particles are not moved at beta = 1, which does not change the estimate. `as_released` takes the next beta of an
    adaptive schedule from the geometric path (`by_geometric_ess`).

    `likelihoods` counts evaluations of the likelihood, a gradient as two. `share_lost` is the share of the particles
    weighted at beta = 1 for which the formula as published has no number (`share_without_number`).
    """
    algorithm = SMC(num_particles, recipe.schedule, recipe.kernel, cross_fit=False, moves_last=False)
    annealing, state = algorithm.begin(recipe.path, key=key)
    geometric = as_released and isinstance(recipe.schedule, AdaptiveSchedule)
    state, stats = anneal(annealing, state, choose=by_geometric_ess() if geometric else None)
    result = algorithm.finish(annealing, state, stats)
    moved = result.stats["acceptance"][:-1]
    return {
        "log_evidence": float(result.log_evidence),
        "log_evidence_se": float(result.log_evidence_se),
        "delta_used": float(recipe.path.delta),
        "num_steps": int(result.betas.shape[0]) - 1,
        "acceptance": float(np.mean(moved)) if moved.size else 1.0,
        "likelihoods": int(result.num_evaluations.total),
        "share_lost": share_without_number(recipe.path, state.particles.features),
    }


def cost_of_particle(recipe: Recipe) -> int:
    """Likelihood evaluations of one particle in `run_smc`, without moves at beta = 1; a gradient counts as two."""
    kernel = recipe.kernel
    return (kernel.start_cost(1) + (recipe.num_steps - 1) * kernel.num_steps * kernel.cost).total


def run_linear(data: Regression, delta: float, settings: Settings, seed: int) -> dict[str, Any]:
    """One run with the linear schedule and random-walk moves, and what a row keeps of it.

    `settings` has `num_distributions`, `moves` and `num_particles`.
    """
    schedule = schedule_of("linear", settings["num_distributions"])
    densities = logistic_regression(data, dtype=np.float32)
    recipe = Recipe(q_path(*densities, delta), schedule, RandomWalk(settings["moves"]))
    return run_smc(recipe, settings["num_particles"], key=jax.random.key(seed))


def share_without_number(path: QPath, features: EndpointValues) -> float:
    """The share of the particles at which the path at beta = 1 is `log 0` when evaluated as the paper writes it.

    In double precision `1 + delta ln_q(w)`, with `delta ln_q(w) = exp(delta log w) - 1`, is 0 as soon as
    `delta log w < -37`. This is where the released runs have no number; qpaths evaluates the path otherwise. `features`
    are the log densities of the endpoints at the particles.
    """
    log_w = features.log_target - features.log_base
    with quiet():
        return float(np.mean(1.0 + (np.exp(float(path.delta) * log_w) - 1.0) == 0.0))
