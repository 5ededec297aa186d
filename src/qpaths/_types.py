"""Type aliases shared by every layer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from jax import Array
from jaxtyping import ArrayLike, Float, Key, Real

Point: TypeAlias = Any
"""One point of the sample space: an array or any pytree of arrays."""

Scalar: TypeAlias = Float[Array, ""]
FloatArray: TypeAlias = Float[Array, "..."]
PRNGKey: TypeAlias = Key[Array, ""]

if TYPE_CHECKING:  # arithmetic on a union of array types and Python numbers is beyond a type checker
    ScalarLike: TypeAlias = Any
    RealLike: TypeAlias = Any
else:
    ScalarLike: TypeAlias = Real[ArrayLike, ""]
    RealLike: TypeAlias = Real[ArrayLike, "..."]

LogDensity: TypeAlias = Callable[[Point], Any]
Sampler: TypeAlias = Callable[[Array], Point]
