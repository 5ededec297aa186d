"""Parallel tempering: chains at every beta at once, which exchange their states."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from .._numerics import log_ess
from .._types import FloatArray, Point, PRNGKey
from ..estimators import (
    DerivativeMoments,
    bridge,
    derivative_moments,
    jackknife_se,
    neighbour_log_ratios,
    stepping_stone,
    thermodynamic_integration,
)
from ..kernels import AbstractKernel, Particle
from ..kernels.base import FlatPath
from ..paths import AbstractPath
from ..results import NumEvaluations, Result, Status
from ..schedules import respace
from .base import Fault, first_fault
from .checks import check_num, check_parts, example_of, raise_fault_on

_KEPT = 64
"""States per chain and beta that the kernel is fitted to, spread over a round; for the first, draws from the base."""


class Record(NamedTuple):
    """What a round saw; axes are beta, chain, scan."""

    features: Any
    samples: Float[Array, "chains scans d"]
    rejection: Float[Array, " pairs"]
    acceptance: Float[Array, " pairs"]
    step_size: Float[Array, " pairs"]


class Tempering(NamedTuple):
    """All that a run carries from one round to the next; axes are beta, chain."""

    betas: Float[Array, " num"]
    particles: Particle
    kept: Particle
    log_weights: Float[Array, "num chains kept"]
    record: Record
    fault: Fault


class ParallelTempering(eqx.Module):
    """Non-reversible parallel tempering (Syed, Bouchard-Cote, Deligiannidis and Doucet, 2022) on any path.

    Every scan draws the state at beta = 0 afresh from the base, moves the others by the kernel at their own beta, and
    then offers a swap to the even or, in every other scan, the odd pairs of neighbours. Round r = 0, 1, ... has
    `num_scans 2^r` scans, `num_scans (2^num_rounds - 1)` in all. Before each round the betas are re-spaced so that all
    pairs reject equally often, and the kernel is fitted at each beta to states of the round before; within a round both
    are frozen, and the estimates come from the last round alone. `num_chains` independent replicas run side by side.

    The log evidence is that of `bridge` between neighbours: it uses the states of both, which the swaps keep
    overlapping, and has the least variance of its kind for independent states; a stepping stone in one direction fails
    where the states of one beta do not cover the next. Its standard error is the jackknife over the replicas. Where the
    target is -inf on part of the base, the first pair of a path with q >= 1 rejects however close its betas are; a path
    with q < 1 has no such jump.

    `stats` also has the measured `rejection` of swaps with the beta before, their sum so far, the `barrier` (the last
    is the global barrier), and for comparison `log_evidence_forward` and `log_evidence_reverse` (stepping stones) and
    `log_evidence_integration` (corrected thermodynamic integration); `ess` is that of the weights from the beta before.
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

    def run(self, path: AbstractPath[Any], *, key: PRNGKey) -> Result:
        """Run all rounds; the samples are the states at beta = 1 of the last, replica by replica."""
        example = example_of(path, key)
        return self.finish(path, example, temper(self, path, example, key))

    def finish(self, path: AbstractPath[Any], example: Point, state: Tempering) -> Result:
        """The result of a run whose rounds are over."""
        flat = FlatPath(path, ravel_pytree(example)[1])
        raise_fault_on(flat, state.fault, state.betas[state.fault.stage])
        log_evidence, standard_error, stats = summarise(path, state.betas, state.record)
        samples = state.record.samples.reshape(-1, state.record.samples.shape[-1])
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=standard_error,
            samples=jax.vmap(flat.unravel)(samples),
            log_weights=jnp.full(samples.shape[0], log_evidence),
            betas=state.betas,
            stats=stats,
            status=state.fault.status,
            num_evaluations=self.num_evaluations,
            algorithm="Parallel tempering",
            features=jax.tree.map(_merge_chains, state.record.features),
        )

    @property
    def scans_per_round(self) -> list[int]:
        return [self.num_scans * 2**r for r in range(self.num_rounds)]

    @property
    def num_evaluations(self) -> NumEvaluations:
        """Of a run: the draws it starts from, a draw and the moves of each scan, the fits of each round."""
        moved = self.num_temperatures - 1
        draws = self.num_chains * (_KEPT + sum(self.scans_per_round))
        moves = self.num_chains * sum(self.scans_per_round) * moved * self.kernel.num_steps
        fit = self.kernel.fit_evaluations(self.num_chains * _KEPT, again=False)
        values = moves * self.kernel.evaluations.values + self.num_rounds * moved * fit.values
        gradients = moves * self.kernel.evaluations.gradients + self.num_rounds * moved * fit.gradients
        if self.kernel.with_slopes:
            gradients += draws
        else:
            values += draws
        return NumEvaluations(values, values, gradients, gradients)


