"""Equally weighted draws: resampled by their weights, and moved until copies of a draw are no copies any more."""

import dataclasses
from typing import Any

import jax
import numpy as np

from ..annealing import Population, begin
from ..core import Cost, PRNGKey, Stream, log_ess, one_thread
from ..resampling import resample
from ..results import Result, Status
from ..rows import stream_for
from ..schedules import FixedSchedule
from .given import Given

_MOST_ROUNDS, _ENOUGH = 16, 0.3
"""Rounds of moves, and the correlation of draws with where they began below which they are moved no more."""
_FEWEST = 4
"""Draws of an island below which it does not count for r-hat."""


@dataclasses.dataclass(frozen=True)
class EqualDraws:
    """Equally weighted posterior draws, from `result.draws(num, key=key)`.

    Attributes:
        samples: The draws: variables by name where the model has names, and otherwise points.
        unconstrained: The points on which named variables are functions; otherwise None.
        island: The island that each draw descends from. Islands are independent runs.
        ess: For each number of the variables, how many independent draws these are worth.
        r_hat: For each of them, the spread of all draws over that within islands: 1 where islands agree.
        num_rounds: How often the draws were moved.
        acceptance: Mean acceptance rate of the moves.
        num_evaluations: What the moves cost.
        columns: Each number of the variables as a column, by names such as `theta[2]`.

    Examples:
        >>> import jax, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> result = qp.evidence(path=path, budget=20_000, key=jax.random.key(0))
        >>> draws = result.draws(1000, key=jax.random.key(1))
        >>> draws.samples.shape, bool(draws.r_hat["x"] < 1.05)
        ((1000,), True)
    """

    samples: Any
    unconstrained: Any
    island: np.ndarray
    ess: dict[str, float]
    r_hat: dict[str, float]
    num_rounds: int
    acceptance: float
    num_evaluations: Cost
    columns: dict[str, np.ndarray] = dataclasses.field(repr=False)

    def summary(self) -> str:
        """Return a table: mean, standard deviation, ESS and r-hat of each number."""
        width = max(map(len, self.columns))
        lines = [f"{'':{width}}  {'mean':>10} {'sd':>10} {'ess':>8} {'r_hat':>6}"]
        lines += [
            f"{name:{width}}  {np.mean(x):10.4g} {np.std(x):10.4g} {self.ess[name]:8.0f} {self.r_hat[name]:6.3f}"
            for name, x in self.columns.items()
        ]
        return "\n".join(lines)


def equal_draws(given: Given, result: Result, num: int, key: PRNGKey) -> EqualDraws:
    """Return `num` draws of equal weight: resampled, then moved by the kernel of the run."""
    if isinstance(num, bool) or not isinstance(num, int) or num < 1:
        raise ValueError(f"`num` must be a positive integer, got {num!r}: it counts draws.")
    if int(result.status) == Status.COLLAPSED:
        raise ValueError(
            "`draws` needs samples of the target, but no particle of this run reached it: see the verdict."
        )
    log_weights = np.asarray(result.log_weights, float)
    num_islands = 1 if result.islands is None else len(result.islands["log_evidence"])
    select, moves = stream_for(key, given.path, pilots=True).split(2)
    chosen = np.asarray(resample("systematic", select, log_weights, num))
    island = chosen // (log_weights.size // num_islands)
    all_points = given.points(result)
    points, rounds, acceptance, cost = _moved(given, all_points, log_weights, chosen, moves)
    before = given.columns(jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], all_points))
    after = given.columns(points)
    worth = float(np.exp(log_ess(log_weights)))
    ess = {name: _worth(before[name], column, worth) for name, column in after.items()}
    r_hat = {name: _spread(column, island, num_islands) for name, column in after.items()}
    unconstrained = None if given.model is None else points
    return EqualDraws(given.named(points), unconstrained, island, ess, r_hat, rounds, acceptance, cost, after)


