"""Names for the arrays of a tree."""

from typing import Any

import jax

from .types import Point


def named_leaves(samples: Point) -> dict[str, Any]:
    """Arrays by name: the keys of a dictionary, or x; deeper ones by where they stand, joined by points."""
    tree = samples if isinstance(samples, dict) else {"x": samples}
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    found = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    flat = [name for name in tree if name in found]  # JAX sorts the names, a user gave them in an order
    return {name: found[name] for name in [*flat, *(name for name in found if name not in flat)]}
