"""Independent runs of SMC with frozen settings, and the one estimate they make together.

Means over their weighted draws that are zero for the target show where draws are wrong. For a target without hard
bounds `E[f . score + div f] = 0` for any smooth f (Stein's identity). With f = 1 and `f = x - c` these are scores and
virials. The particles of a run carry their slopes, so that these means cost no evaluations.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from ..annealing import Annealing, State, anneal
from ..core import (
    AnyArray,
    Cost,
    Point,
    PyTree,
    RealLike,
    Rows,
    Stream,
    StreamRows,
    Vector,
    log_mean_exp,
    logsumexp,
    quiet,
    softmax,
    stack,
    to_host,
)
from ..kernels import AbstractKernel
from ..recipe import Recipe
from ..references import Reference
from ..remarks import Verdict
from ..results import Result, Status
from ..rows import Evaluator, Particles, evaluator_of, together
from ..stats import ErrorParts, few_replicas, pareto_shape
from .smc import SMC

_FEWEST = 20
"""Draws for each dimension, below which virials do not explain scores."""


class Identities(NamedTuple):
    """Weighted means of runs, one row for each; empty rows where the kernel has no slopes."""

    scores: Float[np.ndarray, "runs d"]
    virials: Float[np.ndarray, "runs d"]
    controlled: Float[np.ndarray, "runs d"]
    """Means of the scores less what the virials of another run's draws explain of them."""
    variances: Float[np.ndarray, "runs d"]
    """Variances of the coordinates."""


class Control(NamedTuple):
    """A center for the virials, and how much of them explains the scores."""

    center: Float[np.ndarray, " d"]
    coefficients: Float[np.ndarray, "d d"]

    @staticmethod
    @quiet()
    def of(annealing: Annealing, state: State) -> "Control | None":
        """From the draws of one run, to be used for others; None where the kernel has no slopes.

        In funnels and hierarchical models the scale of some coordinates depends on another coordinate. The score of
        that coordinate is mostly a sum of virials. What is left of it shows a missing end of the target far better.
        """
        if state.particles.slopes is None:
            return None
        return Control.from_draws(*_draws(annealing, state))

    @staticmethod
    def from_draws(rows: Rows, scores: Rows, weights: Vector) -> "Control":
        """From weighted draws and their scores. The center is the median: the mean of heavy tails may be far off."""
        center = _median(rows, weights)
        num, dimension = rows.shape
        if num < _FEWEST * dimension or not np.isfinite(scores).all():
            return Control(center, np.zeros((dimension, dimension)))
        virials, root = (rows - center) * scores + 1.0, np.sqrt(weights)[:, None]
        explained, wanted = root * (virials - weights @ virials), root * (scores - weights @ scores)
        return Control(center, np.linalg.lstsq(explained, wanted, rcond=None)[0])

    def means(self, rows: Rows, scores: Rows, weights: Vector) -> Identities:
        """The means of one run."""
        away = rows - self.center
        score, virial = weights @ scores, weights @ (away * scores + 1.0)
        variance = weights @ away**2 - (weights @ away) ** 2
        return Identities(score, virial, score - virial @ self.coefficients, variance)


