"""Where to anneal from: the base, a fit to a pilot's particles, or what ascents found, refined by short runs.

Candidates are compared by the length of their path and by the mass that their pilots find. A candidate that finds less
mass than another one is wrong, however short its path. What was tried comes out as records.
"""

import dataclasses
import enum
import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from ..evaluation import evaluator_of
from ..kernels import HMC, MALA, AbstractKernel, RandomWalk
from ..paths import AbstractPath
from ..results import NumEvaluations
from ..schedules import AdaptiveSchedule
from .ascents import Ascents, find_modes, unknown_modes
from .curves import fit_map
from .maps import Component
from .pilot import Pilot, run_pilot
from .reference import Reference, share_outside
from .refusals import Refusal

BASE_SHARE = 0.05
"""Of the base in a reference."""
_PROBES, _MOST_OUTSIDE = 128, 0.25
"""Draws from a reference, and the share of them that may lie where the target has no mass."""
_SHORT = 0.7
"""Length of a path that is not worth another round, and share of the length that a fit to a pilot must reach."""
_ROUNDS = 5
_CHECK_PARTICLES, _CHECK_SHARE = 64, 0.15
"""Of the short run from the base that looks for modes which ascents have missed: particles, and share of what pilots
may cost."""
_FARTHEST = 150.0
"""Nats from the base to the target beyond which such a run would not arrive."""
_ASCENT_SHARE = 0.25
"""Of what pilots may cost, for ascents."""


class Source(enum.Enum):
    """Where a candidate comes from."""

    BASE = "the base"
    PILOT = "a fit to the particles of a pilot"
    ASCENTS = "ascents of the target"
    REFINED = "a fit to the draws of a short run"


class Attempt(NamedTuple):
    """One candidate: what its pilot found, and why it is not used, if it is not."""

    source: Source
    refusal: Refusal | None
    length: float = math.nan
    log_evidence: float = math.nan
    log_evidence_se: float = math.nan
    num_modes: int = 1
    is_curved: bool = False


class Check(enum.Enum):
    """Whether a run from the base confirmed the mass that a candidate from ascents found."""

    CONFIRMED = "a short run from the base found no other mode"
    NOT_REACHED = "a short run from the base did not come to the target"
    TOO_FAR = "the base is too far away for a run from it to confirm the mass"


class Choice(NamedTuple):
    """The chosen path and its pilot, and how it came to it."""

    path: AbstractPath[Any]
    pilot: Pilot
    attempts: tuple[Attempt, ...]
    check: Check | None
    num_evaluations: NumEvaluations

    @property
    def used(self) -> Attempt:
        return next(attempt for attempt in reversed(self.attempts) if attempt.refusal is None)


def choose_start(
    path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, stream: Any, max_cost: float
) -> Choice:
    """The path from the best candidate, found in pilots of `num_particles` particles for at most about `max_cost`."""
    return _Search(path, kernel, num_particles, stream, max_cost).run()


def from_base(path: AbstractPath[Any], base: Any) -> AbstractPath[Any]:
    """The same path from another base."""
    return eqx.tree_at(lambda p: p.base, path, base)


