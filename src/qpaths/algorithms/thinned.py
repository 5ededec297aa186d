"""Starts of reverse chains from one exact draw: states of walks that leave the target invariant."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..annealing import invalid_draws
from ..core import AnyArray, Cost, Point, Rows, Scalar, Stream, Vector, namespace, one_thread, quiet, to_host
from ..kernels import HMC, AbstractKernel, Cloud, RandomWalk, grouped
from ..paths import AbstractPath, Reversed
from ..rows import Particles, evaluator_of, on_host
from ..stats import few_replicas

_WALKS, _FEWEST_CHAINS = 8, 16
_FEWEST_MOVES = 20
"""Of a random walk from start to start; twice the dimension where that is more."""
_TRAJECTORIES, _LEAPFROG = 2, 10
"""Of Hamiltonian moves from start to start, and their leapfrog steps."""


class Starts(NamedTuple):
    """Where reverse chains start. Chains `i` and `i + 8` are on the same walk, `thinning` moves apart."""

    points: Point
    log_ratios: Vector
    """Log density of the target over that of the base at each."""
    cost: Cost
    """What the walks cost."""


def thinning_of(given: int | None, num_chains: int, dimension: int, kernel: AbstractKernel[Any], num_betas: int) -> int:
    """Moves from start to start, which cost no more than a reverse chain does unless a number is `given`."""
    if num_chains < _FEWEST_CHAINS or given == 0:
        return 0
    chain_cost = (num_betas - 1) * kernel.num_steps * kernel.cost.total
    wanted = _TRAJECTORIES if kernel.with_slopes else max(_FEWEST_MOVES, 2 * dimension)
    return given or max(1, min(wanted, chain_cost // _walk(kernel, 1, dimension).cost.total))


def thinned_starts(
    path: AbstractPath[Any],
    draw: Point,
    thinning: int,
    kernel: AbstractKernel[Any],
    positions: Rows,
    log_weights: Vector,
    stream: Stream,
) -> Starts:
    """A start for each chain: all are exact draws of the target, if `draw` is one.

    Eight walks begin at the draw, and each gives a start every `thinning` moves. The moves are Hamiltonian where the
    `kernel` of the chains needs gradients, and a random walk where not. Their scales are those of the `positions` of
    forward chains, which do not depend on the draw. So the walks leave the target invariant.
    """
    evaluator = evaluator_of(Reversed(path), stream, with_slopes=kernel.with_slopes)
    xp, num = evaluator.xp, log_weights.shape[0]
    draw = to_host(draw) if xp is np else draw
    walk, per_walk = _walk(kernel, thinning, evaluator.layout.dimension), -(-num // _WALKS)
    # Chains that left the target's support say nothing about its scale.
    weights = xp.where(xp.isfinite(log_weights), 0.0, -xp.inf)
    cloud = Cloud(evaluator, 0.0, Particles(on_host(positions), None, None), weights)
    first = xp.repeat(evaluator.layout.rows(draw)[None], _WALKS, axis=0)
    particles = evaluator.particles(first, with_slopes=kernel.with_slopes)
    with one_thread():
        params = grouped(walk.fit(cloud, stream, None))
        states, _ = walk.trajectory(evaluator, 0.0, particles, stream.rows(_WALKS), params, per_walk + 1)

    def in_blocks(rows: AnyArray) -> AnyArray:
        """The first starts of all walks, then the second ones, and so on."""
        walks = rows.reshape(_WALKS, per_walk + 1, *rows.shape[1:])[:, 1:]
        return xp.swapaxes(walks, 0, 1).reshape(-1, *rows.shape[1:])[:num]

    # A draw without mass stays, for the reverse chains to name it.
    rows = xp.where(invalid_draws(evaluator, particles)[0], first[0], in_blocks(states.position))
    log_ratios = in_blocks(evaluator.log_ratio(1.0, 0.0, states.features))  # of the reversed path
    cost = walk.start_cost(_WALKS) + _WALKS * per_walk * thinning * walk.cost
    return Starts(evaluator.layout.points(rows), log_ratios, cost)


def _walk(kernel: AbstractKernel[Any], thinning: int, dimension: int) -> AbstractKernel[Any]:
    """What moves the walks, in steps of many lengths: the target may be much narrower than the forward chains are."""
    if kernel.with_slopes:
        return HMC(thinning, _LEAPFROG, step_size=0.5 * dimension**-0.25, spread=4.0)
    return _RandomWalk(thinning)


class _RandomWalk(RandomWalk):
    """A random walk with steps of three lengths."""

    def randomness(self, rows: Any, position: Rows, num: int) -> tuple[AnyArray, AnyArray]:
        noise, uniform = rows.draw(position.shape[0], num, position.shape[1], 2, dtype=position.dtype, coarse=True)
        xp = namespace(position)
        return noise * 0.5 ** xp.floor(3 * uniform[..., 1:]).astype(noise.dtype), uniform[..., 0]


@quiet()
def thinned_se(log_weights: Vector, log_ratios: Vector) -> Scalar:
    """Standard error of the mean log weight of chains from thinned starts.

    It is that of the means of the walks, and what these do not show. Where the tail of skewed log weights was missed,
    their mean is off and their spread too small. So Johnson's (1978) correction of Student's t, at t = 2, widens it.

    All walks keep something of the draw, which shows as a drift of the log weights along the walks. Let the mean of the
    second half of a walk keep r times what that of the first half has kept. A drift of d between the halves then leaves
    `d (1 + r) / (2 (1 - r))` in the mean of both. `r` is a power of the autocorrelation of the log ratios from start to
    start. What the drift would be by chance, as its spread over the walks shows, is left out.
    """
    xp = namespace(log_weights)
    blocks = _blocks(log_weights)
    half = blocks.shape[0] // 2
    drift = xp.mean(blocks[:half], axis=0) - xp.mean(blocks[-half:], axis=0)
    seen = xp.maximum(xp.mean(drift) ** 2 - xp.var(drift, ddof=1) / _WALKS, 0.0)
    kept = _autocorrelation(_blocks(log_ratios)) ** half
    shared = seen * (0.5 * (1 + kept) / (1 - kept)) ** 2
    between = xp.var(xp.mean(blocks, axis=0), ddof=1) / _WALKS
    centered = log_weights - xp.mean(log_weights)
    squared = xp.maximum(xp.mean(centered**2) ** 2, xp.finfo(centered.dtype).tiny)
    # Skewness times the ratio of the standard error to the spread.
    skewed = xp.abs(xp.mean(centered**3)) * xp.sqrt(between) / squared
    widened = few_replicas(_WALKS) * (1 + 0.75 * skewed)
    return xp.sqrt(widened**2 * between + shared)


def _blocks(values: Vector) -> Float[AnyArray, "starts walks"]:
    """One column for each walk; chains that do not fill the last row are left out."""
    return values[: values.shape[0] // _WALKS * _WALKS].reshape(-1, _WALKS)


def _autocorrelation(values: Float[AnyArray, "starts walks"]) -> Scalar:
    """That of neighbors in a column, between 0 and 0.95."""
    xp = namespace(values)
    centered = values - xp.mean(values)
    total = xp.mean(centered**2)
    lagged = xp.mean(centered[1:] * centered[:-1])
    return xp.clip(xp.where(total > 0, lagged / xp.where(total > 0, total, 1.0), 0.0), 0.0, 0.95)
