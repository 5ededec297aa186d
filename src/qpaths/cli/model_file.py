"""The evidence of a model that a Python file defines: what `qpaths evidence MODEL.py` does.

The file defines three functions of one point: `log_prior(x)`, `log_likelihood(x)` and `sample_prior(key)`. It is run as
a script with another name than `__main__`, so that code under `if __name__ == "__main__":` is left out.
"""

import runpy
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from ..front_door import evidence
from ..remarks import Level
from ..results import Result
from .interrupts import GOES_ON, tell

_NAMES = ("log_prior", "log_likelihood", "sample_prior")


def run_model_file(model: Path, *, seed: int, limits: dict[str, Any], folder: Path) -> Level:
    """Run `qpaths.evidence` on the model of a file, print the summary, and return the level of the verdict.

    Args:
        model: The Python file.
        seed: The seed of the random numbers.
        limits: Keyword arguments of `evidence` that limit the run, such as `budget`.
        folder: Where the result, a picture and the checkpoint go. A call that is interrupted continues from there.
    """
    parts = load_model(model)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.npz"
    tell(lambda: _stored(checkpoint))
    result = evidence(
        **parts,
        key=jax.random.key(seed),
        **limits,
        checkpoint=checkpoint,
        progress=True,
    )
    result.save(folder / "result.npz")
    draw_marginals(result).savefig(folder / "posterior.png", dpi=160)
    print(result.summary())
    print(f"Result: {(folder / 'result.npz').resolve()}\nPicture: {(folder / 'posterior.png').resolve()}")
    return result.verdict.level  # type: ignore[union-attr]


def _stored(checkpoint: Path) -> str:
    """What to say after an interrupt."""
    if checkpoint.exists():
        return f"pilots and finished islands are stored in {checkpoint}, and {GOES_ON}"
    return "nothing is stored yet, and the same command starts anew"


def load_model(model: Path) -> dict[str, Any]:
    """The three functions that the file defines, by name.

    Raises `FileNotFoundError` or `ValueError` with advice if the file is missing, fails, or lacks one of them.
    """
    if not model.is_file():
        raise FileNotFoundError(f"there is no file {model}: give a Python file that defines {', '.join(_NAMES)}.")
    try:
        found = runpy.run_path(str(model))
    except SystemExit as error:
        raise ValueError(
            f"{model} calls sys.exit({error.code}): it must only define {', '.join(_NAMES)}; put what else it does "
            f"under `if __name__ == '__main__':`."
        ) from error
    except Exception as error:
        raise ValueError(f"{model} cannot be run as Python ({type(error).__name__}: {error}).") from error
    missing = [name for name in _NAMES if not callable(found.get(name))]
    if missing:
        raise ValueError(f"{model} must define the function `{missing[0]}`; see `qpaths evidence --help`.")
    return {name: found[name] for name in _NAMES}


def draw_marginals(result: Result, most: int = 12) -> Any:
    """Weighted histograms of the first coordinates of the posterior draws, at most `most` of them."""
    leaves = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(result.samples)]
    draws = np.concatenate(leaves, axis=1)[:, :most]
    weights = np.exp(result.log_weights - np.max(result.log_weights))
    columns = min(4, draws.shape[1])
    rows = -(-draws.shape[1] // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.6 * columns, 2.1 * rows), squeeze=False, layout="constrained")
    for i, ax in enumerate(axes.ravel()):
        ax.set_visible(i < draws.shape[1])
        if i < draws.shape[1]:
            ax.hist(draws[:, i], bins=40, weights=weights, density=True, color="tab:blue")
            ax.set_title(f"coordinate {i}", fontsize="small")
            ax.set_yticks([])
            ax.spines[["top", "right", "left"]].set_visible(False)
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    figure.suptitle(f"posterior; log evidence {value:.3f} +- {error:.3f}")
    return figure
