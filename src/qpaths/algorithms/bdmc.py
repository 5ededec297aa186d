"""Bidirectional Monte Carlo: AIS forwards on the path and backwards on `Reversed(path)`."""

from typing import Any

import equinox as eqx
import jax

from .._checks import is_concrete
from .._types import Point, Scalar
from ..annealing import Annealing, Fault, anneal
from ..arrays import HostStream, RandomKey, namespace, quiet, to_host
from ..densities import evaluate
from ..evaluation import Layout, layout_of, stream_for
from ..kernels import AbstractKernel
from ..paths import AbstractPath, Reversed
from ..results import BoundsResult, Result, Status
from ..schedules import AbstractSchedule, FixedSchedule
from .ais import AIS, check_chains, lower_bound

_REVERSE = 1000
"""Folded into the key of the reverse chains; the forward ones have the key itself, as an AIS would."""


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
        check_chains(self.num_chains, self.schedule, self.kernel, self.chunk_size)

    @property
    def forward(self) -> AIS:
        return AIS(self.num_chains, self.schedule, self.kernel, self.chunk_size)

    def run(self, path: AbstractPath[Any], target_samples: Point, *, key: RandomKey) -> BoundsResult:
        """Bounds on the log evidence of `path.target`.

        `target_samples` is one exact draw from the target, used by all chains, or one per chain (leading axis).
        """
        points = one_per_chain(target_samples, layout_of(path), self.num_chains)
        stream = stream_for(key, path, self, points)
        annealing, state = self.forward.begin(path, key=stream)
        found = self.forward.finish(annealing, *anneal(annealing, state))
        return bounds_of(found, self.reverse(path, points, key=stream.fold(_REVERSE), kernel=annealing.kernel))

    def reverse(
        self, path: AbstractPath[Any], target_samples: Point, *, key: Any, kernel: AbstractKernel[Any] | None = None
    ) -> Result:
        """The chains from the target to the base alone, by the `kernel` that was fitted for the forward ones."""
        points = one_per_chain(target_samples, layout_of(path), self.num_chains)
        stream = stream_for(key, path, self, points)
        if isinstance(stream, HostStream):
            points = to_host(points)
        backwards = AIS(self.num_chains, _reversed(self.forward.betas), self.kernel, self.chunk_size)
        kernel = (self.kernel if kernel is None else kernel).reversed()
        annealing, state = backwards.begin_at(Reversed(path), points, kernel, None, stream)
        _check_start(path, annealing, state.fault)
        return backwards.finish(annealing, *anneal(annealing, state), with_pilot=False)


def _reversed(betas: Any) -> FixedSchedule:
    return FixedSchedule(1 - betas[::-1])


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
    return namespace(result.log_weights).std(result.log_weights, ddof=1) / result.log_weights.shape[0] ** 0.5


def one_per_chain(samples: Point, layout: Layout, num_chains: int) -> Point:
    """Draws with a leading axis of one per chain, whichever of the two forms was given."""
    xp = namespace(samples)
    leaves, structure = jax.tree.flatten(samples)
    shapes = tuple(xp.shape(leaf) for leaf in leaves)
    many = tuple((num_chains, *shape) for shape in layout.shapes)
    if structure != layout.structure or shapes not in (layout.shapes, many):
        one, each, given = (
            jax.tree.unflatten(tree, found)
            for tree, found in ((layout.structure, layout.shapes), (layout.structure, many), (structure, shapes))
        )
        raise ValueError(
            f"`target_samples` must be one point of shape {one}, or one per chain of shape {each}, got {given}: "
            f"give arrays in the form in which `base.sample` draws them."
        )
    leaves = [
        xp.broadcast_to(xp.asarray(leaf, dtype), shape)
        for leaf, dtype, shape in zip(leaves, layout.dtypes, many, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)
