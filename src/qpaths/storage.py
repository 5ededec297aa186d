"""Files: arrays and their nesting in a container that needs no pickle, replaced as a whole or not at all.

The format is described in `docs/files.md`. What the arrays mean is the business of whoever writes them.
"""

import contextlib
import errno
import importlib
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._files import WRITING

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, or one on which the user may not have more."""
FORMAT = "qpaths-result"
VERSION = 1

_USES = {
    "result": "read it with `qpaths.load_result`",
    "bounds": "read it with `qpaths.load_result`",
    "decoder bounds": "read it with `qpaths.models.load_bounds`",
    "checkpoint": "go on from it with `qpaths.drive(..., checkpoint=...)`",
    "evidence": "go on from it with `qpaths.evidence(..., checkpoint=...)`",
    "training": "go on from it with `qpaths.models.train_vae(..., checkpoint=...)`",
}


class Contents(NamedTuple):
    """What a file holds: its kind, what its writer noted in the header, and the tree of numpy arrays."""

    kind: str
    notes: dict[str, Any]
    tree: Any


def write(path: str | os.PathLike[str], kind: str, notes: dict[str, Any], tree: Any) -> None:
    """Write a tree of arrays and notes that JSON can hold; a file already there is replaced at the end."""
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "qpaths": importlib.import_module(__package__).__version__,
        "notes": notes,
        "tree": _encode(tree, (), arrays),
    }
    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
    except OSError as error:
        if error.errno not in _FULL:
            raise
        before = "what was there before is unchanged" if Path(path).exists() else "there was none before"
        message = f"{_name(path)} could not be written ({error.strerror}): {before}. Make room, and run again."
        raise OSError(message) from error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file that replaces `path` when the block ends, and is removed if the block raises.

    It has the suffix of `path`, since some writers add one that is missing.

        with replacing("page.html") as temporary:
            temporary.write_text(content)
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    with WRITING:
        try:
            yield temporary
            # Without this a power failure can leave the new name with none of the new bytes.
            with open(temporary, "ab") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):  # its folder may be what is missing
                temporary.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], kinds: tuple[str, ...]) -> Contents:
    """What a file of one of the given kinds holds; a `ValueError` says why another file cannot be read."""
    arrays = _arrays_in(path)
    if "header" not in arrays:
        raise ValueError(f"{_name(path)} is not a file of qpaths: it has no header. Give a file that qpaths wrote.")
    with _complaint(path):
        header = json.loads(str(arrays["header"]))
        form, version, kind = header["format"], header["version"], header["kind"]
    if form != FORMAT:
        raise ValueError(f"{_name(path)} is not a file of qpaths: its format is {form!r}, not {FORMAT!r}.")
    if version != VERSION:
        raise ValueError(
            f"{_name(path)} is in version {version} of the format, and this is version {VERSION}: read it with "
            f"qpaths {header.get('qpaths')}, which wrote it."
        )
    if kind not in kinds:
        use = _USES.get(kind, "it has another use")
        raise ValueError(f"{_name(path)} holds a {kind}, and {' or '.join(kinds)} is wanted here: {use}.")
    with _complaint(path):
        return Contents(kind, header["notes"], _decode(header["tree"], arrays))


def to_jax(tree: Any) -> Any:
    """The arrays as arrays of jax, except those that jax would round: 64 bits without `jax_enable_x64`."""
    return jax.tree.map(lambda a: jnp.asarray(a) if jax.dtypes.canonicalize_dtype(a.dtype) == a.dtype else a, tree)


def _name(path: str | os.PathLike[str]) -> str:
    """The name of a file in errors."""
    return f"`{os.fspath(path)}`"


@contextlib.contextmanager
def _complaint(path: str | os.PathLike[str]) -> Any:
    """Whatever goes wrong while bytes are taken apart means that they are not the bytes that were written."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{_name(path)} is damaged or cut short ({type(error).__name__}: {error}): take a copy, or run again."
        ) from error


def _arrays_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """All arrays of a file of qpaths; nothing of another archive, which may be large."""
    with open(path, "rb") as file:
        start = file.read(4)
        if start != b"PK\x03\x04":
            what = "it is empty" if not start else f"it begins with {start!r}"
            raise ValueError(f"{_name(path)} is not a file of qpaths: {what}. Give a file that qpaths wrote.")
        file.seek(0)
        with _complaint(path):
            if not zipfile.is_zipfile(file):
                raise EOFError("its end is missing")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return dict(arrays) if "header" in arrays.files else {}


def _encode(node: Any, names: tuple[str, ...], arrays: dict[str, np.ndarray]) -> Any:
    """The nesting as JSON; arrays are collected on the way, under names made from where they stand.

    Nodes that JSON cannot name (named tuples, modules) become dictionaries of their fields.
    """
    if node is None:
        return {"none": True}
    children, _ = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda child: child is not node)
    if children and children[0][1] is node:
        array = np.asarray(node)
        if array.dtype.hasobject:
            raise TypeError(f"only arrays of numbers can be stored, got {type(node).__name__} at {'/'.join(names)}.")
        name = re.sub(r"[^\w/]", "_", "/".join(names))
        while name in arrays:
            name += "_"
        arrays[name] = array
        return {"array": name, "dtype": array.dtype.name}
    if type(node) in (list, tuple):
        items = [_encode(child, (*names, str(i)), arrays) for i, child in enumerate(node)]
        return {type(node).__name__: items}
    keyed = node.items() if type(node) is dict else ((_field(path), child) for path, child in children)
    pairs = [(key if isinstance(key, int) else str(key), child) for key, child in keyed]
    return {"dict": [[key, _encode(child, (*names, str(key)), arrays)] for key, child in pairs]}


def _field(path: Any) -> str:
    """The name of a field of a node, from its path in the tree."""
    return jax.tree_util.keystr(path, simple=True)


def _decode(node: dict[str, Any], arrays: dict[str, Any]) -> Any:
    """The inverse of `_encode`: nested dictionaries, lists and tuples of arrays."""
    ((kind, value),) = ((k, v) for k, v in node.items() if k != "dtype")
    if kind == "array":
        array = arrays[value]
        # Kinds of numbers that numpy itself does not know (bfloat16) are stored as bytes.
        return array.view(np.dtype(node["dtype"])) if array.dtype.kind == "V" else array
    if kind == "dict":
        return {key: _decode(child, arrays) for key, child in value}
    if kind in ("list", "tuple"):
        items = [_decode(child, arrays) for child in value]
        return items if kind == "list" else tuple(items)
    if kind == "none":
        return None
    raise ValueError(f"unknown node {kind!r}")
