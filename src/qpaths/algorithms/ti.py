"""Thermodynamic integration over the states of another sampler."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ..annealing import Fault, anneal
from ..core import AnyArray, Cost, RandomKey, Stream, check_num, is_concrete, log_mean_exp, namespace, quiet
from ..paths import AbstractPath
from ..results import Result, Status
from ..rows import Evaluator, evaluator_of, stream_for
from ..schedules import AdaptiveSchedule, FixedSchedule
from ..stats import DerivativeMoments, check_rule, few_replicas, moments_from, thermodynamic_integration
from .base import AbstractAnnealer, raise_fault
from .pt import ParallelTempering, moments_of, temper
from .replicates import replicate


class ThermodynamicIntegration(eqx.Module):
    """Thermodynamic integration, or path sampling (Gelman and Meng, 1998).

    The log evidence is the integral over beta of `E[d/dbeta log pi_beta]`. The sampler gives the means at its betas.
    Exact draws from the base give the mean at beta = 0. An adaptive schedule is found in an earlier run and frozen.

    Args:
        sampler: An annealer such as `SMC` or `AIS`, or `ParallelTempering`.
        rule: `"corrected"`, `"simpson"` or `"trapezoid"`, as in `qpaths.stats.estimators.thermodynamic_integration`.
        num_replicates: Independent runs. The log evidence is their mean, and its standard error comes from their
            spread. `betas` and `stats` are averages; `ess` is the sum.

    The error of the rule itself, which falls with the number of betas, is not part of the standard error. Where the
    target is -inf on part of the base, the integrand of a path with q >= 1 is infinite at beta = 0, which is an error.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> sampler = qp.SMC(200, qp.LinearSchedule(9), qp.RandomWalk(3))
        >>> result = qp.ThermodynamicIntegration(sampler).run(path, key=jax.random.key(0))
        >>> bool(abs(result.log_evidence - -2.4094) < 0.5)
        True
    """

    sampler: AbstractAnnealer | ParallelTempering
    rule: str = eqx.field(static=True, default="corrected")
    num_replicates: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        check_num("num_replicates", self.num_replicates)
        check_rule(self.rule)
        if not isinstance(self.sampler, AbstractAnnealer | ParallelTempering):
            raise ValueError(
                f"`sampler` must be an annealer (SMC, AIS) or ParallelTempering, got {type(self.sampler).__name__}."
            )

    def run(self, path: AbstractPath[Any], *, key: RandomKey) -> Result:
        """Run the sampler `num_replicates` times and integrate. The samples are those of all runs."""
        freeze, run = stream_for(key, path, self).split(2)
        sampler, spent = _frozen(self.sampler, path, freeze)
        # Parallel tempering has replicas of its own to fill the machine; one run after the other saves memory.
        num = self.num_replicates
        at_once = None if isinstance(sampler, ParallelTempering) else num
        runs, faults, starts = replicate(_run_from_base, sampler, path, num, run, at_once=at_once)
        _raise_first(evaluator_of(path, run, with_slopes=False), faults, runs.betas)
        _raise_infinite(path, starts.mean)

        xp = namespace(runs.log_weights)
        pairs = (starts.mean, runs.stats["derivative_mean"]), (starts.slope, runs.stats["derivative_slope"])
        means, slopes = (xp.concatenate([start[:, None], rest], axis=1) for start, rest in pairs)
        rows = zip(runs.betas, means, slopes, strict=True)
        integrals = xp.stack([xp.cumsum(thermodynamic_integration(*row, rule=self.rule)) for row in rows])
        totals = integrals[:, -1]
        log_evidence = xp.mean(totals)
        log_weights = runs.log_weights.reshape(-1)
        status = xp.max(xp.where(xp.isinf(starts.mean), int(Status.INFINITE_INTEGRAND), faults.status))
        stats = {**runs.stats, "log_evidence": integrals, "ess": num * runs.stats["ess"]}
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=few_replicas(len(totals)) * xp.std(totals, ddof=1) / len(totals) ** 0.5,
            samples=jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), runs.samples),
            log_weights=log_weights - log_mean_exp(log_weights) + log_evidence,
            betas=xp.mean(runs.betas, axis=0),
            stats=jax.tree.map(lambda leaf: xp.mean(leaf, axis=0), stats),
            status=status,
            num_evaluations=spent + num * runs.num_evaluations,
            algorithm="Thermodynamic integration",
        )


def _frozen(sampler: Any, path: AbstractPath[Any], key: RandomKey) -> tuple[Any, Cost]:
    """The sampler with a fixed schedule, and what it cost to find it: replicates then share their betas."""
    if not isinstance(getattr(sampler, "schedule", None), AdaptiveSchedule):
        return sampler, Cost()
    pilot = sampler.run(path, key=key)
    frozen = eqx.tree_at(lambda s: s.schedule, sampler, FixedSchedule(pilot.betas))
    return frozen, pilot.num_evaluations


class _Replicates(NamedTuple):
    """Independent runs; the first axis of every array is the run."""

    runs: Result
    faults: Fault
    starts: DerivativeMoments
    """Moments of the derivative at beta = 0, from exact draws."""


@quiet()
def _run_from_base(sampler: Any, path: AbstractPath[Any], stream: Stream) -> _Replicates:
    """One run, what went wrong in it, and the moments of the derivative at beta = 0 from exact draws."""
    if isinstance(sampler, ParallelTempering):
        evaluator, stream = sampler.begin(path, key=stream)
        tempering = temper(sampler, evaluator, stream)
        result = sampler.finish(evaluator, tempering)
        start = moments_of(evaluator.path, result.betas[:1], jax.tree.map(lambda leaf: leaf[:1], result.features))
        return _Replicates(result, tempering.fault, jax.tree.map(lambda leaf: leaf[0], start))
    annealing, state = sampler.begin(path, key=stream)
    first, second = annealing.evaluator.derivatives(state.beta, state.particles.features)
    start = moments_from(first, second, state.log_weights)
    state, stats = anneal(annealing, state)
    return _Replicates(sampler.finish(annealing, state, stats), state.fault, start)


def _raise_first(evaluator: Evaluator, faults: Fault, betas: AnyArray) -> None:
    """Raise the first concrete fault among those of all replicates."""
    if is_concrete(faults):
        worst = int(np.argmax(np.asarray(faults.status) != Status.OK))
        raise_fault(evaluator, jax.tree.map(lambda leaf: leaf[worst], faults), betas[worst])


def _raise_infinite(path: AbstractPath[Any], means: AnyArray) -> None:
    """Raise where the target has no mass at a draw from the base and the integrand at beta = 0 is then infinite."""
    if is_concrete(means) and np.isinf(np.asarray(means)).any():
        raise FloatingPointError(
            f"the derivative of {type(path).__name__} is infinite at a draw from the base: the target is -inf on part "
            f"of the base, and the integral does not see that mass vanish at beta = 0. Take a path with q < 1 "
            f"(`QPath(base, target, q=0.9)`), or estimate with SMC or ParallelTempering itself."
        )
