"""The search for a recipe of annealed chains: step sizes, schedule, leapfrog steps, momenta, acceptance and q.

Chains of a candidate are run and measured, and what they show improves it.
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import Stream, sigmoid
from ..kernels import HMC, FrozenKernel, LeapfrogParams
from ..recipe import Recipe
from ..rows import layout_of
from ..schedules import FixedSchedule, respace
from .chain_measure import Candidate, Measured, PathOf, Problems, group_ends, measure, smooth

LEAPFROGS = (2, 3, 5, 10)
PERSISTENCES = (0.5, 0.7)
SPREADS = (4.0,)
ACCEPTANCES = (0.8, 0.95)
DELTAS = (1e-3, 4e-3, 1.6e-2)
_ROUGH, _ROUGH_ROUNDS = 64, 6
"""Distributions and rounds with which step sizes and schedule are first found."""
_FEWEST_GRADIENTS = 500


def improve(candidate: Candidate, measured: Measured, gain: float) -> Candidate:
    """Step sizes nearer to the wanted acceptance, a scale for each coordinate, and betas at equal costs.

    The cost of a group of steps is the variance of its log increment, which sees how slowly the chains follow; where
    the forward-reverse discrepancy was measured and exceeds it beyond noise, that counts. (For chains that keep up the
    two are the same, but the variance is known far better.)
    """
    ends = group_ends(candidate.betas.size - 1)
    sizes = np.diff(ends, prepend=-1)
    error = smooth(measured.acceptance, candidate.betas.size - 1) - candidate.target_acceptance
    error = error / np.where(error > 0, 1 - candidate.target_acceptance, candidate.target_acceptance)
    costs = np.where(np.isfinite(measured.variance), measured.variance, np.inf)
    if measured.discrepancy is not None:
        costs = np.maximum(costs, measured.discrepancy - 2 * np.sqrt(2 * costs / measured.num))
    costs = np.minimum(costs, np.max(costs, where=np.isfinite(costs), initial=1e-300))
    betas = respace(candidate.betas, np.repeat(np.sqrt(costs / sizes), sizes))
    # The acceptance at a beta belongs to the step that ends there; the first beta has none of its own.
    old = candidate.kernel.params.step_size
    steps = old * np.exp(gain * np.concatenate([error[:1], error]))
    step_size = np.exp(np.interp(betas, candidate.betas, np.log(steps))).astype(old.dtype)
    params = candidate.kernel.at(betas).params._replace(step_size=step_size)
    if candidate.hmc.preconditioner == "diagonal":
        # Relative to the narrowest coordinate, which bounds the step size: that need not change with the others.
        scale = np.sqrt(measured.spread / np.min(measured.spread, axis=1, keepdims=True))
        scale = np.where(np.isfinite(scale), scale, 1.0)
        scale = [np.interp(betas, candidate.betas[ends + 1], coordinate) for coordinate in scale.T]
        params = params._replace(scale=np.stack(scale, axis=1).astype(old.dtype))
    return candidate.along(betas, FrozenKernel(candidate.hmc, betas, params))


def with_leapfrog(
    candidate: Candidate,
    num_leapfrog: int,
    num_gradients: int,
    persistence: float | None = None,
    spread: float | None = None,
) -> Candidate:
    """The same with another number of leapfrog steps, and as many distributions as the gradients then allow.

    Momenta are kept as before, or by the given share; step sizes spread as before, or by the given factor.
    """
    num = 1 + num_gradients // num_leapfrog
    old = candidate.hmc
    kept = old.persistence if persistence is None else persistence
    factor = old.spread if spread is None else spread
    hmc = HMC(1, num_leapfrog, preconditioner=old.preconditioner, jitter=old.jitter, persistence=kept, spread=factor)
    position = np.linspace(0, candidate.betas.size - 1, num)
    betas = np.interp(position, np.arange(candidate.betas.size), candidate.betas)
    return candidate.along(betas, FrozenKernel(hmc, betas, candidate.kernel.at(betas).params))


def with_q(candidate: Candidate, measured: Measured, delta: float) -> Candidate:
    """The same with another q, at betas where the q-path is about where it was.

    The target's share in the score of a q-path is `sigmoid(logit(beta) + delta r)`, with r the log ratio of target and
    base. The mean of r at each beta of a geometric path is its mean increment there.
    """
    betas, num_steps = candidate.betas, candidate.betas.size - 1
    ratio = measured.increment / np.diff(betas[1 + group_ends(num_steps)], prepend=0.0)
    inner = betas[1:-1]
    ratio = np.interp(inner, betas[1:], smooth(ratio, num_steps))
    shifted = sigmoid(np.log(inner) - np.log1p(-inner) - delta * ratio)
    # The ratio is measured with noise; betas must increase all the same.
    ordered = np.maximum.accumulate(np.concatenate([[0.0], shifted, [1.0]]))
    betas = 0.999 * ordered + 0.001 * np.linspace(0.0, 1.0, ordered.size)
    return candidate.along(betas, FrozenKernel(candidate.hmc, betas, candidate.kernel.params), delta)


class Trial(NamedTuple):
    """A candidate and what its chains did."""

    candidate: Candidate
    measured: Measured


def rounds(problems: Problems, candidate: Candidate, num_rounds: int, stream: Stream) -> Trial:
    """Measure and improve, several times, with smaller and smaller changes; then measure what came out."""
    keys = stream.split(num_rounds + 1)
    for i in range(num_rounds):
        candidate = improve(candidate, measure(problems, candidate, keys[i]), (i + 1) ** -0.5)
    return Trial(candidate, measure(problems, candidate, keys[num_rounds]))


def best_of(trials: list[Trial]) -> Trial:
    """The trial whose log weights fall least short of the log evidence.

    A sampler that does not mix can hide its shortfall: all its chains miss the same mass. It shows where another one
    finds more, so what its estimate of the log evidence lacks beyond noise is added.
    """
    found = [trial.measured.log_evidence for trial in trials]
    most, most_error = max(found)

    def score(index: int) -> float:
        value, error = found[index]
        return trials[index].measured.shortfall + max(0.0, most - value - 2 * math.hypot(error, most_error))

    return trials[min(range(len(trials)), key=score)]


def rough_candidate(path_of: Any, problems: Problems, kernel: HMC) -> Candidate:
    """Return where the search starts when nothing is known: a linear schedule and one step size."""
    layout = layout_of(path_of(jax.tree.map(lambda leaf: leaf[0], problems.data)))
    betas = np.linspace(0.0, 1.0, _ROUGH)
    step_size = np.full(_ROUGH, layout.dimension**-0.25, layout.dtype)
    params = LeapfrogParams(np.ones((_ROUGH, layout.dimension), layout.dtype), step_size)
    path = PathOf(path_of, np.asarray(0.0))
    return Candidate(Recipe(path, FixedSchedule(betas), FrozenKernel(kernel, betas, params)))


class Search(NamedTuple):
    """Candidates: numbers of leapfrog steps; shares of the momentum, spreads and values of 1 - q but the first."""

    leapfrogs: tuple[int, ...] = LEAPFROGS
    persistences: tuple[float, ...] = PERSISTENCES
    spreads: tuple[float, ...] = SPREADS
    deltas: tuple[float, ...] = DELTAS

    def splits(self, num_gradients: int) -> list[int]:
        """Numbers of leapfrog steps that leave a schedule worth the name."""
        return [length for length in self.leapfrogs if num_gradients // length >= 8] or [min(self.leapfrogs)]

    def with_momenta(self, num_gradients: int, num_leapfrog: int) -> list[tuple[int, float]]:
        """Leapfrog steps and shares to try where `num_leapfrog` is best without: momenta that are kept want fewer."""
        splits = self.splits(num_gradients)
        last = max(1, splits.index(num_leapfrog))
        return [(length, share) for length in splits[last - 1 : last + 1] for share in self.persistences]


def _short(num_gradients: int) -> int:
    """Length of the chains on which candidates are compared."""
    return max(num_gradients // 4, min(num_gradients, _FEWEST_GRADIENTS))


def _rough(start: Candidate, short: int, search: Search) -> Candidate:
    """Return where the search starts; chains that are no longer than those of a rough run are tried out as they are."""
    if _num_gradients(start) < short:
        return start
    return with_leapfrog(start, search.splits(short)[-1], short)


def _num_gradients(candidate: Candidate) -> int:
    return (candidate.betas.size - 1) * candidate.hmc.num_leapfrog


def num_pilot_gradients(start: Candidate, num_gradients: int, num_directions: int, search: Search) -> int:
    """Gradients that one chain of `search_chains` makes."""
    short = _short(num_gradients)
    rough = (_ROUGH_ROUNDS + 1) * _num_gradients(_rough(start, short, search))
    splits = search.splits(short)
    kept = search.with_momenta(short, splits[0])
    trials = 2 * (len(splits) + len(kept) + len(search.spreads) + len(ACCEPTANCES)) + 3 * len(search.deltas)
    directions = num_directions if short == num_gradients else 1
    return directions * (rough + trials * short) + 3 * num_directions * num_gradients


def search_chains(problems: Problems, start: Candidate, num_gradients: int, search: Search, stream: Stream) -> Trial:
    """The best recipe found for chains of `num_gradients` gradients.

    One thing is chosen after the other. A rough run gives step sizes and schedule. Shorter runs give leapfrog steps,
    momenta, the spread of the step sizes, acceptance and q. Runs of full length, in both directions where that can be,
    give step sizes and schedule again.
    """
    keys = stream.split(7)
    short = _short(num_gradients)
    # Chains that cannot be shorter run one program, in both directions, throughout.
    trial = problems if short == num_gradients else problems._replace(target_samples=None)
    best = rounds(trial, _rough(start, short, search), _ROUGH_ROUNDS, keys[0])
    splits = [with_leapfrog(best.candidate, length, short) for length in search.splits(short)]
    best = best_of([rounds(trial, candidate, 1, keys[1]) for candidate in splits])
    kept = search.with_momenta(short, best.candidate.hmc.num_leapfrog)
    others = [with_leapfrog(best.candidate, length, short, share) for length, share in kept]
    best = best_of([best, *(rounds(trial, candidate, 1, keys[5]) for candidate in others)])
    length = best.candidate.hmc.num_leapfrog
    others = [with_leapfrog(best.candidate, length, short, spread=spread) for spread in search.spreads]
    best = best_of([best, *(rounds(trial, candidate, 1, keys[6]) for candidate in others)])
    others = [Candidate(best.candidate.recipe, acceptance) for acceptance in ACCEPTANCES]
    best = best_of([best, *(rounds(trial, candidate, 1, keys[2]) for candidate in others)])
    others = [with_q(best.candidate, best.measured, delta) for delta in search.deltas]
    best = best_of([best, *(rounds(trial, candidate, 2, keys[3]) for candidate in others)])
    chosen = with_leapfrog(best.candidate, best.candidate.hmc.num_leapfrog, num_gradients)
    return rounds(problems, chosen, 2, keys[4])
