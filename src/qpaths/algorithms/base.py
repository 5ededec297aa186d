"""What an algorithm is that carries one population along a path.

`docs/tutorials/own_algorithm.md` has a complete example.
"""

import abc
from typing import Any

import equinox as eqx

from ..annealing import Annealing, State, anneal
from ..core import Cost, RandomKey
from ..paths import AbstractPath
from ..results import Result, Stats


class AbstractAnnealer(eqx.Module):
    """An algorithm that carries one population from the base to the target.

    A new one says how a run begins and what is made of it in the end; the steps between are those of
    `qpaths.annealing`. `drive` and `ThermodynamicIntegration` take any annealer, and
    `qpaths.testing.check_algorithm` checks it against a known evidence. Its kernel is the field `kernel`.

    The estimate is unbiased only if nothing that moves or weights a particle looks at that particle's own future; see
    [Write an algorithm](tutorials/own_algorithm.md).

    Examples:
        >>> import qpaths as qp
        >>> smc = qp.SMC(100, qp.LinearSchedule(3), qp.RandomWalk())
        >>> isinstance(smc, AbstractAnnealer), smc.count(2).target  # 100 at the start, 100 for each of two steps
        (True, 300)
    """

    @abc.abstractmethod
    def begin(self, path: AbstractPath[Any], *, key: RandomKey) -> tuple[Annealing, State]:
        """The settings of a run, and its population at beta = 0.

        Args:
            path: From a base that can be sampled to the target.
            key: A key of JAX, or a stream that was made from one.

        `qpaths.annealing.begin` does most of it. Settings that depend on pilots are found here and are then frozen.
        """

    @abc.abstractmethod
    def finish(self, annealing: Annealing, state: State, stats: Stats) -> Result:
        """The result of a run that has arrived at `state`: at beta = 1, at a fault, or at an interruption.

        Args:
            annealing: What `begin` returned.
            state: The last state.
            stats: What was recorded after each step, stacked; fewer steps than planned after an interruption.
        """

    @abc.abstractmethod
    def count(self, num_steps: int) -> Cost:
        """What a run costs up to and including its first `num_steps` steps, pilots and first evaluations included.

        Counted from the settings alone, so that budgets can be planned before a run.
        """

    def run(self, path: AbstractPath[Any], *, key: RandomKey) -> Result:
        """Anneal a population from the base to the target.

        Args:
            path: Any path whose base can be sampled.
            key: The same key gives the same numbers. On the host they differ from those under `jax.jit`.

        Returns:
            The result. Outside `jax.jit` problems are raised; inside they arrive as `result.status`.
        """
        annealing, *start = self.begin(path, key=key)
        return self.finish(annealing, *anneal(annealing, start.pop()))  # nothing else holds the first population
