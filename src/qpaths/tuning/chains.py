"""Settings for annealed chains of a fixed length, shared by one problem or many: steps, schedule, leapfrog steps, q."""

import functools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from .._numerics import log_mean_exp
from .._types import Point, ScalarLike
from ..algorithms import AIS, BDMC
from ..algorithms.checks import raise_fault
from ..annealing import State, anneal
from ..arrays import namespace, sigmoid, to_host
from ..densities import as_pytree
from ..evaluation import layout_of, stream_for
from ..kernels import HMC, FrozenKernel
from ..kernels.gradient import LeapfrogParams
from ..paths import AbstractPath
from ..schedules import FixedSchedule, respace
from .choose import with_delta

LEAPFROGS = (2, 3, 5, 10)
ACCEPTANCES = (0.8, 0.95)
DELTAS = (1e-3, 4e-3, 1.6e-2)
FIRST_ACCEPTANCE = 0.9
_ROUGH, _ROUGH_ROUNDS = 64, 6
"""Distributions and rounds with which step sizes and schedule are first found."""
_FEWEST_GRADIENTS = 500
_CHAINS = 8
"""Chains of each problem in a pilot."""
_GROUPS = 25
"""Groups of neighbouring steps that are looked at together: each of many short steps is mostly noise."""


class Settings(eqx.Module):
    """Settings of annealed chains: the q-path, the betas, and HMC with a step size at each of them."""

    delta: ScalarLike
    betas: Float[np.ndarray, " num"]
    kernel: FrozenKernel
    target_acceptance: float = eqx.field(static=True)

    @property
    def num_leapfrog(self) -> int:
        return self.kernel.kernel.num_leapfrog  # type: ignore[attr-defined]


