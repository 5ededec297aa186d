"""The evidence of a model that a Python file defines: what `qpaths evidence MODEL.py` does; and `qpaths compare`.

The file defines one of
- `model`: a NumPyro model (with `args` and `kwargs` where it takes arguments), a PyMC model, or one of
  `qpaths.adapters`;
- `prior` and `log_likelihood`: a dictionary of distributions, and a function of the variables by name;
- `log_prior(x)`, `log_likelihood(x)` and `sample_prior(key)`: functions of one point.

It is run as a script with another name than `__main__`, so that code under `if __name__ == "__main__":` is left out.
"""

import contextlib
import difflib
import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt

from ..adapters import Model, from_numpyro, from_prior, from_pymc
from ..comparison import compare
from ..front_door import evidence
from ..io import OtherRunError
from ..plotting import plot_compare, plot_posterior, plot_run
from ..remarks import Level
from ..results import Result, load_result
from .interrupts import GOES_ON, tell

_NAMES = ("log_prior", "log_likelihood", "sample_prior")
_WANTED = "`model`, `prior` and `log_likelihood`, or log_prior, log_likelihood and sample_prior"
_RESULT = "result.npz"


def run_model_file(model: Path, *, seed: int, limits: dict[str, Any], folder: Path, fresh: bool) -> Level:
    """Run `qpaths.evidence` on the model of a file, print the summary, and return the level of the verdict.

    Args:
        model: The Python file.
        seed: The seed of the random numbers.
        limits: Keyword arguments of `evidence` that limit the run, such as `budget`.
        folder: Where the result, the pictures and the checkpoint go. A call that is interrupted continues from there.
        fresh: Whether to start anew nevertheless. A changed model or seed always does.
    """
    checkpoint = folder / "checkpoint.npz"
    tell(lambda: _stored(checkpoint))
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        parts = load_model(model)
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            checkpoint.unlink(missing_ok=True)
        result = _evidence(parts, checkpoint, key=jax.random.key(seed), **limits)
    except Exception as error:
        for path in missing:
            with contextlib.suppress(OSError):  # it is not empty, or was never made
                path.rmdir()
        line = _line_in(model, error)
        if line is None or str(error).startswith(str(model)):
            raise
        is_ours = type(error).__module__.split(".")[0] == __name__.split(".")[0]
        kind = "" if is_ours else f"{type(error).__name__}: "
        raise ValueError(f"{model}, line {line}: {kind}{error}") from error
    result.save(folder / _RESULT)
    print(result.summary())
    print(f"Result: {(folder / _RESULT).resolve()}")
    for name, plot in {"posterior.png": plot_posterior, "run.png": plot_run}.items():
        try:
            figure = plot(result).flat[0].figure
            figure.suptitle(f"{model.stem}: {figure.get_suptitle()}", fontsize="medium", parse_math=False)
            figure.savefig(folder / name, dpi=160)
            plt.close(figure)
            print(f"Picture: {(folder / name).resolve()}")
        except Exception as error:
            warnings.warn(f"{folder / name} could not be drawn ({error}); the result is stored.", stacklevel=2)
    return result.verdict.level  # type: ignore[union-attr]


def _evidence(parts: dict[str, Any], checkpoint: Path, **settings: Any) -> Result:
    """Run `evidence`, and start anew if the checkpoint is that of another model or seed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="evidence: ")  # the summary says it
        try:
            return evidence(**parts, **settings, checkpoint=checkpoint, progress=True)
        except OtherRunError:
            before = checkpoint.with_stem("checkpoint-before")
            os.replace(checkpoint, before)
            print(f"the model or the seed has changed: starting anew ({before} is what was there)", file=sys.stderr)
            return evidence(**parts, **settings, checkpoint=checkpoint, progress=True)
        except ValueError as error:
            if str(checkpoint) not in str(error):
                raise
            raise ValueError(f"{error} `--fresh` starts anew, and `--out DIR` takes another folder.") from error


def _line_in(model: Path, error: BaseException | None) -> int | None:
    """Return the last line of a file that an error, or what caused it, came through."""
    found = None
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(model)]
        own = error.lineno if isinstance(error, SyntaxError) and error.filename == str(model) else None
        found = own or (lines[-1] if lines else found)
        error = error.__cause__ or error.__context__
    return found


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
        line = f", line {_line_in(model, error)}" if _line_in(model, error) else ""
        raise ValueError(f"{model}{line}: the file cannot be run ({type(error).__name__}: {error}).") from error
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
        near = difflib.get_close_matches(name, found, 1, 0.7) or difflib.get_close_matches("prior", found, 1, 0.7)
        hint = f" It has `{near[0]}`: is that name meant?" if near else ""
        raise ValueError(f"{model} must define {_WANTED}, and has no function `{name}`.{hint}")
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
