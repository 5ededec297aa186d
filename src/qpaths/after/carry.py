"""Weighted draws of one density, carried along a path to another one, island by island."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..algorithms import NUM_ISLANDS
from ..annealing import Population, anneal, begin
from ..core import Cost, Point, Stream, log_ess, log_mean_exp, logsumexp, quiet, softmax
from ..densities import DensityLike
from ..remarks import Finding, Remark
from ..resampling import resample
from ..results import Result, Status
from ..rows import Faults, rejecting
from ..schedules import AdaptiveSchedule
from ..stats import jackknife_se, pareto_shape
from .given import Given

_MOST, _FEWEST = 256, 100
"""Draws of an island that are carried on, and the effective sample size of all below which an answer is doubtful."""
_MOST_ERROR, _MOST_SHAPE, _RARE = 0.5, 0.7, 0.4
"""A standard error and a Pareto index beyond which no answer is sound, and an acceptance rate below which none is."""


class Ensemble(NamedTuple):
    """Weighted draws of a density in independent islands.

    Attributes:
        points: Draws, with axes of islands and of draws in front.
        log_weights: Absolute ones: the log of their mean is the estimate of an island of the log evidence.
    """

    points: Point
    log_weights: Float[np.ndarray, "islands n"]

    @staticmethod
    def of(given: Given, result: Result, stream: Stream, most: int = _MOST) -> "Ensemble":
        """Return the draws of a result, at most so many of each island, resampled by their weights if there are more.

        Draws without islands, of a run or a sampler, are cut into as many parts.
        """
        log_weights = np.asarray(result.log_weights, float)
        num = NUM_ISLANDS if result.islands is None else len(result.islands["log_evidence"])
        size = log_weights.size // num
        if size < 4:
            raise ValueError(f"{log_weights.size} draws are too few to be carried on: run it again with more.")
        points = jax.tree.map(
            lambda leaf: np.asarray(leaf)[: num * size].reshape(num, size, *np.shape(leaf)[1:]), given.points(result)
        )
        whole = Ensemble(points, log_weights[: num * size].reshape(num, size))
        return whole if size <= most else whole.resampled(stream, most)

    def resampled(self, stream: Stream, num: int | None = None) -> "Ensemble":
        """Return draws of equal weight within each island."""
        num = num or self.log_weights.shape[1]
        rows = np.array(
            [
                resample("systematic", own, lw, num)
                for own, lw in zip(_split(stream, self), self.log_weights, strict=True)
            ]
        )
        points = jax.tree.map(
            lambda leaf: np.stack([island[chosen] for island, chosen in zip(leaf, rows, strict=True)]), self.points
        )
        return Ensemble(points, np.repeat(log_mean_exp(self.log_weights, axis=1)[:, None], num, axis=1))

    @property
    def flat(self) -> Point:
        """Return all draws without the axis of islands."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.points)

    def reweighted(self, log_ratios: Float[np.ndarray, "islands n"]) -> "Ensemble":
        """Return the same draws with more in their log weights."""
        with quiet():
            added = np.where(log_ratios > -np.inf, self.log_weights + log_ratios, -np.inf)
        return self._replace(log_weights=np.where(np.isnan(added), -np.inf, added))

    @property
    def log_evidences(self) -> Float[np.ndarray, " islands"]:
        """Return the estimate of each island."""
        return np.asarray(log_mean_exp(self.log_weights, axis=1))

    @property
    def error(self) -> float:
        """Return the standard error of the log evidence, from the spread of the islands."""
        return float(jackknife_se(lambda values: logsumexp(values[0]), self.log_evidences[None]))

    @property
    @quiet()
    def shape(self) -> float:
        """Return the Pareto index of the weights within islands, all together."""
        return pareto_shape((self.log_weights - self.log_evidences[:, None]).ravel())

    @property
    def effective(self) -> float:
        """Return how many independent draws the weights leave."""
        return float(np.exp(log_ess(self.log_weights.ravel())))

    def means(self, columns: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
        """Return the weighted mean of each column of the draws, with its standard error from the islands."""
        weights = softmax(self.log_weights.ravel()).reshape(self.log_weights.shape)
        found = {}
        for name, column in columns.items():
            parts = np.stack([np.sum(weights * column.reshape(weights.shape), axis=1), np.sum(weights, axis=1)])
            mean, error = np.sum(parts[0]) / np.sum(parts[1]), jackknife_se(lambda p: p[0].sum() / p[1].sum(), parts)
            found[name] = float(mean), float(error)
        return found


class Carried(NamedTuple):
    """Draws that have arrived, and how it went."""

    ensemble: Ensemble
    cost: Cost
    num_steps: int
    acceptance: float

    def findings(self, error: float) -> list[Remark]:
        """Return what looks unreliable, for an answer with this standard error."""
        found, ensemble = [], self.ensemble
        if not error <= _MOST_ERROR:
            found.append(Finding.LARGE_ERROR(error=error, most=_MOST_ERROR))
        if (index := ensemble.shape) > _MOST_SHAPE:
            found.append(Finding.HEAVY_WEIGHTS(tail_index=index))
        if not (ess := ensemble.effective) >= _FEWEST:
            found.append(Finding.FEW_EFFECTIVE(ess=ess, total=ensemble.log_weights.size, fewest=_FEWEST))
        if self.acceptance < _RARE:
            found.append(Finding.ACCEPTANCE(acceptance=self.acceptance, beta=1.0))
        return found


def log_ratio(before: Ensemble, after: Ensemble) -> tuple[float, float]:
    """Return the log of the ratio of two evidences, from the same islands, with its standard error."""
    return change(before.log_evidences, after.log_evidences)


def change(before: Any, after: Any) -> tuple[float, float]:
    """Return the log of the ratio of the mean evidences of the same islands at two places, with its standard error."""
    pairs = np.stack([after, before])

    def ratio(pairs: Any) -> Any:
        return logsumexp(pairs[0]) - logsumexp(pairs[1])

    return float(ratio(pairs)), float(jackknife_se(ratio, pairs))


def carry(
    given: Given, ensemble: Ensemble, target: DensityLike, stream: Stream, *, ess: float = 0.5, moves: bool = True
) -> Carried:
    """Carry draws of the target of a model to another density, by SMC with as many steps as it takes.

    Args:
        given: The model, whose target has the draws.
        ensemble: Its draws.
        target: Where to go.
        stream: Random numbers.
        ess: What each step leaves of the effective sample size.
        moves: Whether the draws are moved at the end; otherwise they stay weighted.
    """
    path, kernel = given.path_to(target), given.kernel
    _num_islands, num = ensemble.log_weights.shape
    population = Population(cross_fit=True, moves_last=moves)
    arrived, steps, accepted, cost = [], [], [], Cost()
    for island, own in enumerate(_split(stream, ensemble)):
        points = jax.tree.map(lambda leaf: leaf[island], ensemble.points)  # noqa: B023
        with rejecting(Faults()):  # as in the run that the draws come from
            annealing, state = begin(path, AdaptiveSchedule(ess), kernel, population, stream=own, points=points)
            state, stats = anneal(annealing, state._replace(log_weights=ensemble.log_weights[island]))
        steps.append(len(stats["beta"]))
        accepted.append(float(np.nanmean(stats["acceptance"])) if np.isfinite(stats["acceptance"]).any() else 1.0)
        cost += population.cost(kernel, num, steps[-1])
        collapsed = int(state.fault.status) != Status.OK
        log_weights = np.full(num, -np.inf) if collapsed else state.log_offset + state.log_weights
        arrived.append((annealing.evaluator.layout.points(state.particles.position), log_weights))
    found = Ensemble(*jax.tree.map(lambda *leaves: np.stack(leaves), *arrived))
    return Carried(found, cost, int(np.max(steps)), float(np.mean(accepted)))


def _split(stream: Stream, ensemble: Ensemble) -> Any:
    return stream.split(len(ensemble.log_weights))
