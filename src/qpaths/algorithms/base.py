"""What an algorithm is that carries one population along a path."""

import abc
from typing import Any

import equinox as eqx

from ..annealing import Annealing, State, anneal
from ..arrays import RandomKey
from ..cost import Cost
from ..paths import AbstractPath
from ..results import Result, Stats


class AbstractAnnealer(eqx.Module):
    """An algorithm that carries one population from the base to the target.

    A new one says how a run begins and what is made of it in the end; the steps between are those of
    `qpaths.annealing`. `drive` and `ThermodynamicIntegration` take any annealer, and
    `qpaths.testing.check_algorithm` checks it against a known evidence. Its kernel is the field `kernel`.
    """

    @abc.abstractmethod
    def begin(self, path: AbstractPath[Any], *, key: RandomKey) -> tuple[Annealing, State]:
        """The settings of a run, and its population at beta = 0."""

    @abc.abstractmethod
    def finish(self, annealing: Annealing, state: State, stats: Stats) -> Result:
        """The result of a run that has come to `state`: beta = 1, a fault, or an interruption."""

    @abc.abstractmethod
    def count(self, num_steps: int) -> Cost:
        """What a run costs in its first steps."""

    def pilot_arrays(self, annealing: Annealing) -> dict[str, Any] | None:
        """What a pilot has fitted for a run, so that it need not be fitted again; None where there is no pilot."""
        return None

    def run(self, path: AbstractPath[Any], *, key: RandomKey) -> Result:
        """Anneal a population from the base to the target."""
        annealing, *start = self.begin(path, key=key)
        return self.finish(annealing, *anneal(annealing, start.pop()))  # nothing else holds the first population