def swap_probability(forward: FloatArray, reverse: FloatArray) -> FloatArray:
    """Probability with which neighbours accept to exchange their states, from the ratios of `neighbour_log_ratios`.

    The log ratio `log pi_i(x_j) + log pi_j(x_i) - log pi_i(x_i) - log pi_j(x_j)` is their sum. A state that would have
    no mass at its new beta stays, even if one that leaves a beta without mass (early in a run) would gain infinitely.
    """
    impossible = (forward == -jnp.inf) | (reverse == -jnp.inf)
    return jnp.exp(jnp.minimum(jnp.where(impossible, -jnp.inf, forward + reverse), 0.0))


@jax.jit
def temper(sampler: ParallelTempering, path: AbstractPath[Any], example: Point, key: PRNGKey) -> Tempering:
    """All rounds. One loop with room for the longest: rounds of different length share the compiled code."""
    flat = FlatPath(path, ravel_pytree(example)[1])
    start_key, run_key = jax.random.split(key)

    def one_round(state: Tempering, inputs: tuple[Array, Array]) -> tuple[Tempering, None]:
        number, num_scans = inputs
        return _round(sampler, flat, state, num_scans, jax.random.fold_in(run_key, number)), None

    inputs = jnp.arange(sampler.num_rounds), jnp.array(sampler.scans_per_round)
    state, _ = jax.lax.scan(one_round, _start(sampler, flat, start_key), inputs)
    return state._replace(fault=_stranded(flat, state))


def _start(sampler: ParallelTempering, flat: FlatPath, key: PRNGKey) -> Tempering:
    """Draws from the base, weighted for each beta: a chain starts at one of its own, the kernel is fitted to all."""
    num, chains, scans = sampler.num_temperatures, sampler.num_chains, sampler.scans_per_round[-1]
    draw_key, choose_key = jax.random.split(key)
    draws = _draw(sampler, flat, draw_key, chains * _KEPT)
    none = jnp.zeros((), int)
    fault = Fault(none, none, jnp.zeros_like(draws.position[0]))
    fault = first_fault(fault, Status.INVALID_START, none, _invalid_draws(flat, draws), draws.position)
    draws = jax.tree.map(lambda leaf: leaf.reshape(chains, _KEPT, *leaf.shape[1:]), draws)

    dtype = flat.path.log_density_from(0.0, jax.tree.map(lambda leaf: leaf[0, 0], draws.features)).dtype
    betas = jnp.linspace(0.0, 1.0, num, dtype=dtype)
    ratio = jax.vmap(jax.vmap(flat.path.log_ratio, in_axes=(None, None, 0)), in_axes=(None, None, 0))
    log_weights = jax.vmap(lambda beta: ratio(betas[0], beta, draws.features))(betas)
    # Chains count alike, so that not all start at the one best draw; without a draw of any mass they start anywhere.
    log_sums = jax.nn.logsumexp(log_weights, axis=-1, keepdims=True)
    log_weights = jnp.where(log_sums > -jnp.inf, log_weights - log_sums, 0.0)
    chosen = jax.random.categorical(choose_key, log_weights)
    particles = jax.tree.map(lambda leaf: leaf[jnp.arange(chains), chosen], draws)
    kept = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num, *leaf.shape)), draws)

    nothing = jnp.zeros(num - 1, dtype)
    features = jax.tree.map(lambda leaf: jnp.zeros((num, chains, scans, *leaf.shape[2:]), leaf.dtype), draws.features)
    samples = jnp.zeros((chains, scans, draws.position.shape[-1]), draws.position.dtype)
    record = Record(features, samples, nothing, jnp.zeros(num - 1), jnp.zeros(num - 1))
    return Tempering(betas, particles, kept, log_weights, record, fault)


