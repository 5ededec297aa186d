"""Handwritten characters in 28 x 28 pixels: the canonical Omniglot file, or drawings rendered from its strokes."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Float

from ..core import PRNGKey
from .vae import NUM_PIXELS

_CANONICAL = {"data": 24_345, "testdata": 8_070}
_HELP = (
    "Give either the canonical `chardata.mat` (24,345 and 8,070 characters; folder datasets/OMNIGLOT of "
    "github.com/yburda/iwae) or an .npz with the arrays `train` and `test`, one drawing of 784 pixels per row "
    "(bytes 0 to 255, or numbers 0 to 1). Bidirectional Monte Carlo needs neither: `qpaths.models.simulate` "
    "draws from the model."
)


_FILES = "chardata.mat", "omniglot28_strokes.npz"


class Images(NamedTuple):
    """Training and test images, one per row, gray values in [0, 1] as probabilities of ink."""

    train: Float[np.ndarray, "num pixels"]
    test: Float[np.ndarray, "num_test pixels"]


def load_omniglot(path: str | os.PathLike[str]) -> Images:
    """Read the images in `chardata.mat`, or in an `.npz` with `train` and `test`; anything else is an error.

    Args:
        path: The file.

    Returns:
        `train` and `test`, one image of 784 pixels per row, in [0, 1].

    See [Training](models.md#training).

    Examples:
        >>> import numpy as np
        >>> import tempfile
        >>> file = tempfile.mkdtemp() + "/images.npz"
        >>> np.savez(file, train=np.zeros((3, 784)), test=np.zeros((2, 784)))
        >>> load_omniglot(file).train.shape
        (3, 784)
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there are no Omniglot images at `{path}`. {_HELP}")
    if path.suffix not in (".mat", ".npz"):
        raise ValueError(f"`{path}` is neither .mat nor .npz. {_HELP}")
    try:
        arrays = _read_mat(path) if path.suffix == ".mat" else _read_npz(path)
    except Exception as error:
        raise ValueError(f"`{path}` cannot be read ({type(error).__name__}: {error}). {_HELP}") from error
    names = tuple(_CANONICAL) if path.suffix == ".mat" else ("train", "test")
    for name in names:
        if name not in arrays:
            raise ValueError(f"`{path}` has no array `{name}`: it holds {', '.join(arrays) or 'nothing'}. {_HELP}")
    if path.suffix == ".npz":
        return Images(*(check_images(arrays[name], name=f"{path}: {name}") for name in names))
    return Images(*(_canonical(arrays[name], f"{path}: {name}", _CANONICAL[name]) for name in names))


def find_omniglot() -> Path:
    """Find `chardata.mat` or `omniglot28_strokes.npz` in the folder that QPATHS_DATA names, or in the current one.

    Returns:
        The file, for `load_omniglot`. Where there is none, an error says how to get one.

    See [Generative models](experiments.md#generative-models).

    Examples:
        >>> import tempfile
        >>> from unittest import mock
        >>> folder = tempfile.mkdtemp()
        >>> Path(folder, "chardata.mat").touch()
        >>> with mock.patch.dict("os.environ", QPATHS_DATA=folder):
        ...     find_omniglot().name
        'chardata.mat'
    """
    for folder in (os.environ.get("QPATHS_DATA"), "."):
        for name in _FILES:
            if folder and (Path(folder) / name).is_file():
                return Path(folder) / name
    raise FileNotFoundError(
        f"there are no Omniglot images: neither {' nor '.join(_FILES)} is in this folder, or in the one that the "
        f"environment variable QPATHS_DATA names. {_HELP}"
    )


def _read_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    return dict(loadmat(path))


def _read_npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _canonical(columns: np.ndarray, name: str, num: int) -> Float[np.ndarray, "num pixels"]:
    """Turn images, one per column and each in Fortran order, into rows of upright ones."""
    if columns.shape != (NUM_PIXELS, num):
        raise ValueError(
            f"`{name}` must have shape {(NUM_PIXELS, num)}, got {columns.shape}: this is not the canonical file."
        )
    upright = np.swapaxes(columns.T.reshape(-1, 28, 28), 1, 2).reshape(-1, NUM_PIXELS)
    return check_images(upright, name=name)


def check_images(
    images: ArrayLike, *, name: str = "images", num_pixels: int = NUM_PIXELS
) -> Float[np.ndarray, "num pixels"]:
    """Return images as float32 in [0, 1], one per row; bytes are divided by 255, unless all are 0 or 1.

    Anything else is an error that says what was found.

    Args:
        images: An array with one image per row.
        name: What to call it in errors.
        num_pixels: Pixels of an image.

    Returns:
        The images as float32.

    See [Training](models.md#training).

    Examples:
        >>> import numpy as np
        >>> check_images(np.array([[0, 255]], np.uint8), num_pixels=2).tolist()
        [[0.0, 1.0]]
    """
    array = np.asarray(images)
    if array.ndim != 2 or array.shape[1] != num_pixels or not array.shape[0]:
        raise ValueError(
            f"`{name}` must hold one image of {num_pixels} pixels per row, got shape {array.shape}: "
            f"flatten each image to a row."
        )
    if array.dtype == np.uint8 and array.max() > 1:
        return array.astype(np.float32) / 255
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer) or array.dtype == bool):
        raise ValueError(f"`{name}` must hold numbers, got {array.dtype}.")
    array = array.astype(np.float32)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"`{name}` must lie in [0, 1], got {array[row, column]} at pixel {column} of image {row}: divide gray "
            f"values by their maximum, and mend NaN."
        )
    return array


def binarize(images: Float[Any, "*num pixels"], key: PRNGKey) -> Float[Array, "*num pixels"]:
    """Draw each pixel as 1 with its gray value as probability: fresh draws each time are dynamic binarization.

    Args:
        images: Gray values in [0, 1].
        key: For the draws; use another one each time.

    Returns:
        Zeros and ones, of the same shape.

    Bounds on a fixed binarization and on fresh ones are not comparable (Salakhutdinov and Murray, 2008).

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> binarize(jnp.array([[0.0, 1.0]]), jax.random.key(0)).tolist()
        [[0.0, 1.0]]
    """
    images = jnp.asarray(images)
    return (jax.random.uniform(key, images.shape, images.dtype) < images).astype(images.dtype)
