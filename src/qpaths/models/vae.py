"""The variational autoencoder of the paper: its parts, and its weights in files."""

import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Shaped

from ..core import PRNGKey
from ..io import replacing
from .networks import BernoulliDecoder, DiagonalNormal, Layer, Network


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the arrays in an `.npz` or `.safetensors` file, by name."""
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


def _safetensors() -> ModuleType:
    try:
        import safetensors.numpy as module
    except ImportError as error:
        raise ImportError(
            "files in .safetensors need the package of that name: `pip install qpaths[models]`."
        ) from error
    return module


def stack_of(arrays: Mapping[str, np.ndarray], stem: str, where: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return weight and bias of the layers `stem.0`, `stem.2`, ... in order, each checked against the one before."""
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
    """Return weight (out, in) and bias (out) of one layer: there, finite, of fitting shapes."""
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


HIDDEN = 200, 200
NUM_PIXELS = 784
NUM_LATENT = 50


class Encoder(eqx.Module):
    """A normal `q(z | x)` with independent coordinates; tanh layers, then mean and softplus standard deviation."""

    trunk: Network
    mean: Layer
    scale: Layer

    def __call__(self, x: Shaped[Array, " pixels"]) -> DiagonalNormal:
        hidden = jnp.tanh(self.trunk(x))
        return DiagonalNormal(self.mean(hidden), jax.nn.softplus(self.scale(hidden)))


class VAE(eqx.Module):
    """Prior N(0, I), a Bernoulli decoder, and an encoder for it (Kingma and Welling, 2014).

    Args:
        encoder: Maps an observation to a normal `q(z | x)`.
        decoder: Maps a latent point to pixels.

    `VAE.random(key)` has the sizes of the paper (784-200-200-50, tanh). Pixels must lie in [0, 1].

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> model.encoder(jnp.ones(6)).mean.shape
        (2,)
    """

    encoder: Encoder
    decoder: BernoulliDecoder

    @staticmethod
    def random(
        key: PRNGKey, *, num_pixels: int = NUM_PIXELS, hidden: Sequence[int] = HIDDEN, num_latent: int = NUM_LATENT
    ) -> "VAE":
        """Random weights; the sizes of the paper (784-200-200-50, tanh) unless told."""
        trunk_key, mean_key, scale_key, decoder_key = jax.random.split(key, 4)
        encoder = Encoder(
            Network.random(trunk_key, [num_pixels, *hidden]),
            Layer.random(mean_key, hidden[-1], num_latent),
            Layer.random(scale_key, hidden[-1], num_latent),
        )
        network = Network.random(decoder_key, [num_latent, *reversed(hidden), num_pixels])
        return VAE(encoder, BernoulliDecoder(network))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights, PyTorch layout and names, as `.npz` or `.safetensors`."""
        write_arrays(path, arrays_of(self))


def arrays_of(vae: VAE) -> dict[str, Array]:
    """Return the weights by the names of a PyTorch `Sequential` of layers with a tanh after each."""
    named: dict[str, Layer] = {"enc_mu": vae.encoder.mean, "enc_sig": vae.encoder.scale}
    named |= {f"encoder.{2 * i}": layer for i, layer in enumerate(vae.encoder.trunk.layers)}
    named |= {f"decoder.{2 * i}": layer for i, layer in enumerate(vae.decoder.network.layers)}
    return {f"{name}.{part}": getattr(layer, part) for name, layer in named.items() for part in ("weight", "bias")}


def load_vae(path: str | os.PathLike[str], dtype: DTypeLike = jnp.float32) -> VAE:
    """Read the model whose weights are in an `.npz` or `.safetensors` file.

    Names and layout are PyTorch's: `encoder.0`, `encoder.2`, ..., `enc_mu`, `enc_sig`, `decoder.0`, `decoder.2`, ...,
    each with `.weight` (out, in) and `.bias`. The sizes are the file's own; that they fit together is checked.

    Args:
        path: The file.
        dtype: The precision of the weights.

    Returns:
        The model. Missing arrays, shapes that do not fit together and NaN are errors that name the array.

    See [Weights](models.md#weights).

    Examples:
        >>> import jax
        >>> import tempfile
        >>> file = tempfile.mkdtemp() + "/weights.npz"
        >>> VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2).save(file)
        >>> load_vae(file).decoder.num_latent
        2
    """
    where = os.fspath(path)
    arrays = read_arrays(path)
    encoder, decoder = stack_of(arrays, "encoder", where), stack_of(arrays, "decoder", where)
    heads = {name: checked(arrays, name, encoder[-1][0].shape[0], where) for name in ("enc_mu", "enc_sig")}
    num_latent, num_pixels = decoder[0][0].shape[1], encoder[0][0].shape[1]
    for name, (weight, _) in heads.items():
        if weight.shape[0] != num_latent:
            raise ValueError(
                f"`{where}`: {name}.weight gives {weight.shape[0]} latent numbers, and the decoder takes {num_latent}: "
                f"the two must be equal."
            )
    if decoder[-1][0].shape[0] != num_pixels:
        raise ValueError(
            f"`{where}`: the decoder gives {decoder[-1][0].shape[0]} pixels, and the encoder takes {num_pixels}: the "
            f"two must be equal."
        )

    def layer(pair: tuple[Any, Any]) -> Layer:
        return Layer(jnp.asarray(pair[0], dtype), jnp.asarray(pair[1], dtype))

    trunk = Network(tuple(map(layer, encoder)))
    return VAE(
        Encoder(trunk, layer(heads["enc_mu"]), layer(heads["enc_sig"])),
        BernoulliDecoder(Network(tuple(map(layer, decoder)))),
    )


def default_vae(dtype: DTypeLike = jnp.float32) -> VAE:
    """Return the model that ships with the package, trained on rendered Omniglot drawings (`data/PROVENANCE.md`).

    Args:
        dtype: The precision of the weights.

    Returns:
        The model, with the sizes of the paper.

    The paper's own weights are another file: see [Generative models](experiments.md#generative-models). Its values of
    log p(x) are those of these drawings only.

    Examples:
        >>> default_vae().decoder.num_latent
        50
    """
    with resources.as_file(resources.files(__package__).joinpath("data", "vae.safetensors")) as file:
        return load_vae(file, dtype)