def _moved(given: Given, points: Any, log_weights: np.ndarray, chosen: np.ndarray, stream: Stream) -> Any:
    """Return the chosen draws after rounds of moves, until they hardly remember where they began."""
    path, kernel = given.path, given.kernel
    if given.recipe is not None:
        path, kernel = given.recipe.path, given.recipe.kernel
    population = Population(moves_last=True)
    fit_to, first, fit, rounds = stream.split(4)
    all_points = jax.tree.map(np.asarray, points)
    # A kernel that looks at draws is fitted to the weighted ones, of which those that are moved are some.
    num = len(log_weights)
    few = np.arange(num) if num <= 4096 else np.asarray(resample("systematic", fit_to, log_weights, 4096))
    weights = log_weights if num <= 4096 else np.zeros(len(few))
    settings: Any = FixedSchedule(np.array([0.0, 1.0])), kernel, population
    params = None
    if kernel.needs_fit:
        annealing, state = begin(path, *settings, stream=first, points=_taken(all_points, few))
        state = state._replace(beta=np.asarray(1.0), log_weights=weights)
        params = population.fit(annealing.evaluator, kernel, state, len(few) // 2, fit)
    annealing, state = begin(path, *settings, stream=first, points=_taken(all_points, chosen))
    state = state._replace(beta=np.asarray(1.0))
    if params is None:
        params = population.fit(annealing.evaluator, kernel, state, len(chosen) // 2, fit)
    start, accepted = state.particles.position, []
    with one_thread():
        for number in range(_MOST_ROUNDS):
            state, acceptance = population.move(annealing.evaluator, kernel, state, rounds.fold(number), params)
            accepted.append(float(acceptance))
            if _memory(start, state.particles.position) < _ENOUGH:
                break
    cost = kernel.start_cost(len(chosen)) + len(accepted) * len(chosen) * kernel.num_steps * kernel.cost
    cost += kernel.start_cost(len(few)) + kernel.fit_cost(len(few), False) if kernel.needs_fit else Cost()
    moved = annealing.evaluator.layout.points(state.particles.position)
    return jax.tree.map(np.asarray, moved), len(accepted), float(np.mean(accepted)), cost


def _taken(points: Any, rows: np.ndarray) -> Any:
    return jax.tree.map(lambda leaf: leaf[rows], points)


def _memory(before: np.ndarray, after: np.ndarray) -> float:
    """Return the largest correlation of a coordinate with what it was."""
    found = [abs(_correlation(before[:, j], after[:, j])) for j in range(before.shape[1])]
    return max(found)


def _correlation(before: np.ndarray, after: np.ndarray) -> float:
    spread = np.std(before) * np.std(after)
    return float(np.mean((before - before.mean()) * (after - after.mean())) / spread) if spread > 0 else 0.0


def _worth(before: np.ndarray, after: np.ndarray, worth: float) -> float:
    """Return how many independent draws these are worth.

    Moves leave a share r of what a draw was, so that copies of a draw keep a correlation of r^2. The variance of a mean
    is then `r^2 / worth + (1 - r^2) / num` of that of a draw.
    """
    share = _correlation(before, after) ** 2
    return float(1 / (share / min(worth, len(after)) + (1 - share) / len(after)))


def _spread(column: np.ndarray, island: np.ndarray, num_islands: int) -> float:
    """Return r-hat over islands, from their means and variances; 1 for a single island."""
    groups = [column[island == i] for i in range(num_islands)]
    groups = [group for group in groups if len(group) >= _FEWEST]
    if len(groups) < 2:
        return 1.0
    within = float(np.mean([np.var(group, ddof=1) for group in groups]))
    num = float(np.mean([len(group) for group in groups]))
    between = float(np.var([np.mean(group) for group in groups], ddof=1))
    return float(np.sqrt((within * (num - 1) / num + between) / within)) if within > 0 else 1.0