def _median(rows: Rows, weights: Vector) -> Float[np.ndarray, " d"]:
    """Return that of each coordinate of weighted draws."""
    order = np.argsort(rows, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    first = np.argmax(cumulative >= 0.5 * cumulative[-1], axis=0)
    return np.take_along_axis(rows, np.take_along_axis(order, first[None], axis=0), axis=0)[0]


@quiet()
def identities(annealing: Annealing, state: State, control: Control | None) -> Identities:
    """The means of a run at its end."""
    if control is None:
        return Identities(*(np.zeros(0) for _ in Identities._fields))
    return control.means(*_draws(annealing, state))


def _draws(annealing: Annealing, state: State) -> tuple[Rows, Rows, Vector]:
    """Positions that have weight, the target's scores there, and the weights."""
    weights: Vector = softmax(state.log_weights)
    used, evaluator = weights > 0, annealing.evaluator
    particles = jax.tree.map(lambda leaf: leaf[used], state.particles)
    rows, scores = evaluator.in_points(particles.position, evaluator.score(1.0, particles))
    return np.asarray(rows, float), np.asarray(scores, float), weights[used]


NUM_ISLANDS = 8
"""Independent runs of a batch: few replicates, whose spread still tells the standard error (`few_replicas`)."""
_NUM_SCORED = 256
"""Draws of an island at which gradients are evaluated for checks alone, where no move needs them."""
FEW_SURVIVE = 2.0
"""Length of a step that leaves an effective sample size of 2 %."""
_HEAVY_ALONE, _HEAVY_MOVED = 1.0, 0.5
"""Tail index from which the largest weights that nobody drew matter: of draws that only get weights, which the share of
the base in a reference bounds, and of particles that are moved, which lose such a tail in every step."""


_MOST_VARIANCE = 500.0
"""Largest variance of log evidences, so that its exponential is a number."""


class Islands(NamedTuple):
    """Findings of independent runs; the first axis of every array is the run."""

    log_evidence: Float[np.ndarray, " runs"]
    log_evidence_se: Float[np.ndarray, " runs"]
    samples: Point
    log_weights: Float[np.ndarray, "runs n"]
    stats: Any
    """Those of a result, with an axis of runs in front."""
    identities: Identities

    def __add__(self, other: Any) -> "Islands":
        return jax.tree.map(lambda a, b: np.concatenate([a, b]), self, other)

    @property
    def parts(self) -> ErrorParts:
        """Return the parts of the standard error that the runs themselves show.

        The spread of n runs saturates at `sqrt(n)` where one of them is most of the mean, and then says little. So it
        is at least the spread of n log-normal estimates whose logs differ as these do.
        """
        relative = np.exp(self.log_evidence - float(log_mean_exp(self.log_evidence)))
        num = relative.size
        # The median: a single run may report far too much, and all have the same error.
        within = float(np.sqrt(np.median(np.square(self.log_evidence_se)) * np.sum(np.square(relative)))) / num
        implied = math.log1p(math.expm1(min(self.deviation**2, _MOST_VARIANCE)) / num) ** 0.5
        between = few_replicas(num) * max(float(np.std(relative, ddof=1)) / num**0.5, implied)
        return ErrorParts(within, between, self.missing, self.unseen, self.lag[0])

    @property
    def pooled(self) -> tuple[float, float]:
        """Log of the mean evidence, which is unbiased as each is, and the standard error that the runs show."""
        return float(log_mean_exp(self.log_evidence)), self.parts.pooled

    @property
    def lag(self) -> tuple[float, float]:
        """Return by how many nats the particles of all runs lag behind the path, and the standard error of that."""
        lags = self.stats["log_evidence_lag"][:, -1]
        return float(np.mean(lags)), float(np.std(lags)) / lags.size**0.5

    @property
    def deviation(self) -> float:
        """Standard deviation of the runs' log evidences, of those that found any mass."""
        found = self.log_evidence[np.isfinite(self.log_evidence)]
        return float(np.std(found, ddof=1)) if found.size > 1 else 0.0

    @property
    def missing(self) -> float:
        """Return what a step that hardly any particle survives may have cost, in nats.

        Take n log-normal weights whose logs have standard deviation s. The largest reach `s sqrt(2 log n)`, and the
        mass lies at `s^2`. The log of their mean falls short by half the square of the difference over s.
        """
        deviation = np.sqrt(np.nan_to_num(np.mean(self.stats["increment_variance"], axis=0)))
        far = np.maximum(deviation - np.sqrt(2 * np.log(self.log_weights.size)), 0.0)
        lost = np.mean(self.stats["length"], axis=0) > FEW_SURVIVE
        return float(0.5 * np.sum(np.square(far), where=lost))

    @property
    def tail_index(self) -> float:
        """Return the tail index of the weights in the end, of all runs together."""
        return pareto_shape((self.log_weights - log_mean_exp(self.log_weights, axis=1)[:, None]).ravel())

    @property
    def unseen(self) -> float:
        """Return what mass beyond the largest weight adds to the standard error, in nats.

        Of draws that only get weights, a share of about `k w / (1 - k)` lies beyond the largest weight w if their tail
        is that of a Pareto distribution with index k. A typical run misses it. Half of it is added, so that two
        standard errors reach so far. Beyond an index of 1 the mean is not to be trusted at all. Of particles that are
        moved it is `n^(k - 1)` of those of one run in each of its steps, where the tail is heavy.
        """
        num_steps, index = self.stats["length"].shape[1], self.tail_index
        if num_steps > 1:
            return float(num_steps * self.log_weights.shape[1] ** min(index - 1, 0.0)) if self.is_heavy else 0.0
        largest = float(np.exp(np.max(self.log_weights) - logsumexp(self.log_weights.ravel())))
        return 1.0 if self.is_heavy else float(np.clip(0.5 * largest * index / max(1 - index, 1e-9), 0.0, 1.0))

    @property
    def is_heavy(self) -> bool:
        """True if the tail of the weights is too heavy for the mean to be trusted."""
        return self.tail_index > (_HEAVY_ALONE if self.stats["length"].shape[1] == 1 else _HEAVY_MOVED)

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
        self, betas: AnyArray, parts: ErrorParts, num_evaluations: Cost, status: Status, verdict: Verdict
    ) -> Result:
        """Return all runs as one, with a standard error of these parts."""
        total = {"ess", "num_ancestors"}
        stats: Any = {
            name: (np.sum if name in total else np.mean)(values, axis=0) for name, values in self.stats.items()
        }
        stats["log_evidence"] = np.asarray(log_mean_exp(self.stats["log_evidence"], axis=0))
        return Result(
            log_evidence=np.asarray(self.pooled[0]),
            log_evidence_se=np.asarray(parts.total),
            samples=jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.samples),
            log_weights=self.log_weights.ravel(),
            betas=np.asarray(betas),
            stats=stats,
            status=np.asarray(int(status)),
            num_evaluations=num_evaluations,
            algorithm="Evidence",
            verdict=verdict,
            islands={"log_evidence": self.log_evidence, "log_evidence_se": self.log_evidence_se},
            error_parts=parts._asdict(),
        )


