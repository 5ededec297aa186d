"""Bidirectional Monte Carlo: AIS forwards on the path and backwards on `Reversed(path)`."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._checks import is_concrete
from .._types import Point, PRNGKey, Scalar
from ..kernels import AbstractKernel
from ..paths import AbstractPath, Reversed
from ..results import BoundsResult, Result, Status
from ..schedules import AbstractSchedule, FixedSchedule
from .ais import AIS, lower_bound
from .base import Annealing, Fault, complete
from .checks import example_of


class BDMC(eqx.Module):
    """Bidirectional Monte Carlo (Grosse, Ghahramani and Adams, 2015).

    Forward chains give a stochastic lower bound on the log evidence, reverse chains from an exact draw of the target an
    upper bound. The kernel is fitted in one pilot and frozen; both directions use the same parameters.
    """

    num_chains: int = eqx.field(static=True)
    schedule: AbstractSchedule
    kernel: AbstractKernel[Any]
    chunk_size: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        self.forward  # noqa: B018  (its checks are ours)

    @property
    def forward(self) -> AIS:
        return AIS(self.num_chains, self.schedule, self.kernel, self.chunk_size)

    def run(self, path: AbstractPath[Any], target_samples: Point, *, key: PRNGKey) -> BoundsResult:
        """Bounds on the log evidence of `path.target`.

        `target_samples` is one exact draw from the target, used by all chains, or one per chain (leading axis).
        """
        points = one_per_chain(target_samples, example_of(path, key), self.num_chains)
        annealing, state = self.forward.begin(path, key=key)
        state, stats, _ = complete(annealing, state)
        forward = self.forward.finish(annealing, state, stats)
        reverse = self.reverse(path, points, key=key, params=annealing.params)
        return bounds_of(forward, reverse)

    def reverse(self, path: AbstractPath[Any], target_samples: Point, *, key: PRNGKey, params: Any = None) -> Result:
        """The chains from the target to the base alone, with the `params` that were fitted for the forward ones."""
        example = example_of(path, key)
        points = one_per_chain(target_samples, example, self.num_chains)
        backwards = AIS(self.num_chains, _reversed(self.forward.betas), self.kernel.reversed(), self.chunk_size)
        # The reverse chain steps to betas[-2], ..., betas[0]; the last of them moves at the base, where any will do.
        params = jax.tree.map(lambda leaf: jnp.concatenate([leaf[:-1][::-1], leaf[:1]]), params)
        annealing, state = backwards.begin_at(Reversed(path), points, example, params, key=jax.random.fold_in(key, 1))
        _check_start(path, annealing, state.fault)
        state, stats, _ = complete(annealing, state)
        return backwards.finish(annealing, state, stats, with_pilot=False)


def _reversed(betas: Any) -> AbstractSchedule:
    return FixedSchedule(1 - betas[::-1])


def _check_start(path: AbstractPath[Any], annealing: Annealing, fault: Fault) -> None:
    """Raise if the target has no mass at one of the draws that the user gave."""
    if not is_concrete(fault) or int(fault.status) == Status.OK:
        return
    point = annealing.flat.unravel(fault.position)
    target, base = (float(density.log_prob(point)) for density in (path.target, path.base))
    raise FloatingPointError(
        f"`target_samples` must be draws from the target, but one of them is {point}, where `target.log_prob` is "
        f"{target} and `base.log_prob` is {base}: give exact draws, or mend the density if that is one."
    )


def bounds_of(forward: Result, reverse: Result) -> BoundsResult:
    """The bounds that the log weights of chains in both directions give."""
    return BoundsResult(
        lower=lower_bound(forward.log_weights),
        upper=-lower_bound(reverse.log_weights),
        lower_se=_mean_se(forward),
        upper_se=_mean_se(reverse),
        forward=forward,
        reverse=reverse,
    )


def _mean_se(result: Result) -> Scalar:
    return jnp.std(result.log_weights, ddof=1) / jnp.sqrt(float(result.log_weights.shape[0]))


def one_per_chain(samples: Point, example: Point, num_chains: int) -> Point:
    """Draws with a leading axis of one per chain, whichever of the two forms was given."""
    shapes = jax.tree.map(jnp.shape, samples)
    one = jax.tree.map(jnp.shape, example)
    many = jax.tree.map(lambda leaf: (num_chains, *leaf.shape), example)
    if jax.tree.structure(samples) != jax.tree.structure(example) or shapes not in (one, many):  # type: ignore[operator]
        raise ValueError(
            f"`target_samples` must be one point of shape {one}, or one per chain of shape {many}, got {shapes}: "
            f"give arrays in the form in which `base.sample` draws them."
        )
    samples = jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), samples, example)
    if shapes == many:
        return samples
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_chains, *leaf.shape)), samples)
