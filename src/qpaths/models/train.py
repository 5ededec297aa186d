"""The command that trains the autoencoder: `python -m qpaths.models.train --data FILE --out FILE`."""

import argparse
import dataclasses
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..io import check_folder
from .omniglot import Images, binarize, load_omniglot
from .training import TrainingSettings, importance_bounds, train_vae
from .vae import VAE, check_destination

_HELP = {
    "num_epochs": "passes over the training images",
    "batch_size": "images of a step",
    "num_samples": "draws from the encoder for each image",
    "num_partitions": "intervals of beta in the objective",
    "first_beta": "beta after 0; the others are log-uniform from there to 1",
    "q": "order of the path from the encoder to the joint density; 1 is the geometric path",
    "gradient": "how samples enter the gradient: reparameterized, or covariance",
    "learning_rate": "step size of Adam at the start",
    "final_learning_rate": "step size at the end, to which it falls along half a cosine",
    "num_latent": "dimension of the latent space",
    "seed": "of all random numbers",
}


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it must be a whole number of at least 1, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m qpaths.models.train", description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="chardata.mat, or an .npz with `train` and `test`")
    parser.add_argument("--out", required=True, type=Path, help="weights, as .npz or .safetensors; a log is put beside")
    parser.add_argument("--checkpoint", type=Path, help="file from which an interrupted training goes on")
    parser.add_argument(
        "--precision",
        default="highest",
        choices=["highest", "tensorfloat32"],
        help="of matrix products; tensorfloat32 is for a GPU",
    )
    parser.add_argument("--num-images", type=_positive, help="train on the first so many images only")
    parser.add_argument("--test-samples", type=_positive, default=500, help="importance samples of the test bound")
    parser.add_argument("--test-images", type=_positive, help="test on the first so many images only")
    parser.add_argument(
        "--test-every", type=_positive, help="test after each so many epochs too: 100 samples, 1,000 images"
    )
    for field in dataclasses.fields(TrainingSettings):
        if field.name == "hidden":
            continue
        option = f"--{field.name.removeprefix('num_').replace('_', '-')}"
        words = f"{_HELP[field.name]} (default: {field.default})"
        kind = _positive if field.name.startswith("num_") or field.name == "batch_size" else type(field.default)
        parser.add_argument(option, dest=field.name, type=kind, default=field.default, help=words)
    return parser


def _test_bound(model: VAE, images: Float[np.ndarray, "num pixels"], num_samples: int) -> tuple[float, float]:
    """Return the mean bound of test images, binarized once with a separate key, and its standard error."""
    binarize_key, sample_key = jax.random.split(jax.random.key(1))
    bounds = importance_bounds(
        model, binarize(jnp.asarray(images), binarize_key), key=sample_key, num_samples=num_samples
    )
    return float(jnp.mean(bounds)), float(jnp.std(bounds)) / len(images) ** 0.5


def _version() -> str:
    assert __package__ is not None
    return str(importlib.import_module(__package__.split(".")[0]).__version__)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train, test, write weights and log; returns the log."""
    names = {field.name for field in dataclasses.fields(TrainingSettings)}
    settings = TrainingSettings(**{name: value for name, value in vars(arguments).items() if name in names})
    check_destination(arguments.out)
    if arguments.checkpoint is not None:
        check_folder(arguments.checkpoint)
    images = load_omniglot(arguments.data)
    images = Images(images.train[: arguments.num_images], images.test[: arguments.test_images])
    tests: list[dict[str, float]] = []

    def observe(epoch: int, model: VAE) -> None:
        if arguments.test_every and epoch % arguments.test_every == 0:
            bound, error = _test_bound(model, images.test[:1000], 100)
            tests.append({"epoch": epoch, "bound": round(bound, 4), "standard_error": round(error, 4)})
            print(f"after {epoch} epochs: test bound {bound:.3f} +- {error:.3f}", flush=True)

    start = time.monotonic()
    with jax.default_matmul_precision(arguments.precision):
        trained = train_vae(images.train, settings, checkpoint=arguments.checkpoint, progress=True, observe=observe)
        seconds = time.monotonic() - start
        trained.model.save(arguments.out)
    # The weights are measured as they will be used, whatever precision they were trained in.
    with jax.default_matmul_precision("highest"):
        bound, error = _test_bound(trained.model, images.test, arguments.test_samples)
    log = {
        "qpaths": _version(),
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "precision": arguments.precision,
        "settings": dataclasses.asdict(settings),
        "num_images": len(images.train),
        "seconds": round(seconds, 1),
        "test": {
            "bound": round(bound, 4),
            "standard_error": round(error, 4),
            "num_samples": arguments.test_samples,
            "num_images": len(images.test),
        },
        "tests_on_the_way": tests,
        "objective": [round(float(value), 4) for value in trained.history],
    }
    arguments.out.with_suffix(".json").write_text(json.dumps(log, indent=1) + "\n")
    return log


def _left_behind(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "nothing is stored: with --checkpoint FILE the same command goes on where it stopped."
    if not checkpoint.exists():
        return f"the training had not begun, and there is no checkpoint {checkpoint} yet."
    return f"the checkpoint is {checkpoint}, and the same command goes on from there."


def main(argv: list[str] | None = None) -> int:
    """Train; return 0, 2 with one line on standard error if the input was wrong, or 130 after Ctrl-C."""
    arguments = _parser().parse_args(argv)
    try:
        log = run(arguments)
    except (OSError, ValueError, FloatingPointError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted; {_left_behind(arguments.checkpoint)}", file=sys.stderr)
        return 130
    test = log["test"]
    print(
        f"trained in {log['seconds']} s on {log['device']}; test bound with {test['num_samples']} samples on "
        f"{test['num_images']} images: {test['bound']} +- {test['standard_error']}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
