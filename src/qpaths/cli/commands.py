"""The commands and their options. Each imports what it needs when it is called."""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from .errors import Commands, complain
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


def _use_double_precision() -> None:
    """Compute in float64.

    Evidence is a sum of many small numbers. The library leaves the precision to its user, and here we are the user.
    """
    import jax

    jax.config.update("jax_enable_x64", True)


def _draw_to_files() -> None:
    """Draw pictures without a display."""
    import matplotlib as mpl

    mpl.use("Agg")


@app.command("list")
def list_experiments() -> None:
    """List the experiments: each is a table or figure of the q-paths paper."""
    _use_double_precision()
    from .console import show_experiments

    show_experiments()


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="An experiment; `qpaths list` shows them all.")],
    smoke: Annotated[bool, typer.Option("--smoke", help="A small version, done in seconds: does it run?")] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, in place of the paper's.", min=1)] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; lists are separated by commas. Repeatable."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Worker processes. The rows do not depend on it.", min=1)] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Do the runs on a Dask cluster: the address of its scheduler."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the rows.", show_default="out/NAME, or out/NAME-smoke")
    ] = None,
) -> None:
    """Run an experiment, and compare the results with the paper.

    Each run of the sweep is stored as it finishes. After any interruption the same command continues where it stopped.
    More seeds are added to the stored ones; other settings need another folder.
    """
    _use_double_precision()
    from .console import run_experiment

    run_experiment(name, smoke=smoke, seeds=seeds, changes=change or [], jobs=jobs, cluster=cluster, out=out)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of `qpaths run`, or one that holds several.")],
    out: Annotated[Path | None, typer.Option(help="The page.", show_default="DIR/report.html")] = None,
) -> None:
    """Write one HTML page from stored runs: pictures, tables with the paper's numbers, settings and verdicts.

    Nothing is computed again, and the page needs no other file.
    """
    _use_double_precision()
    _draw_to_files()
    from ..experiments.report import write_report

    page = out or folder / "report.html"
    unreadable = write_report(folder, page)
    typer.echo(f"Report: {page.resolve()}")
    if unreadable:
        complain(f"{len(unreadable)} folders could not be drawn. The first: {unreadable[0].reason}", code=2)


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="The data set; a wrong name lists them all.")],
    path: Annotated[
        Path | None, typer.Argument(help="The file.", show_default="looked for here and in the folder QPATHS_DATA")
    ] = None,
) -> None:
    """Check the file of a data set that does not ship with qpaths, or say where to get it."""
    _use_double_precision()
    from .console import show_data_set

    show_data_set(name, path)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if it is missing.")] = Path("out"),
    particles: Annotated[int, typer.Option(help="Particles of the two paths that are not tuned.", min=10)] = 4000,
) -> None:
    """Compute the evidence of a model with a geometric, the paper's and a tuned path, at equal cost.

    The model is the logistic regression of the paper on the Pima data. Takes about ten seconds.
    """
    _use_double_precision()
    _draw_to_files()
    from .demo import run_demo

    run_demo(out, particles, progress=True)


@app.command()
def evidence(
    model: Annotated[Path, typer.Argument(metavar="MODEL.py", help="A Python file that defines the model.")],
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    budget: Annotated[int | None, typer.Option(help="Evaluations of the likelihood, a gradient as two.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time, counted from the start.")] = None,
    standard_error: Annotated[float | None, typer.Option(help="Stop at this standard error.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result and the pictures.", show_default="out/MODEL"),
    ] = None,
) -> None:
    """Compute the log evidence of your own model.

    The file is Python, and imports what it needs. It defines one of three things:

    - `model`: a NumPyro model (with `args` and `kwargs` for its arguments) or a PyMC model;
    - `prior`, a dictionary of distributions, and `log_likelihood(p)` of the variables by name (with `data`,
    `log_likelihood(p, data)`);
    - `log_prior(x)`, `log_likelihood(x)` and `sample_prior(key)` for one point `x`.

    After an interruption the same command continues from its folder. The exit code is 0 if the answer looks sound, 3 if
    it is doubtful, 4 if it is wrong, and 2 for an error.
    """
    _use_double_precision()
    _draw_to_files()
    from .model_file import run_model_file

    limits = {"budget": budget, "seconds": seconds, "standard_error": standard_error}
    level = run_model_file(model, seed=seed, limits=limits, folder=out or Path("out") / model.stem)
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
    _use_double_precision()
    _draw_to_files()
    from .model_file import compare_folders

    compare_folders(folders, picture)


def main() -> None:
    """Entry point of `qpaths` and of `python -m qpaths`."""
    end_on_signals()
    try:
        app()
    finally:
        ignore_signals()
