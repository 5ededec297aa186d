"""The contract of checks of the final draws, and the loop over all of them."""

import abc
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...algorithms import Islands
from ...core import Cost, Stream, log_ess, softmax
from ...kernels import AbstractKernel
from ...recipe import Recipe
from ...references import Mode
from ...remarks import Remark
from ...rows import Evaluator
from ..inputs import coordinate_names
from ..limits import Ledger


class Run:
    """The draws of all islands of a run, and what checks need to look at them.

    Attributes:
        places: Points at which checks have found mass that the draws miss.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        kernel: AbstractKernel[Any],
        recipe: Recipe,
        islands: Islands,
        ledger: Ledger,
        stream: Stream,
    ):
        self.evaluator, self.kernel, self.recipe, self.islands = evaluator, kernel, recipe, islands
        self.ledger, self.stream, self.spent = ledger, stream, ledger.spent
        self.places: list[np.ndarray] = []

    @property
    def left(self) -> float:
        """Evaluations that checks may still take."""
        return self.ledger.left

    @property
    def rows(self) -> np.ndarray:
        """All draws."""
        rows = np.asarray(self.evaluator.layout.rows(self.islands.samples), float)
        return rows.reshape(-1, rows.shape[-1])

    @property
    def log_weights(self) -> np.ndarray:
        """Their log weights."""
        return self.islands.log_weights.ravel()

    @property
    def weights(self) -> np.ndarray:
        """Their weights, which add up to one."""
        return np.asarray(softmax(self.log_weights), float)

    @property
    def effective(self) -> float:
        """Return how many independent draws they are worth."""
        ancestors = float(np.sum(self.islands.stats["num_ancestors"], axis=0)[-1])
        return min(float(np.exp(log_ess(self.log_weights))), ancestors)

    @property
    def names(self) -> list[str]:
        """Those of the coordinates."""
        return coordinate_names(self.evaluator.layout)


class Seen(NamedTuple):
    """Collect what a check, or several of them, have seen in the draws."""

    findings: tuple[Remark, ...] = ()
    errors: Mapping[str, float] = MappingProxyType({})
    """Nats that they add to the standard error, by the names of `ErrorParts`."""
    cost: Cost = Cost()
    places: np.ndarray | None = None
    """Points at which there is mass that the draws miss."""
    modes: tuple[Mode, ...] = ()
    """Optima around which the draws miss mass."""
    rejected: float = 0.0
    """Share of points around the draws at which a density fails."""
    agrees: bool = False
    """True if a search that shares nothing with the first found the same mass."""


class Check(abc.ABC):
    """One look at the final draws. A new check is one file in this folder, and a line in `CHECKS`."""

    @abc.abstractmethod
    def look(self, run: Run) -> Seen:
        """Return what the draws show, for at most what is left of the limits."""


def look(run: Run, checks: Sequence[Check]) -> Seen:
    """Return what all checks have seen, in turn; the ledger has their cost."""
    found: list[Remark] = []
    errors: Mapping[str, float] = MappingProxyType({})
    modes: tuple[Mode, ...] = ()
    rejected, agrees = 0.0, False
    for check in checks:
        seen = check.look(run)
        run.ledger.spend(seen.cost)
        run.places += [] if seen.places is None else [seen.places]
        larger = {name: max(error, errors.get(name, 0.0)) for name, error in seen.errors.items()}
        found, errors, modes = [*found, *seen.findings], {**errors, **larger}, modes + seen.modes
        rejected, agrees = max(rejected, seen.rejected), agrees or seen.agrees
    return Seen(tuple(found), errors, modes=modes, rejected=rejected, agrees=agrees)
