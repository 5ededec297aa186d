"""Where to anneal from: the base, a fit to a pilot's particles, or what ascents found, refined by short runs.

Candidates are compared by the length of their path and by the mass that their pilots find. A candidate that finds less
mass than another one is wrong, however short its path. What was tried comes out as records.
"""

import dataclasses
from typing import Any

import numpy as np

from ..cost import Cost
from ..evaluation import evaluator_of
from ..kernels import HMC, MALA, AbstractKernel
from ..paths import AbstractPath
from ..references.ascents import Ascents, find_modes, with_more_modes
from ..references.components import Component
from ..references.conditional import conditional_design
from ..references.fitting import has_groups
from ..references.reference import Reference, least_covered, share_outside
from ..references.wells import fit_wells, num_scanned
from ..remarks import Check, Refusal, Source
from ..schedules import AdaptiveSchedule
from .choices import BASE_SHARE, Attempt, Choice, can_map, from_base, is_fitted, less_mass, neck
from .fits import fit_to_pilot, map_of_base
from .pilot import Pilot, run_pilot
from .weighted import GOOD, POOREST, weighted_fit, weights_alone

_PROBES, _MOST_OUTSIDE = 128, 0.25
"""Draws from a reference, and the share of them that may lie where the target has no mass."""
_SHORT = 0.7
"""Length of a path that is not worth another round, and share of the length that a fit to a pilot must reach."""
_SHORT_CURVED, _NUM_WEIGHTED, _FINE = 0.2, 1024, 0.8
"""The same from a curved reference, since a slope that is a little off makes heavy weights far out. Draws that tell
whether it does, and their effective share from which on another round would gain little."""
_ROUNDS = 6
_LONGEST, _SETTLED = 1.1, 0.85
"""Share of the length of the path before: above the first a round is dropped, above the second it is the last."""
_GROWTH, _PER_DIMENSION, _MOST_PARTICLES, _ROUND_SHARE = 3, 10, 4096, 0.4
"""By how much the particles grow from round to round, how many a dimension needs, how many they may become, and the
share of what is left that their moves may cost."""
_CHECK_PARTICLES, _CHECK_SHARE = 64, 0.15
"""Of the short run from the base that looks for modes which ascents have missed: particles, and share of what pilots
may cost."""
_FARTHEST = 150.0
"""Nats from the base to the target beyond which such a run would not arrive."""
_ASCENT_SHARE = 0.25
"""Of what pilots may cost, for ascents."""
_DRIVER_SHARE, _SCAN_SHARE = 0.3, 0.4
"""The same for optima at given values of drivers, and the share of what is left for scans along coordinates."""

_Found = tuple[AbstractPath[Any], Pilot]


def choose_start(
    path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, stream: Any, max_cost: float
) -> Choice:
    """The path from the best candidate, found in pilots of `num_particles` particles for at most about `max_cost`."""
    return _Search(path, kernel, num_particles, stream, max_cost).run()


