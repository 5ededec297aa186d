"""The start of a path: the base, or a reference that proposers find.

Candidates are compared by the length of their path and by the mass that their pilots find. A candidate that finds less
mass than another one is wrong, however short its path. What was tried comes out as records.
"""

from typing import Any

from ..core import Cost, Stream
from ..kernels import AbstractKernel
from ..paths import AbstractPath, GeometricPath
from ..references import FEWEST_DIFFERENCES, Ascents, Mode, Structure, climbable, find_modes
from ..remarks import Refusal
from ..rows import evaluator_of
from .choices import Choice
from .proposers import (
    Base,
    Chains,
    Climbers,
    Drivers,
    KnownModes,
    MapOfBase,
    MissedModes,
    Neck,
    Refined,
    Scans,
    Shapes,
    Weighted,
)
from .state import Search

PLAN = (
    ((KnownModes, Climbers), (Drivers, Refined)),
    # The base may show only the strongest driver, or none. Better draws show the others.
    ((Drivers, Neck, MapOfBase, Weighted, Chains, Base), (Scans, Drivers, Refined, Drivers)),
)
"""Proposers of a first path, of which the first that succeeds is the last, and those that then improve it."""
LAST = (Chains, Drivers, MissedModes, Shapes)
"""Proposers that complete the path, however it was found."""


def choose_start(
    path: AbstractPath[Any],
    kernel: AbstractKernel[Any],
    num_particles: int,
    stream: Stream,
    max_cost: float,
    known: tuple[Mode, ...] = (),
    structure: Structure | None = None,
) -> Choice:
    """Choose the path from the best candidate, in pilots of `num_particles` particles for at most about `max_cost`.

    A reference with the `known` modes of the target is tried first.
    """
    search = Search(path, kernel, num_particles, stream, max_cost)
    search.known, search.structure = known, structure
    for openings, improvements in PLAN:
        for opening in openings:
            if search.best is None:
                search.ask(opening())
        if search.best is None:
            continue
        for improvement in improvements:
            if not search.settled:
                search.ask(improvement())
        break
    for proposer in LAST:
        search.ask(proposer())
    return Choice(
        *search.found, tuple(search.attempts), search.check, search.spent, known=search.known, unseen=search.unseen
    )


def modes_of_target(
    path: AbstractPath[Any], kernel: AbstractKernel[Any], stream: Stream, max_cost: float, structure: Structure | None
) -> tuple[Ascents, Cost]:
    """Return the optima of the target, for a run from a base that is kept, and the cost."""
    draw, climb = stream.split(2)
    evaluator = evaluator_of(GeometricPath(path.base, path.target), draw, with_slopes=kernel.with_slopes)
    source, each = climbable(evaluator, kernel.with_slopes, draw)
    most = int(max_cost / each.total)
    if most < FEWEST_DIFFERENCES:
        return Ascents((), Refusal.NO_GRADIENT, 0), Cost()
    ascents = find_modes(source, climb, most, structure)
    return ascents, ascents.num_gradients * each
