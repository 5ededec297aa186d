"""Ends of runs, errors, and checks of arguments.

Arguments are checked where they are concrete. Traced ones pass, since no error can depend on them; bad values among
them come out as NaN or a status.
"""

import enum
import inspect
import numbers
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .types import PyTree, RealLike


class Status(enum.IntEnum):
    """The end of a run. Outside `jax.jit` a problem is an error; inside it is this number in `result.status`.

    `UNFINISHED` is the status after Ctrl-C: the numbers belong to the last beta that was reached. A status other than
    `OK` says that the samples are not draws from the target. See
    [When something is wrong](algorithms.md#when-something-is-wrong).

    Examples:
        >>> Status(3).message
        'every particle has weight zero'
    """

    OK = 0
    INVALID_START = 1
    INVALID_PROPOSAL = 2
    COLLAPSED = 3
    UNFINISHED = 4
    INFINITE_INTEGRAND = 5

    @property
    def message(self) -> str:
        """The status as a phrase for a person."""
        return {
            Status.OK: "finished",
            Status.INVALID_START: "a log density is NaN or +inf at a draw from the base",
            Status.INVALID_PROPOSAL: "a log density is NaN or +inf at a point that the kernel proposed",
            Status.COLLAPSED: "every particle has weight zero",
            Status.UNFINISHED: "interrupted before the end",
            Status.INFINITE_INTEGRAND: "the path's derivative is infinite at a draw from the base",
        }[self]


class QpathsError(ValueError):
    """Something that a user gave is wrong; the message names it and says what to do.

    Raised where code that calls the user's functions must tell such an error from one that these functions raise.
    """


class QpathsTypeError(QpathsError, TypeError):
    """Something that a user gave is of the wrong kind."""


class CollapsedError(FloatingPointError):
    """No particle of a run has any weight: the target is -inf at all of them.

    Give a base that overlaps the target, more particles, or smaller steps in beta. Under `jax.jit`, where nothing can
    be raised, `result.status` is `COLLAPSED` instead. See [When something is
    wrong](algorithms.md#when-something-is-wrong).

    Examples:
        >>> import jax, jax.numpy as jnp, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: jnp.where(x > 99.0, 0.0, -jnp.inf))
        >>> try:
        ...     result = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).run(path, key=jax.random.key(0))
        ... except CollapsedError:
        ...     print("the base does not reach the target")
        the base does not reach the target
    """


class PointFaultError(FloatingPointError):
    """A log density is NaN or +inf at a point, or the point itself is infinite; `point` has its coordinates."""

    def __init__(self, words: str, point: PyTree):
        super().__init__(words)
        self.point = point


def is_concrete(value: PyTree) -> bool:
    """Return whether the numbers in `value` are known now, outside any transformation."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def check_beta(beta: RealLike) -> None:
    """Raise if a concrete `beta` is not in [0, 1]."""
    if is_concrete(beta):
        values = np.asarray(beta)
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            raise ValueError(
                f"`beta` must lie in [0, 1], got {values[bad].flat[0]}: 0 is the base and 1 the target of the path."
            )


def check_not_nan(name: str, value: PyTree) -> None:
    """Raise if a concrete `value` has a NaN."""
    if is_concrete(value) and np.isnan(np.asarray(value)).any():
        raise ValueError(f"`{name}` must be a number, got {value}: check the computation that made it.")


def check_num(name: str, num: int, smallest: int = 2) -> None:
    """Raise if a number of particles, chains or temperatures is too small, or no integer."""
    if not isinstance(num, numbers.Integral):
        raise QpathsTypeError(f"`{name}` must be an integer, got {num!r}: give one such as {max(smallest, 100)}.")
    if num < smallest:
        raise ValueError(f"`{name}` must be at least {smallest}, got {num}.")


def check_chunk_size(chunk_size: int | None) -> None:
    """Raise if no particle would be moved at once."""
    if chunk_size is not None:
        check_num("chunk_size", chunk_size, smallest=1)


def takes_two(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with a point and data."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some callables have no signature to look at
        pass
    return True