def _round(sampler: ParallelTempering, flat: FlatPath, state: Tempering, num_scans: Array, key: PRNGKey) -> Tempering:
    """Betas and parameters of the kernel from the round before, frozen; then the scans."""
    fit_key, scan_key = jax.random.split(key)
    slots = jnp.minimum(num_scans, _KEPT)
    state, params = _adapt(sampler.kernel, flat, state, slots, fit_key)

    def scan(i: Array, state: Tempering) -> Tempering:
        refresh_key, move_key, swap_key = jax.random.split(jax.random.fold_in(scan_key, i), 3)
        state, acceptance = _explore(sampler, flat, state, params, refresh_key, move_key)
        swapped, rejection = _swap(flat, state, i % 2, swap_key)
        explored, old, slot = state.particles, state.record, i * slots // num_scans
        record = Record(
            features=jax.tree.map(lambda rows, leaf: rows.at[:, :, i].set(leaf), old.features, explored.features),
            samples=old.samples.at[:, i].set(explored.position[-1]),
            rejection=old.rejection + rejection / num_scans,
            acceptance=old.acceptance + acceptance / num_scans,
            step_size=old.step_size,
        )
        kept = jax.tree.map(lambda rows, leaf: rows.at[:, :, slot].set(leaf), state.kept, explored)
        return state._replace(particles=swapped, kept=kept, record=record)

    return jax.lax.fori_loop(0, num_scans, scan, state)


def _adapt(
    kernel: AbstractKernel[Any], flat: FlatPath, state: Tempering, slots: Array, key: PRNGKey
) -> tuple[Tempering, Any]:
    """Re-space the betas and fit the kernel at each; the state is ready for a round that keeps `slots` states."""
    betas = respace(state.betas, state.record.rejection)
    # States at the nearest of the old betas show the kernel the right shape.
    nearest = jnp.argmin(jnp.abs(betas[1:, None] - state.betas), axis=1)
    population = jax.tree.map(lambda leaf: _merge_chains(leaf[nearest]), state.kept)
    log_weights = _merge_chains(state.log_weights[nearest])
    keys = jax.random.split(key, nearest.size)
    params = jax.vmap(lambda b, p, w, k: kernel.fit(flat, b, p, w, k, None))(betas[1:], population, log_weights, keys)
    filled = jnp.where(jnp.arange(_KEPT) < slots, 0.0, -jnp.inf).astype(log_weights.dtype)
    record = state.record._replace(
        rejection=jnp.zeros_like(state.record.rejection),
        acceptance=jnp.zeros_like(state.record.acceptance),
        step_size=jax.vmap(kernel.step_size_of, axis_size=nearest.size)(params).astype(state.record.step_size.dtype),
    )
    log_weights = jnp.broadcast_to(filled, state.log_weights.shape)
    return state._replace(betas=betas, log_weights=log_weights, record=record), params


def _explore(
    sampler: ParallelTempering, flat: FlatPath, state: Tempering, params: Any, refresh_key: PRNGKey, move_key: PRNGKey
) -> tuple[Tempering, FloatArray]:
    """An exact draw at beta = 0 and moves by the kernel elsewhere; also the mean acceptance of those."""
    chains, moved = sampler.num_chains, sampler.num_temperatures - 1
    draws = _draw(sampler, flat, refresh_key, chains)
    keys = jax.random.split(move_key, (moved, chains))
    others = jax.tree.map(lambda leaf: leaf[1:], state.particles)
    move = jax.vmap(lambda b, p, k, s: sampler.kernel.move(flat, b, p, k, s), in_axes=(None, 0, 0, None))
    others, info = jax.vmap(move)(state.betas[1:], others, keys, params)

    fault, invalid = state.fault, info.invalid.reshape(-1)
    fault = first_fault(fault, Status.INVALID_START, jnp.zeros((), int), _invalid_draws(flat, draws), draws.position)
    stage = 1 + jnp.argmax(invalid) // chains
    fault = first_fault(fault, Status.INVALID_PROPOSAL, stage, invalid, _merge_chains(info.proposal[None])[0])
    particles = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), draws, others)
    return state._replace(particles=particles, fault=fault), jnp.mean(info.acceptance, axis=1)


