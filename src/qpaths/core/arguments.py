"""Checks of arguments that are concrete.

Traced arguments pass, since no error can depend on them; bad values among them come out as NaN or a status.
"""

import inspect
import numbers
from typing import Any

import jax
import numpy as np

from .status import QpathsTypeError


def is_concrete(value: Any) -> bool:
    """Whether the numbers in `value` are known now, outside any transformation."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def check_beta(beta: Any) -> None:
    """Raise if a concrete `beta` is not in [0, 1]."""
    if is_concrete(beta):
        values = np.asarray(beta)
        bad = ~((values >= 0) & (values <= 1))
        if bad.any():
            raise ValueError(
                f"`beta` must lie in [0, 1], got {values[bad].flat[0]}: 0 is the base and 1 the target of the path."
            )


def check_not_nan(name: str, value: Any) -> None:
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


def takes_two(function: Any) -> bool:
    """Whether a function can be called with a point and data."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some callables have no signature to look at
        pass
    return True
