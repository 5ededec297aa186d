"""Independent runs of SMC with frozen settings, and the one estimate they make together."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Float
from scipy.stats import chi2
from scipy.stats import t as student_t

from ._numerics import log_mean_exp
from ._types import Point, PRNGKey
from .algorithms import SMC
from .densities import evaluate
from .estimators import few_replicas
from .kernels import FrozenKernel
from .paths import AbstractPath
from .results import NumEvaluations, Result, Status
from .schedules import FixedSchedule

NUM_ISLANDS = 8
_UNBALANCED = 0.01
"""Probability of noise below which scores are said not to balance."""
_PROBES = 256
"""Points beyond the draws at which a target without hard bounds must have mass."""
FEW_SURVIVE = 2.0
"""Length of a step that leaves an effective sample size of 2 %."""


class Islands(NamedTuple):
    """What independent runs found; the first axis of every array is the run."""

    log_evidence: Float[np.ndarray, " runs"]
    log_evidence_se: Float[np.ndarray, " runs"]
    samples: Point
    log_weights: Float[np.ndarray, "runs n"]
    stats: dict[str, np.ndarray]

    def __add__(self, other: Any) -> "Islands":
        return jax.tree.map(lambda a, b: np.concatenate([a, b]), self, other)

    @property
    def pooled(self) -> tuple[float, float]:
        """Log of the mean evidence, which is unbiased as each is, and its standard error.

        There are two views of the error: what each run says of itself, and how the runs differ. The larger one counts.
        """
        log_mean = float(log_mean_exp(self.log_evidence))
        relative = np.exp(self.log_evidence - log_mean)
        num = relative.size
        # The median: a single run may report far too much, and all have the same error.
        within = float(np.sqrt(np.median(np.square(self.log_evidence_se)) * np.sum(np.square(relative)))) / num
        between = few_replicas(num) * float(np.std(relative, ddof=1)) / num**0.5
        return log_mean, max(within, between) + self.missing

    @property
    def missing(self) -> float:
        """What a step that hardly any particle survives may have cost, in nats.

        Of n log-normal weights with standard deviation s of their logs the largest reach `s sqrt(2 log n)`, the mass
        lies at `s^2`, and the log of their mean falls short by half the square of the difference over s.
        """
        deviation = np.sqrt(np.nan_to_num(np.mean(self.stats["increment_variance"], axis=0)))
        far = np.maximum(deviation - np.sqrt(2 * np.log(self.log_weights.size)), 0.0)
        lost = np.mean(self.stats["length"], axis=0) > FEW_SURVIVE
        return float(0.5 * np.sum(np.square(far), where=lost))

    @property
    def disagreement(self) -> float:
        """Probability that runs with the errors that they report differ as little as these do."""
        if not np.isfinite(self.log_evidence).all():
            return 1.0
        weights = 1 / np.square(np.maximum(self.log_evidence_se, 1e-12))
        mean = np.sum(weights * self.log_evidence) / np.sum(weights)
        return float(chi2.cdf(np.sum(weights * np.square(self.log_evidence - mean)), self.log_evidence.size - 1))

    def result(
        self, betas: Any, extra_error: float, num_evaluations: NumEvaluations, status: Status, verdict: str
    ) -> Result:
        """All runs as one; `extra_error` is what is known of the error from elsewhere."""
        log_evidence, standard_error = self.pooled
        standard_error = float(np.hypot(standard_error, extra_error))
        total = {"ess", "num_ancestors"}
        stats = {name: (np.sum if name in total else np.mean)(values, axis=0) for name, values in self.stats.items()}
        stats["log_evidence"] = np.asarray(log_mean_exp(self.stats["log_evidence"], axis=0))
        return Result(
            log_evidence=jnp.asarray(log_evidence),
            log_evidence_se=jnp.asarray(standard_error),
            samples=jax.tree.map(lambda leaf: jnp.asarray(leaf.reshape(-1, *leaf.shape[2:])), self.samples),
            log_weights=jnp.asarray(self.log_weights.ravel()),
            betas=jnp.asarray(betas),
            stats=jax.tree.map(jnp.asarray, stats),
            status=jnp.asarray(int(status)),
            num_evaluations=num_evaluations,
            algorithm="Evidence",
            verdict=verdict,
        )


class Balance(NamedTuple):
    """Whether the target's scores balance over the draws, as they do over draws from all of the target."""

    imbalance: float
    """Length of the mean score in units of the draws' own spread, less what noise makes of it."""
    probability: float
    """With which noise alone would make the most conspicuous coordinate of the mean so large."""

    @property
    def error(self) -> float:
        """What it adds to the standard error: nothing unless it is beyond noise.

        Draws of a normal distribution that miss a share p of its mass on one side have a mean score of p to 2 p in such
        units, and put the log evidence off by p or a little more.
        """
        return self.imbalance if self.probability < _UNBALANCED else 0.0