def _swap(flat: FlatPath, state: Tempering, parity: Array, key: PRNGKey) -> tuple[Particle, FloatArray]:
    """Exchange neighbours of one parity; also the rejection rate of every pair, tried or not."""
    probability = swap_probability(*neighbour_log_ratios(flat.path, state.betas, state.particles.features))
    tried = (jnp.arange(probability.shape[0]) % 2 == parity)[:, None]
    accepted = tried & (jax.random.uniform(key, probability.shape, probability.dtype) < probability)
    up, down = jnp.pad(accepted, ((0, 1), (0, 0))), jnp.pad(accepted, ((1, 0), (0, 0)))
    source = jnp.arange(state.betas.size)[:, None] + up.astype(int) - down.astype(int)
    chains = jnp.arange(probability.shape[1])
    return jax.tree.map(lambda leaf: leaf[source, chains], state.particles), 1 - jnp.mean(probability, axis=1)


def _draw(sampler: ParallelTempering, flat: FlatPath, key: PRNGKey, num: int) -> Particle:
    def one(key: Array) -> Particle:
        position = ravel_pytree(flat.path.sample_base(key))[0]
        return flat.particle(position, with_slopes=sampler.kernel.with_slopes)

    return jax.vmap(one)(jax.random.split(key, num))


def _invalid_draws(flat: FlatPath, draws: Particle) -> Array:
    ends = jax.vmap(jax.vmap(flat.path.log_density_from, in_axes=(None, 0)), in_axes=(0, None))
    base, target = ends(jnp.array([0.0, 1.0]), draws.features)
    return ~jnp.isfinite(base) | jnp.isnan(target) | (target == jnp.inf)


def _stranded(flat: FlatPath, state: Tempering) -> Fault:
    """A chain that the last round saw without mass at its own beta started far from the support."""
    over_betas = jax.vmap(flat.path.log_density_from)
    own = jax.vmap(jax.vmap(over_betas, in_axes=(None, 1)), in_axes=(None, 2))(state.betas, state.record.features)
    empty = jnp.any(own == -jnp.inf, axis=0)  # chain, beta
    stage = jnp.argmax(jnp.any(empty, axis=0))
    return first_fault(state.fault, Status.COLLAPSED, stage, empty[:, stage], state.particles.position[stage])


def _merge_chains(leaf: Array) -> Array:
    """The second and third axis as one."""
    return leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:])


@jax.jit
def summarise(path: AbstractPath[Any], betas: Array, record: Record) -> tuple[Array, Array, dict[str, Array]]:
    """Log evidence, its standard error and the statistics of each beta after the first."""
    num_pairs, chains = betas.size - 1, record.samples.shape[0]
    features = jax.tree.map(_merge_chains, record.features)
    forward, reverse = neighbour_log_ratios(path, betas, features)
    moments = moments_of(path, betas, features)
    increments = bridge(forward, reverse)
    standard_error = jackknife_se(
        lambda f, r: jnp.sum(bridge(_merge_chains(f), _merge_chains(r))),
        forward.reshape(num_pairs, chains, -1),
        reverse.reshape(num_pairs, chains, -1),
    )
    stats = {
        "beta": betas[1:],
        "ess": jnp.exp(log_ess(forward)),
        "acceptance": record.acceptance,
        "step_size": record.step_size,
        "log_evidence": jnp.cumsum(increments),
        "log_evidence_forward": jnp.cumsum(stepping_stone(forward)),
        "log_evidence_reverse": -jnp.cumsum(stepping_stone(reverse)),
        "log_evidence_integration": jnp.cumsum(thermodynamic_integration(betas, moments.mean, moments.slope)),
        "derivative_mean": moments.mean[1:],
        "derivative_variance": moments.variance[1:],
        "derivative_slope": moments.slope[1:],
        "rejection": record.rejection,
        "barrier": jnp.cumsum(record.rejection),
    }
    return jnp.sum(increments), standard_error, stats


def moments_of(path: AbstractPath[Any], betas: Array, features: Any) -> DerivativeMoments:
    """Moments of the path's derivative at every beta of a stored run, whose states all count alike."""
    num_states = jax.tree.leaves(features)[0].shape[1]
    return jax.vmap(lambda beta, f: derivative_moments(path, beta, f, jnp.zeros(num_states, betas.dtype)))(
        betas, features
    )
