"""The commands that this package adds to `qpaths`. Each imports what it needs when it is called."""

from pathlib import Path
from typing import Annotated

import typer

from qpaths.cli.commands import draw_to_files, use_double_precision
from qpaths.cli.errors import complain

app = typer.Typer()


@app.command("list")
def list_experiments() -> None:
    """List the experiments: each is a table or figure of the q-paths paper."""
    use_double_precision()
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
    use_double_precision()
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
    use_double_precision()
    draw_to_files()
    from .harness.report import write_report

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
    use_double_precision()
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
    use_double_precision()
    draw_to_files()
    from .demo import run_demo

    run_demo(out, particles, progress=True)
