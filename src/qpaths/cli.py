"""The command line."""

from pathlib import Path
from typing import Annotated

import jax
import typer

app = typer.Typer(
    help="Annealing paths from power means: log evidence with error bars.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _setup() -> None:
    # Evidence is a sum of many small numbers; the library leaves the precision to its user, and here that is us.
    jax.config.update("jax_enable_x64", True)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if it is missing.")] = Path("out"),
) -> None:
    """Draw the paper's intermediate densities between N(-4, 3) and N(4, 1) for four values of q."""
    import matplotlib as mpl

    mpl.use("Agg")
    import numpy as np

    from . import Normal, QPath
    from .plotting import plot_paths

    base, target = Normal(-4.0, 3.0**0.5), Normal(4.0, 1.0)
    paths = {f"q = {q:g}": QPath(base, target, q=q) for q in (0.0, 0.5, 0.9, 1.0)}
    figure = plot_paths(paths, np.linspace(-10.0, 8.0, 721), np.linspace(0.0, 1.0, 10))
    out.mkdir(parents=True, exist_ok=True)
    picture = out / "q_paths.png"
    figure.savefig(picture, dpi=200)
    typer.echo(f"q-paths between N(-4, 3) and N(4, 1), ten betas each: {picture.resolve()}")


def main() -> None:
    app()
