"""Write values to files and read them again, without pickle. A file is replaced as a whole or not at all.

The format is described in `docs/files.md`.
"""

import contextlib
import errno
import importlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .codec import Codec
from .lock import WRITING

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


def write(
    path: str | os.PathLike[str], kind: str, value: Any, codec: Codec, settings: dict[str, str] | None = None
) -> None:
    """Write a value; a file already there is replaced at the end.

    Args:
        path: The file.
        kind: What the file is for, one of those in `_USES`.
        value: Any value that the codec can take apart.
        codec: The classes and objects that the reader knows.
        settings: What the reader checks before it reads the value.
    """
    tree, arrays = codec.encode(value)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "qpaths": importlib.import_module(__package__.split(".")[0]).__version__,
        "settings": settings or {},
        "tree": tree,
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
    """Yield a temporary file that replaces `path` when the block ends, and is removed if the block raises.

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


def read(
    path: str | os.PathLike[str],
    kinds: tuple[str, ...],
    codec: Codec,
    check: Callable[[dict[str, str]], None] | None = None,
) -> Any:
    """Return the value in a file of one of the given kinds; a `ValueError` says why another file cannot be read.

    `check(settings)` may refuse a file for its settings. The codec may not know the classes of such a file.
    """
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
    if check is not None:
        with _complaint(path):
            settings = header["settings"]
        check(settings)
    with _complaint(path):
        return codec.decode(header["tree"], arrays)


def to_jax(tree: Any) -> Any:
    """Return the tree with arrays of JAX, except those that JAX would round: 64 bits without `jax_enable_x64`."""

    def convert(leaf: Any) -> Any:
        is_array = isinstance(leaf, np.ndarray | np.generic)
        return jnp.asarray(leaf) if is_array and jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype else leaf

    return jax.tree.map(convert, tree)


def _name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for errors."""
    return f"`{os.fspath(path)}`"


@contextlib.contextmanager
def _complaint(path: str | os.PathLike[str]) -> Any:
    """Raise a `ValueError` for any error in the block: the bytes are not those that were written."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{_name(path)} is damaged or cut short ({type(error).__name__}: {error}): take a copy, or run again."
        ) from error


def _arrays_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return all arrays of a file of qpaths; nothing of another archive, which may be large."""
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
