"""Chains of a fixed length, run once with a candidate for their recipe and measured."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..algorithms import AIS, BDMC, REVERSE, at_bases, at_targets, raise_fault, run_many
from ..annealing import State, anneal_groups
from ..core import Point, Stream, log_mean_exp, namespace, to_host
from ..densities import as_pytree
from ..kernels import HMC, FrozenKernel, shared
from ..paths import AbstractPath, Ordered
from ..recipe import Recipe
from ..rows import AtMost, in_pieces
from ..schedules import FixedSchedule, padded
from .compare import with_delta

_CHAINS = 8
"""Chains of each problem in a pilot."""
_GROUPS = 25
"""Groups of neighboring steps that are looked at together: each of many short steps is mostly noise."""


class PathOf(eqx.Module):
    """Makes the path of one of many problems; with order 1 - `delta` where the path has one."""

    path_of: Any
    delta: Any

    def __call__(self, problem: Any) -> AbstractPath[Any]:
        return with_delta(self.path_of(problem), self.delta)


class Candidate(eqx.Module):
    """A recipe of HMC chains whose path is a `PathOf`, and the acceptance rate that its step sizes aim at."""

    recipe: Recipe
    target_acceptance: float = eqx.field(static=True, default=0.9)

    @staticmethod
    def of(recipe: Recipe) -> "Candidate":
        """That of a recipe for a single problem, with the kernel's parameters at the betas of the schedule."""
        delta = np.asarray(recipe.path.delta if isinstance(recipe.path, Ordered) else 0.0)
        kernel = recipe.kernel.at(recipe.betas)  # type: ignore[attr-defined]
        return Candidate(Recipe(PathOf(lambda _: recipe.path, delta), recipe.schedule, kernel))

    @property
    def delta(self) -> Any:
        return self.recipe.path.delta

    @property
    def betas(self) -> Float[np.ndarray, " num"]:
        return self.recipe.betas

    @property
    def kernel(self) -> FrozenKernel:
        return self.recipe.kernel  # type: ignore[return-value]

    @property
    def hmc(self) -> HMC:
        """The kernel without its parameters."""
        return self.kernel.kernel  # type: ignore[return-value]

    def path_of_first(self, data: Any) -> AbstractPath[Any]:
        """The path of the first of some problems."""
        return self.recipe.path(jax.tree.map(lambda leaf: leaf[0], data))

    def along(self, betas: Any, kernel: FrozenKernel, delta: Any = None) -> "Candidate":
        """The same with other betas, kernel and perhaps q."""
        path = self.recipe.path if delta is None else PathOf(self.recipe.path.path_of, np.asarray(delta))
        return Candidate(Recipe(path, FixedSchedule(betas), kernel), self.target_acceptance)


class Measured(NamedTuple):
    """Hold what chains with a candidate did, averaged over the problems; chains are the last axis of the weights."""

    log_weights: Float[np.ndarray, "problems chains"]
    acceptance: Float[np.ndarray, " groups"]
    """Mean acceptance rate in each group of neighboring steps."""
    increment: Float[np.ndarray, " groups"]
    """Mean log increment of the weights over each group."""
    variance: Float[np.ndarray, " groups"]
    """Variance of the log increment of each group, over the chains of a problem."""
    spread: Float[np.ndarray, "groups d"]
    """Variance of each coordinate over the chains of a problem, at the end of each group."""
    discrepancy: Float[np.ndarray, " groups"] | None
    """Forward-reverse discrepancy of each group, where there are exact draws from the targets; they sum to the gap."""

    @property
    def num(self) -> int:
        """Chains in all."""
        return self.log_weights.size

    @property
    def shortfall(self) -> float:
        """Return how far the mean log weight stays below the log evidence, by the spread of a problem's chains."""
        return float(np.mean(np.asarray(log_mean_exp(self.log_weights)) - np.mean(self.log_weights, axis=1)))

    @property
    def log_evidence(self) -> tuple[float, float]:
        """Mean over the problems of the many-chain bound, and the standard error of what the chains add to it."""
        best = np.asarray(log_mean_exp(self.log_weights))
        spread = np.var(self.log_weights, axis=1, ddof=1) / self.log_weights.shape[1]
        return float(np.mean(best)), float(np.sqrt(np.mean(np.minimum(spread, 1e4)) / len(best)))


