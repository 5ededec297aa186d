"""Thermodynamic integration over the states of another sampler."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from .._checks import is_concrete
from .._numerics import log_mean_exp
from .._types import Point, PRNGKey
from ..estimators import DerivativeMoments, check_rule, derivative_moments, few_replicas, thermodynamic_integration
from ..kernels.base import FlatPath
from ..paths import AbstractPath
from ..results import NumEvaluations, Result, Status
from ..schedules import AdaptiveSchedule, FixedSchedule
from .ais import AIS
from .base import Fault, complete
from .checks import check_num, example_of, raise_fault_on
from .pt import ParallelTempering, moments_of, temper
from .smc import SMC


class ThermodynamicIntegration(eqx.Module):
    """Thermodynamic integration, or path sampling (Gelman and Meng, 1998): log Z is the integral of E[d/dbeta log pi].

    `sampler`, an `SMC`, `AIS` or `ParallelTempering`, gives the means at its betas; exact draws from the base give the
    one at beta = 0. `rule` is that of `thermodynamic_integration`. The whole is repeated `num_replicates` times with
    keys of their own: the log evidence is the mean, its standard error comes from the spread, and `betas` and `stats`
    are averages (`ess` the sum). An adaptive schedule is found in one run before and then frozen. The error of the
    rule itself, which falls with the number of betas, is not part of the standard error.
    """

    sampler: SMC | AIS | ParallelTempering
    rule: str = eqx.field(static=True, default="corrected")
    num_replicates: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        check_num("num_replicates", self.num_replicates)
        check_rule(self.rule)
        if not isinstance(self.sampler, SMC | AIS | ParallelTempering):
            raise ValueError(f"`sampler` must be an SMC, AIS or ParallelTempering, got {type(self.sampler).__name__}.")

    def run(self, path: AbstractPath[Any], *, key: PRNGKey) -> Result:
        """Run the sampler `num_replicates` times and integrate; the samples are those of all runs."""
        example = example_of(path, key)
        freeze_key, run_key = jax.random.split(key)
        sampler, spent = _frozen(self.sampler, path, freeze_key)
        keys = jax.random.split(run_key, self.num_replicates)
        runs, faults, starts = _run_replicates(sampler, path, example, keys)
        _raise_first(FlatPath(path, ravel_pytree(example)[1]), faults, runs.betas)
        _raise_infinite(path, starts.mean)

        integrals = jax.vmap(self._integrate)(runs, starts)
        totals = integrals[:, -1]
        log_evidence = jnp.mean(totals)
        log_weights = runs.log_weights.reshape(-1)
        status = jnp.max(jnp.where(jnp.isinf(starts.mean), int(Status.INFINITE_INTEGRAND), faults.status))
        stats = {**runs.stats, "log_evidence": integrals, "ess": self.num_replicates * runs.stats["ess"]}
        return Result(
            log_evidence=log_evidence,
            log_evidence_se=few_replicas(len(totals)) * jnp.std(totals, ddof=1) / jnp.sqrt(float(len(totals))),
            samples=jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), runs.samples),
            log_weights=log_weights - log_mean_exp(log_weights) + log_evidence,
            betas=jnp.mean(runs.betas, axis=0),
            stats=jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), stats),
            status=status,
            num_evaluations=spent + NumEvaluations(*(self.num_replicates * n for n in runs.num_evaluations)),
            algorithm="Thermodynamic integration",
        )

    def _integrate(self, run: Result, start: DerivativeMoments) -> Array:
        """The integral from 0 to each later beta."""
        means = jnp.concatenate([start.mean[None], run.stats["derivative_mean"]])
        slopes = jnp.concatenate([start.slope[None], run.stats["derivative_slope"]])
        return jnp.cumsum(thermodynamic_integration(run.betas, means, slopes, rule=self.rule))


def _frozen(sampler: Any, path: AbstractPath[Any], key: PRNGKey) -> tuple[Any, NumEvaluations]:
    """The sampler with a fixed schedule, and what it cost to find it: replicates then share their betas."""
    if not (isinstance(sampler, SMC) and isinstance(sampler.schedule, AdaptiveSchedule)):
        return sampler, NumEvaluations(0, 0, 0, 0)
    pilot = sampler.run(path, key=key)
    frozen = eqx.tree_at(lambda s: s.schedule, sampler, FixedSchedule(pilot.betas))
    return frozen, pilot.num_evaluations


@jax.jit
def _run_replicates(
    sampler: Any, path: AbstractPath[Any], example: Point, keys: Array
) -> tuple[Result, Fault, DerivativeMoments]:
    # Parallel tempering has replicas of its own to fill the machine; one run after the other saves memory.
    each = jax.lax.map if isinstance(sampler, ParallelTempering) else lambda run, keys: jax.vmap(run)(keys)
    return each(lambda key: _run_from_base(sampler, path, example, key), keys)


def _run_from_base(
    sampler: Any, path: AbstractPath[Any], example: Point, key: PRNGKey
) -> tuple[Result, Fault, DerivativeMoments]:
    """One run, what went wrong in it, and the moments of the derivative at beta = 0 from exact draws."""
    if isinstance(sampler, ParallelTempering):
        tempering = temper(sampler, path, example, key)
        result = sampler.finish(path, example, tempering)
        start = moments_of(path, result.betas[:1], jax.tree.map(lambda leaf: leaf[:1], result.features))
        return result, tempering.fault, jax.tree.map(lambda leaf: leaf[0], start)
    annealing, state = sampler.begin(path, key=key)
    start = derivative_moments(path, state.beta, state.particles.features, state.log_weights)
    state, stats, _ = complete(annealing, state)
    return sampler.finish(annealing, state, stats), state.fault, start


def _raise_first(flat: FlatPath, faults: Fault, betas: Array) -> None:
    """Raise the first concrete fault among those of all replicates."""
    if is_concrete(faults):
        worst = jnp.argmax(faults.status != Status.OK)
        fault = jax.tree.map(lambda leaf: leaf[worst], faults)
        raise_fault_on(flat, fault, betas[worst, fault.stage])


def _raise_infinite(path: AbstractPath[Any], means: Array) -> None:
    """Raise where the target has no mass at a draw from the base and the integrand at beta = 0 is then infinite."""
    if is_concrete(means) and jnp.isinf(means).any():
        raise FloatingPointError(
            f"the derivative of {type(path).__name__} is infinite at a draw from the base: the target is -inf on part "
            f"of the base, and the integral does not see that mass vanish at beta = 0. Take a path with q < 1 "
            f"(`QPath(base, target, q=0.9)`), or estimate with SMC or ParallelTempering itself."
        )
