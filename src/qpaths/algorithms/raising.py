"""What is checked after a run: faults, which become errors that name the density and the point."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..annealing import Fault
from ..core import PointFaultError, is_concrete, to_host
from ..densities import as_text, called
from ..paths import Reversed
from ..results import CollapsedError, Status
from ..rows import Evaluator


def raise_fault(evaluator: Evaluator, fault: Fault, betas: Any) -> None:
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
