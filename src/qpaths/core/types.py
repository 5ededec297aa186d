"""Types that every layer shares: aliases, the base class of modules, and trees by name and by identity."""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Float, Int, Key, Real

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
Features: TypeAlias = PyTree
"""Numbers that a path computes from a point, from which it has the density at every beta."""
Point: TypeAlias = PyTree
"""One point of the sample space: an array or any pytree of arrays."""

Scalar: TypeAlias = Float[AnyArray, ""]
FloatArray: TypeAlias = Float[AnyArray, "..."]
Count: TypeAlias = Int[AnyArray, ""] | int
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
"""Log likelihood of a point, or of a point and data."""
Simulator: TypeAlias = Callable[[Any, Point], Any]
"""Draws data given a point, with a key of JAX or a generator of NumPy."""


M = TypeVar("M", bound=eqx.Module)


class Module(eqx.Module):
    """An equinox module with plain methods.

    Equinox makes a pytree of a method each time that it is looked up, which on the host takes longer than the
    arithmetic of most of them. Nothing here passes methods through transformations of JAX.
    """

    __getattribute__ = object.__getattribute__


def replaced(module: M, **fields: Any) -> M:
    """Return a module with other fields; all else in it stays the same object, and nothing is converted or checked."""
    new = object.__new__(type(module))
    for name, value in (vars(module) | fields).items():
        object.__setattr__(new, name, value)
    return new


def named_leaves(samples: Point) -> dict[str, Any]:
    """Arrays by name: the keys of a dictionary, or x; deeper ones by where they stand, joined by points."""
    tree = samples if isinstance(samples, dict) else {"x": samples}
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    found = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    flat = [name for name in tree if name in found]  # JAX sorts the names, a user gave them in an order
    return {name: found[name] for name in [*flat, *(name for name in found if name not in flat)]}


class Identity:
    """A tree as a key: the same structure with the same arrays, whichever objects are around them.

    It keeps the arrays, so that no others can take their place. A structure that cannot be hashed, as with a function
    object that cannot, is the same where the parts of the tree are the same objects.

    Args:
        parts: The tree; a tuple.
        *detail: What else has to be equal.
        is_leaf: As in `jax.tree.flatten`, for parts that have to be the same objects.
    """

    def __init__(self, parts: tuple[Any, ...], *detail: Any, is_leaf: Callable[[Any], bool] | None = None):
        leaves, structure = jax.tree.flatten(parts, is_leaf)
        try:
            self._hash = hash((structure, detail, *map(id, leaves)))
        except TypeError:
            leaves, structure = list(parts), None
            self._hash = hash((detail, *map(id, leaves)))
        self._leaves, self._key = leaves, (structure, detail)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Identity)
            and self._key == other._key
            and len(self._leaves) == len(other._leaves)
            and all(one is another for one, another in zip(self._leaves, other._leaves, strict=True))
        )
