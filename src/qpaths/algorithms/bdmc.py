"""Bidirectional Monte Carlo: AIS forwards on the path and backwards on `Reversed(path)`."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from ..annealing import Annealing, Fault, State, anneal, invalid_draws
from ..core import (
    AnyArray,
    Cost,
    HostStream,
    Point,
    RandomKey,
    Rows,
    Scalar,
    Stream,
    StreamRows,
    Vector,
    check_num,
    is_concrete,
    namespace,
    one_thread,
    quiet,
    softmax,
    to_host,
)
from ..densities import evaluate
from ..kernels import HMC, AbstractKernel, Cloud, RandomWalk, grouped
from ..paths import AbstractPath, Reversed
from ..results import BoundsResult, Result, Status
from ..rows import Devices, Layout, Particles, as_devices, evaluator_of, layout_of, on_host, stream_for
from ..schedules import AbstractSchedule, FixedSchedule
from ..stats import few_replicas
from .ais import AIS, check_chains, lower_bound

_WALKS, _FEWEST_CHAINS = 8, 16
"""Walks from one exact draw, and chains below which a walk would give fewer than two starts."""
_FEWEST_MOVES = 20
"""Moves of a random walk from start to start; twice the dimension where that is more."""
_TRAJECTORIES, _LEAPFROG = 2, 10
"""Hamiltonian moves from start to start, and their leapfrog steps."""


class Starts(NamedTuple):
    """Starts of reverse chains. Chains `i` and `i + 8` are on the same walk, `thinning` moves apart."""

    points: Point
    log_ratios: Vector
    """Log density of the target over that of the base at each."""
    cost: Cost
    """Cost of the walks."""


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
    """Return the kernel of the walks. Steps have many lengths: the target may be narrower than forward chains are."""
    if kernel.with_slopes:
        return HMC(thinning, _LEAPFROG, step_size=0.5 * dimension**-0.25, spread=4.0)
    return _RandomWalk(thinning)


class _RandomWalk(RandomWalk):
    """A random walk with steps of three lengths."""

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> tuple[AnyArray, AnyArray]:
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


REVERSE = 1000
"""Folded into the key of the reverse chains; the forward ones have the key itself, as an AIS would."""
WALKS = 1001
"""Folded into the key of the walks from which reverse chains start."""


class BDMC(eqx.Module):
    """Bidirectional Monte Carlo (Grosse, Ghahramani and Adams, 2015).

    Forward chains give a stochastic lower bound on the log evidence, reverse chains from an exact draw of the target an
    upper bound. The kernel is fitted in one pilot and frozen; both directions use the same parameters.

    Args:
        num_chains: Chains in each direction.
        schedule: A fixed schedule.
        kernel: Moves each chain at each beta.
        chunk_size: The most chains that are moved at once, for memory. The numbers do not depend on it.
        devices: A number, or the devices themselves, which share the chains; see `AIS`.
        thinning: Where one exact draw is given, the moves between starts of reverse chains. None is 2 Hamiltonian moves
            where the kernel needs gradients, otherwise 20 of a random walk, or twice the dimension where that is more;
            and no more than a reverse chain costs. 0 starts all chains at the draw, as do fewer than 16 chains.

    `run(path, target_samples, key=key)` returns `lower`, `upper` and `gap`, with standard errors.

    Eight walks start at a single exact draw and leave the target invariant. Reverse chains start at their states, which
    are exact draws as well. So `upper` depends less on the draw, and `upper_se` shows how much. Two of these standard
    errors covered in 90 % to 99 % of runs, and in 86 % to 90 % of those with Student-t targets
    (`benchmarks/results/bdmc_coverage.md`). With `thinning=0` no spread shows the draw, and `upper_se` is estimated
    from the log weights of both directions. With several draws it is what their spread says.
    `qpaths.models.evaluate_bounds` starts all chains of an observation at its draw.

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> prior = qp.Normal(0.0, 2.0)
        >>> truth = prior.sample(jax.random.key(0))
        >>> y = truth + jax.random.normal(jax.random.key(1))
        >>> path = qp.GeometricPath(prior, lambda x: prior.log_prob(x) - 0.5 * (y - x) ** 2)
        >>> bounds = qp.BDMC(50, qp.LinearSchedule(20), qp.HMC(num_leapfrog=3)).run(path, truth, key=jax.random.key(2))
        >>> bool(bounds.lower - 1 < bounds.upper)
        True
    """

    num_chains: int = eqx.field(static=True)
    schedule: AbstractSchedule
    kernel: AbstractKernel[Any]
    chunk_size: int | None = eqx.field(static=True, default=None)
    devices: Devices = eqx.field(static=True, default=None, converter=as_devices)
    thinning: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_chains(self.num_chains, self.schedule, self.kernel, self.chunk_size, self.devices)
        if self.thinning is not None:
            check_num("thinning", self.thinning, smallest=0)

    @property
    def forward(self) -> AIS:
        return AIS(self.num_chains, self.schedule, self.kernel, self.chunk_size, self.devices)

    def run(self, path: AbstractPath[Any], target_samples: Point = None, *, key: RandomKey) -> BoundsResult:
        """Bounds on the log evidence of `path.target`.

        `target_samples` is one exact draw from the target, used by all chains, or several independent ones (leading
        axis), as many as there are chains or a divisor of that number.
        """
        if target_samples is None:
            raise TypeError(
                "`target_samples` must be given: exact draws of the target, from which chains walk back to the base. "
                "For simulated data the point that they were simulated from is one. Without any, `AIS` gives the lower "
                "bound."
            )
        layout = layout_of(path)
        num_draws = count_draws(target_samples, layout)
        points = one_per_chain(target_samples, layout, self.num_chains)
        size = self.num_chains, layout.dimension, self.kernel, self.forward.betas.shape[0]
        thinning = thinning_of(self.thinning, *size) if num_draws == 1 else 0
        stream = stream_for(key, path, self, points, pilots=self.devices is not None)
        annealing, state = self.forward.begin(path, key=stream)
        state, stats = anneal(annealing, state)
        found = self.forward.finish(annealing, state, stats)
        if thinning > 0:
            return self._thinned(path, points, thinning, stream, annealing, state, found)
        reverse = self.reverse(path, points, key=stream.fold(REVERSE), kernel=annealing.kernel)
        return bounds_of(found, reverse, _upper_se(found.log_weights, state.increments, reverse.log_weights, num_draws))

    def _thinned(
        self,
        path: AbstractPath[Any],
        points: Point,
        thinning: int,
        stream: Stream,
        annealing: Annealing,
        state: State,
        found: Result,
    ) -> BoundsResult:
        """Reverse chains from states of walks that begin at the draw, which is the first of the `points`."""
        draw = jax.tree.map(lambda leaf: leaf[0], points)
        back = stream.fold(REVERSE)
        forward = state.particles.position, state.log_weights
        starts = thinned_starts(path, draw, thinning, self.kernel, *forward, stream.fold(WALKS))
        reverse = self.reverse(path, starts.points, key=back, kernel=annealing.kernel)
        reverse = dataclasses.replace(reverse, num_evaluations=reverse.num_evaluations + starts.cost)
        return bounds_of(found, reverse, thinned_se(reverse.log_weights, starts.log_ratios))

    def reverse(
        self,
        path: AbstractPath[Any],
        target_samples: Point,
        *,
        key: RandomKey,
        kernel: AbstractKernel[Any] | None = None,
    ) -> Result:
        """The chains from the target to the base alone, by the `kernel` that was fitted for the forward ones."""
        points = one_per_chain(target_samples, layout_of(path), self.num_chains)
        stream = stream_for(key, path, self, points, pilots=self.devices is not None)
        if isinstance(stream, HostStream):
            points = to_host(points)
        backwards = AIS(
            self.num_chains, FixedSchedule(1 - self.forward.betas[::-1]), self.kernel, self.chunk_size, self.devices
        )
        kernel = (self.kernel if kernel is None else kernel).reversed()
        annealing, state = backwards.begin_at(Reversed(path), points, kernel, None, stream)
        _check_start(path, annealing, state.fault)
        return backwards.finish(annealing, *anneal(annealing, state), with_pilot=False)


def _check_start(path: AbstractPath[Any], annealing: Annealing, fault: Fault) -> None:
    """Raise if the target has no mass at one of the draws that the user gave."""
    if not is_concrete(fault) or int(fault.status) == Status.OK:
        return
    point = annealing.evaluator.layout.points(to_host(fault.position))
    target, base = (float(evaluate(getattr(path, name), point, name)) for name in ("target", "base"))
    raise FloatingPointError(
        f"`target_samples` must be draws from the target, but one of them is {point}, where `target.log_prob` is "
        f"{target} and `base.log_prob` is {base}: give exact draws, or mend the density if that is one."
    )


@quiet()
def bounds_of(forward: Result, reverse: Result, upper_se: Scalar) -> BoundsResult:
    """The bounds that the log weights of chains in both directions give."""
    return BoundsResult(
        lower=lower_bound(forward.log_weights),
        upper=-lower_bound(reverse.log_weights),
        lower_se=_mean_se(forward.log_weights),
        upper_se=upper_se,
        forward=forward,
        reverse=reverse,
    )


def _mean_se(values: Vector) -> Scalar:
    return namespace(values).std(values, ddof=1) / values.shape[0] ** 0.5


@quiet()
def _upper_se(forward: Vector, last: Vector, reverse: Vector, num_draws: int) -> Scalar:
    """Standard error of the mean reverse log weight of chains that share `num_draws` exact draws."""
    if num_draws == reverse.shape[0]:
        return _mean_se(reverse)
    if num_draws > 1:
        return few_replicas(num_draws) * _mean_se(reverse.reshape(num_draws, -1).mean(axis=1))
    return namespace(reverse).sqrt(_mean_se(reverse) ** 2 + start_variance(forward, last, reverse))


@quiet()
def start_variance(forward: Vector, last: Vector, reverse: Vector) -> Scalar:
    """Variance over the exact draw of the mean reverse log weight that follows from it, from chains that share one.

    It is the variance of the reverse log weight over draws and chains (`_reverse_variance`), times the share of it that
    the chains do not forget. In forward chains this is the share of log w that their `last` increment explains, which
    depends on the point where a reverse chain would start. What a line explains by chance is left in: without it too
    many standard errors would be too small, since the share is known to one over the number of chains at best. It is
    also what the chains from the shared draw lack of the whole. The first is low for few chains with uneven weights,
    the second is noisy: the larger of the first and the mean of the two counts.
    """
    xp = namespace(forward, reverse)
    finite = xp.isfinite(forward)
    forward, last = (xp.where(finite, values, 0.0) for values in (forward, last))
    num = xp.maximum(xp.sum(finite, dtype=forward.dtype), 2.0)
    mean = xp.sum(forward) / num
    centered = xp.where(finite, forward - mean, 0.0)
    gap = -xp.mean(reverse) - mean
    # A floor: chains that all have the same weight say nothing about the law of the weights.
    variance = xp.maximum(xp.sum(centered**2) / (num - 1), xp.finfo(forward.dtype).eps * (1 + gap**2))
    skewness = xp.sum(centered**3) / num / variance**1.5
    # Weights that are tempered to a log spread of 1, since few chains would have all of the mass.
    tilted = softmax(xp.where(finite, forward / xp.maximum(xp.sqrt(variance), 1.0), -xp.inf))
    explained = _explained(forward, last, tilted)
    whole = _reverse_variance(num, variance, skewness, gap, explained)
    missing = xp.clip(1 - xp.var(reverse, ddof=1) / whole, 0.0, 1.0)
    return whole * xp.maximum(explained, 0.5 * (explained + missing))


def _reverse_variance(num: Scalar, variance: Scalar, skewness: Scalar, gap: Scalar, share: Scalar) -> Scalar:
    """Variance of the reverse log weight from moments of `num` forward ones and the gap between the bounds.

    The law of the reverse log weight, over draws and chains, is that of the forward one times the weight (Crooks,
    1999). So with `K(s) = log E[w^s]` of the forward weights, the forward variance v is K''(0), the reverse one K''(1),
    and the gap is the integral of K'' between them. Where a shifted or a scaled normal distribution is weighted at
    once, K'' changes as `v / (1 + a s)^2`. Then the gap is `v r` and the reverse variance is `v r^2`, with
    `r = 1 / (1 + a)`. The skewness of the forward weights gives a as well: it is `-2 a / sqrt(v)`.

    The gap is precise where v is large. Where v is small, as for targets that are wider than the base, its noise, which
    is that of the shared draw, hides it, and the skewness is better. Both estimates of r are weighted by their
    precisions, and what is not known of r is added. K'' falls faster at first where the scales of a target differ, so
    for r < 1 the reverse variance is at least `v r^1.5`.
    """
    xp = namespace(variance)
    skewness = skewness * (1 + 8.5 / num)  # that of a small sample is too small
    by_skewness = 1 / xp.maximum(1 - 0.5 * skewness * xp.sqrt(variance), 0.4)
    by_gap = gap / variance
    rough = xp.sqrt(by_skewness * xp.maximum(by_gap, 0.1 * by_skewness))
    of_gap = variance / (rough**2 * share + 1 / num)
    of_skewness = 4 / (rough**4 * variance * 6 * (1 + 0.75 * skewness**2) / num)
    precision = of_gap + of_skewness
    ratio = xp.maximum((of_gap * by_gap + of_skewness * by_skewness) / precision, 0.0)
    return variance * xp.maximum(ratio**2 + 1 / precision, ratio**1.5)


def _explained(values: Vector, cause: Vector, weights: Vector) -> Scalar:
    """Share of the variance of the values that a straight line in the cause explains."""
    xp = namespace(values)
    values, cause = values - weights @ values, cause - weights @ cause
    product = (weights @ values**2) * (weights @ cause**2)
    return xp.where(product > 0, xp.square(weights @ (values * cause)) / xp.where(product > 0, product, 1.0), 0.0)


def count_draws(samples: Point, layout: Layout) -> int:
    """Return how many draws were given, whose shapes are checked later; 1 for a point without a leading axis."""
    xp = namespace(samples)
    shapes = tuple(xp.shape(leaf) for leaf in jax.tree.leaves(samples))
    if shapes == layout.shapes or not shapes or len(shapes[0]) == 0:
        return 1
    return int(shapes[0][0])


def one_per_chain(samples: Point, layout: Layout, num_chains: int) -> Point:
    """Draws with a leading axis of one per chain, whichever of the forms was given."""
    xp = namespace(samples)
    leaves, structure = jax.tree.flatten(samples)
    shapes = tuple(xp.shape(leaf) for leaf in leaves)
    num = count_draws(samples, layout)
    several = tuple((num, *shape) for shape in layout.shapes)
    if structure != layout.structure or shapes not in (layout.shapes, several) or num == 0 or num_chains % num:
        one, each, given = (
            jax.tree.unflatten(tree, found)
            for tree, found in (
                (layout.structure, layout.shapes),
                (layout.structure, tuple((num_chains, *shape) for shape in layout.shapes)),
                (structure, shapes),
            )
        )
        raise ValueError(
            f"`target_samples` must be one point of shape {one}, or one per chain of shape {each}, got {given}: "
            f"give arrays in the form in which `base.sample` draws them; a number of draws that divides the number of "
            f"chains will do."
        )
    leaves = [
        xp.repeat(xp.asarray(leaf, dtype).reshape(num, *shape), num_chains // num, axis=0)
        for leaf, dtype, shape in zip(leaves, layout.dtypes, layout.shapes, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)
