"""Chains of a fixed length, run once with a candidate for their recipe and measured."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from .._types import Point
from ..algorithms import AIS, BDMC
from ..algorithms.checks import raise_fault
from ..annealing import State, anneal
from ..arrays import namespace, to_host
from ..densities import as_pytree
from ..evaluation import stream_for
from ..kernels import HMC, FrozenKernel
from ..memory import Pieces
from ..numerics import log_mean_exp
from ..paths import AbstractPath, Ordered
from ..recipe import Recipe
from ..schedules import FixedSchedule
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
        """That of a recipe for a single problem."""
        delta = np.asarray(recipe.path.delta if isinstance(recipe.path, Ordered) else 0.0)
        return Candidate(Recipe(PathOf(lambda _: recipe.path, delta), recipe.schedule, recipe.kernel))

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
    """What chains with some candidate did, averaged over the problems; the chains are the last axis of the weights."""

    log_weights: Float[np.ndarray, "problems chains"]
    acceptance: Float[np.ndarray, " steps"]
    increment: Float[np.ndarray, " steps"]
    """Mean log increment of the weights."""
    variance: Float[np.ndarray, " groups"]
    """Of the log increment of each group of neighboring steps, over the chains of a problem."""
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
        """How far the mean log weight stays below the log evidence, by the spread of the chains of one problem."""
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
    pieces: Pieces | None = None
    """How many problems are measured at once."""

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
        return Problems(data, samples, num_chains, Pieces(num, "problems"))


def measure(problems: Problems, candidate: Candidate, stream: Any) -> Measured:
    """Run the chains once: those of a single problem on the host, those of many in one compiled program."""
    recipe, samples = candidate.recipe, problems.target_samples
    if problems.data is None:
        found = _measure_one(recipe, None, samples, problems.num_chains, stream)
        return Measured(*to_host((found[0][None], *found[1:])))
    keys = jax.random.split(stream.as_key(), problems.num)
    # Only what the program depends on; a Python number does not widen float32.
    path = PathOf(as_pytree(recipe.path.path_of), float(candidate.delta))
    recipe = Recipe(path, recipe.schedule, recipe.kernel)

    def run(size: int) -> Measured:
        parts = []
        for start in range(0, problems.num, size):
            end = start + size
            part, own = jax.tree.map(lambda leaf: leaf[start:end], ((problems.data, samples), keys))  # noqa: B023
            parts.append(to_host(_measure(recipe, *part, problems.num_chains, own)))
        return _together(parts)

    return (problems.pieces or Pieces(problems.num, "problems")).run(run)


def _together(parts: list[Measured]) -> Measured:
    """What was measured on all problems, from what was on some at a time."""
    if len(parts) == 1:
        return parts[0]
    nums = [len(part.log_weights) for part in parts]
    means = jax.tree.map(lambda *leaves: np.average(leaves, axis=0, weights=nums), *(part[1:] for part in parts))
    return Measured(np.concatenate([part.log_weights for part in parts]), *means)


@functools.partial(jax.jit, static_argnames="num_chains")
def _measure(recipe: Recipe, data: Any, target_samples: Any, num_chains: int, keys: Any) -> Measured:
    def one(data: Any, target_sample: Any, key: Any) -> Any:
        return _measure_one(recipe, data, target_sample, num_chains, key)

    log_weights, *rest = jax.vmap(one)(data, target_samples, keys)
    rest = [None if values is None else values.mean(axis=0) for values in rest]
    return Measured(log_weights, *rest)


def _measure_one(recipe: Recipe, problem: Any, target_sample: Any, num_chains: int, key: Any) -> Any:
    """The fields of `Measured` for one problem."""
    path, schedule, kernel = recipe.path(problem), recipe.schedule, recipe.kernel
    betas, ends = recipe.betas, group_ends(recipe.num_steps)
    stream = stream_for(key, path, betas, target_sample)
    annealing, state = AIS(num_chains, schedule, kernel).begin(path, key=stream)

    def record(state: State, stats: dict[str, Any]) -> dict[str, Any]:
        spread = state.particles.position.var(axis=0, ddof=1)
        kept = {name: stats[name] for name in ("acceptance", "increment")}
        return {**kept, "log_weights": state.log_weights, "spread": spread}

    end, rows = anneal(annealing, state, record=record)
    raise_fault(annealing.evaluator, end.fault, betas)
    xp = namespace(rows)
    log_weights = rows["log_weights"]
    groups = xp.diff(log_weights[ends], axis=0, prepend=xp.zeros((1, num_chains), log_weights.dtype))
    found = log_weights[-1], rows["acceptance"], rows["increment"], xp.var(groups, axis=1, ddof=1), rows["spread"][ends]
    if target_sample is None:
        return *found, None
    reverse = BDMC(num_chains, schedule, kernel).reverse(
        path, target_sample, key=stream.fold(1000)
    )  # far from the streams of the chains
    # Step k of the forward chain and step num - k of the reverse one lie between the same two distributions.
    lost = xp.cumsum(-(rows["increment"] + reverse.stats["increment"][::-1]))[ends]
    return *found, xp.diff(lost, prepend=0.0)


def group_ends(num_steps: int) -> np.ndarray:
    """Last step of each group of neighbors."""
    return np.array([group[-1] for group in np.array_split(np.arange(num_steps), min(_GROUPS, num_steps))])


def smooth(values: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Means over groups of neighbors, linear in between."""
    groups = np.array_split(np.arange(values.size), min(_GROUPS, values.size))
    centres = [np.mean(group) for group in groups]
    return np.interp(np.arange(values.size), centres, [np.mean(values[group]) for group in groups])
