"""Parallel tempering: chains at every beta at once, which exchange their states."""

from typing import Any

import equinox as eqx
import jax

from ..core import Cost, RandomKey, check_num, log_ess, namespace, quiet
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..recipe import check_parts
from ..results import Result, Stats
from ..rows import Evaluator, evaluator_of, stream_for
from ..stats import (
    DerivativeMoments,
    bridge,
    derivative_moments,
    jackknife_se,
    neighbor_log_ratios,
    stepping_stone,
    thermodynamic_integration,
)
from .raising import raise_fault
from .tempering import KEPT, Record, Tempering, merge_chains, temper


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

    def begin(self, path: AbstractPath[Any], *, key: Any) -> tuple[Evaluator, Any]:
        """What a run works with: the path's evaluator and its random numbers."""
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
        """What a run costs: first draws, a draw and the moves of each scan, and the fits of each round."""
        moved = self.num_temperatures - 1
        draws = self.num_chains * (KEPT + sum(self.scans_per_round))
        moves = self.num_chains * sum(self.scans_per_round) * moved * self.kernel.num_steps
        fits = self.num_rounds * moved * self.kernel.fit_cost(self.num_chains * KEPT, again=False)
        return self.kernel.start_cost(draws) + moves * self.kernel.cost + fits


@quiet()
def summarize(path: AbstractPath[Any], betas: Any, record: Record) -> tuple[Any, Any, Stats]:
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


def moments_of(path: AbstractPath[Any], betas: Any, features: Any) -> DerivativeMoments:
    """Moments of the path's derivative at every beta of a stored run, whose states all count alike."""
    xp = namespace(betas, features)
    num_states = jax.tree.leaves(features)[0].shape[1]
    return derivative_moments(path, betas[:, None], features, xp.zeros((betas.size, num_states), betas.dtype))
