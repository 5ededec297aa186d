"""Schedules whose steps all cost the same, measured on the path with the kernel that will walk it."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..algorithms import BDMC
from ..core import AnyArray, Point, PRNGKey, check_num, to_host
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath
from ..rows import stream_for
from ..schedules import AbstractFixedSchedule, AbstractSchedule, AdaptiveSchedule, FixedSchedule, respace
from .pilot import run_pilot

_SETTLED = 0.25
"""Betas that move by less than this share of a step have settled."""


class Equalized(NamedTuple):
    """A schedule of equal steps, the length of the path along it, and how often it was re-spaced.

    Attributes:
        schedule: The schedule.
        barrier: The sum over the steps of the root of their cost: the length of the path for this kernel.
        num_rounds: How often the betas were re-spaced.

    `qpaths.equalize` returns it. The rule of `num_for` holds where the kernel mixes well.

    See [The schedule](tutorials/choosing.md#the-schedule).

    Examples:
        >>> Equalized(FixedSchedule([0.0, 1.0]), 2.0, 1).num_for(0.1)  # 1 + 2^2 / (2 0.1)
        21
    """

    schedule: FixedSchedule
    barrier: float
    """Sum over the steps of the root of their cost: the length of the path for this kernel."""
    num_rounds: int

    def num_for(self, divergence: float) -> int:
        """Return how many distributions bring the mean log weight of AIS within `divergence` nats of the log evidence.

        Equal steps of total length L lose `L^2 / (2 (num - 1))` where the kernel mixes; SMC with N particles then has a
        standard error of `sqrt(2 divergence / N)`.
        """
        if not divergence > 0:
            raise ValueError(f"`divergence` must be positive, got {divergence}: it is a number of nats.")
        return 1 + max(1, math.ceil(self.barrier**2 / (2 * divergence)))


def equalize(
    path: AbstractPath[Any],
    *,
    key: PRNGKey,
    schedule: AbstractSchedule | int | None = None,
    kernel: AbstractKernel[Any] | None = None,
    num_particles: int = 1000,
    num_rounds: int = 5,
    target_samples: Point | None = None,
) -> Equalized:
    """Re-space the betas of a path so that every step costs the same.

    A pilot run of SMC measures the length of each step (`stats["length"]`: for short steps the standard deviation of
    the log increment). With `target_samples`, exact draws from the target as for `BDMC`, chains in both directions
    measure the root of the forward-reverse discrepancy instead. The betas are placed at equal lengths, and so on until
    they settle. Each round has the same weight as all before it together, which keeps noise out.

    Args:
        path: Any path.
        key: The key of the pilots.
        schedule: The number of distributions, or a fixed schedule to start from. Without it an adaptive run decides.
        kernel: Moves the particles; `HMC(num_leapfrog=5)` by default. The lengths are those for this kernel.
        num_particles: Particles of each pilot.
        num_rounds: The most rounds.
        target_samples: Exact draws from the target, as for `BDMC`.

    Returns:
        The `schedule`, the `barrier` (the length of the path), and `num_for(nats)`, the distributions for an accuracy.

    Lengths are those that this kernel finds: one that does not mix finds a path too short. See Syed, Bouchard-Cote,
    Chern and Doucet (2024) on schedules of equal barrier.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> equal = qp.equalize(path, key=jax.random.key(0), schedule=6, num_particles=200, num_rounds=2)
        >>> equal.schedule.betas.size, bool(equal.barrier > 0)
        (6, True)
    """
    kernel = HMC(num_leapfrog=5) if kernel is None else kernel
    check_num("num_rounds", num_rounds, smallest=1)
    num, start = _number_and_start(schedule)
    known: tuple[AnyArray, AnyArray] | None = None
    stream = stream_for(key, path, pilots=True)
    for done in range(1, num_rounds + 1):
        round_key = stream.fold(done)
        both = target_samples is not None and isinstance(start, AbstractFixedSchedule)
        if both:
            old, lengths = _discrepancies(path, start, kernel, num_particles, target_samples, round_key)
        else:
            pilot = run_pilot(path, start, kernel, num_particles, key=round_key)
            old, lengths = to_host((pilot.betas, pilot.lengths))
        total = np.concatenate([np.zeros(1), np.cumsum(lengths)])
        if known is not None:
            total = 0.5 * (total + np.interp(old, *known))
        betas = respace(old, np.diff(total), num)
        start, known = FixedSchedule(betas), (old, total)
        # An adaptive run is only a first look, and so is a round without the reverse chains that are to decide.
        if done > 1 and _change(old, betas) < _SETTLED:
            break
    return Equalized(FixedSchedule(betas), float(total[-1]), done)


def _number_and_start(schedule: AbstractSchedule | int | None) -> tuple[int | None, AbstractSchedule]:
    if isinstance(schedule, int):
        check_num("schedule", schedule)
        return schedule, AdaptiveSchedule()
    if isinstance(schedule, AbstractFixedSchedule):
        return int(schedule.betas.size), schedule
    return None, AdaptiveSchedule() if schedule is None else schedule


def _discrepancies(
    path: AbstractPath[Any],
    schedule: AbstractSchedule,
    kernel: AbstractKernel[Any],
    num_chains: int,
    target_samples: Point | None,
    key: Any,
) -> tuple[Float[AnyArray, " num"], Float[AnyArray, " steps"]]:
    """Betas, and the root of what each step adds to the gap of bidirectional Monte Carlo.

    Step k of the forward chains and step num - k of the reverse ones lie between the same two distributions.
    """
    bounds = BDMC(num_chains, schedule, kernel, thinning=0).run(path, target_samples, key=key)
    lost = -(bounds.forward.stats["increment"] + bounds.reverse.stats["increment"][::-1])
    return to_host((bounds.forward.betas, (lost.clip(0.0)) ** 0.5))


def _change(old: Float[AnyArray, " num"], new: Float[AnyArray, " num"]) -> float:
    """Largest move of a beta, as a share of the smaller of its two steps."""
    if old.size != new.size:
        return math.inf
    steps = np.diff(old)
    return float(np.max(np.abs(new - old)[1:-1] / np.minimum(steps[:-1], steps[1:]), initial=0.0))