class Problems(NamedTuple):
    """The problems that share a recipe, `data` with a leading axis, or None for a single one.

    `target_samples` are exact draws from their targets, one each, or None.
    """

    data: Any
    target_samples: Point | None
    num_chains: int
    at_once: AtMost | None = None
    """Return how many problems are measured at once."""

    @property
    def num(self) -> int:
        return 1 if self.data is None else int(jax.tree.leaves(self.data)[0].shape[0])

    @property
    def num_directions(self) -> int:
        return 1 if self.target_samples is None else 2

    def with_pilot_chains(self, total: int) -> "Problems":
        """About `total` chains, eight for each of as many problems as that allows; one problem takes all of them."""
        if self.data is None:
            return self._replace(num_chains=int(np.clip(total, _CHAINS, 256)))
        num = min(self.num, max(1, total // _CHAINS))
        data, samples = jax.tree.map(lambda leaf: leaf[:num], (self.data, self.target_samples))
        num_chains = int(np.clip(total // num, _CHAINS, 256)) if num == 1 else _CHAINS
        return Problems(data, samples, num_chains, AtMost(num, "problems"))


def measure(problems: Problems, candidate: Candidate, stream: Stream) -> Measured:
    """Run the chains once: those of a single problem on the host, those of many in one compiled program."""
    if problems.data is None:
        return _measure_on_host(problems, candidate, stream)
    keys = jax.random.split(stream.as_key(), problems.num)
    # Only what the program depends on; an array of a Python number does not widen float32.
    path_of = PathOf(as_pytree(candidate.recipe.path.path_of), jnp.asarray(float(candidate.delta)))

    def run(part: Any) -> Measured:
        return _measure_part(path_of, candidate, problems.num_chains, *part)

    everything = problems.data, problems.target_samples, keys
    return in_pieces(run, everything, problems.at_once or AtMost(problems.num, "problems"), join=_together)


def _measure_part(
    path_of: PathOf, candidate: Candidate, num_chains: int, data: Any, target_samples: Any, keys: Any
) -> Measured:
    kernel, betas = shared(candidate.kernel), candidate.betas
    ends = 1 + group_ends(betas.size - 1)
    points, streams, _ = at_bases(path_of, num_chains, data, keys)
    one_way = to_host(_one_way(path_of, kernel, padded(betas), ends, data, points, streams))
    lost = None
    if target_samples is not None:
        points, streams = at_targets(path_of, num_chains, data, target_samples, keys)
        back = _one_way(path_of, kernel, padded(betas[::-1]), _from_the_end(ends), data, points, streams)
        lost = -(one_way[2] + to_host(back)[2][::-1])
    return _measured(one_way, lost, ends)


def _together(parts: list[Measured]) -> Measured:
    """Return what was measured on all problems, from what was on some at a time."""
    if len(parts) == 1:
        return parts[0]
    nums = [len(part.log_weights) for part in parts]
    means = jax.tree.map(lambda *leaves: np.average(leaves, axis=0, weights=nums), *(part[1:] for part in parts))
    return Measured(np.concatenate([part.log_weights for part in parts]), *means)


def _measured(one_way: Any, lost: Any, ends: np.ndarray) -> Measured:
    """From the sums over the groups of steps."""
    log_weights, acceptance, increment, variance, spread = one_way
    return Measured(log_weights, acceptance / np.diff(ends, prepend=0), increment, variance, spread, lost)


def _from_the_end(ends: np.ndarray) -> np.ndarray:
    """Return where the same groups end for chains in the other direction."""
    return np.append(ends[-1] - ends[:-1][::-1], ends[-1])


@eqx.filter_jit
def _one_way(path_of: Any, kernel: Any, betas: Any, ends: Any, data: Any, points: Any, streams: Any) -> Any:
    """Means over the problems of what `_changes` returns, but all log weights.

    The betas, the number of steps, q and the parameters of the kernel are no shapes: all candidates with the same
    number of leapfrog steps, in both directions, run one program.
    """

    _, *found = run_many(path_of, kernel, betas, ends, data, points, streams, add=_summed, keep=_kept)
    log_weights, *rest = jax.vmap(_changes)(*found)
    return log_weights, *(values.mean(axis=0) for values in rest)


def _summed(state: State, stats: dict[str, Any]) -> Any:
    """Return what is summed over the steps of a group."""
    return stats["acceptance"], stats["increment"]


def _kept(state: State) -> Any:
    """Return what is kept at the end of a group."""
    return state.log_weights, state.particles.position.var(axis=0, ddof=1)


def _changes(sums: Any, kept: Any) -> Any:
    """Return log weights, acceptance, increment, variance and spread of groups of steps."""
    (acceptance, increment), (log_weights, spread) = sums, kept
    xp = namespace(log_weights)
    groups = xp.diff(log_weights, axis=0, prepend=xp.zeros_like(log_weights[:1]))
    return log_weights[-1], acceptance, increment, xp.var(groups, axis=1, ddof=1), spread


def _measure_on_host(problems: Problems, candidate: Candidate, stream: Stream) -> Measured:
    """The same for a single problem, with the arithmetic on the host."""
    path, schedule, kernel = candidate.recipe.path(None), candidate.recipe.schedule, candidate.kernel
    ends, num_chains = 1 + group_ends(candidate.recipe.num_steps), problems.num_chains
    annealing, state = AIS(num_chains, schedule, kernel).begin(path, key=stream)
    end, *found = anneal_groups(annealing, state, ends, add=_summed, keep=_kept)
    one_way = _changes(*found)
    raise_fault(annealing.evaluator, end.fault, candidate.betas)
    lost = None
    if problems.target_samples is not None:
        back = BDMC(num_chains, schedule, kernel).reverse(path, problems.target_samples, key=stream.fold(REVERSE))
        # Step k of the forward chain and step num - k of the reverse one lie between the same two distributions.
        steps = np.append(0, _from_the_end(ends)[:-1])
        lost = -(one_way[2] + np.add.reduceat(back.stats["increment"], steps)[::-1])
    one_way = (one_way[0][None], *one_way[1:])
    return _measured(one_way, lost, ends)


def group_ends(num_steps: int) -> np.ndarray:
    """Last step of each group of neighbors."""
    return np.array([group[-1] for group in np.array_split(np.arange(num_steps), min(_GROUPS, num_steps))])


def smooth(values: Float[np.ndarray, " groups"], num_steps: int) -> Float[np.ndarray, " steps"]:
    """A value for every step from those of groups of neighbors: linear between the middles of the groups."""
    centers = [np.mean(group) for group in np.array_split(np.arange(num_steps), values.size)]
    return np.interp(np.arange(num_steps), centers, values)