class _Search:
    def __init__(
        self, path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, stream: Any, max_cost: float
    ):
        self.path, self.kernel, self.num_particles = path, kernel, num_particles
        self.stream, self.max_cost = stream, max_cost
        self.evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
        self.spent = NumEvaluations(0, 0, 0, 0)
        self.attempts: list[Attempt] = []
        self.check: Check | None = None
        self.num_pilots = 0

    @property
    def left(self) -> float:
        return self.max_cost - self.spent.cost

    def run(self) -> Choice:
        found = self._by_ascents()
        if found is None:
            found = self._by_pilot()
        path, pilot = self._refined(*found)
        return Choice(path, pilot, tuple(self.attempts), self.check, self.spent)

    def _by_ascents(self) -> tuple[AbstractPath[Any], Pilot] | None:
        """The path from the modes that ascents find, where its pilot arrives and nothing contradicts it."""
        if not self.kernel.with_slopes:
            self.attempts.append(Attempt(Source.ASCENTS, Refusal.NO_GRADIENT))
            return None
        ascents = find_modes(self.evaluator, self.stream.fold(100), int(_ASCENT_SHARE * self.max_cost / 2))
        self._spend_gradients(ascents.num_gradients)
        if ascents.refusal is not None:
            self.attempts.append(Attempt(Source.ASCENTS, ascents.refusal))
            return None
        found = self._try(Source.ASCENTS, *ascents.components)
        if found is None or not self._confirmed(found[1], ascents):
            return None
        return found

    def _confirmed(self, pilot: Pilot, ascents: Ascents) -> bool:
        """Whether a short run from the base finds neither more mass nor another mode."""
        positions, _ = pilot.draws
        values = self.evaluator.values(positions)
        self._spend_values(len(positions))
        distance = pilot.mass[0] * -1 + float(np.mean(values.log_target - values.log_base))
        if distance > _FARTHEST:
            self.check = Check.TOO_FAR
            return True
        first = self._pilot(self.path, _CHECK_PARTICLES, _CHECK_SHARE * self.max_cost)
        if not first.reached:
            self.check = Check.NOT_REACHED
            return True
        unknown, num = unknown_modes(self.evaluator, ascents.modes, first.draws[0][:: _CHECK_PARTICLES // 16])
        self._spend_gradients(num)
        refusal = Refusal.NECK if unknown else _less_mass(first, pilot)
        if refusal is not None:
            self.attempts[-1] = self.attempts[-1]._replace(refusal=refusal)
            return False
        self.check = Check.CONFIRMED
        return True

    def _by_pilot(self) -> tuple[AbstractPath[Any], Pilot]:
        first = self._pilot(self.path, self.num_particles, 0.75 * self.left)
        self.attempts.append(Attempt(Source.BASE, None, first.barrier, *first.mass))
        return self.path, first

    def _refined(self, path: AbstractPath[Any], pilot: Pilot) -> tuple[AbstractPath[Any], Pilot]:
        """Fit to the last draws and run again, until the path stops getting shorter."""
        for _ in range(_ROUNDS):
            if not pilot.reached or not self.path.is_pointwise:
                break
            base, source = path.base, Source.PILOT
            if isinstance(base, Reference):
                source = Source.REFINED
                if pilot.barrier < _SHORT or len(base.components) > 1:
                    break
            fit = fit_map(*pilot.draws)
            if fit.fitted is None:
                self.attempts.append(Attempt(source, fit.refusal))
                break
            if self.left < 1.2 * pilot.result.num_evaluations.cost * (0.5 if source is Source.PILOT else 1.0):
                break
            found = self._try(source, (fit.fitted,), np.ones(1), pilot)
            if found is None:
                break
            settled = pilot.barrier - found[1].barrier < 0.15 * pilot.barrier
            path, pilot = found
            if settled:
                break
        return path, pilot

    def _try(
        self, source: Source, components: tuple[Component, ...], shares: np.ndarray, before: Pilot | None = None
    ) -> tuple[AbstractPath[Any], Pilot] | None:
        """The path from a reference and its pilot, unless it is refused; either is recorded."""
        reference = Reference(
            components, shares, self.path.base, BASE_SHARE, self.evaluator.layout, _can_map(self.kernel)
        )
        facts = {"num_modes": len(components), "is_curved": not components[0].map.is_linear}
        outside = share_outside(reference, self.evaluator, _PROBES, stream=self.stream.fold(1000))
        self._spend_values(_PROBES * len(components))
        if outside > _MOST_OUTSIDE:
            self.attempts.append(Attempt(source, Refusal.HARD_BOUND, **facts))  # type: ignore[arg-type]
            return None
        path = from_base(self.path, reference)
        pilot = self._pilot(path, self.num_particles, self.left)
        refusal = Refusal.NOT_REACHED if not pilot.reached else None
        if before is not None and refusal is None:
            longer = pilot.barrier > (_SHORT if source is Source.PILOT else 1.0) * before.barrier
            refusal = _less_mass(before, pilot) or (Refusal.LONGER if longer else None)
        self.attempts.append(Attempt(source, refusal, pilot.barrier, *pilot.mass, **facts))  # type: ignore[arg-type]
        return (path, pilot) if refusal is None else None

    def _pilot(self, path: AbstractPath[Any], num_particles: int, max_cost: float) -> Pilot:
        kernel = self.kernel
        if isinstance(path.base, Reference) and path.base.is_mapped and isinstance(kernel, HMC | MALA):
            # In the coordinates of the map a covariance from few particles would add more noise than it tells.
            few = num_particles < 10 * self.evaluator.dimension
            if few and kernel.preconditioner == "dense":
                kernel = dataclasses.replace(kernel, preconditioner="diagonal")
        stream = self.stream.fold(self.num_pilots)
        self.num_pilots += 1
        pilot = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=stream, max_cost=max_cost)
        self.spent += pilot.result.num_evaluations
        return pilot

    def _spend_gradients(self, num: int) -> None:
        self.spent += NumEvaluations(0, 0, num, num)

    def _spend_values(self, num: int) -> None:
        self.spent += NumEvaluations(0, num, 0, 0)


def _can_map(kernel: AbstractKernel[Any]) -> bool:
    """Whether the kernel moves particles in the coordinates of the evaluator alone."""
    return isinstance(kernel, HMC | MALA | RandomWalk)


def _less_mass(before: Pilot, after: Pilot) -> Refusal | None:
    """Whether the second pilot finds less mass than the first, beyond noise."""
    loss = before.mass[0] - after.mass[0]
    return Refusal.LESS_MASS if loss > 3 * math.hypot(before.mass[1], after.mass[1]) + 0.02 else None


def describe(choice: Choice) -> str:
    """What was chosen and why, in words."""
    used, others = choice.used, [attempt for attempt in choice.attempts if attempt.refusal is not None]
    if used.source is Source.BASE:
        text = f"annealed from the base, from which the path has length {used.length:.1f}"
    else:
        modes = "" if used.num_modes == 1 else f", {used.num_modes} modes"
        shape = "a curved distribution" if used.is_curved else "a Student-t distribution"
        text = (
            f"annealed from {shape} by {used.source.value} ({BASE_SHARE:.0%} of the base mixed in{modes}), from which "
            f"the path has length {used.length:.2f}"
        )
    reasons = [f"{other.source.value} refused, because {other.refusal.value}" for other in others if other.refusal]
    checks = [] if choice.check is None else [choice.check.value]
    return "; ".join([text, *checks, *reasons])
