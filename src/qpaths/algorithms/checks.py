"""What is checked after a run: faults, which become errors that name the density and the point."""

from typing import Any

import jax.numpy as jnp

from .._checks import is_concrete
from ..annealing import Fault
from ..arrays import to_host
from ..densities import evaluate
from ..evaluation import AbstractEvaluator
from ..paths import Reversed
from ..results import CollapsedError, Status


def raise_fault(evaluator: AbstractEvaluator, fault: Fault, betas: Any) -> None:
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
    values = {name: float(evaluate(getattr(path, name), point, name)) for name in (first, last)}
    bad = [name for name, value in values.items() if not value < jnp.inf]
    name = bad[0] if bad else first
    raise FloatingPointError(
        f"`{name}.log_prob` is {values[name]} {where} at the point {point}: {status.message}. "
        f"A log density must be a number, or -inf where there is no mass; mend it at that point."
    )