class Measured(NamedTuple):
    """What chains with some settings did, averaged over the problems; the chains are the last axis of the weights."""

    log_weights: Float[np.ndarray, "problems chains"]
    acceptance: Float[np.ndarray, " steps"]
    increment: Float[np.ndarray, " steps"]
    """Mean log increment of the weights."""
    variance: Float[np.ndarray, " groups"]
    """Of the log increment of each group of neighbouring steps, over the chains of a problem."""
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
    """The problems that share the settings: `path_of(problem)` is the path of one of the `data` (leading axis).

    `data` is None for a single problem. `target_samples` are exact draws from their targets, one each, or None.
    """

    path_of: Any
    data: Any
    target_samples: Point | None
    num_chains: int

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
        return Problems(self.path_of, data, samples, int(np.clip(total // num, _CHAINS, 256)) if num == 1 else _CHAINS)


def measure(problems: Problems, settings: Settings, stream: Any) -> Measured:
    """Run the chains once: those of a single problem on the host, those of many in one compiled program."""
    if problems.data is None:
        path, samples = problems.path_of(None), problems.target_samples
        found = _measure_one(
            path, samples, problems.num_chains, settings.delta, settings.betas, settings.kernel, stream
        )
        return Measured(*to_host((found[0][None], *found[1:])))
    keys = jax.random.split(stream.as_key(), problems.num)
    path_of = as_pytree(problems.path_of)
    # The acceptance that is wanted is no part of the program; a Python number does not widen float32.
    parts = float(settings.delta), settings.betas, settings.kernel
    return to_host(_measure(path_of, problems.data, problems.target_samples, problems.num_chains, *parts, keys))


@functools.partial(jax.jit, static_argnames="num_chains")
def _measure(
    path_of: Any,
    data: Any,
    target_samples: Any,
    num_chains: int,
    delta: Any,
    betas: Any,
    kernel: FrozenKernel,
    keys: Any,
) -> Measured:
    def one(data: Any, target_sample: Any, key: Any) -> Any:
        return _measure_one(path_of(data), target_sample, num_chains, delta, betas, kernel, key)

    log_weights, *rest = jax.vmap(one)(data, target_samples, keys)
    rest = [None if values is None else values.mean(axis=0) for values in rest]
    return Measured(log_weights, *rest)


def _measure_one(
    path: AbstractPath[Any],
    target_sample: Any,
    num_chains: int,
    delta: Any,
    betas: Any,
    kernel: FrozenKernel,
    key: Any,
) -> Any:
    """The fields of `Measured` for one problem."""
    path, schedule, ends = with_delta(path, delta), FixedSchedule(betas), _ends(betas.shape[0] - 1)
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


def _ends(num_steps: int) -> np.ndarray:
    """Last step of each group of neighbours."""
    return np.array([group[-1] for group in np.array_split(np.arange(num_steps), min(_GROUPS, num_steps))])


def improve(settings: Settings, measured: Measured, gain: float) -> Settings:
    """Step sizes nearer to the wanted acceptance, a scale for each coordinate, and betas at equal costs.

    The cost of a group of steps is the variance of its log increment, which sees how slowly the chains follow; where
    the forward-reverse discrepancy was measured and exceeds it beyond noise, that counts. (For chains that keep up the
    two are the same, but the variance is known far better.)
    """
    ends = _ends(settings.betas.size - 1)
    sizes = np.diff(ends, prepend=-1)
    error = _smooth(measured.acceptance) - settings.target_acceptance
    error = error / np.where(error > 0, 1 - settings.target_acceptance, settings.target_acceptance)
    costs = np.where(np.isfinite(measured.variance), measured.variance, np.inf)
    if measured.discrepancy is not None:
        costs = np.maximum(costs, measured.discrepancy - 2 * np.sqrt(2 * costs / measured.num))
    costs = np.minimum(costs, np.max(costs, where=np.isfinite(costs), initial=1e-300))
    betas = respace(settings.betas, np.repeat(np.sqrt(costs / sizes), sizes))
    # The acceptance at a beta belongs to the step that ends there; the first beta has none of its own.
    old = settings.kernel.params.step_size
    steps = old * np.exp(gain * np.concatenate([error[:1], error]))
    step_size = np.exp(np.interp(betas, settings.betas, np.log(steps))).astype(old.dtype)
    params = settings.kernel.at(betas).params._replace(step_size=step_size)
    if settings.kernel.kernel.preconditioner == "diagonal":  # type: ignore[attr-defined]
        # Relative to the narrowest coordinate, which bounds the step size: that need not change with the others.
        scale = np.sqrt(measured.spread / np.min(measured.spread, axis=1, keepdims=True))
        scale = np.where(np.isfinite(scale), scale, 1.0)
        scale = [np.interp(betas, settings.betas[ends + 1], coordinate) for coordinate in scale.T]
        params = params._replace(scale=np.stack(scale, axis=1).astype(old.dtype))
    kernel = FrozenKernel(settings.kernel.kernel, betas, params)
    return Settings(settings.delta, betas, kernel, settings.target_acceptance)


def _smooth(values: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
    """Means over groups of neighbours, linear in between."""
    groups = np.array_split(np.arange(values.size), min(_GROUPS, values.size))
    centres = [np.mean(group) for group in groups]
    return np.interp(np.arange(values.size), centres, [np.mean(values[group]) for group in groups])


def with_leapfrog(settings: Settings, num_leapfrog: int, num_gradients: int) -> Settings:
    """The same with another number of leapfrog steps, and as many distributions as the gradients then allow."""
    num = 1 + num_gradients // num_leapfrog
    old = settings.kernel.kernel
    hmc = HMC(1, num_leapfrog, preconditioner=old.preconditioner, jitter=old.jitter)  # type: ignore[attr-defined]
    position = np.linspace(0, settings.betas.size - 1, num)
    betas = np.interp(position, np.arange(settings.betas.size), settings.betas)
    kernel = FrozenKernel(hmc, betas, settings.kernel.at(betas).params)
    return Settings(settings.delta, betas, kernel, settings.target_acceptance)


def with_q(settings: Settings, measured: Measured, delta: float) -> Settings:
    """The same with another q, at betas where the q-path is about where it was.

    The target's share in the score of a q-path is `sigmoid(logit(beta) + delta r)`, with r the log ratio of target and
    base, whose mean at each beta of a geometric path is its mean increment there.
    """
    ratio = np.interp(settings.betas[1:-1], settings.betas[1:], _smooth(measured.increment / np.diff(settings.betas)))
    inner = settings.betas[1:-1]
    shifted = sigmoid(np.log(inner) - np.log1p(-inner) - delta * ratio)
    # The ratio is measured with noise; betas must increase all the same.
    ordered = np.maximum.accumulate(np.concatenate([[0.0], shifted, [1.0]]))
    betas = 0.999 * ordered + 0.001 * np.linspace(0.0, 1.0, ordered.size)
    kernel = FrozenKernel(settings.kernel.kernel, betas, settings.kernel.params)
    return Settings(np.asarray(delta), betas, kernel, settings.target_acceptance)


class Trial(NamedTuple):
    """Settings and what they did."""

    settings: Settings
    measured: Measured


def rounds(problems: Problems, settings: Settings, num_rounds: int, stream: Any) -> Trial:
    """Measure and improve, several times, with smaller and smaller changes; then measure what came out."""
    keys = stream.split(num_rounds + 1)
    for i in range(num_rounds):
        settings = improve(settings, measure(problems, settings, keys[i]), (i + 1) ** -0.5)
    return Trial(settings, measure(problems, settings, keys[num_rounds]))


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


def rough_settings(problems: Problems, kernel: HMC) -> Settings:
    """Where the search starts when nothing is known: a linear schedule and one step size."""
    path = problems.path_of(jax.tree.map(lambda leaf: leaf[0], problems.data))
    layout = layout_of(path)
    betas = np.linspace(0.0, 1.0, _ROUGH)
    step_size = np.full(_ROUGH, layout.dimension**-0.25, layout.dtype)
    params = LeapfrogParams(np.ones((_ROUGH, layout.dimension), layout.dtype), step_size)
    return Settings(np.asarray(0.0), betas, FrozenKernel(kernel, betas, params), FIRST_ACCEPTANCE)


class Search(NamedTuple):
    """What is tried: numbers of leapfrog steps, and values of 1 - q beside the one of the start."""

    leapfrogs: tuple[int, ...] = LEAPFROGS
    deltas: tuple[float, ...] = DELTAS

    def splits(self, num_gradients: int) -> list[int]:
        """Numbers of leapfrog steps that leave a schedule worth the name."""
        return [length for length in self.leapfrogs if num_gradients // length >= 8] or [min(self.leapfrogs)]


def _short(num_gradients: int) -> int:
    """Length of the chains on which settings are compared."""
    return max(num_gradients // 4, min(num_gradients, _FEWEST_GRADIENTS))


def _rough(start: Settings, short: int, search: Search) -> Settings:
    """Where the search starts; chains that are no longer than those of a rough run are tried out as they are."""
    if _num_gradients(start) < short:
        return start
    return with_leapfrog(start, search.splits(short)[-1], short)


def _num_gradients(settings: Settings) -> int:
    return (settings.betas.size - 1) * settings.num_leapfrog


def num_pilot_gradients(start: Settings, num_gradients: int, num_directions: int, search: Search) -> int:
    """Gradients that one chain of `tune_chains` makes."""
    short = _short(num_gradients)
    rough = (_ROUGH_ROUNDS + 1) * _num_gradients(_rough(start, short, search))
    trials = 2 * len(search.splits(short)) + 2 * len(ACCEPTANCES) + 3 * len(search.deltas)
    directions = num_directions if short == num_gradients else 1
    return directions * (rough + trials * short) + 3 * num_directions * num_gradients


def tune_chains(problems: Problems, start: Settings, num_gradients: int, search: Search, stream: Any) -> Trial:
    """Settings for chains of `num_gradients` gradients.

    One thing after the other: step sizes and schedule on a rough run, then leapfrog steps, acceptance and q on shorter
    runs, then step sizes and schedule again at full length, in both directions where that can be.
    """
    keys = stream.split(5)
    short = _short(num_gradients)
    # Chains that cannot be shorter run one program, in both directions, throughout.
    trial = problems if short == num_gradients else problems._replace(target_samples=None)
    best = rounds(trial, _rough(start, short, search), _ROUGH_ROUNDS, keys[0])
    splits = [with_leapfrog(best.settings, length, short) for length in search.splits(short)]
    best = best_of([rounds(trial, settings, 1, keys[1]) for settings in splits])
    others = [_with_acceptance(best.settings, acceptance) for acceptance in ACCEPTANCES]
    best = best_of([best, *(rounds(trial, settings, 1, keys[2]) for settings in others)])
    others = [with_q(best.settings, best.measured, delta) for delta in search.deltas]
    best = best_of([best, *(rounds(trial, settings, 2, keys[3]) for settings in others)])
    chosen = with_leapfrog(best.settings, best.settings.num_leapfrog, num_gradients)
    return rounds(problems, chosen, 2, keys[4])


def _with_acceptance(settings: Settings, acceptance: float) -> Settings:
    return Settings(settings.delta, settings.betas, settings.kernel, acceptance)
