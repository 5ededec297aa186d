"""Record what was tried as a start of the path, what was chosen, and why."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..core import Cost, replaced
from ..kernels import HMC, AbstractKernel, RandomWalk
from ..paths import AbstractPath
from ..references import MappedDensities, Mode, Reference, distinct
from ..remarks import Confirmation, Finding, Note, Refusal, Remark, Shape, Source
from .pilot import Pilot

BASE_SHARE = 0.05
"""Share of the base in a reference."""
_MOST_SHIFTED, _WIDEST = 4.0, 5.0
"""Shift and standard deviation of draws, in units of the curvature at an optimum, beyond which the two disagree."""
SCANNED = 2
"""Dimensions in which scans along each coordinate, through draws, and the draws themselves show all modes."""
_TRUSTED = 1.0
"""Length of a path from which weights show what is missing, whatever another search has found."""

_UNSEEN = 0.05
"""Share of mass in modes that no ascent came to, by estimate, from which on an answer is doubtful."""


class Attempt(NamedTuple):
    """One candidate: what its pilot found, and why it is not used, if it is not."""

    source: Source
    refusal: Refusal | None
    length: float = math.nan
    log_evidence: float = math.nan
    log_evidence_se: float = math.nan
    num_modes: int = 1
    shape: Shape = Shape.STUDENT


class Choice(NamedTuple):
    """The chosen path and its pilot, and how it was found."""

    path: AbstractPath[Any]
    pilot: Pilot
    attempts: tuple[Attempt, ...]
    check: Confirmation | None
    cost: Cost
    disagreement: float = 0.0
    """Nats by which the mass that two searches found differs beyond noise."""
    known: tuple[Mode, ...] = ()
    """All optima that were met, used or not."""
    unseen: float = 0.0
    """Share of mass in modes that no ascent came to, by estimate."""

    def or_better(self, other: "Choice") -> "Choice":
        """The one of two choices that finds more mass, or else the one with the shorter path."""
        lost = less_mass(other.pilot, self.pilot) is not None, less_mass(self.pilot, other.pilot) is not None
        if self.pilot.reached != other.pilot.reached:
            better = self if self.pilot.reached else other
        elif lost[0] != lost[1]:
            better = other if lost[0] else self
        else:
            better = min(self, other, key=lambda one: one.pilot.barrier)
        apart = abs(self.pilot.mass[0] - other.pilot.mass[0]) if any(lost) else 0.0
        known = distinct(self.known, other.known)
        unseen = max(self.unseen, other.unseen)
        return better._replace(
            disagreement=apart if better.pilot.barrier > _TRUSTED else 0.0, known=known, unseen=unseen
        )

    @property
    def used(self) -> Attempt:
        """The last candidate that was not refused."""
        return next(attempt for attempt in reversed(self.attempts) if attempt.refusal is None)

    @property
    def ascents(self) -> list[Attempt]:
        """All candidates that ascents led to."""
        return [one for one in self.attempts if one.source is Source.ASCENTS]

    @property
    def notes(self) -> tuple[Remark, ...]:
        """Return what was chosen and why."""
        used = self.used
        if used.source in (Source.BASE, Source.PRIOR):
            mapped = "a map of it" if used.source is Source.PRIOR else None
            chosen = Note.FROM_BASE(length=used.length, mapped=mapped)
        else:
            num_modes = used.num_modes if used.num_modes > 1 else None
            values = {"share": BASE_SHARE, "length": used.length, "num_modes": num_modes}
            chosen = Note.FROM_REFERENCE(shape=used.shape, source=used.source, **values)
        checks = () if self.check is None else (Note.CHECKED(check=self.check),)
        used_sources = {a.source for a in self.attempts if a.refusal is None}  # "without" them would be a contradiction
        refused = [
            Note.REFUSED(source=a.source, refusal=a.refusal)
            for a in self.attempts
            if a.refusal is not None and a.source not in used_sources
        ]
        return (chosen, *checks, *refused)

    @property
    def findings(self) -> tuple[Remark, ...]:
        """Return what looks unreliable about it."""
        found = []
        if self.used.num_modes > 1 and self.check not in (Confirmation.CONFIRMED, Confirmation.COMPLETED):
            found.append(Finding.UNCONFIRMED(num_modes=self.used.num_modes))
        if self.used.num_modes > 1 and self.unseen > _UNSEEN:
            found.append(Finding.UNSEEN(share=self.unseen))
        if self.disagreement > 0:
            found.append(Finding.ROUTES(apart=self.disagreement))
        dimension = self.pilot.state.particles.position.shape[1]
        if dimension > SCANNED and all(one.refusal is Refusal.NO_GRADIENT for one in self.ascents):
            found.append(Finding.NOT_SEARCHED())
        return tuple(found)


def from_base(path: AbstractPath[Any], base: Any) -> AbstractPath[Any]:
    """Return the same path from another base."""
    return replaced(path, base=base)


def is_fitted(base: Any) -> bool:
    """Return whether a path begins at something that was fitted, and not at the base, in whatever coordinates."""
    return isinstance(base, Reference) and base.share < 1


def can_map(kernel: AbstractKernel[Any]) -> bool:
    """Return whether the kernel moves particles in the coordinates of the evaluator alone."""
    return isinstance(kernel, HMC | RandomWalk)


def neck(pilot: Pilot) -> Refusal | None:
    """Return whether draws spread far more than the curvature at the optimum, in whose coordinates the pilot ran."""
    if not isinstance(pilot.annealing.evaluator.densities, MappedDensities):
        return None
    noise = np.asarray(pilot.state.particles.position)
    far = np.abs(np.median(noise, axis=0)).max() > _MOST_SHIFTED or np.std(noise, axis=0).max() > _WIDEST
    return Refusal.NECK if far else None


def less_mass(before: Pilot, after: Pilot) -> Refusal | None:
    """Return whether the second pilot finds less mass than the first, beyond noise."""
    loss = before.mass[0] - after.mass[0]
    return Refusal.LESS_MASS if loss > 3 * math.hypot(before.mass[1], after.mass[1]) + 0.02 else None
