"""Type aliases shared by every layer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Bool, Float, Int, Key, Real

if TYPE_CHECKING:  # the two share what the engine needs of them, which a union cannot say
    AnyArray: TypeAlias = Any
else:
    AnyArray: TypeAlias = Array | np.ndarray | np.generic
    """An array of JAX, traced or not, or of NumPy: the engine works on both."""

Point: TypeAlias = Any
"""One point of the sample space: an array or any pytree of arrays."""

Scalar: TypeAlias = Float[AnyArray, ""]
FloatArray: TypeAlias = Float[AnyArray, "..."]
Count: TypeAlias = Int[AnyArray, ""] | int
Flag: TypeAlias = Bool[AnyArray, ""] | bool
Vector: TypeAlias = Float[AnyArray, " n"]
"""One number for each particle."""
Rows: TypeAlias = Float[AnyArray, "n d"]
"""One row for each particle."""
PRNGKey: TypeAlias = Key[Array, ""]

if TYPE_CHECKING:  # arithmetic on a union of array types and Python numbers is beyond a type checker
    ScalarLike: TypeAlias = Any
    RealLike: TypeAlias = Any
else:
    ScalarLike: TypeAlias = Real[ArrayLike, ""]
    RealLike: TypeAlias = Real[ArrayLike, "..."]

LogDensity: TypeAlias = Callable[[Point], Any]
Sampler: TypeAlias = Callable[[Any], Point]
