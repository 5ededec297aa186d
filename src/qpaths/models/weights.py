"""Weights of networks in files: arrays by name, as `.npz` or `.safetensors`, and what is checked about them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..io import replacing


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays in an `.npz` or `.safetensors` file, by name."""
    path, suffix = Path(path), _suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"`{path}` is no file: give the weights as .npz or .safetensors.")
    try:
        if suffix == ".safetensors":
            return dict(_safetensors().load_file(path))
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(
            f"`{path}` cannot be read as {suffix} ({type(error).__name__}: {error}): take another copy of the file."
        ) from error


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays by name. An existing file is replaced when the new one is complete."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    suffix = _suffix(path)
    with replacing(path) as temporary:
        if suffix == ".safetensors":
            _safetensors().save_file(plain, temporary)
        else:
            np.savez(temporary, **plain)  # type: ignore[arg-type]


def check_destination(path: str | os.PathLike[str]) -> None:
    """Raise if weights could not be written there: better before a long training than after it."""
    if _suffix(path) == ".safetensors":
        _safetensors()
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        what = f"`{path}` is a folder" if path.is_dir() else f"there is no folder `{path.parent}`"
        raise ValueError(f"{what}: give a file for the weights, in a folder that exists.")


def _suffix(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix
    if suffix not in (".npz", ".safetensors"):
        raise ValueError(f"weights are stored as .npz or .safetensors, got `{os.fspath(path)}`.")
    return suffix


def _safetensors() -> Any:
    try:
        import safetensors.numpy as module
    except ImportError as error:
        raise ImportError(
            "files in .safetensors need the package of that name: `pip install qpaths[models]`."
        ) from error
    return module


def stack_of(arrays: Mapping[str, np.ndarray], stem: str, where: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weight and bias of the layers `stem.0`, `stem.2`, ... in order, each checked against the one before."""
    matches = (re.fullmatch(rf"{stem}\.(\d+)\.weight", name) for name in arrays)
    numbers = sorted(int(match[1]) for match in matches if match)
    if not numbers:
        raise ValueError(f"`{where}` has no {stem}.0.weight: it holds {', '.join(arrays) or 'nothing'}.")
    layers: list[tuple[np.ndarray, np.ndarray]] = []
    # Up to the last one there is, so that a layer that was lost is missed, and not skipped.
    for number in sorted({*numbers, *range(0, numbers[-1], 2)}):
        if number % 2:
            raise ValueError(f"`{where}` has {stem}.{number}.weight: layers have even numbers, with a tanh after each.")
        num_in = layers[-1][0].shape[0] if layers else None
        layers.append(checked(arrays, f"{stem}.{number}", num_in, where))
    return layers


def checked(
    arrays: Mapping[str, np.ndarray], name: str, num_in: int | None, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Weight (out, in) and bias (out) of one layer: there, finite, of fitting shapes."""
    for part in ("weight", "bias"):
        full = f"{name}.{part}"
        if full not in arrays:
            raise ValueError(f"`{where}` has no {full}: it holds {', '.join(arrays) or 'nothing'}.")
        array = arrays[full]
        if not np.issubdtype(array.dtype, np.floating):
            raise ValueError(f"`{where}`: {full} must hold real numbers, got {array.dtype}.")
        if not np.isfinite(array).all():
            raise ValueError(
                f"`{where}`: {full} has {int((~np.isfinite(array)).sum())} entries that are NaN or infinite: "
                f"the training that wrote it went wrong; take weights from before that."
            )
    weight, bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]
    wanted = f"(out, {'in' if num_in is None else num_in})"
    if weight.ndim != 2 or (num_in is not None and weight.shape[1] != num_in):
        raise ValueError(
            f"`{where}`: {name}.weight must have shape {wanted}, got {weight.shape}: the layout is (out, in)."
        )
    if bias.shape != weight.shape[:1]:
        raise ValueError(f"`{where}`: {name}.bias must have shape {weight.shape[:1]}, got {bias.shape}.")
    return weight, bias
