"""The command line. JAX and all that needs it are imported by the commands, so that help is there at once."""

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup


class _Commands(TyperGroup):
    """Errors are one line; `--debug`, anywhere on the line, shows where they come from.

    The exit code is 2 for what the user can mend and 1 for a fault of the program.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        debug = "--debug" in args
        if debug:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        if debug or not args:  # without any the help is shown, which is an error of usage too
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "format_message"):
                _complain_of_usage(error)
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            if hasattr(error, "format_message"):
                _complain_of_usage(error)
            from .experiments.base import UserError

            if isinstance(error, UserError | OSError | ValueError | ArithmeticError):
                _complain(str(error), code=2)
            _complain(f"unexpected {type(error).__name__}: {error} (--debug shows where)", code=1)
        except KeyboardInterrupt:
            _complain("interrupted; what was finished is stored, and the same command goes on from there.", code=130)


def _complain_of_usage(error: Any) -> NoReturn:
    """A wrong command, option or value, in one line in place of a box."""
    context = getattr(error, "ctx", None)
    command = "qpaths" if context is None or context.parent is None else f"qpaths {context.info_name}"
    _complain(f"{error.format_message().rstrip('.')}; `{command} --help` shows what can be given.", code=2)


def _complain(message: str, code: int) -> NoReturn:
    print("qpaths:", " ".join(message.split()), file=sys.stderr)
    raise typer.Exit(code)


app = typer.Typer(
    cls=_Commands,
    help="Annealing paths from power means: log evidence with error bars.",
    epilog="Start with `qpaths demo`; `qpaths evidence MODEL.py` for your own model; `qpaths list` for the paper.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from . import __version__

        typer.echo(f"qpaths {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options that stand before the command; `_Commands` looks at them."""


def _use_double_precision() -> None:
    """Evidence is a sum of many small numbers; the library leaves the precision to its user, and here that is us."""
    import jax

    jax.config.update("jax_enable_x64", True)


def _draw_to_files() -> None:
    import matplotlib as mpl

    mpl.use("Agg")


@app.command("list")
def list_experiments() -> None:
    """List the experiments: each is a table or figure of the q-paths paper."""
    _use_double_precision()
    from .experiments.console import show_experiments

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
    base: Annotated[
        str | None, typer.Option(help="Short for --set base=...: prior, encoder, or both, with a comma between them.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Short for --set model=...: default, paper, or a file of weights.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Worker processes. The rows do not depend on it.", min=1)] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the rows.", show_default="out/NAME, or out/NAME-smoke")
    ] = None,
) -> None:
    """Run an experiment, and compare with the paper.

    Each run of the sweep is stored as it finishes. After an interruption of any kind the same command goes on where it
    stopped. More seeds are added to those that are there; other settings need another folder.
    """
    _use_double_precision()
    from .experiments.console import run_experiment

    short = [f"{key}={value}" for key, value in (("base", base), ("model", model)) if value is not None]
    run_experiment(name, smoke=smoke, seeds=seeds, changes=[*(change or []), *short], jobs=jobs, out=out)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of `qpaths run`, or one that holds several.")],
    out: Annotated[Path | None, typer.Option(help="The page.", show_default="DIR/report.html")] = None,
) -> None:
    """Write one HTML page from stored runs: pictures and tables beside the paper's, settings and verdicts.

    Nothing is computed anew, and the page needs no other file.
    """
    _use_double_precision()
    _draw_to_files()
    from .report import write_report

    page = out or folder / "report.html"
    unreadable = write_report(folder, page)
    typer.echo(f"Report: {page.resolve()}")
    if unreadable:
        _complain(f"not all folders could be drawn, {len(unreadable)} not. The first: {unreadable[0].reason}", code=2)


@app.command()
def data(
    name: Annotated[str, typer.Argument(help="The data set: omniglot.")],
    path: Annotated[
        Path | None, typer.Argument(help="The file.", show_default="looked for here and in the folder QPATHS_DATA")
    ] = None,
) -> None:
    """Check the file of a data set that does not ship with qpaths, or say where to get it.

    For `omniglot` that is the canonical `chardata.mat`, or an .npz with drawings rendered from the strokes.
    """
    _use_double_precision()
    from .experiments.base import UserError
    from .experiments.console import show_omniglot

    if name != "omniglot":
        raise UserError(f"there is no data set {name!r}: the one that does not ship with qpaths is omniglot.")
    show_omniglot(path)


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
    model: Annotated[Path, typer.Argument(metavar="MODEL.py", help="Defines log_prior, log_likelihood, sample_prior.")],
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 0,
    budget: Annotated[int | None, typer.Option(help="Evaluations of the likelihood, a gradient as two.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time, once the pilots are done.")] = None,
    standard_error: Annotated[float | None, typer.Option(help="Stop at this standard error.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the result and the picture.", show_default="out/MODEL"),
    ] = None,
) -> None:
    """Compute the log evidence of your own model.

    The file is Python. It defines `log_prior(x)`, `log_likelihood(x)` and `sample_prior(key)` for one point `x`, and
    imports what it needs. An interrupted call goes on from its folder.
    """
    _use_double_precision()
    _draw_to_files()
    from .model_file import run_model_file

    limits = {"budget": budget, "seconds": seconds, "standard_error": standard_error}
    run_model_file(model, seed=seed, limits=limits, folder=out or Path("out") / model.stem)


def main() -> None:
    app()
