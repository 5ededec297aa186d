"""What is checked before and after a run."""

import numbers
from typing import Any

import jax.numpy as jnp

from .._checks import is_concrete
from ..annealing import Fault
from ..arrays import to_host
from ..densities import evaluate
from ..evaluation import AbstractEvaluator
from ..kernels import AbstractKernel
from ..paths import Reversed
from ..results import Status
from ..schedules import AbstractSchedule


def check_num(name: str, num: int, smallest: int = 2) -> None:
    """Raise if a number of particles, chains or temperatures is too small, or no integer."""
    if not isinstance(num, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, got {num!r}: give one such as {max(smallest, 100)}.")
    if num < smallest:
        raise ValueError(f"`{name}` must be at least {smallest}, got {num}.")


def check_chunk_size(chunk_size: int | None) -> None:
    """Raise if no particle would be moved at once."""
    if chunk_size is not None:
        check_num("chunk_size", chunk_size, smallest=1)


def check_parts(kernel: Any, *schedules: Any) -> None:
    """Raise unless an algorithm was given a kernel and, where it takes one, a schedule."""
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"`kernel` must be a kernel such as `HMC()` or `RandomWalk()`, got {kernel!r}.")
    for schedule in schedules:
        if not isinstance(schedule, AbstractSchedule):
            raise TypeError(
                f"`schedule` must be a schedule such as `AdaptiveSchedule()` or `LinearSchedule(10)`, got {schedule!r}."
            )


class CollapsedError(FloatingPointError):
    """No particle of a run has any weight: the target is -inf wherever they are."""


def raise_fault(evaluator: AbstractEvaluator, fault: Fault, betas: Any) -> None:
    """Raise a concrete fault in words, with its beta of all `betas`; a traced one goes on as `result.status`."""
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
