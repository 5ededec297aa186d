"""The protocol of the code released with the paper, whose kernel adapts inside the weighted run."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Float, Int

from ..algorithms import BDMC, check_chains
from ..core import AnyArray, Point, PyTree, RandomKey, RealLike, Rows, Scalar, Stream, namespace
from ..kernels import HMC, Cloud, Info, KernelWrapper, LeapfrogParams
from ..paths import AbstractPath
from ..results import BoundsResult, Result
from ..rows import Evaluator, Particles
from ..schedules import AbstractFixedSchedule

_FIRST_STEP, _SMALLEST_STEP, _LARGEST_STEP = 0.01, 1e-4, 0.5
_FACTOR, _WANTED_ACCEPTANCE = 0.02, 0.65


class StepSizes(NamedTuple):
    """The step size of each chain, and how many of its proposals were made and accepted."""

    step_size: Float[AnyArray, " chains"]
    num_proposed: Int[AnyArray, " chains"]
    num_accepted: Int[AnyArray, " chains"]


class AdaptingHMC(KernelWrapper):
    """Hamiltonian Monte Carlo with unit masses and a step size for each chain, which follows what the chain accepts."""

    def __init__(self, num_leapfrog: int):
        self.kernel = HMC(1, num_leapfrog, step_size=_FIRST_STEP, preconditioner="none", jitter=0.0)

    def first_memory(self, position: Rows, stream: Stream) -> StepSizes:
        """Return the same step size for every chain."""
        xp, num = namespace(position), position.shape[0]
        return StepSizes(xp.full(num, _FIRST_STEP, position.dtype), xp.zeros(num, int), xp.zeros(num, int))

    def fit(self, cloud: Cloud, stream: Stream, previous: None) -> None:
        """Fit nothing: what a chain needs is in its memory."""

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: None
    ) -> tuple[Particles, Info]:
        """Move by the step size of each chain, and change it by the rule of the released code."""
        xp, before = evaluator.xp, particles.memory
        masses = xp.ones((1, particles.position.shape[1]), particles.position.dtype)
        own = LeapfrogParams(masses, before.step_size)
        particles, info = self.kernel.transition(evaluator, beta, particles._replace(memory=None), randomness, own)
        num_proposed, num_accepted = before.num_proposed + 1, before.num_accepted + info.accepted
        factor = xp.where(num_accepted > _WANTED_ACCEPTANCE * num_proposed, 1 + _FACTOR, 1 - _FACTOR)
        step_size = (before.step_size * factor).clip(_SMALLEST_STEP, _LARGEST_STEP).astype(before.step_size.dtype)
        return particles._replace(memory=StepSizes(step_size, num_proposed, num_accepted)), info

    def step_size_of(self, params: None, memory: Any = None) -> Scalar:
        return memory.step_size.mean()


class ReleasedProtocol(eqx.Module):
    """Forward and reverse annealing as in the released code: compare with it, and use `BDMC` for bounds.

    Hamiltonian Monte Carlo with unit masses. Each chain has its own step size, 0.01 at first. After each transition it
    is multiplied by 1.02 if more than 65 % of the chain's proposals so far were accepted, and by 0.98 if not. It is
    kept within [1e-4, 0.5]. The reverse run starts at 0.01 again. Because the kernel at a beta depends on the
    chain's past it does not leave the density there invariant, so the mean weight is biased and the bounds are not
    exact.

    Args:
        num_chains: Chains in each direction.
        schedule: A fixed schedule.
        num_leapfrog: Leapfrog steps of a transition.

    See [The released protocol](models.md#the-released-protocol).

    Examples:
        >>> import qpaths as qp
        >>> ReleasedProtocol(10, qp.LinearSchedule(100)).num_leapfrog
        10
    """

    num_chains: int = eqx.field(static=True)
    schedule: AbstractFixedSchedule
    num_leapfrog: int = eqx.field(static=True, default=10)

    def __check_init__(self) -> None:
        check_chains(self.num_chains, self.schedule, AdaptingHMC(self.num_leapfrog), None)

    @property
    def both_ways(self) -> BDMC:
        """The algorithm that runs the kernel."""
        return BDMC(self.num_chains, self.schedule, AdaptingHMC(self.num_leapfrog))

    def run(self, path: AbstractPath[Any], target_samples: Point, *, key: RandomKey) -> BoundsResult:
        """Run both directions, as `BDMC.run` does."""
        bounds = self.both_ways.run(path, target_samples, key=key)
        return dataclasses.replace(bounds, forward=_named(bounds.forward), reverse=_named(bounds.reverse))

    def forward(self, path: AbstractPath[Any], *, key: RandomKey) -> Result:
        """Run the chains from the base to the target alone, as they are in `run` with the same key."""
        return _named(self.both_ways.forward.run(path, key=key))


def _named(result: Result) -> Result:
    return dataclasses.replace(result, algorithm="released protocol")
