"""Where to anneal from: the base, a fit to a pilot's particles, or what ascents found, refined by short runs.

Candidates are compared by the length of their path and by the mass that their pilots find. A candidate that finds less
mass than another one is wrong, however short its path. What was tried comes out as records.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from ..cost import Cost
from ..kernels import AbstractKernel
from ..numerics import log_ess
from ..paths import AbstractPath, GeometricPath
from ..references.ascents import Ascents, Mode, find_modes, with_more_modes
from ..references.components import Component
from ..references.conditional import ROTATED, conditional_design
from ..references.fitting import has_groups
from ..references.known import Sample, missing_mass
from ..references.reference import least_covered
from ..references.shapes import fit_shapes, num_shaped
from ..references.wells import fit_wells, num_scanned
from ..remarks import Check, Refusal, Source
from ..rows import evaluator_of
from .choices import Attempt, Choice, can_map, from_base, is_fitted, less_mass
from .fits import NUM_OF_BASE, drivers_of, fit_each, fit_to_pilot, map_of_base
from .pilot import Pilot
from .trials import FEWEST_DIFFERENCES, SHORT, TRIAL_PARTICLES, Found, Trials, climbable
from .weighted import ENOUGH, GOOD, POOREST, weighted_fit, weights_alone

_SHORT_CURVED, _NUM_WEIGHTED, _FINE = 0.2, 1024, 0.8
"""The same from a curved reference, since a slope that is a little off makes heavy weights far out. Draws that tell
whether it does, and their effective share from which on another round would gain little."""
_BETTER, _DEFENSE = 1.3, 0.2
"""How many times as many draws must be effective for noise of another shape, and the share that keeps the old one."""
_ROUNDS = 6
_SETTLED = 0.85
"""Share of the length of the path before, above which a round is the last."""
_CHECK_PARTICLES, _CHECK_SHARE = 64, 0.15
"""Of the short run from the base that looks for modes which ascents have missed: particles, and share of what pilots
may cost."""
_FARTHEST = 150.0
"""Nats from the base to the target beyond which such a run would not arrive."""
_ASCENT_SHARE = 0.25
"""Of what pilots may cost, for ascents."""
_DRIVER_SHARE, _SCAN_SHARE = 0.3, 0.4
"""The same for optima at given values of drivers, and the share of what is left for scans along coordinates."""


def choose_start(
    path: AbstractPath[Any],
    kernel: AbstractKernel[Any],
    num_particles: int,
    stream: Any,
    max_cost: float,
    known: tuple[Mode, ...] = (),
) -> Choice:
    """Choose the path from the best candidate, in pilots of `num_particles` particles for at most about `max_cost`.

    A reference with the `known` modes of the target is tried first.
    """
    search = _Search(path, kernel, num_particles, stream, max_cost)
    search.known = known
    return search.run()


def modes_of_target(
    path: AbstractPath[Any], kernel: AbstractKernel[Any], stream: Any, max_cost: float
) -> tuple[Ascents, Cost]:
    """Return the optima of the target, for a run from a base that is kept, and the cost."""
    draw, climb = stream.split(2)
    evaluator = evaluator_of(GeometricPath(path.base, path.target), draw, with_slopes=kernel.with_slopes)
    source, each = climbable(evaluator, kernel, draw)
    most = int(max_cost / each.total)
    if most < FEWEST_DIFFERENCES:
        return Ascents((), Refusal.NO_GRADIENT, 0), Cost()
    ascents = find_modes(source, climb, most)
    return ascents, ascents.num_gradients * each


class _Search(Trials):
    """Which candidates are tried, and in which order."""

    def __init__(self, *settings: Any):
        super().__init__(*settings)
        self.check: Check | None = None
        self.settled = False
        self.drivers: tuple[int, ...] = ()
        self.base_component: Component | None = None
        self.first: Pilot | None = None
        """A run from the base that was made already."""

    def run(self) -> Choice:
        found = self._by_known() or self._by_ascents()
        if found is not None:
            path, pilot = self._refined(*found)
        else:
            path, pilot = self._by_drivers_of_base() or self._by_neck() or self._by_pilot()
            # Draws from the base may show only the strongest driver, or none. Better draws show the others.
            for step in (self._by_scans, self._by_drivers, self._refined, self._by_drivers):
                if self.settled:
                    break
                path, pilot = step(path, pilot)
        path, pilot = self._shaped(*self._with_known(path, pilot))
        return Choice(path, pilot, tuple(self.attempts), self.check, self.spent, known=self.known)

    def _by_known(self) -> Found | None:
        """Return the path from the modes that an earlier run met."""
        if not self.known:
            return None
        return self.attempt(Source.ASCENTS, *Ascents(self.known, None, 0).components)

    def _with_known(self, path: AbstractPath[Any], pilot: Pilot) -> Found:
        """Return the path from all known optima if the draws miss the mass around some of them, and it finds more."""
        rows = np.asarray(pilot.draws[0])
        before, after = self.stream.fold(700).split(2)
        log_weights = np.asarray(pilot.state.log_weights, float)
        effective = float(np.exp(log_ess(log_weights)))
        sample = Sample.of(rows, log_weights, effective, pilot.mass[0] if pilot.reached else -np.inf, before)
        missing, num = missing_mass(self.evaluator, self.known, sample, after)
        self.spend_values(num)
        if not missing.modes:
            return path, pilot
        found = self._by_known()
        if found is None or less_mass(pilot, found[1]) is not None:
            return path, pilot
        return self._refined(*found)

    def _by_ascents(self) -> Found | None:
        """The path from the modes that ascents find, where its pilot arrives and nothing contradicts it."""
        most = int(_ASCENT_SHARE * self.max_cost / self.cost_of_gradient.total)
        if not self.kernel.with_slopes and most < FEWEST_DIFFERENCES:
            self.attempts.append(Attempt(Source.ASCENTS, Refusal.NO_GRADIENT))
            return None
        ascents = self.climbed(find_modes(self.climbable, self.stream.fold(100), most))
        if ascents.refusal is not None:
            led_nowhere = not self.kernel.with_slopes and ascents.refusal in (Refusal.NO_OPTIMUM, Refusal.FLAT)
            refusal = Refusal.NO_GRADIENT if led_nowhere else ascents.refusal
            self.attempts.append(Attempt(Source.ASCENTS, refusal))
            return None
        found = self.attempt(Source.ASCENTS, *ascents.components)
        if found is None:
            return None
        reference: Any = found[0].base
        positions, num = least_covered(reference, self.evaluator, self.stream.fold(101))
        self.spend_values(num)
        more = self.climbed(with_more_modes(self.climbable, ascents, positions, by_mass=False))
        if len(more.modes) > len(ascents.modes):
            self.refuse(Refusal.MISSED_MODES)
            ascents, found = more, self.attempt(Source.ASCENTS, *more.components)
        return None if found is None else self._checked(found, ascents)

    def _checked(self, found: Found, ascents: Ascents) -> Found | None:
        """What ascents found, confirmed or completed by a run from the base, unless that contradicts it."""
        if self.distance(found[1]) > _FARTHEST:
            self.check = Check.TOO_FAR
            return found
        num = _CHECK_PARTICLES if len(ascents.modes) == 1 else self.num_particles
        first = self.pilot(self.path, num, (_CHECK_SHARE if num == _CHECK_PARTICLES else 0.5) * self.max_cost)
        if not first.reached:
            self.check = Check.NOT_REACHED
            return found
        more = self.climbed(with_more_modes(self.climbable, ascents, first.draws[0], by_mass=True))
        if more.refusal is not None:
            self.refuse(more.refusal)
            return None
        if len(more.modes) > len(ascents.modes):
            self.refuse(Refusal.MISSED_MODES)
            completed = self.attempt(Source.ASCENTS, *more.components)
            if completed is None:
                return None
            found = completed
        refusal = less_mass(first, found[1])
        if refusal is not None:
            self.refuse(refusal)
            return None
        self.check = Check.CONFIRMED
        return found

    def _by_neck(self) -> Found | None:
        """The path from where ascents ended in what may be a neck, if a small run from the base finds no more mass.

        The mode of a scale may also be too small because many coordinates depend on it. Fits to draws mend that.
        """
        if self.neck is None:
            return None
        is_small = self.num_particles <= TRIAL_PARTICLES
        num, cost = (self.num_particles, 0.75 * self.left) if is_small else (TRIAL_PARTICLES, self.trial_cost)
        trial = self.pilot(self.path, num, cost)
        self.first = trial if is_small else None
        if trial.reached and trial.mass[0] > self.neck[1].mass[0]:
            return None
        self.attempts = [one._replace(refusal=None) if one.refusal is Refusal.NECK else one for one in self.attempts]
        return self.neck

    def _by_pilot(self) -> Found:
        if self.base_component is not None and self.is_better_mapped(self.base_component):
            found = self.attempt(Source.PRIOR, (self.base_component,), np.ones(1))
            if found is not None:
                return found
        first = self.first or self.pilot(self.path, self.num_particles, 0.75 * self.left)
        self.attempts.append(Attempt(Source.BASE, None, first.barrier, *first.mass))
        return self.path, first

    def _by_drivers_of_base(self) -> Found | None:
        """The path from optima and curvature at values of the base's hyperparameters; None where this fails.

        A map of the base shows which of its coordinates drive the scales of others.
        """
        if not can_map(self.kernel):
            return None
        draws = np.asarray(self.evaluator.draw(self.stream.fold(500), NUM_OF_BASE), float)
        self.base_component = map_of_base(draws)
        if self.base_component is None or not self.kernel.with_slopes:
            return None
        drivers = drivers_of(self.base_component)
        return self._from_drivers(draws, draws, None, drivers) if drivers else None

    def _by_scans(self, path: AbstractPath[Any], pilot: Pilot) -> Found:
        """The path from mixtures in single coordinates, where some have several modes and it is shorter."""
        num = num_scanned(self.evaluator.dimension)
        if not has_groups(pilot.draws[0]):
            return path, pilot
        for correlated in (False, True):  # the first draws have too few ancestors for correlations
            if num > _SCAN_SHARE * self.left or not self._is_worth_it(path, pilot):
                break
            component = fit_wells(self.evaluator, pilot.draws[0], self.stream.fold(400), correlated)
            self.spend_values(num)
            found = None if component is None else self.attempt(Source.SCANS, (component,), np.ones(1), pilot)
            if found is None:
                break
            path, pilot = found
            self.settled = True  # a fit with a single mode would lose the others
        return path, pilot

    def _by_drivers(self, path: AbstractPath[Any], pilot: Pilot) -> Found:
        """The path from a distribution that a few coordinates drive, where there is one and it is shorter."""
        if not self.kernel.with_slopes or not self._is_worth_it(path, pilot):
            return path, pilot
        draws, scores = pilot.draws
        assert scores is not None
        found = self._from_drivers(draws, scores, pilot)
        # Better draws may show more drivers.
        return (path, pilot) if found is None else found if self.settled else self._by_drivers(*found)

    def _from_drivers(
        self, draws: np.ndarray, scores: np.ndarray, before: Pilot | None, given: tuple[int, ...] = ()
    ) -> Found | None:
        """The path from optima and curvature at values of the drivers that draws show, or of those that are given."""
        design_stream, fit_stream = self.stream.fold(200 + self.num_pilots).split(2)
        most = int(min(_DRIVER_SHARE * self.max_cost, self.left) / 2)
        blocks = None if before is None or set(ROTATED) <= set(self.drivers) else self.blocks(before)
        direction = None if blocks is None else blocks.direction
        design, drivers, num = conditional_design(
            self.evaluator, draws, scores, most, design_stream, self.drivers, given, direction
        )
        self.spend_gradients(num)
        if design is None:
            return None
        component, ess, num = weighted_fit(design, self.evaluator, fit_stream)
        self.spend_values(num)
        if ess < POOREST:
            self.attempts.append(Attempt(Source.DRIVERS, Refusal.POOR_FIT))
            self.drivers += () if given else drivers
            return None
        self.drivers += drivers
        found = self.attempt(Source.DRIVERS, (component,), np.ones(1), before)
        self.settled = found is not None and ess > GOOD
        return found

    def _refined(self, path: AbstractPath[Any], pilot: Pilot) -> Found:
        """Fit to the last draws and run again with more particles, until the path stops getting shorter."""
        for _ in range(_ROUNDS):
            source = Source.REFINED if is_fitted(path.base) else Source.PILOT
            if not self._is_worth_it(path, pilot):
                break
            found = self._refitted(source, path.base, pilot)
            if found is None:
                break
            settled = found[1].barrier > _SETTLED * pilot.barrier and less_mass(found[1], pilot) is None
            path, pilot = found
            if settled:
                break
        return path, pilot

    def _refitted(self, source: Source, base: Any, pilot: Pilot) -> Found | None:
        """One round: the path from a fit to the draws of a pilot; each of several modes is fitted alone."""
        if is_fitted(base) and len(base.components) > 1:
            fits = fit_each(base, pilot)
            return None if fits is None else self.attempt(source, *fits, pilot)
        fit = fit_to_pilot(base, pilot, self.base_component, self.blocks(pilot))
        if fit.fitted is None:
            self.attempts.append(Attempt(source, fit.refusal))
            return None
        return self.attempt(source, (fit.fitted,), np.ones(1), pilot)

    def _shaped(self, path: AbstractPath[Any], pilot: Pilot) -> Found:
        """With noise of other shapes than Student's, found by scans in the coordinates of the map, where it is better.

        Tails that are heavier on one side, or end early, are what a map leaves.
        """
        base: Any = path.base
        if not is_fitted(base) or not base.is_mapped or len(base.components) > 1 or base.components[0].wells:
            return path, pilot
        if base.components[0].map.modulation is not None:  # drivers need their heavy tails
            return path, pilot
        num = num_shaped(self.evaluator.dimension)
        if not pilot.reached or num + 2 * _NUM_WEIGHTED > self.left:
            return path, pilot
        before, after = self.stream.fold(600).split(2)
        self.spend_values(_NUM_WEIGHTED)
        ess = weights_alone(path, self.kernel, before, _NUM_WEIGHTED)
        if ess > _FINE:
            return path, pilot
        component = fit_shapes(pilot.annealing.evaluator, pilot.state.particles.position, base.components[0])
        self.spend_values(num + _NUM_WEIGHTED)
        # The part with heavy tails stays as a defense.
        parts, shares = (component, base.components[0]), np.array([1 - _DEFENSE, _DEFENSE])
        shaped = from_base(path, dataclasses.replace(base, components=parts, shares=shares))
        ess_after = weights_alone(shaped, self.kernel, after, _NUM_WEIGHTED)
        if ess_after < max(_BETTER * ess, POOREST):
            return path, pilot
        if ess_after < ENOUGH:
            found = self.attempt(Source.SCANS, parts, shares, pilot) if pilot.cost.total < self.left else None
            return (path, pilot) if found is None else found
        # Weights alone are enough, and moves would be those of the same coordinates.
        length = math.sqrt(-math.log(min(ess_after, 0.999)))
        self.attempts.append(Attempt(Source.SCANS, None, length, *pilot.mass, shape=component.shape))
        return shaped, pilot._replace(lengths=pilot.lengths * (length / pilot.barrier))

    def _is_worth_it(self, path: AbstractPath[Any], pilot: Pilot) -> bool:
        """Whether another round may help, and can be paid for."""
        base: Any = path.base
        if not pilot.reached or not path.is_pointwise:
            return False
        if is_fitted(base):
            short = SHORT if base.components[0].map.is_linear else _SHORT_CURVED
            if pilot.barrier < short:
                return False
            if pilot.barrier < SHORT:
                self.spend_values(_NUM_WEIGHTED)
                stream = self.stream.fold(300 + self.num_pilots)
                if weights_alone(path, self.kernel, stream, _NUM_WEIGHTED) > _FINE:
                    return False
        return self.left > 1.2 * pilot.cost.total * (1.0 if is_fitted(base) else 0.5)
