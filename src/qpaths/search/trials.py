"""How a candidate for the start of a path is tried: a pilot from it, what it costs, and why it is refused."""

import dataclasses
from typing import Any

import numpy as np

from ..cost import Cost
from ..kernels import HMC, MALA, AbstractKernel
from ..paths import AbstractPath
from ..references.ascents import Ascents, Mode
from ..references.blocks import Blocks
from ..references.climb import ByDifferences, Climbable
from ..references.components import Component
from ..references.known import distinct
from ..references.reference import Reference, share_lost, share_outside
from ..remarks import Refusal, Shape, Source
from ..rows import Evaluator, evaluator_of
from ..schedules import AdaptiveSchedule
from .choices import BASE_SHARE, Attempt, can_map, from_base, less_mass, neck
from .fits import blocks_of, num_for_blocks
from .pilot import Pilot, run_pilot

SHORT = 0.7
"""Length of a path that is not worth another round, and share of the length that a fit to a pilot must reach."""
_PROBES, _MOST_OUTSIDE = 128, 0.25
"""Draws from a reference, and the share of them that may lie where the target has no mass."""
_ROUND_TRIPS, _MOST_LOST = 2048, 0.01
"""Draws that go back through their map, and the share of them that may be lost in rounding errors."""
_LONGEST = 1.1
"""Share of the length of the path before, above which a round is dropped."""
_GROWTH, _PER_DIMENSION, _MOST_PARTICLES, _ROUND_SHARE = 3, 10, 4096, 0.4
"""By how much the particles grow from round to round, how many a dimension needs, how many they may become, and the
share of what is left that their moves may cost."""
TRIAL_PARTICLES, _TRIAL_SHARE = 128, 0.12
"""Of the small runs that tell in which coordinates a run from the base is better."""
_BLOCK_SHARE = 0.1
"""Of what is left, for Hessians."""

_WILD = (Source.PRIOR, Source.DRIVERS)
"""Where maps with scales that overflow far out come from. What is not a number there is not the model's fault."""

Found = tuple[AbstractPath[Any], Pilot]
"""A path and its pilot."""


TYPICAL_GRADIENTS = 30
"""Gradients that one ascent takes."""
FEWEST_DIFFERENCES = 16 * TYPICAL_GRADIENTS
"""Gradients by differences without which ascents do not arrive."""


def climbable(evaluator: Evaluator, kernel: AbstractKernel[Any], stream: Any) -> tuple[Climbable, Cost]:
    """Return an evaluator for ascents, by differences where the kernel has no gradients, and the cost of a gradient."""
    if kernel.with_slopes:
        return evaluator, Cost.gradients(1)
    differences = ByDifferences(evaluator, stream)
    return differences, Cost(target=differences.values_each)


