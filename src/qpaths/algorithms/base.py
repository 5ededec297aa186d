"""The contract of an algorithm that carries one population along a path, and errors for its faults.

`docs/tutorials/own_algorithm.md` has a complete example.
"""

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..annealing import Annealing, Fault, State, anneal
from ..core import AnyArray, Cost, PointFaultError, RandomKey, is_concrete, to_host
from ..densities import as_text, called
from ..paths import AbstractPath, Reversed
from ..results import CollapsedError, Result, Stats, Status
from ..rows import Evaluator


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
        """Return what a run costs up to its step `num_steps`, pilots and first evaluations included.

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


def raise_fault(evaluator: Evaluator, fault: Fault, betas: Sequence[float] | AnyArray) -> None:
    """Raise the first fault of a run as an error for the user.

    Args:
        evaluator: That of the run; it knows the path and the layout of points.
        fault: What went wrong, at which stage and at which position. Nothing is raised if all is well.
        betas: All betas of the run, to name the one of the fault.

    Under `jax.jit` nothing can be raised: a traced fault passes, and arrives as `result.status`.
    """
    if not is_concrete(fault) or int(fault.status) == Status.OK:
        return
    status, path = Status(int(fault.status)), evaluator.path
    point, beta = evaluator.layout.points(to_host(fault.position)), betas[int(fault.stage)]
    first, last, stage = "base", "target", f"stage {int(fault.stage)}"
    if isinstance(path, Reversed):
        # In the words of the path that was reversed, which is the one that the user made.
        first, last, stage = last, first, f"{stage} of the reversed path"
        path, beta = path.path, 1 - beta
    where = f"at {stage} (beta = {float(beta):.6g})"
    if status == Status.COLLAPSED:
        raise CollapsedError(
            f"every particle has weight zero {where}: the {last} is -inf wherever the particles are, such as {point}. "
            f"Take a {first} that reaches the {last}, or smaller steps in beta."
        )
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(point)):
        raise PointFaultError(
            f"a draw from the {first} is infinite {where}: {as_text(point)}. A draw may have rounded to a bound of its "
            f"support: use 64 bits (`jax.config.update('jax_enable_x64', True)`), or a {first} with less mass there.",
            point,
        )
    # Not by a plain call: outside of a compiled program the user's functions may check their arguments, and raise.
    found = evaluator.values(evaluator.xp.asarray(fault.position)[None])
    values = {first: float(getattr(found, f"log_{first}")[0]), last: float(getattr(found, f"log_{last}")[0])}
    bad = [name for name, value in values.items() if not value < jnp.inf]
    name = bad[0] if bad else first
    raise PointFaultError(
        f"`{called(getattr(path, name), name)}` is {values[name]} {where} at the point {as_text(point)}: "
        f"{status.message}. A log density must be a number, or -inf where there is no mass; mend it at that point.",
        point,
    )
