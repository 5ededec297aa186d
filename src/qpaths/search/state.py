"""The state of a search for a reference, and the contract of the proposers that it asks."""

import abc
import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import Cost, Stream
from ..kernels import HMC, AbstractKernel
from ..paths import AbstractPath
from ..references import (
    Ascents,
    Blocks,
    Component,
    Images,
    Mode,
    Reference,
    Structure,
    climbable,
    distinct,
    find_images,
    share_lost,
    share_outside,
)
from ..remarks import Confirmation, Refusal, Shape, Source
from ..rows import evaluator_of
from ..schedules import AdaptiveSchedule
from . import shares
from .choices import BASE_SHARE, Attempt, can_map, from_base, is_fitted, less_mass, neck
from .fits import blocks_of, num_for_blocks
from .pilot import Pilot, run_pilot
from .weighted import FINE, weights_alone

SHORT = 0.7
"""Length of a path that is not worth another round, and share of the length that a fit to a pilot must reach."""
_PROBES, _MOST_OUTSIDE = 128, 0.25
"""Draws from a reference, and the share of them that may lie where the target has no mass."""
_ROUND_TRIPS, _MOST_LOST = 2048, 0.01
"""Draws that go back through their map, and the share of them that may be lost in rounding errors."""
_LONGEST = 1.1
"""Share of the length of the path before, above which a round is dropped."""
_GROWTH, _PER_DIMENSION, _MOST_PARTICLES = 3, 10, 4096
"""By how much the particles grow from round to round, how many a dimension needs, and how many they may become."""
TRIAL_PARTICLES = 128
"""Particles of the small runs that tell in which coordinates a run from the base is better."""
CHECK_PARTICLES = 64
"""Particles of the short run from the base that looks for mass which another start has missed."""
FARTHEST = 150.0
"""Nats from the base to the target beyond which such a run would not arrive."""
NUM_WEIGHTED = 1024
"""Draws that tell whether weights alone are good enough."""
_SHORT_CURVED = 0.2
"""Length of a path from a curved reference that is not worth another round, since a slope that is a little off makes
heavy weights far out."""
_WILD = (Source.PRIOR, Source.DRIVERS)
"""Origins of maps with scales that overflow far out. What is not a number there is not the model's fault."""

Found = tuple[AbstractPath[Any], Pilot]
"""A path and its pilot."""


class Proposal(NamedTuple):
    """Components of a reference and their shares."""

    components: tuple[Component, ...]
    shares: np.ndarray
    settles: bool = False
    """True if later fits to draws would lose what this one has."""
    judged_alone: bool = False
    """True if the length of the path before says nothing about this one."""
    num_modes: int | None = None
    """Modes, where components stand for something else."""

    @classmethod
    def of(cls, component: Component, **settings: bool) -> "Proposal":
        """Return a proposal of one component."""
        return cls((component,), np.ones(1), **settings)


class Proposer(abc.ABC):
    """One way to find a reference.

    `choose_start` asks each proposer in turn. A pilot tries what it proposes, which is kept unless the pilot finds less
    mass or a longer path than the best so far. A new proposer is one file in `qpaths/search/proposers`, its place in
    the plan of `qpaths.search.start`, and one file of tests.
    """

    source: ClassVar[Source]
    rounds: ClassVar[int] = 1
    """Number of times that it may propose, each time from better draws."""

    def suits(self, search: "Search") -> bool:
        """Return whether a proposal may help, and can be paid for."""
        return True

    @abc.abstractmethod
    def propose(self, search: "Search") -> "Proposal | Found | Refusal | None":
        """Return a reference, or a path with its pilot, or the reason for neither; None where nothing was tried."""

    def confirmed(self, search: "Search", found: Found) -> Found | None:
        """Return what was found after checks of the proposer's own; None if they contradict it."""
        return found

    def is_last(self, search: "Search", before: Found | None, after: Found) -> bool:
        """Return whether another round would gain little."""
        return False

    def name(self, search: "Search") -> Source:
        """Return the name under which the next attempt is recorded."""
        return self.source


