"""Independent runs of SMC with frozen settings, and the one estimate they make together."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float
from scipy.stats import chi2

from ._numerics import log_mean_exp
from ._types import Point, PRNGKey
from .algorithms import SMC
from .estimators import few_replicas
from .kernels import FrozenKernel
from .paths import AbstractPath
from .results import NumEvaluations, Result, Status
from .schedules import FixedSchedule

NUM_ISLANDS = 8
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
        within = float(np.sqrt(np.sum(np.square(relative * self.log_evidence_se)))) / num
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

    def result(self, betas: Any, num_evaluations: NumEvaluations, status: Status, verdict: str) -> Result:
        """All runs as one."""
        log_evidence, standard_error = self.pooled
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