class Trials:
    """Pilots of `num_particles` particles from candidates, for at most about `max_cost` evaluations in all."""

    def __init__(
        self, path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, stream: Any, max_cost: float
    ):
        self.path, self.kernel, self.num_particles = path, kernel, num_particles
        self.stream, self.max_cost = stream, max_cost
        self.evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
        self.spent = Cost()
        self.attempts: list[Attempt] = []
        self.num_pilots = 0
        self.neck: Found | None = None
        """What ascents found where the draws spread far more than the curvature says."""
        self.known: tuple[Mode, ...] = ()
        """All optima that were met, used or not."""
        self.climbable, self.cost_of_gradient = climbable(self.evaluator, kernel, stream.fold(102))
        self.looked_for_blocks = False
        self.found_blocks: Blocks | None = None

    @property
    def left(self) -> float:
        return self.max_cost - self.spent.total

    def spend_gradients(self, num: int) -> None:
        self.spent += Cost.gradients(num)

    def climbed(self, ascents: Ascents) -> Ascents:
        """Count what ascents have cost, and keep the optima that they met."""
        self.known = distinct(self.known, ascents.known)
        self.spent += ascents.num_gradients * self.cost_of_gradient
        return ascents

    def spend_values(self, num: int) -> None:
        self.spent += Cost(target=num)

    def refuse(self, refusal: Refusal) -> None:
        """Take back the last candidate."""
        self.attempts[-1] = self.attempts[-1]._replace(refusal=refusal)

    def attempt(
        self, source: Source, components: tuple[Component, ...], shares: np.ndarray, before: Pilot | None = None
    ) -> Found | None:
        """The path from a reference and its pilot, unless it is refused; either is recorded."""
        share = 1.0 if source is Source.PRIOR else BASE_SHARE  # a map of the base gives coordinates, and nothing else
        layout = self.evaluator.layout
        # The coordinates of one mode's curved map are of no use at the others.
        is_mapped = can_map(self.kernel) and (len(components) == 1 or components[0].shape is not Shape.CURVED)
        reference = Reference(components, shares, self.path.base, share, layout, is_mapped)
        num_modes = max(1, sum(component.wells is None for component in components))
        facts = {"num_modes": num_modes, "shape": components[0].shape}
        outside = share_outside(reference, self.evaluator, _PROBES, stream=self.stream.fold(1000))
        self.spend_values(_PROBES * len(components))
        if outside > _MOST_OUTSIDE:
            self.attempts.append(Attempt(source, Refusal.HARD_BOUND, **facts))  # type: ignore[arg-type]
            return None
        if share < 1 and share_lost(reference, _ROUND_TRIPS, stream=self.stream.fold(1001)) > _MOST_LOST:
            self.attempts.append(Attempt(source, Refusal.UNSTABLE, **facts))  # type: ignore[arg-type]
            return None
        path = from_base(self.path, reference)
        num = self.num_particles if source is Source.DRIVERS else self._num_particles(before)
        try:
            pilot = self.pilot(path, num, self.left)
        except FloatingPointError:
            if source not in _WILD:
                raise
            self.attempts.append(Attempt(source, Refusal.NOT_REACHED, **facts))  # type: ignore[arg-type]
            return None
        refusal = neck(pilot) if source is Source.ASCENTS and len(components) == 1 else None
        if not pilot.reached:
            refusal = Refusal.NOT_REACHED
        elif before is not None:
            longer = pilot.barrier > (SHORT if source is Source.PILOT else _LONGEST) * before.barrier
            found_more = less_mass(pilot, before) is not None
            refusal = less_mass(before, pilot) or (Refusal.LONGER if longer and not found_more else None)
        if refusal is Refusal.NECK:
            self.neck = path, pilot
        self.attempts.append(Attempt(source, refusal, pilot.barrier, *pilot.mass, **facts))  # type: ignore[arg-type]
        return (path, pilot) if refusal is None else None

    def distance(self, pilot: Pilot) -> float:
        """Nats from the base to the target: the divergence of the base from the draws of a pilot."""
        positions, _ = pilot.draws
        values = self.evaluator.values(positions)
        self.spend_values(len(positions))
        return float(np.mean(values.log_target - values.log_base)) - pilot.mass[0]

    @property
    def trial_cost(self) -> float:
        return _TRIAL_SHARE * self.max_cost

    def is_better_mapped(self, component: Component) -> bool:
        """Whether a small run from the base finds more mass in the coordinates of a map of it.

        They suit a posterior that follows the prior (few data for each effect), the others one that follows the data.
        """
        mapped = Reference((component,), np.ones(1), self.path.base, 1.0, self.evaluator.layout, True)
        try:
            other, plain = (
                self.pilot(path, min(TRIAL_PARTICLES, self.num_particles), self.trial_cost)
                for path in (from_base(self.path, mapped), self.path)
            )
        except FloatingPointError:  # the map overflows, or the run from the base itself will say what is wrong
            return False
        return (other.reached, other.mass[0] - 2 * other.mass[1]) >= (plain.reached, plain.mass[0] - 2 * plain.mass[1])

    def blocks(self, pilot: Pilot) -> Blocks | None:
        """Coordinates in which the target is a product, from Hessians at the draws of the first pilot that asks."""
        num = num_for_blocks(self.evaluator.dimension)
        if not self.looked_for_blocks and num and self.kernel.with_slopes and 2 * num < _BLOCK_SHARE * self.left:
            self.looked_for_blocks = True
            self.spend_gradients(num)
            self.found_blocks = blocks_of(self.evaluator, pilot.draws[0])
        return self.found_blocks

    def _num_particles(self, before: Pilot | None) -> int:
        """More in each round, and enough for a fit in so many dimensions, as far as a part of what is left allows."""
        if before is None:
            return self.num_particles
        num = before.state.log_weights.shape[0]
        per_step = self.kernel.num_steps * self.kernel.cost.total
        affordable = int(_ROUND_SHARE * self.left / (2 + (before.betas.size - 1) * per_step))
        wanted = max(_GROWTH * num, _PER_DIMENSION * self.evaluator.dimension)
        return int(np.clip(affordable, num, min(wanted, _MOST_PARTICLES)))

    def pilot(self, path: AbstractPath[Any], num_particles: int, max_cost: float) -> Pilot:
        kernel = self.kernel
        if isinstance(path.base, Reference) and path.base.is_mapped and isinstance(kernel, HMC | MALA):
            # In the coordinates of the map a covariance from few particles would add more noise than it tells.
            few = num_particles < 10 * self.evaluator.dimension
            if few and kernel.preconditioner == "dense":
                kernel = dataclasses.replace(kernel, preconditioner="diagonal")
        stream = self.stream.fold(self.num_pilots)
        self.num_pilots += 1
        pilot = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=stream, max_cost=max_cost)
        self.spent += pilot.cost
        return pilot
