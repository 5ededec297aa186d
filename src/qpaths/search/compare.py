"""Values of q compared by what a sampler achieves with each: runs of SMC, and successive halving."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..algorithms import SMC
from ..annealing import anneal
from ..core import Cost, Stream, check_num
from ..kernels import AbstractKernel
from ..paths import AbstractPath, Ordered
from ..results import Status
from ..schedules import AbstractFixedSchedule, AbstractSchedule, AdaptiveSchedule, FixedSchedule, respace
from ..stats import few_replicas

DELTAS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
"""Values of 1 - q that are worth comparing, half a decade apart."""
_MAX_STEPS = 1000
_LAST_ROUND = 2**31
"""Number of the round of fresh runs, for its random numbers."""


def with_delta(path: AbstractPath[Any], delta: Any) -> AbstractPath[Any]:
    """The path of order 1 - `delta` of the same family; a path without an order as it is."""
    return path.with_delta(delta) if isinstance(path, Ordered) else path


class Contest:
    """Runs of SMC with one kernel along paths of several orders; `cost` is that of all runs so far."""

    def __init__(self, path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int):
        self.path = path
        self.kernel = kernel
        self.num_particles = num_particles
        self.cost = Cost()

    def schedules(
        self, deltas: Float[np.ndarray, " candidates"], schedule: AbstractSchedule | int | None, stream: Stream
    ) -> tuple[Float[np.ndarray, " kept"], Float[np.ndarray, "kept num"]]:
        """The candidates that can be judged, and the betas on which each is; one that does not reach 1 is dropped."""
        if isinstance(schedule, AbstractFixedSchedule):
            return deltas, np.tile(np.asarray(schedule.betas), (len(deltas), 1))
        if isinstance(schedule, int):
            check_num("schedule", schedule)
        target_ess = schedule.target_ess if isinstance(schedule, AdaptiveSchedule) else 0.5
        adaptive = AdaptiveSchedule(target_ess, max_num=_MAX_STEPS)
        # From the same draws for all: what differs then is the path.
        runs = [(float(delta), self._explore(float(delta), adaptive, stream)) for delta in deltas]
        reached = [(delta, stats) for delta, stats in runs if stats is not None]
        if not reached:
            raise RuntimeError(
                f"no adaptive run reached beta = 1 in {_MAX_STEPS} steps for any of the deltas {deltas.tolist()}: take "
                f"more particles, a lower `target_ess`, or a fixed schedule."
            )
        kept = np.array([delta for delta, _ in reached])
        num = schedule if isinstance(schedule, int) else 1 + reached[int(np.argmin(np.abs(kept)))][1]["beta"].size
        return kept, np.stack([respace(np.append(0.0, s["beta"]), s["length"], num) for _, s in reached])

    def _explore(self, delta: float, schedule: AdaptiveSchedule, stream: Stream) -> Any:
        """Betas and lengths of the steps of an adaptive run; None where it does not reach beta = 1."""
        algorithm = SMC(self.num_particles, schedule, self.kernel)
        annealing, state = algorithm.begin(with_delta(self.path, delta), key=stream)
        try:
            state, stats = anneal(annealing, state, record=lambda _, stats: {n: stats[n] for n in ("beta", "length")})
        except RuntimeError:  # too many steps
            self.cost += algorithm.count(_MAX_STEPS)
            return None
        self.cost += algorithm.count(stats["beta"].size)
        return stats if float(state.beta) >= 1 else None

    def run(
        self, deltas: Float[np.ndarray, " runs"], betas: Float[np.ndarray, "runs num"], stream: Stream
    ) -> Float[np.ndarray, " runs"]:
        """Log Z-hat of one run for each of the given deltas and schedules; `-inf` where no particle has weight."""
        values = []
        for number, (delta, own) in enumerate(zip(deltas, betas, strict=True)):
            algorithm = SMC(self.num_particles, FixedSchedule(np.unique(own)), self.kernel)
            annealing, state = algorithm.begin(with_delta(self.path, delta), key=stream.fold(number))
            state, stats = anneal(annealing, state, record=lambda state, _: {"beta": state.beta})
            self.cost += algorithm.count(stats["beta"].size)
            values.append(float(state.log_evidence) if int(state.fault.status) == Status.OK else -np.inf)
        return np.array(values)


class Winner(NamedTuple):
    """The delta that was kept, and by how much its mean log Z-hat exceeds that of the geometric path in fresh runs.

    Without a gain it is the candidate nearest to the geometric path, or that path itself where it reaches the target.
    """

    delta: float
    gain: float
    gain_se: float
    num_dropped: int
    """Candidates that did not reach the target and were not compared."""
    cost: Cost


def compare(
    path: AbstractPath[Any],
    deltas: Float[np.ndarray, " candidates"],
    schedule: AbstractSchedule | int | None,
    kernel: AbstractKernel[Any],
    num_particles: int,
    num_seeds: int,
    *,
    key: Any,
) -> Winner:
    """Successive halving by the mean log Z-hat: every round makes as many runs, shared by half as many candidates.

    The best of many noisy means looks better than it is. So the last round makes fresh runs of the winner and of the
    candidate nearest to the geometric path, and these alone say by how much the winner is better. A candidate whose
    adaptive run does not reach beta = 1 has no schedule and is dropped before the first round.
    """
    draw, judge = key.split(2)
    num_given = len(deltas)
    contest = Contest(path, kernel, num_particles)
    deltas, betas = contest.schedules(deltas, schedule, draw)
    num_dropped = num_given - len(deltas)

    def round_of(indices: list[int], number: int) -> list[float]:
        return contest.run(deltas[indices], betas[indices], judge.fold(number)).tolist()

    num_each = len(deltas) * num_seeds
    best, geometric = _halve(list(range(len(deltas))), int(np.argmin(np.abs(deltas))), num_each, round_of)
    if best == geometric:
        return Winner(float(deltas[best]), 0.0, 0.0, num_dropped, contest.cost)
    fresh = np.reshape(round_of([best, geometric] * max(2, num_each // 2), _LAST_ROUND), (-1, 2))
    gain = float(np.mean(fresh[:, 0]) - np.mean(fresh[:, 1]))
    error = float(np.hypot(_error(fresh[:, 0]), _error(fresh[:, 1])))
    found_no_mass = not np.isfinite(fresh[:, 0]).all()
    if found_no_mass or (deltas[geometric] == 0 and not gain > 2 * error):
        return Winner(float(deltas[geometric]), 0.0, error, num_dropped, contest.cost)
    return Winner(float(deltas[best]), gain, error, num_dropped, contest.cost)


def _halve(alive: list[int], geometric: int, num_each: int, round_of: Callable[..., list[float]]) -> tuple[int, int]:
    """The candidate that comes out best, and the one nearest to the geometric path, which stays to the end."""
    values: dict[int, list[float]] = {i: [] for i in alive}
    ranked, number = alive, 0
    while number == 0 or len(alive) > 3:
        indices = [alive[i % len(alive)] for i in range(num_each)]
        for i, value in zip(indices, round_of(indices, number), strict=True):
            values[i].append(value)
        ranked = sorted(alive, key=lambda i: -np.mean(values[i]))
        kept = ranked[: len(alive) // 2]
        alive = kept if geometric in kept else [*kept, geometric]
        number += 1
    return ranked[0], geometric


def num_runs(num_candidates: int, num_seeds: int) -> int:
    """Runs that `compare` makes, the one for the schedules of each candidate included; an upper bound."""
    rounds = 1 + max(1, math.ceil(math.log2(max(num_candidates, 2) / 2)))
    return num_candidates * (1 + num_seeds * rounds)


def _error(values: Float[np.ndarray, " runs"]) -> float:
    """Standard error of a mean; with few runs, such that two of them cover as often as with many."""
    return few_replicas(values.size) * float(np.std(values, ddof=1)) / values.size**0.5
