"""Write values to files and read them again, without pickle; go on from the files of interrupted calls.

A file is replaced as a whole or not at all. The format is described in `docs/files.md`.
"""

import contextlib
import errno
import hashlib
import importlib
import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import AnyArray, PyTree, in_order, namespace
from ..rows import ShardedRows
from .codec import Codec
from .lock import WRITING

_LARGEST_HEADER, _OVERHEAD = 2**26, 2**12
"""Bytes that a header may take, and that NumPy adds to an array at most."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, or one on which the user may not have more."""
FORMAT = "qpaths-result"
VERSION = 1
"""Version of the format. A reader refuses others."""

_USES = {
    "result": "read it with `qpaths.load_result`",
    "bounds": "read it with `qpaths.load_result`",
    "decoder bounds": "read it with `qpaths.models.load_bounds`",
    "checkpoint": "go on from it with `qpaths.drive(..., checkpoint=...)`",
    "evidence": "go on from it with `qpaths.evidence(..., checkpoint=...)`",
    "many": "go on from it with `qpaths.evidence_many(..., checkpoint=...)`",
    "training": "go on from it with `qpaths.models.train_vae(..., checkpoint=...)`",
}


def write(
    path: str | os.PathLike[str],
    kind: str,
    value: Any,
    codec: Codec,
    settings: dict[str, str] | None = None,
    compressed: bool = False,
) -> None:
    """Write a value; a file already there is replaced at the end.

    Args:
        path: The file.
        kind: What the file is for, one of those in `_USES`.
        value: Any value that the codec can take apart.
        codec: The classes and objects that the reader knows.
        settings: What the reader checks before it reads the value.
        compressed: Whether to compress the arrays. It takes about a second for 20 MB.
    """
    tree, arrays = codec.encode(value)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "qpaths": importlib.import_module(__package__.split(".")[0]).__version__,
        "settings": settings or {},
        "tree": tree,
        "bytes": sum(array.nbytes for array in arrays.values()),
    }
    save = np.savez_compressed if compressed else np.savez
    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            save(file, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]
    except OSError as error:
        if error.errno not in _FULL:
            raise
        before = "what was there before is unchanged" if Path(path).exists() else "there was none before"
        message = f"{_name(path)} could not be written ({error.strerror}): {before}. Make room, and run again."
        raise OSError(message) from error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when the block ends, and is removed if the block raises.

    It has the suffix of `path`, since some writers add one that is missing. The mode and the owner of a file that is
    there stay. A link stays, and its target is replaced. Devices, pipes and the like are never replaced.

        with replacing("page.html") as temporary:
            temporary.write_text(content)
    """
    path = Path(os.path.realpath(path))
    before = os.stat(path) if path.exists() else None
    if before is not None and not (stat.S_ISREG(before.st_mode) or stat.S_ISDIR(before.st_mode)):
        raise OSError(f"`{path}` is a device or a pipe, and no file: give another name.")
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    with WRITING:
        try:
            if path.parent.is_dir():
                temporary.unlink(missing_ok=True)  # a link of this name would be written through
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
                if before is not None:
                    with contextlib.suppress(OSError):  # only root may give files away
                        os.chown(temporary, before.st_uid, before.st_gid)
                    temporary.chmod(stat.S_IMODE(before.st_mode))
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
    verify: Callable[[Any], None] | None = None,
) -> Any:
    """Return the value in a file of one of the given kinds; a `ValueError` says why another file cannot be read.

    `check(settings)` may refuse a file for its settings. The codec may not know the classes of such a file.
    `verify(value)` raises if the value is none that is ever written. The header is read before anything else.
    """
    with _opened(path) as archive:
        if "header" not in archive.files:
            raise ValueError(f"{_name(path)} is not a file of qpaths: it has no header. Give a file that qpaths wrote.")
        with _complaint(path):
            sizes = {info.filename.removesuffix(".npy"): info.file_size for info in archive.zip.infolist()}
            if sizes["header"] > _LARGEST_HEADER:
                raise ValueError(f"its header expands to {sizes['header']:,} bytes")
            header = json.loads(str(archive["header"]))
            form, version, kind = header["format"], header["version"], header["kind"]
        if form != FORMAT:
            raise ValueError(f"{_name(path)} is not a file of qpaths: its format is {form!r}, not {FORMAT!r}.")
        if version != VERSION:
            raise ValueError(
                f"{_name(path)} is in version {version!r} of the format, and this is version {VERSION}: read it with "
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
            said, expanded = header.get("bytes", os.stat(path).st_size), sum(sizes.values()) - sizes["header"]
            if expanded > said + _OVERHEAD * len(sizes):
                raise ValueError(f"it expands to {expanded:,} bytes, and says {said:,}")
            value = codec.decode(header["tree"], archive)
            if verify is not None:
                verify(value)
            return value


def to_jax(tree: PyTree) -> PyTree:
    """Return the tree with arrays of JAX, except those that JAX would round: 64 bits without `jax_enable_x64`."""

    def convert(leaf: AnyArray) -> Any:
        is_array = isinstance(leaf, np.ndarray | np.generic)
        return jnp.asarray(leaf) if is_array and jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype else leaf

    return in_order(convert, tree)


def _name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file for errors."""
    return f"`{os.fspath(path)}`"