class Search:
    """Hold what a search knows: the best path and its pilot, the attempts, and what is left of `max_cost`."""

    def __init__(
        self, path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, stream: Stream, max_cost: float
    ):
        self.path, self.kernel, self.num_particles = path, kernel, num_particles
        self.stream, self.max_cost = stream, max_cost
        self.evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
        self.spent = Cost()
        self.attempts: list[Attempt] = []
        self.num_pilots = 0
        self.best: Found | None = None
        self.settled = False
        """Return whether a fit to draws would lose what the best path has."""
        self.check: Confirmation | None = None
        self.drivers: tuple[tuple[int, ...], ...] = ()
        """Sets of coordinates for which references were fitted."""
        self.spent_on_drivers = 0
        self.base_component: Component | None = None
        """The map of the base."""
        self.chains: Any = None
        """Draws of chains at the target and the scores there, if there are some."""
        self.first: Pilot | None = None
        """A run from the base that was made already."""
        self.neck: Found | None = None
        """Return what ascents found where the draws spread far more than the curvature says."""
        self.known: tuple[Mode, ...] = ()
        """All optima that were met, used or not."""
        self.structure: Structure | None = None
        """Groups of coordinates that the user gave."""
        self.unseen = 0.0
        """Share of mass in modes that no ascent came to, by estimate."""
        self.climbable, self.cost_of_gradient = climbable(self.evaluator, kernel.with_slopes, stream.fold(102))
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
        self.unseen = ascents.unseen
        self.spent += ascents.num_gradients * self.cost_of_gradient
        return ascents

    def spend_values(self, num: int) -> None:
        self.spent += Cost(target=num)

    def refuse(self, refusal: Refusal) -> None:
        """Take back the last candidate."""
        self.attempts[-1] = self.attempts[-1]._replace(refusal=refusal)

    @functools.cached_property
    def images(self) -> Images:
        """Maps that leave the density as it is: exchanges of labels and signs."""
        images, num = find_images(self.climbable, self.stream.fold(103))
        self.spend_values(num)
        return images

    @property
    def found(self) -> Found:
        """The best path and its pilot."""
        assert self.best is not None
        return self.best

    def ask(self, proposer: Proposer) -> None:
        """Try what a proposer proposes, round by round, as long as it makes the path better."""
        for _ in range(proposer.rounds):
            if not proposer.suits(self):
                return
            name, answer = proposer.name(self), proposer.propose(self)
            if isinstance(answer, Refusal):
                self.attempts.append(Attempt(name, answer))
                return
            found = self.judge(name, answer) if isinstance(answer, Proposal) else answer
            found = None if found is None else proposer.confirmed(self, found)
            if found is None:
                return
            before, self.best = self.best, found
            self.settled = self.settled or (isinstance(answer, Proposal) and answer.settles)
            if proposer.is_last(self, before, found):
                return

    def judge(self, source: Source, proposal: Proposal) -> Found | None:
        """Return the path from a reference and its pilot, unless it is refused; record either."""
        components, before = proposal.components, None if proposal.judged_alone else self.found[1]
        share = 1.0 if source is Source.PRIOR else BASE_SHARE  # a map of the base gives coordinates, and nothing else
        layout = self.evaluator.layout
        # The coordinates of one mode's curved map are of no use at the others.
        is_mapped = can_map(self.kernel) and (len(components) == 1 or components[0].shape is not Shape.CURVED)
        reference = Reference(components, proposal.shares, self.path.base, share, layout, is_mapped)
        num_modes = proposal.num_modes or max(1, sum(component.wells is None for component in components))
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

    def is_worth_more(self) -> bool:
        """Return whether another round may help, and can be paid for."""
        path, pilot = self.found
        base: Any = path.base
        if not pilot.reached or not path.is_pointwise:
            return False
        if is_fitted(base):
            short = SHORT if base.components[0].map.is_linear else _SHORT_CURVED
            if pilot.barrier < short:
                return False
            if pilot.barrier < SHORT:
                self.spend_values(NUM_WEIGHTED)
                stream = self.stream.fold(300 + self.num_pilots)
                if weights_alone(path, self.kernel, stream, NUM_WEIGHTED) > FINE:
                    return False
        return self.left > 1.2 * pilot.cost.total * (1.0 if is_fitted(base) else 0.5)

    def distance(self, pilot: Pilot) -> float:
        """Nats from the base to the target: the divergence of the base from the draws of a pilot."""
        positions, _ = pilot.draws
        values = self.evaluator.values(positions)
        self.spend_values(len(positions))
        return float(np.mean(values.log_target - values.log_base)) - pilot.mass[0]

    @property
    def trial_cost(self) -> float:
        return shares.TRIAL * self.max_cost

    def is_better_mapped(self, component: Component) -> bool:
        """Return whether a small run from the base finds more mass in the coordinates of a map of it.

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

    def confirmed_by_base(self, found: Found) -> Found | None:
        """Return what was found, unless a short run from the base finds more mass."""
        if self.distance(found[1]) > FARTHEST:
            self.check = Confirmation.TOO_FAR
            return found
        first = self.pilot(self.path, CHECK_PARTICLES, shares.CONFIRMING * self.max_cost)
        if not first.reached:
            self.check = Confirmation.NOT_REACHED
            return found
        refusal = less_mass(first, found[1])
        if refusal is not None:
            self.refuse(refusal)
            return None
        self.check = Confirmation.CONFIRMED
        return found

    def blocks(self, pilot: Pilot) -> Blocks | None:
        """Return coordinates in which the target is a product, from Hessians at the draws of the first that asks."""
        return self.blocks_at(pilot.draws[0])

    def blocks_at(self, draws: Any) -> Blocks | None:
        """Return the same at given draws."""
        num = num_for_blocks(self.evaluator.dimension)
        if not self.looked_for_blocks and num and self.kernel.with_slopes and 2 * num < shares.BLOCKS * self.left:
            self.looked_for_blocks = True
            self.spend_gradients(num)
            self.found_blocks = blocks_of(self.evaluator, draws)
        return self.found_blocks

    def _num_particles(self, before: Pilot | None) -> int:
        """More in each round, and enough for a fit in so many dimensions, as far as a part of what is left allows."""
        if before is None:
            return self.num_particles
        num = before.state.log_weights.shape[0]
        per_step = self.kernel.num_steps * self.kernel.cost.total
        affordable = int(shares.ROUND * self.left / (2 + (before.betas.size - 1) * per_step))
        wanted = max(_GROWTH * num, _PER_DIMENSION * self.evaluator.dimension)
        return int(np.clip(affordable, num, min(wanted, _MOST_PARTICLES)))

    def pilot(self, path: AbstractPath[Any], num_particles: int, max_cost: float) -> Pilot:
        kernel = self.kernel
        if isinstance(path.base, Reference) and path.base.is_mapped and isinstance(kernel, HMC):
            # In the coordinates of the map a covariance from few particles would add more noise than it tells.
            few = num_particles < 10 * self.evaluator.dimension
            if few and kernel.preconditioner == "dense":
                kernel = dataclasses.replace(kernel, preconditioner="diagonal")
        stream = self.stream.fold(self.num_pilots)
        self.num_pilots += 1
        pilot = run_pilot(path, AdaptiveSchedule(), kernel, num_particles, key=stream, max_cost=max_cost)
        self.spent += pilot.cost
        return pilot
