"""The commands and their options. Each imports what it needs when it is called.

Other packages add commands through the entry point `qpaths.commands`; see `Commands`.
"""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from .errors import Commands
from .interrupts import end_on_signals, ignore_signals

app = typer.Typer(
    cls=Commands,
    help="Annealing paths from power means: log evidence with error bars.",
    epilog="Start with `qpaths demo`; `qpaths evidence MODEL.py` for your own model; `qpaths list` for the paper.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> bool:
    """Print the version and end, if it is asked for."""
    if wanted:
        typer.echo(f"qpaths {importlib.import_module(__package__.split('.')[0]).__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the command; `Commands` reads them."""


def use_double_precision() -> None:
    """Compute in float64.

    Evidence is a sum of many small numbers. The library leaves the precision to its user, and here we are the user.
    """
    import jax

    jax.config.update("jax_enable_x64", True)


def draw_to_files() -> None:
    """Draw pictures without a display."""
    import matplotlib as mpl

    mpl.use("Agg")


@app.command()
def evidence(
    model: Annotated[Path, typer.Argument(metavar="MODEL.py", help="A Python file that defines the model.")],
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    budget: Annotated[float | None, typer.Option(help="Evaluations of the likelihood, a gradient as two.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time, counted from the start.")] = None,
    standard_error: Annotated[float | None, typer.Option(help="Stop at this standard error.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result and the pictures.", show_default="out/MODEL"),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew, whatever the folder holds.")] = False,
) -> None:
    """Compute the log evidence of your own model.

    The file is Python, and imports what it needs. It defines one of three things:

    - `model`: a NumPyro model (with `args` and `kwargs` for its arguments) or a PyMC model;
    - `prior`, a dictionary of distributions, and `log_likelihood(p)` of the variables by name (with `data`,
    `log_likelihood(p, data)`);
    - `log_prior(x)`, `log_likelihood(x)` and `sample_prior(key)` for one point `x`.

    After an interruption the same command continues from its folder. After a change of the model it starts anew. The
    exit code is 0 if the answer looks sound, 3 if it is doubtful, 4 if it is wrong, and 2 for an error.
    """
    use_double_precision()
    draw_to_files()
    from .model_file import run_model_file

    budget = int(budget) if budget is not None and budget.is_integer() else budget
    limits = {"budget": budget, "seconds": seconds, "standard_error": standard_error}
    level = run_model_file(model, seed=seed, limits=limits, folder=out or Path("out") / model.stem, fresh=fresh)
    raise typer.Exit(level.exit_code)


@app.command()
def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of `qpaths evidence`, one for each model.")
    ],
    picture: Annotated[Path | None, typer.Option(help="Draw the comparison to this file, too.")] = None,
) -> None:
    """Compare models by their evidence: log Bayes factors with standard errors, and model probabilities.

    Results on different data are an error where the models know their data.
    """
    use_double_precision()
    draw_to_files()
    from .model_file import compare_folders

    compare_folders(folders, picture)


def main() -> None:
    """Entry point of `qpaths` and of `python -m qpaths`."""
    end_on_signals()
    try:
        app()
    finally:
        ignore_signals()