@contextlib.contextmanager
def _complaint(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise a `ValueError` for any error in the block: the bytes are not those that were written."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{_name(path)} is damaged or cut short ({type(error).__name__}: {error}): take a copy, or run again."
        ) from error


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open an archive whose arrays are read one by one, when they are asked for."""
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        raise ValueError(f"{_name(path)} is a device or a pipe, and no file of qpaths: give a file that qpaths wrote.")
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
            arrays = np.load(file, allow_pickle=False)
        with arrays:
            yield arrays


class OtherRunError(ValueError):
    """A checkpoint belongs to another model, or to other settings."""


class Checkpoint:
    """The file of one call, with all that determines its numbers. Without a path it keeps nothing.

    Args:
        path: The file, or None.
        kind: The kind of call.
        settings: Everything that determines the numbers. A file with other settings is refused.
        codec: The classes and objects that the state of the call may hold.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        kind: str,
        settings: dict[str, Any],
        codec: Codec = Codec(),  # noqa: B008
    ):
        self.path = path
        self.kind = kind
        self.codec = codec
        self.features: Any = None
        """Densities at some points, if they are known before the state: these, too, must be what they were."""
        self.settings: dict[str, str] = {}
        if path is not None:
            check_folder(path)
            self.settings = describe_all(settings)

    def read(self) -> Any:
        """Return the state in the file, None where there is none. Raise if it belongs to another call."""
        if self.path is None or not Path(self.path).exists():
            return None
        features, state = read(self.path, (self.kind,), self.codec, self._check)
        if features is not None:
            self.check_features(features, self.features)
        return state

    def write(self, state: PyTree) -> None:
        """Replace the file. One process of a cluster writes for all."""
        if self.path is None:
            return
        is_shared = any(isinstance(leaf, ShardedRows) for leaf in jax.tree.leaves(state))
        if is_shared and jax.process_index() > 0:
            self.codec.encode(state)  # takes part in fetching rows from the devices
        else:
            write(self.path, self.kind, (self.features, state), self.codec, self.settings)

    def check_features(self, stored: PyTree, now: PyTree) -> None:
        """Raise if the densities at the same points are not what they were. Both are trees of NumPy arrays."""
        if self.path is None:
            return

        def close(a: AnyArray, b: AnyArray) -> bool:
            tolerance = float(jnp.finfo(a.dtype).eps) ** 0.5 if jnp.issubdtype(a.dtype, jnp.floating) else 0.0
            return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)

        if not jax.tree.all(jax.tree.map(close, stored, now)):
            first = [jax.tree.map(lambda leaf: np.ravel(leaf)[0], features) for features in (now, stored)]
            raise OtherRunError(
                f"`checkpoint` {os.fspath(self.path)} belongs to other densities: at a stored point they give "
                f"{first[0]}, and then they gave {first[1]}. Give the same model and data, or another file."
            )

    def filled(self, template: PyTree, stored: dict[str, Any]) -> PyTree:
        """Return arrays that were stored `by_name` as a state with the structure of the template.

        Raises an error if names, shapes or types differ, since a file of another version or precision would give other
        numbers.
        """
        name = os.fspath(self.path or "")
        arrays, wanted = stored, by_name(template)
        if arrays.keys() != wanted.keys():
            raise ValueError(
                f"`checkpoint` {name} was written by another version of qpaths, whose runs held other numbers "
                f"({', '.join(sorted(arrays.keys() ^ wanted.keys()))}): go on with that version, or start anew."
            )
        for part, leaf in wanted.items():
            if (arrays[part].shape, arrays[part].dtype) != (leaf.shape, leaf.dtype):
                raise ValueError(
                    f"`checkpoint` {name} holds {arrays[part].dtype}{list(arrays[part].shape)} for {part}, and "
                    f"this run needs {leaf.dtype}{list(leaf.shape)}: set `jax_enable_x64` as it was, or start anew."
                )
        xp = namespace(template)
        leaves = [
            leaf.like(arrays[part]) if isinstance(leaf, ShardedRows) else xp.asarray(arrays[part])
            for part, leaf in wanted.items()
        ]
        return jax.tree.unflatten(jax.tree.structure(template), leaves)

    def _check(self, before: dict[str, str]) -> None:
        """Raise if a file belongs to a run with other settings."""
        for name in self.settings | before:
            old, new = before.get(name, "missing"), self.settings.get(name, "missing")
            if old != new:
                raise OtherRunError(
                    f"`checkpoint` {os.fspath(self.path or '')} belongs to another run: `{name}` was {_short(old)}, "
                    f"and is {_short(new)}. Give the same settings to go on, or another file to start anew."
                )


def describe_all(parts: dict[str, Any]) -> dict[str, str]:
    """Return settings as text that is the same in every process, with a digest of their arrays.

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
    """Return one setting as text: numbers as they are, a tree by its form and a digest of its numbers."""
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


def _short(text: str) -> str:
    """Shorten a text in the middle; the digest at its end tells arrays apart."""
    return text if len(text) <= 160 else f"{text[:100]} ... {text[-50:]}"


def by_name(tree: PyTree) -> dict[str, Any]:
    """Return the leaves of a state by where they stand. Files need not know its classes then."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
