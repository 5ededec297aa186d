"""Checks of the final draws: what a run shows against its own answer, one file each."""

from .balance import Balanced
from .base import Check as Check
from .base import Run as Run
from .base import Seen as Seen
from .base import look as look
from .drift import Drifts
from .known_modes import KnownModes
from .rejected import Rejected
from .scans import Scanned
from .second import Second

CHECKS: tuple[Check, ...] = (Balanced(), Drifts(), Scanned(), Second(), KnownModes(), Rejected())
"""In this order: known modes are looked for where others have found that mass is missing."""
