"""When two trees are the same for what was made from one of them."""

from collections.abc import Callable
from typing import Any

import jax


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
