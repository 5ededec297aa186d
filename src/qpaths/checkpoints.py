"""What files for interrupted calls share: does a file belong to this call, and do its numbers fit?"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .arrays import namespace
from .rows.devices import Spread


def describe_all(parts: dict[str, Any]) -> dict[str, str]:
    """Settings as text that is the same in every process, with a digest of their arrays.

    Addresses of functions are left out, since they differ from process to process.
    """
    return {name: _describe(part) for name, part in parts.items()}


def check_folder(path: str | os.PathLike[str]) -> None:
    """Raise before a run whose file could not be written, since the first stage may be hours away."""
    if Path(path).is_dir():
        raise IsADirectoryError(f"`checkpoint` must be a file, got the folder {Path(path)}: give a name inside it.")
    if not Path(path).parent.is_dir():
        raise FileNotFoundError(f"`checkpoint` lies in a folder that does not exist: make {Path(path).parent} first.")


def _describe(part: Any) -> str:
    """One setting as text: numbers as they are, a tree by its form and a digest of its numbers."""
    if part is None or isinstance(part, str | int | float):
        return str(part)
    leaves, structure = jax.tree.flatten(part)
    digest = hashlib.sha256(_without_addresses(str(structure)).encode())
    for leaf in leaves:
        if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    text = " ".join(_without_addresses(repr(part)).split())
    return f"{text} {digest.hexdigest()[:16]}"


def _without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def check_features(path: str | os.PathLike[str], stored: Any, now: Any) -> None:
    """Raise where the densities at the same points are not what they were."""

    def close(a: Any, b: Any) -> bool:
        tolerance = float(jnp.finfo(a.dtype).eps) ** 0.5 if jnp.issubdtype(a.dtype, jnp.floating) else 0.0
        return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)

    if not jax.tree.all(jax.tree.map(close, stored, now)):
        first = [jax.tree.map(lambda leaf: np.ravel(leaf)[0], features) for features in (now, stored)]
        raise ValueError(
            f"`checkpoint` {os.fspath(path)} belongs to other densities: at a stored point they give {first[0]}, and "
            f"then they gave {first[1]}. Give the same model and data, or another file."
        )


def check_settings(path: str | os.PathLike[str], before: dict[str, str], now: dict[str, str]) -> None:
    """Raise where a file belongs to a run with other settings."""
    for name in now | before:
        old, new = before.get(name, "missing"), now.get(name, "missing")
        if old != new:
            raise ValueError(
                f"`checkpoint` {os.fspath(path)} belongs to another run: `{name}` was {_short(old)}, and is "
                f"{_short(new)}. Give the same settings to go on, or another file to start anew."
            )


def _short(text: str) -> str:
    """The end tells arrays apart, by their digest."""
    return text if len(text) <= 160 else f"{text[:100]} ... {text[-50:]}"


def filled(path: str | os.PathLike[str], template: Any, stored: Any) -> Any:
    """The stored arrays in the structure of the template, a state of the run that is to continue.

    Raises an error where names, shapes or types differ, since a file of another version or precision would give other
    numbers.
    """
    arrays, wanted = _by_name(stored), _by_name(template)
    if arrays.keys() != wanted.keys():
        raise ValueError(
            f"`checkpoint` {os.fspath(path)} was written by another version of qpaths, whose runs held other numbers "
            f"({', '.join(sorted(arrays.keys() ^ wanted.keys()))}): go on with that version, or start anew."
        )
    for name, leaf in wanted.items():
        if (arrays[name].shape, arrays[name].dtype) != (leaf.shape, leaf.dtype):
            raise ValueError(
                f"`checkpoint` {os.fspath(path)} holds {arrays[name].dtype}{list(arrays[name].shape)} for {name}, and "
                f"this run needs {leaf.dtype}{list(leaf.shape)}: set `jax_enable_x64` as it was, or start anew."
            )
    xp = namespace(template)
    leaves = [
        leaf.like(arrays[name]) if isinstance(leaf, Spread) else xp.asarray(arrays[name])
        for name, leaf in wanted.items()
    ]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _by_name(tree: Any) -> dict[str, Any]:
    """Leaves by where they stand, the same for a named tuple and the dictionary that it was stored as."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
