"""Type aliases shared by every layer."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Bool, Float, Int, Key, Real

if TYPE_CHECKING:  # NumPy arrays share what the engine needs of JAX arrays, which a union cannot say
    AnyArray: TypeAlias = Any
else:
    AnyArray: TypeAlias = Array | np.ndarray | np.generic
    """An array of JAX, traced or not, or of NumPy: the engine works on both."""

if TYPE_CHECKING:
    ResultArray: TypeAlias = Array | np.ndarray
else:
    ResultArray: TypeAlias = AnyArray
    """An array that a user gets: of JAX where the run was compiled, of NumPy otherwise."""

ArrayNamespace: TypeAlias = ModuleType
"""`numpy` or `jax.numpy`."""
PyTree: TypeAlias = Any
"""Arrays in any structure that JAX knows: type checkers cannot say which."""
Point: TypeAlias = PyTree
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

if TYPE_CHECKING:
    ScalarLike: TypeAlias = float | Array
    RealLike: TypeAlias = float | Array | np.ndarray
else:
    ScalarLike: TypeAlias = Real[ArrayLike, ""]
    RealLike: TypeAlias = Real[ArrayLike, "..."]

LogDensity: TypeAlias = Callable[[Point], Any]
"""Log density of one point."""
Sampler: TypeAlias = Callable[[Any], Point]
"""Draws one point with a key of JAX, or with a generator of NumPy."""
LogLikelihood: TypeAlias = Callable[..., Any]
"""Of a point, or of a point and data."""
Simulator: TypeAlias = Callable[[Any, Point], Any]
"""Draws data given a point, with a key of JAX or a generator of NumPy."""
