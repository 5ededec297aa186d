"""Independent runs of SMC with frozen settings, and the one estimate they make together."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ._numerics import log_mean_exp
from ._types import Point
from .algorithms import SMC
from .annealing import anneal
from .arrays import stack, to_host
from .estimators import few_replicas
from .evaluation import AbstractEvaluator
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
        from scipy.special import chdtr

        if not np.isfinite(self.log_evidence).all():
            return 1.0
        weights = 1 / np.square(np.maximum(self.log_evidence_se, 1e-12))
        mean = np.sum(weights * self.log_evidence) / np.sum(weights)
        return float(chdtr(self.log_evidence.size - 1, np.sum(weights * np.square(self.log_evidence - mean))))

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
            log_evidence=np.asarray(log_evidence),
            log_evidence_se=np.asarray(standard_error),
            samples=jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.samples),
            log_weights=self.log_weights.ravel(),
            betas=np.asarray(betas),
            stats=stats,
            status=np.asarray(int(status)),
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


def balance(evaluator: AbstractEvaluator, islands: Islands, num_draws: int) -> Balance:
    """Look at the mean of the target's score over some draws, which is zero for a target without hard bounds (Stein).

    Draws that end where the target does not (before the neck of a funnel, say) leave it open at that end, even if every
    run ends there. The noise is what the means of the islands show; `_less_noise` takes most of it away first.
    """
    from scipy.special import stdtr

    num_islands = islands.log_weights.shape[0]
    each = max(1, min(islands.log_weights.shape[1], num_draws // num_islands))
    rows, scores, outside = _scores(evaluator, evaluator.layout.rows(islands.samples)[:, :each])
    if outside.any() or not np.isfinite(scores).all():
        return Balance(0.0, 1.0)
    means = _less_noise(rows, scores).reshape(num_islands, each, -1).mean(axis=1)
    mean, noise = means.mean(axis=0), np.std(means, axis=0, ddof=1) / num_islands**0.5
    tail = 2 * stdtr(num_islands - 1, -np.abs(mean) / np.maximum(noise, 1e-300))
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


def _scores(evaluator: AbstractEvaluator, rows: Any) -> tuple[Any, Any, Any]:
    """Rows of all islands, the target's scores there, and at which points beyond them the target has no mass."""
    rows = np.asarray(rows, float).reshape(-1, rows.shape[-1])
    particles = evaluator.particles(rows, with_slopes=True)
    # Differences of draws reach beyond them in every direction in which they spread.
    beyond = rows + 3 * (np.roll(rows, 1, axis=0) - np.roll(rows, 2, axis=0))
    outside = evaluator.values(beyond[:_PROBES]).log_target
    return rows, *to_host((evaluator.score(1.0, particles), outside == -np.inf))


def run_islands(
    path: AbstractPath[Any], schedule: FixedSchedule, kernel: FrozenKernel, num_particles: int, *, stream: Any
) -> Islands:
    """`NUM_ISLANDS` independent runs of SMC."""
    algorithm = SMC(num_particles, schedule, kernel, moves_last=False)
    return stack([_run_island(algorithm, path, one) for one in stream.split(NUM_ISLANDS)])


def _run_island(algorithm: SMC, path: AbstractPath[Any], stream: Any) -> Islands:
    """One run; where no particle has any weight in the end, what it did until then."""
    annealing, state = algorithm.begin(path, key=stream)
    state, stats = anneal(annealing, state)
    collapsed = int(state.fault.status) == Status.COLLAPSED
    if collapsed:
        num = algorithm.schedule.betas.size - 1 - stats["beta"].size  # type: ignore[attr-defined]
        stats = {name: np.concatenate([rows, np.repeat(rows[-1:], num, axis=0)]) for name, rows in stats.items()}
        state = state._replace(fault=state.fault._replace(status=np.asarray(int(Status.OK))))
    result = to_host(algorithm.finish(annealing, state, stats))
    return Islands(
        np.asarray(-np.inf if collapsed else result.log_evidence),
        np.asarray(0.0 if collapsed else result.log_evidence_se),
        result.samples,
        result.log_weights,
        result.stats,
    )
