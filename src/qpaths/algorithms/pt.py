"""Parallel tempering: chains at every beta at once, which exchange their states."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..annealing import Fault, first_fault, invalid_draws
from ..core import (
    AnyArray,
    Cost,
    Count,
    Features,
    FloatArray,
    PyTree,
    RandomKey,
    Stream,
    check_num,
    is_traced,
    log_ess,
    logsumexp,
    map_rows,
    namespace,
    one_thread,
    quiet,
    softmax,
)
from ..kernels import AbstractKernel, Cloud, grouped
from ..paths import AbstractPath
from ..recipe import check_parts
from ..results import Result, Stats, Status
from ..rows import Evaluator, Particles, evaluator_of, stream_for
from ..schedules import respace
from ..stats import (
    DerivativeMoments,
    bridge,
    derivative_moments,
    jackknife_se,
    neighbor_log_ratios,
    stepping_stone,
    thermodynamic_integration,
)
from .base import raise_fault

KEPT = 64
"""States per chain and beta that the kernel is fitted to, spread over a round; for the first, draws from the base."""


class Record(NamedTuple):
    """Record of a round; axes are beta, chain, scan."""

    features: Features
    samples: Float[AnyArray, "chains scans d"]
    rejection: Float[AnyArray, " pairs"]
    acceptance: Float[AnyArray, " pairs"]
    step_size: Float[AnyArray, " pairs"]


class Tempering(NamedTuple):
    """All that a run carries from one round to the next; axes are beta, chain."""

    betas: Float[AnyArray, " num"]
    particles: Particles
    kept: Particles
    log_weights: Float[AnyArray, "num chains kept"]
    record: Record
    fault: Fault


@quiet()
def swap_probability(forward: FloatArray, reverse: FloatArray) -> FloatArray:
    """Probability with which neighbors accept to exchange their states, from the ratios of `neighbor_log_ratios`.

    The log ratio `log pi_i(x_j) + log pi_j(x_i) - log pi_i(x_i) - log pi_j(x_j)` is their sum. A state that would have
    no mass at its new beta stays, even if one that leaves a beta without mass (early in a run) would gain infinitely.
    """
    xp = namespace(forward, reverse)
    impossible = (forward == -xp.inf) | (reverse == -xp.inf)
    return xp.exp(xp.minimum(xp.where(impossible, -xp.inf, forward + reverse), 0.0))


def temper(sampler: "ParallelTempering", evaluator: Evaluator, stream: Stream) -> Tempering:
    """All rounds of a run: the state after the last one.

    On the host they run in Python; elsewhere they are compiled as one program. `sampler` is the `ParallelTempering`
    with the settings.
    """
    if evaluator.xp is np or is_traced(sampler, evaluator, stream):
        with one_thread():
            return _temper(sampler, evaluator, stream)
    return _compiled_temper(sampler, evaluator, stream)


@quiet()
def _temper(sampler: "ParallelTempering", evaluator: Evaluator, stream: Stream) -> Tempering:
    """The start, and all rounds; a compiled run has one loop for rounds of any length."""
    start, run = stream.split(2)
    state = _start(sampler, evaluator, start)
    if evaluator.xp is np:
        for number, num_scans in enumerate(sampler.scans_per_round):
            state = _round(sampler, evaluator, state, num_scans, run.fold(number))
    else:
        # One loop with room for the longest round: rounds of different length share the compiled code.
        def one_round(state: Tempering, inputs: PyTree) -> tuple[Tempering, None]:
            number, num_scans = inputs
            return _round(sampler, evaluator, state, num_scans, run.fold(number)), None

        inputs = jnp.arange(sampler.num_rounds), jnp.array(sampler.scans_per_round)
        state, _ = jax.lax.scan(one_round, state, inputs)
    return state._replace(fault=_stranded(evaluator, state))


_compiled_temper = jax.jit(_temper)


def _start(sampler: "ParallelTempering", evaluator: Evaluator, stream: Stream) -> Tempering:
    """Draws from the base, weighted for each beta.

    A chain starts at one of its draws, chosen by weight, and the kernel is fitted to all of them.
    """
    xp = evaluator.xp
    num, chains, scans = sampler.num_temperatures, sampler.num_chains, sampler.scans_per_round[-1]
    draw_stream, choose_stream = stream.split(2)
    draws = _draw(sampler, evaluator, draw_stream, chains * KEPT)
    none = xp.zeros((), int)
    fault = Fault(none, none, xp.zeros_like(draws.position[0]))
    fault = first_fault(fault, Status.INVALID_START, none, invalid_draws(evaluator, draws), draws.position)

    dtype = evaluator.log_density(0.0, draws.features).dtype
    betas = xp.linspace(0.0, 1.0, num, dtype=dtype)
    log_weights = map_rows(xp, lambda beta: evaluator.log_ratio(betas[0], beta, draws.features), betas)
    log_weights = log_weights.reshape(num, chains, KEPT)
    # Chains count alike, so that not all start at the one best draw; without a draw of any mass they start anywhere.
    log_sums = logsumexp(log_weights, axis=-1, keepdims=True)
    log_weights = xp.where(log_sums > -xp.inf, log_weights - log_sums, 0.0)
    cumulative = xp.cumsum(softmax(log_weights), axis=-1)
    uniform = choose_stream.uniform((num, chains, 1), cumulative.dtype) * cumulative[..., -1:]
    chosen = xp.argmax(cumulative > uniform, axis=-1)
    draws = jax.tree.map(lambda leaf: leaf.reshape(chains, KEPT, *leaf.shape[1:]), draws)
    particles = jax.tree.map(lambda leaf: leaf[xp.arange(chains), chosen], draws)
    kept = jax.tree.map(lambda leaf: xp.array(xp.broadcast_to(leaf, (num, *leaf.shape))), draws)

    nothing = xp.zeros(num - 1, dtype)
    features = jax.tree.map(lambda leaf: xp.zeros((num, chains, scans, *leaf.shape[2:]), leaf.dtype), draws.features)
    samples = xp.zeros((chains, scans, draws.position.shape[-1]), draws.position.dtype)
    record = Record(features, samples, nothing, nothing, xp.zeros(num - 1, draws.position.dtype))
    return Tempering(betas, particles, kept, log_weights, record, fault)


def _round(
    sampler: "ParallelTempering", evaluator: Evaluator, state: Tempering, num_scans: Count, stream: Stream
) -> Tempering:
    """One round: betas and parameters of the kernel from the round before, frozen, and then the scans.

    The record of the round replaces the one before, so that memory holds one round only.
    """
    xp = evaluator.xp
    fit_stream, scan_stream = stream.split(2)
    slots = xp.minimum(num_scans, KEPT)
    state, params = _adapt(sampler.kernel, evaluator, state, slots, fit_stream)

    def scan(i: Count, state: Tempering) -> Tempering:
        refresh_stream, move_stream, swap_stream = scan_stream.fold(i).split(3)
        state, acceptance = _explore(sampler, evaluator, state, params, refresh_stream, move_stream)
        swapped, rejection = _swap(evaluator, state, i % 2, swap_stream)
        explored, old, slot = state.particles, state.record, i * slots // num_scans
        record = Record(
            features=jax.tree.map(lambda rows, leaf: _set(rows, i, leaf), old.features, explored.features),
            samples=_set(old.samples[None], i, explored.position[-1:])[0],
            rejection=old.rejection + rejection / num_scans,
            acceptance=old.acceptance + acceptance / num_scans,
            step_size=old.step_size,
        )
        kept = jax.tree.map(lambda rows, leaf: _set(rows, slot, leaf), state.kept, explored)
        return state._replace(particles=swapped, kept=kept, record=record)

    if xp is np:
        for i in range(num_scans):
            state = scan(i, state)
        return state
    return jax.lax.fori_loop(0, num_scans, scan, state)


def _set(rows: PyTree, index: Any, leaf: AnyArray) -> AnyArray:
    """`rows` with one entry of its third axis replaced; on the host in place, since nobody else holds the array."""
    if isinstance(rows, np.ndarray):
        rows[:, :, index] = leaf
        return rows
    return rows.at[:, :, index].set(leaf)


def _adapt(
    kernel: AbstractKernel[Any], evaluator: Evaluator, state: Tempering, slots: Count, stream: Stream
) -> tuple[Tempering, Any]:
    """Re-space the betas and fit the kernel at each; the state is ready for a round that keeps `slots` states."""
    xp = evaluator.xp
    betas = respace(state.betas, state.record.rejection)
    # States at the nearest of the old betas show the kernel the right shape.
    nearest = xp.argmin(xp.abs(betas[1:, None] - state.betas), axis=1)
    population = jax.tree.map(lambda leaf: merge_chains(leaf[nearest]), state.kept)
    log_weights = merge_chains(state.log_weights[nearest])

    def fit(inputs: PyTree) -> PyTree:
        number, beta, particles, log_weights = inputs
        return kernel.fit(Cloud(evaluator, beta, particles, log_weights), stream.fold(number), None)

    params = map_rows(xp, fit, (xp.arange(betas.size - 1), betas[1:], population, log_weights))
    step_sizes = map_rows(xp, lambda one: kernel.step_size_of(grouped(one)), params)
    nothing = xp.zeros_like(state.record.rejection)
    record = state.record._replace(
        rejection=nothing,
        acceptance=nothing,
        step_size=xp.broadcast_to(xp.nan if step_sizes is None else step_sizes, nothing.shape).astype(
            state.record.step_size.dtype
        ),
    )
    filled = xp.where(xp.arange(KEPT) < slots, 0.0, -xp.inf).astype(log_weights.dtype)
    log_weights = xp.broadcast_to(filled, state.log_weights.shape)
    return state._replace(betas=betas, log_weights=log_weights, record=record), params


def _explore(
    sampler: "ParallelTempering",
    evaluator: Evaluator,
    state: Tempering,
    params: PyTree,
    refresh_stream: Stream,
    move_stream: Stream,
) -> tuple[Tempering, FloatArray]:
    """An exact draw at beta = 0 and moves by the kernel elsewhere; also the mean acceptance of those."""
    xp = evaluator.xp
    chains, moved = sampler.num_chains, sampler.num_temperatures - 1
    draws = _draw(sampler, evaluator, refresh_stream, chains)
    # The chains of one beta are one group of particles: all betas move in one call.
    others = jax.tree.map(lambda leaf: leaf[1:].reshape(moved * chains, *leaf.shape[2:]), state.particles)
    betas = xp.repeat(state.betas[1:], chains)
    others, info = sampler.kernel.move(evaluator, betas, others, move_stream.rows(moved * chains), params)

    fault = state.fault
    none = xp.zeros((), int)
    fault = first_fault(fault, Status.INVALID_START, none, invalid_draws(evaluator, draws), draws.position)
    stage = 1 + xp.argmax(info.invalid) // chains
    fault = first_fault(fault, Status.INVALID_PROPOSAL, stage, info.invalid, info.proposal)
    particles = jax.tree.map(
        lambda first, rest: xp.concatenate([first[None], rest.reshape(moved, chains, *rest.shape[1:])]), draws, others
    )
    acceptance = xp.mean(info.acceptance.reshape(moved, chains), axis=1).astype(state.record.acceptance.dtype)
    return state._replace(particles=particles, fault=fault), acceptance


def _swap(evaluator: Evaluator, state: Tempering, parity: Count, stream: Stream) -> tuple[Particles, FloatArray]:
    """Exchange neighbors of one parity; also the rejection rate of every pair, tried or not."""
    xp = evaluator.xp
    probability = swap_probability(*neighbor_log_ratios(evaluator.path, state.betas, state.particles.features))
    tried = (xp.arange(probability.shape[0]) % 2 == parity)[:, None]
    accepted = tried & (stream.uniform(probability.shape, probability.dtype) < probability)
    up, down = xp.pad(accepted, ((0, 1), (0, 0))), xp.pad(accepted, ((1, 0), (0, 0)))
    source = xp.arange(state.betas.size)[:, None] + up.astype(int) - down.astype(int)
    chains = xp.arange(probability.shape[1])
    return jax.tree.map(lambda leaf: leaf[source, chains], state.particles), 1 - xp.mean(probability, axis=1)


def _draw(sampler: "ParallelTempering", evaluator: Evaluator, stream: Stream, num: int) -> Particles:
    """Exact draws from the base, evaluated, with what the kernel keeps of each."""
    particles = evaluator.particles(evaluator.draw(stream, num), with_slopes=sampler.kernel.with_slopes)
    return particles._replace(memory=sampler.kernel.first_memory(particles.position, stream))


def _stranded(evaluator: Evaluator, state: Tempering) -> Fault:
    """A chain that the last round saw without mass at its own beta started far from the support."""
    xp = evaluator.xp
    own = evaluator.log_density(state.betas[:, None, None], state.record.features)
    empty = xp.any(own == -xp.inf, axis=2)  # beta, chain
    stage = xp.argmax(xp.any(empty, axis=1))
    return first_fault(state.fault, Status.COLLAPSED, stage, empty[stage], state.particles.position[stage])


def merge_chains(leaf: AnyArray) -> AnyArray:
    """The second and third axis as one."""
    return leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:])


class ParallelTempering(eqx.Module):
    """Non-reversible parallel tempering (Syed, Bouchard-Cote, Deligiannidis and Doucet, 2022) on any path.

    Chains at all betas run at once. Every scan draws the state at beta = 0 afresh from the base and moves the others by
    the kernel at their own beta. It then offers a swap to the even pairs of neighbors or, in every other scan, to the
    odd ones. Round r = 0, 1, ... has `num_scans 2^r` scans. Before each round the betas are re-spaced so that all pairs
    reject equally often, and the kernel is fitted to states of the round before. Within a round both are frozen. The
    estimates come from the last round alone.

    Args:
        num_temperatures: The number of betas, 0 and 1 included.
        num_rounds: Rounds; the run has `num_scans (2^num_rounds - 1)` scans in all.
        kernel: Moves the chains at their betas.
        num_chains: Independent replicas side by side; the standard error is the jackknife over them.
        num_scans: Scans of the first round.

    The log evidence is that of `bridge` between neighbors. It uses the states of both, which the swaps keep
    overlapping; a stepping stone in one direction fails where the states of one beta do not cover the next. Where the
    target is -inf on part of the base, the first pair of a path with q >= 1 rejects however close its betas are; a path
    with q < 1 has no such jump.

    `stats` also has `rejection` (of swaps with the beta before) and its cumulative sum `barrier`, whose last entry is
    the global barrier. For comparison it has the stepping stones `log_evidence_forward` and `log_evidence_reverse`, and
    `log_evidence_integration` (corrected thermodynamic integration). `ess` is that of the weights from the beta before.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.ParallelTempering(4, 4, qp.RandomWalk(2)).run(path, key=jax.random.key(0))
        >>> bool(abs(result.log_evidence - -2.4094) < 0.3)
        True
    """

    num_temperatures: int = eqx.field(static=True)
    num_rounds: int = eqx.field(static=True)
    kernel: AbstractKernel[Any]
    num_chains: int = eqx.field(static=True, default=8)
    num_scans: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        check_num("num_temperatures", self.num_temperatures)
        check_parts(self.kernel)
        check_num("num_rounds", self.num_rounds, smallest=1)
        check_num("num_chains", self.num_chains)
        check_num("num_scans", self.num_scans)

    def run(self, path: AbstractPath[Any], *, key: RandomKey) -> Result:
        """Run all rounds.

        The samples are the states at beta = 1 of the last round, replica by replica, with equal weights. `features` are
        those of the states at all betas, for `qpaths.stats.estimators`.
        """
        evaluator, stream = self.begin(path, key=key)
        return self.finish(evaluator, temper(self, evaluator, stream))

    def begin(self, path: AbstractPath[Any], *, key: RandomKey) -> tuple[Evaluator, Any]:
        """Return what a run works with: the path's evaluator and its random numbers."""
        stream = stream_for(key, path, self)
        return evaluator_of(path, stream, with_slopes=self.kernel.with_slopes), stream

    def finish(self, evaluator: Evaluator, state: Tempering) -> Result:
        """The result of a run whose rounds are over."""
        raise_fault(evaluator, state.fault, state.betas)
        log_evidence, standard_error, stats = summarize(evaluator.path, state.betas, state.record)
        samples = state.record.samples.reshape(-1, state.record.samples.shape[-1])
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=standard_error,
            samples=evaluator.layout.points(samples),
            log_weights=evaluator.xp.full(samples.shape[0], log_evidence),
            betas=state.betas,
            stats=stats,
            status=state.fault.status,
            num_evaluations=self.num_evaluations,
            algorithm="Parallel tempering",
            features=jax.tree.map(merge_chains, state.record.features),
        )

    @property
    def scans_per_round(self) -> list[int]:
        """Scans of each round: every round has twice as many as the one before."""
        return [self.num_scans * 2**r for r in range(self.num_rounds)]

    @property
    def num_evaluations(self) -> Cost:
        """Cost of a run: first draws, a draw and the moves of each scan, and the fits of each round."""
        moved = self.num_temperatures - 1
        draws = self.num_chains * (KEPT + sum(self.scans_per_round))
        moves = self.num_chains * sum(self.scans_per_round) * moved * self.kernel.num_steps
        fits = self.num_rounds * moved * self.kernel.fit_cost(self.num_chains * KEPT, again=False)
        return self.kernel.start_cost(draws) + moves * self.kernel.cost + fits