def run_islands(recipe: Recipe, num_particles: int, *, stream: Stream, num: int = NUM_ISLANDS) -> Islands:
    """`num` independent runs of SMC; fewer are the first of more."""
    algorithm, path = _smc(recipe, num_particles), recipe.path
    if recipe.num_steps == 1 and isinstance(path.base, Reference):
        path = eqx.tree_at(lambda p: p.base, path, dataclasses.replace(path.base, is_mapped=False))
    scored = None
    if recipe.num_steps == 1 and recipe.kernel.with_slopes:
        scored = evaluator_of(path, stream, with_slopes=True)

    def run(one: Stream) -> tuple[Any, ...]:
        annealing, state = algorithm.begin(path, key=one)
        state, stats = anneal(annealing, state)
        return annealing, state, stats, state if scored is None else _scored(scored, state)

    runs = together(run, stream.split(num))
    annealing, _, _, end = runs[0]
    control = Control.of(annealing, end)
    islands = [
        _island(algorithm, annealing, state, stats, identities(annealing, end, control))
        for annealing, state, stats, end in runs
    ]
    return stack(islands)


def cost_of_islands(recipe: Recipe, num_particles: int, num: int = NUM_ISLANDS) -> Cost:
    """Return what a call of `run_islands` costs."""
    cost = _smc(recipe, num_particles).count(recipe.num_steps)
    if recipe.num_steps == 1 and recipe.kernel.with_slopes:
        cost += Cost.gradients(min(num_particles, _NUM_SCORED))
    return num * cost


def _smc(recipe: Recipe, num_particles: int) -> SMC:
    """The run of one island. Weights take the last step, because moves there would not change the evidence."""
    kernel = recipe.kernel if recipe.num_steps > 1 else _Still()
    return SMC(num_particles, recipe.schedule, kernel, moves_last=False)


class _Still(AbstractKernel[None]):
    """The kernel of draws that only get weights: nothing is moved, and no gradient is needed."""

    num_steps: int = eqx.field(static=True, default=1)

    with_slopes = False
    needs_fit = False
    cost = Cost()

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> None:
        return None

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: None
    ) -> Any:
        raise NotImplementedError("nothing moves in a single step")


def _scored(evaluator: Evaluator, state: State) -> State:
    """The first of the draws with the target's gradient, for the checks."""
    particles = evaluator.particles(state.particles.position[:_NUM_SCORED], with_slopes=True)
    return state._replace(particles=particles, log_weights=state.log_weights[:_NUM_SCORED])


def _island(algorithm: SMC, annealing: Annealing, state: State, stats: PyTree, means: Identities) -> Islands:
    """Return what one run found; where no particle has any weight in the end, what it did until then."""
    collapsed = int(state.fault.status) == Status.COLLAPSED
    if collapsed:
        num = annealing.num_stages - stats["beta"].size
        stats = {name: np.concatenate([rows, np.repeat(rows[-1:], num, axis=0)]) for name, rows in stats.items()}
        state = state._replace(fault=state.fault._replace(status=np.asarray(int(Status.OK))))
    result = to_host(algorithm.finish(annealing, state, stats))
    return Islands(
        np.asarray(-np.inf if collapsed else result.log_evidence),
        np.asarray(0.0 if collapsed else result.log_evidence_se),
        result.samples,
        result.log_weights,
        result.stats,
        means,
    )