class _Search:
    def __init__(
        self, path: AbstractPath[Any], kernel: AbstractKernel[Any], num_particles: int, stream: Any, max_cost: float
    ):
        self.path, self.kernel, self.num_particles = path, kernel, num_particles
        self.stream, self.max_cost = stream, max_cost
        self.evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
        self.spent = Cost()
        self.attempts: list[Attempt] = []
        self.check: Check | None = None
        self.settled = False
        self.drivers: tuple[int, ...] = ()
        self.base_map: Any = None
        self.num_pilots = 0

    @property
    def left(self) -> float:
        return self.max_cost - self.spent.total

    def run(self) -> Choice:
        found = self._by_ascents()
        if found is not None:
            path, pilot = self._refined(*found)
        else:
            path, pilot = self._by_pilot()
            # Draws from the base may show only the strongest driver, or none. Better draws show the others.
            for step in (self._by_scans, self._by_drivers, self._refined, self._by_drivers):
                path, pilot = step(path, pilot)
                if self.settled:
                    break
        return Choice(path, pilot, tuple(self.attempts), self.check, self.spent)

    def _by_ascents(self) -> _Found | None:
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
        if found is None:
            return None
        reference: Any = found[0].base
        positions, num = least_covered(reference, self.evaluator, self.stream.fold(101))
        self._spend_values(num)
        more = with_more_modes(self.evaluator, ascents, positions, by_mass=False)
        self._spend_gradients(more.num_gradients)
        if len(more.modes) > len(ascents.modes):
            self._refuse(Refusal.MISSED_MODES)
            ascents, found = more, self._try(Source.ASCENTS, *more.components)
        return None if found is None else self._checked(found, ascents)

    def _checked(self, found: _Found, ascents: Ascents) -> _Found | None:
        """What ascents found, confirmed or completed by a run from the base, unless that contradicts it."""
        if self._distance(found[1]) > _FARTHEST:
            self.check = Check.TOO_FAR
            return found
        num = _CHECK_PARTICLES if len(ascents.modes) == 1 else self.num_particles
        first = self._pilot(self.path, num, (_CHECK_SHARE if num == _CHECK_PARTICLES else 0.5) * self.max_cost)
        if not first.reached:
            self.check = Check.NOT_REACHED
            return found
        more = with_more_modes(self.evaluator, ascents, first.draws[0], by_mass=True)
        self._spend_gradients(more.num_gradients)
        if more.refusal is not None:
            self._refuse(more.refusal)
            return None
        if len(more.modes) > len(ascents.modes):
            self._refuse(Refusal.MISSED_MODES)
            completed = self._try(Source.ASCENTS, *more.components)
            if completed is None:
                return None
            found = completed
        refusal = less_mass(first, found[1])
        if refusal is not None:
            self._refuse(refusal)
            return None
        self.check = Check.CONFIRMED
        return found

    def _refuse(self, refusal: Refusal) -> None:
        """Take back the last candidate."""
        self.attempts[-1] = self.attempts[-1]._replace(refusal=refusal)

    def _distance(self, pilot: Pilot) -> float:
        """Nats from the base to the target: the divergence of the base from the draws of a pilot."""
        positions, _ = pilot.draws
        values = self.evaluator.values(positions)
        self._spend_values(len(positions))
        return float(np.mean(values.log_target - values.log_base)) - pilot.mass[0]

    def _by_pilot(self) -> _Found:
        if (found := self._by_map_of_base()) is not None:
            return found
        first = self._pilot(self.path, self.num_particles, 0.75 * self.left)
        self.attempts.append(Attempt(Source.BASE, None, first.barrier, *first.mass))
        return self.path, first

    def _by_map_of_base(self) -> _Found | None:
        """The path from the base in the coordinates of a map of it; None where the base is plain as it is."""
        component = map_of_base(self.evaluator, self.stream.fold(500)) if can_map(self.kernel) else None
        self.base_map = None if component is None else component.map
        return None if component is None else self._try(Source.PRIOR, (component,), np.ones(1))

    def _by_scans(self, path: AbstractPath[Any], pilot: Pilot) -> _Found:
        """The path from mixtures in single coordinates, where some have several modes and it is shorter."""
        num = num_scanned(self.evaluator.dimension)
        if not has_groups(pilot.draws[0]):
            return path, pilot
        for correlated in (False, True):  # the first draws have too few ancestors for correlations
            if num > _SCAN_SHARE * self.left or not self._is_worth_it(path, pilot):
                break
            component = fit_wells(self.evaluator, pilot.draws[0], self.stream.fold(400), correlated)
            self._spend_values(num)
            found = None if component is None else self._try(Source.SCANS, (component,), np.ones(1), pilot)
            if found is None:
                break
            path, pilot = found
            self.settled = True  # a fit with a single mode would lose the others
        return path, pilot

    def _by_drivers(self, path: AbstractPath[Any], pilot: Pilot) -> _Found:
        """The path from a distribution that a few coordinates drive, where there is one and it is shorter."""
        if not self.kernel.with_slopes or not self._is_worth_it(path, pilot):
            return path, pilot
        draws, scores = pilot.draws
        assert scores is not None
        design_stream, fit_stream = self.stream.fold(200 + self.num_pilots).split(2)
        most = int(min(_DRIVER_SHARE * self.max_cost, self.left) / 2)
        design, drivers, num = conditional_design(self.evaluator, draws, scores, most, design_stream, self.drivers)
        self._spend_gradients(num)
        if design is None:
            return path, pilot
        self.drivers += drivers
        component, ess, num = weighted_fit(design, self.evaluator, fit_stream)
        self._spend_values(num)
        if ess < POOREST:
            self.attempts.append(Attempt(Source.DRIVERS, Refusal.POOR_FIT))
            return path, pilot
        found = self._try(Source.DRIVERS, (component,), np.ones(1), pilot)
        self.settled = found is not None and ess > GOOD
        # Better draws may show more drivers.
        return (path, pilot) if found is None else found if self.settled else self._by_drivers(*found)

    def _refined(self, path: AbstractPath[Any], pilot: Pilot) -> _Found:
        """Fit to the last draws and run again with more particles, until the path stops getting shorter."""
        for _ in range(_ROUNDS):
            source = Source.REFINED if is_fitted(path.base) else Source.PILOT
            if not self._is_worth_it(path, pilot):
                break
            fit = fit_to_pilot(path.base, pilot, self.base_map)
            if fit.fitted is None:
                self.attempts.append(Attempt(source, fit.refusal))
                break
            found = self._try(source, (fit.fitted,), np.ones(1), pilot)
            if found is None:
                break
            settled = found[1].barrier > _SETTLED * pilot.barrier and less_mass(found[1], pilot) is None
            path, pilot = found
            if settled:
                break
        return path, pilot

    def _is_worth_it(self, path: AbstractPath[Any], pilot: Pilot) -> bool:
        """Whether another round may help, and can be paid for."""
        base: Any = path.base
        if not pilot.reached or not path.is_pointwise:
            return False
        if is_fitted(base):
            short = _SHORT if base.components[0].map.is_linear else _SHORT_CURVED
            if pilot.barrier < short or len(base.components) > 1:
                return False
            if pilot.barrier < _SHORT:
                self._spend_values(_NUM_WEIGHTED)
                stream = self.stream.fold(300 + self.num_pilots)
                if weights_alone(path, self.kernel, stream, _NUM_WEIGHTED) > _FINE:
                    return False
        return self.left > 1.2 * pilot.cost.total * (1.0 if is_fitted(base) else 0.5)

    def _try(
        self, source: Source, components: tuple[Component, ...], shares: np.ndarray, before: Pilot | None = None
    ) -> _Found | None:
        """The path from a reference and its pilot, unless it is refused; either is recorded."""
        share = 1.0 if source is Source.PRIOR else BASE_SHARE  # a map of the base gives coordinates, and nothing else
        layout = self.evaluator.layout
        reference = Reference(components, shares, self.path.base, share, layout, can_map(self.kernel))
        facts = {"num_modes": len(components), "shape": components[0].shape}
        outside = share_outside(reference, self.evaluator, _PROBES, stream=self.stream.fold(1000))
        self._spend_values(_PROBES * len(components))
        if outside > _MOST_OUTSIDE:
            self.attempts.append(Attempt(source, Refusal.HARD_BOUND, **facts))  # type: ignore[arg-type]
            return None
        path = from_base(self.path, reference)
        num = self.num_particles if source is Source.DRIVERS else self._num_particles(before)
        pilot = self._pilot(path, num, self.left)
        refusal = neck(pilot) if source is Source.ASCENTS and len(components) == 1 else None
        if not pilot.reached:
            refusal = Refusal.NOT_REACHED
        elif before is not None:
            longer = pilot.barrier > (_SHORT if source is Source.PILOT else _LONGEST) * before.barrier
            found_more = less_mass(pilot, before) is not None
            refusal = less_mass(before, pilot) or (Refusal.LONGER if longer and not found_more else None)
        self.attempts.append(Attempt(source, refusal, pilot.barrier, *pilot.mass, **facts))  # type: ignore[arg-type]
        return (path, pilot) if refusal is None else None

    def _num_particles(self, before: Pilot | None) -> int:
        """More in each round, and enough for a fit in so many dimensions, as far as a part of what is left allows."""
        if before is None:
            return self.num_particles
        num = before.state.log_weights.shape[0]
        per_step = self.kernel.num_steps * self.kernel.cost.total
        affordable = int(_ROUND_SHARE * self.left / (2 + (before.betas.size - 1) * per_step))
        wanted = max(_GROWTH * num, _PER_DIMENSION * self.evaluator.dimension)
        return int(np.clip(affordable, num, min(wanted, _MOST_PARTICLES)))

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
        self.spent += pilot.cost
        return pilot

    def _spend_gradients(self, num: int) -> None:
        self.spent += Cost.gradients(num)

    def _spend_values(self, num: int) -> None:
        self.spent += Cost(target=num)
