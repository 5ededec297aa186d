"""What was tried as a start of the path, what was chosen, and why: records, and a sentence made of them."""

import enum
import math
from typing import Any, NamedTuple

from ..paths import AbstractPath
from ..results import NumEvaluations
from .pilot import Pilot
from .refusals import Refusal

BASE_SHARE = 0.05
"""Of the base in a reference."""


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