def balance(path: AbstractPath[Any], islands: Islands, num_draws: int) -> Balance:
    """Look at the mean of the target's score over some draws, which is zero for a target without hard bounds (Stein).

    Draws that end where the target does not (before the neck of a funnel, say) leave it open at that end, even if every
    run ends there. The noise is what the means of the islands show; `_less_noise` takes most of it away first.
    """
    num_islands = islands.log_weights.shape[0]
    each = max(1, min(islands.log_weights.shape[1], num_draws // num_islands))
    points = jax.tree.map(lambda leaf: jnp.asarray(leaf[:, :each].reshape(-1, *leaf.shape[2:])), islands.samples)
    rows, scores, outside = (np.asarray(part, float) for part in _scores(path, points))
    if outside.any() or not np.isfinite(scores).all():
        return Balance(0.0, 1.0)
    means = _less_noise(rows, scores).reshape(num_islands, each, -1).mean(axis=1)
    mean, noise = means.mean(axis=0), np.std(means, axis=0, ddof=1) / num_islands**0.5
    tail = 2 * student_t.sf(np.abs(mean) / np.maximum(noise, 1e-300), num_islands - 1)
    spread = np.atleast_2d(np.cov(rows.T))
    imbalance = max(0.0, float(mean @ spread @ mean - np.diag(spread) @ noise**2)) ** 0.5
    return Balance(imbalance, min(1.0, float(np.min(tail)) * tail.size))


def _less_noise(rows: Float[np.ndarray, "n d"], scores: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The scores less what the virials `x_j score_j + 1` explain of them, which have mean zero as well.

    Where the scale of some coordinates depends on another (funnels, hierarchical models) the score of that other is
    mostly the sum of their virials, and what is left of it tells a missing end from a tenth of the draws.
    """
    num, dimension = scores.shape
    if num < 20 * dimension:
        return scores
    virials = (rows - rows.mean(axis=0)) * scores + 1.0
    coefficients = np.linalg.lstsq(virials - virials.mean(axis=0), scores - scores.mean(axis=0), rcond=None)[0]
    return scores - virials @ coefficients


@jax.jit
def _scores(path: AbstractPath[Any], points: Point) -> tuple[Array, Array, Array]:
    """Points as rows, the target's scores there, and at which points beyond them the target has no mass."""
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], points))[1]
    rows = jax.vmap(lambda point: ravel_pytree(point)[0])(points)

    def log_prob(row: Array) -> Array:
        return evaluate(path.target, unravel(row), "target")

    # Differences of draws reach beyond them in every direction in which they spread.
    beyond = rows + 3 * (jnp.roll(rows, 1, axis=0) - jnp.roll(rows, 2, axis=0))
    return rows, jax.vmap(jax.grad(log_prob))(rows), jax.vmap(log_prob)(beyond[:_PROBES]) == -jnp.inf


def run_islands(
    path: AbstractPath[Any], schedule: FixedSchedule, kernel: FrozenKernel, num_particles: int, *, key: PRNGKey
) -> Islands:
    """`NUM_ISLANDS` independent runs of SMC, compiled as one."""
    keys = jax.random.split(key, NUM_ISLANDS)
    runs = _run_all(path, schedule, kernel, num_particles, keys)
    for i, status in enumerate(np.asarray(runs.status)):
        if status in (Status.INVALID_START, Status.INVALID_PROPOSAL):
            SMC(num_particles, schedule, kernel).run(path, key=keys[i])  # raises the fault in words
    log_evidence = jnp.where(runs.status == Status.COLLAPSED, -jnp.inf, runs.log_evidence)
    se = jnp.where(runs.status == Status.COLLAPSED, 0.0, runs.log_evidence_se)
    return Islands(*jax.tree.map(np.asarray, (log_evidence, se, runs.samples, runs.log_weights, runs.stats)))


@functools.partial(jax.jit, static_argnames="num_particles")
def _run_all(
    path: AbstractPath[Any], schedule: FixedSchedule, kernel: FrozenKernel, num_particles: int, keys: Array
) -> Result:
    return jax.vmap(lambda key: SMC(num_particles, schedule, kernel).run(path, key=key))(keys)
