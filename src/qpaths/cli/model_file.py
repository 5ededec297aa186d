"""The evidence of a model that a Python file defines: what `qpaths evidence MODEL.py` does; and `qpaths compare`.

The file defines one of
- `model`: a NumPyro model (with `args` and `kwargs` where it takes arguments), a PyMC model, or one of
  `qpaths.adapters`;
- `prior` and `log_likelihood`: a dictionary of distributions, and a function of the variables by name;
- `log_prior(x)`, `log_likelihood(x)` and `sample_prior(key)`: functions of one point.

It is run as a script with another name than `__main__`, so that code under `if __name__ == "__main__":` is left out.
"""

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt

from ..adapters import Model, from_numpyro, from_prior, from_pymc
from ..comparison import compare
from ..front_door import evidence
from ..plotting import plot_compare, plot_posterior, plot_run
from ..remarks import Level
from ..results import Result, load_result
from .interrupts import GOES_ON, tell

_NAMES = ("log_prior", "log_likelihood", "sample_prior")
_WANTED = "`model`, `prior` and `log_likelihood`, or log_prior, log_likelihood and sample_prior"
_RESULT = "result.npz"


def run_model_file(model: Path, *, seed: int, limits: dict[str, Any], folder: Path) -> Level:
    """Run `qpaths.evidence` on the model of a file, print the summary, and return the level of the verdict.

    Args:
        model: The Python file.
        seed: The seed of the random numbers.
        limits: Keyword arguments of `evidence` that limit the run, such as `budget`.
        folder: Where the result, the pictures and the checkpoint go. A call that is interrupted continues from there.
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
    result.save(folder / _RESULT)
    pictures = {"posterior.png": plot_posterior(result), "run.png": plot_run(result)}
    value, error = float(result.log_evidence), float(result.log_evidence_se)
    for name, axes in pictures.items():
        figure = axes.flat[0].figure
        figure.suptitle(f"{model.stem}: log evidence {value:.3f} +- {error:.3f}")
        figure.savefig(folder / name, dpi=160)
        plt.close(figure)
    print(result.summary())
    print(f"Result: {(folder / _RESULT).resolve()}")
    print(f"Pictures: {', '.join(str((folder / name).resolve()) for name in pictures)}")
    return result.verdict.level  # type: ignore[union-attr]


def _stored(checkpoint: Path) -> str:
    """Return what to say after an interrupt."""
    if checkpoint.exists():
        return f"pilots and finished islands are stored in {checkpoint}, and {GOES_ON}"
    return "nothing is stored yet, and the same command starts anew"


def load_model(model: Path) -> dict[str, Any]:
    """Return the arguments of `evidence` that the file defines, by name.

    Raises `FileNotFoundError` or `ValueError` with advice if the file is missing, fails, or lacks one of them.
    """
    if not model.is_file():
        raise FileNotFoundError(f"there is no file {model}: give a Python file that defines {_WANTED}.")
    try:
        found = runpy.run_path(str(model))
    except SystemExit as error:
        raise ValueError(
            f"{model} calls sys.exit({error.code}): it must only define {_WANTED}; put what else it does under "
            f"`if __name__ == '__main__':`."
        ) from error
    except Exception as error:
        raise ValueError(f"{model} cannot be run as Python ({type(error).__name__}: {error}).") from error
    try:
        if "model" in found:
            return {"base": _whole_model(model, found)}
        if "prior" in found:
            return {"base": from_prior(found["prior"], _function(model, found, "log_likelihood"), found.get("data"))}
    except (ImportError, TypeError) as error:
        raise ValueError(f"{model}: {error}") from error
    return {name: _function(model, found, name) for name in _NAMES}


def _function(model: Path, found: dict[str, Any], name: str) -> Any:
    if not callable(found.get(name)):
        raise ValueError(f"{model} must define the function `{name}`; see `qpaths evidence --help`.")
    return found[name]


def _whole_model(path: Path, found: dict[str, Any]) -> Model:
    """Return what the file calls `model`, as a model of ours."""
    model = found["model"]
    if isinstance(model, Model):
        return model
    if hasattr(model, "free_RVs"):
        return from_pymc(model)
    if callable(model):
        try:
            return from_numpyro(model, *found.get("args", ()), **found.get("kwargs", {}))
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise ValueError(f"{path} must define `args` or `kwargs` for its model: {error}.") from error
    raise ValueError(
        f"`model` in {path} must be a NumPyro model (a function), a PyMC model, or one of `qpaths.adapters`, got "
        f"{type(model).__name__}."
    )


def compare_folders(folders: Sequence[Path], picture: Path | None) -> None:
    """Print the comparison of the results in some folders of `qpaths evidence`, and draw it where wanted."""
    from rich.console import Console

    results = {}
    for folder in folders:
        file = folder / _RESULT if folder.is_dir() else folder
        if not file.is_file():
            raise FileNotFoundError(f"there is no result {file}: `qpaths evidence MODEL.py --out {folder}` makes one.")
        result = load_result(file)
        if not isinstance(result, Result):
            raise ValueError(f"{file} holds bounds, and a log evidence is wanted here.")
        name = folder.name if folder.is_dir() else folder.stem
        results[name if name not in results else str(folder)] = result
    comparison = compare(results)
    Console().print(comparison)
    if picture is not None:
        figure, ax = plt.subplots(layout="constrained")
        plot_compare(comparison, ax=ax)
        figure.savefig(picture, dpi=160)
        print(f"Picture: {picture.resolve()}")