@quiet()
def summarize(path: AbstractPath[Any], betas: AnyArray, record: Record) -> tuple[Any, Any, Stats]:
    """Log evidence, its standard error and the statistics of each beta after the first."""
    xp = namespace(betas, record.samples)
    num_pairs, chains = betas.size - 1, record.samples.shape[0]
    features = jax.tree.map(merge_chains, record.features)
    forward, reverse = neighbor_log_ratios(path, betas, features)
    moments = moments_of(path, betas, features)
    increments = bridge(forward, reverse)
    standard_error = jackknife_se(
        lambda f, r: xp.sum(bridge(merge_chains(f), merge_chains(r))),
        forward.reshape(num_pairs, chains, -1),
        reverse.reshape(num_pairs, chains, -1),
    )
    stats: Stats = {
        "beta": betas[1:],
        "ess": xp.exp(log_ess(forward)),
        "acceptance": record.acceptance,
        "step_size": record.step_size,
        "log_evidence": xp.cumsum(increments),
        "log_evidence_forward": xp.cumsum(stepping_stone(forward)),
        "log_evidence_reverse": -xp.cumsum(stepping_stone(reverse)),
        "log_evidence_integration": xp.cumsum(thermodynamic_integration(betas, moments.mean, moments.slope)),
        "derivative_mean": moments.mean[1:],
        "derivative_variance": moments.variance[1:],
        "derivative_slope": moments.slope[1:],
        "rejection": record.rejection,
        "barrier": xp.cumsum(record.rejection),
    }
    return xp.sum(increments), standard_error, stats


def moments_of(path: AbstractPath[Any], betas: AnyArray, features: Features) -> DerivativeMoments:
    """Moments of the path's derivative at every beta of a stored run, whose states all count alike."""
    xp = namespace(betas, features)
    num_states = jax.tree.leaves(features)[0].shape[1]
    return derivative_moments(path, betas[:, None], features, xp.zeros((betas.size, num_states), betas.dtype))
