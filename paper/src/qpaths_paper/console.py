"""Experiments at the terminal: the list, a sweep with its progress, the verdicts at its end, and data sets.

Results go to standard output, progress goes to standard error. Nothing here knows a particular experiment: names,
titles, settings and data sets come from the registry.
"""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from qpaths.cli.interrupts import GOES_ON, tell
from qpaths.core import Clock, display

from .harness import sweep as sweeping
from .harness.errors import UserError, nearest
from .harness.experiment import Claim, Judgment, Run
from .harness.registry import find, find_all, find_data_sets
from .harness.settings import rehearsed, with_changes
from .harness.store import Store

_COLORS = {Judgment.HOLDS: "green", Judgment.FAILS: "red", Judgment.OPEN: "yellow"}


def show_experiments() -> None:
    """Print a line for each experiment: its name, what it shows, its place in the paper, and how long it takes."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "what", "in the paper", "time"):
        table.add_column(column, no_wrap=column == "name")
    for experiment in find_all().values():
        table.add_row(experiment.name, experiment.title, experiment.paper or "ours", experiment.duration)
    Console().print(table)
    print("\nTimes are on two cores with --jobs 2, or on the GPU that is named.")
    print("`qpaths run NAME --smoke` tries one out in seconds.")


def run_experiment(
    name: str,
    *,
    smoke: bool,
    seeds: int | None,
    changes: Sequence[str],
    jobs: int,
    cluster: str | None,
    out: Path | None,
) -> None:
    """Do the runs of a sweep that are missing, store them, and print the verdicts on all rows.

    Args:
        name: The experiment.
        smoke: Take its small version.
        seeds: The number of seeds, None for the default.
        changes: Changes of settings, as `key=value`.
        jobs: The number of worker processes.
        cluster: The address of a Dask scheduler whose workers do the runs, None to do them here.
        out: The folder for the rows, None for `out/NAME` or `out/NAME-smoke`.
    """
    if cluster is not None and jobs > 1:
        raise UserError(f"--jobs {jobs} starts workers here, and --cluster {cluster} has its own: give one of the two.")
    experiment = find(name)
    if seeds is not None and experiment.num_seeds is None:
        raise UserError(f"nothing in {name} is random: run it without --seeds.")
    defaults = {**experiment.settings, **(experiment.smoke if smoke else {})}
    settings = with_changes(defaults, changes)
    experiment.check(settings)
    settings |= experiment.inputs(settings)
    num_seeds = seeds or (experiment.smoke_seeds if smoke else experiment.num_seeds) or 1
    folder = out or Path("out") / (f"{name}-smoke" if smoke else name)
    with Store.create(folder, experiment, settings, num_seeds) as store:
        with _progress(folder) as progress:
            sweeping.sweep(experiment, settings, num_seeds, store, jobs=jobs, cluster=cluster, progress=progress)
        rows = store.rows()
    show_claims(experiment.claims(rows))
    if rehearsed(experiment, settings, num_seeds):
        print("Not the settings of the paper: these verdicts are a rehearsal.")
    print(f"{len(rows)} rows in {folder}. For pictures and tables: qpaths report {folder}")


def show_data_set(name: str, path: Path | None) -> None:
    """Check the file of a data set, given or looked for, and print what it holds."""
    known = find_data_sets()
    if name not in known:
        hint = nearest(name, known) or "."
        raise UserError(f"there is no data set {name!r}{hint} Data sets to check: {', '.join(known)}.")
    print(*known[name](path), sep="\n")


def show_claims(claims: Iterable[Claim]) -> None:
    """Print a table of claims: the paper's number, ours, and the verdict."""
    table = Table("claim", "paper", "ours", "verdict")
    for claim in claims:
        color = _COLORS[claim.judgment]
        # As plain text, so that brackets are not read as markup.
        words = [Text(text) for text in (claim.statement, claim.paper, claim.ours)]
        table.add_row(*words, Text(claim.judgment.value, style=color))
    Console().print(table)


@contextmanager
def _progress(folder: Path) -> Iterator[sweeping.Progress]:
    """Progress of a sweep on standard error: a bar on a terminal, lines elsewhere."""
    clock = Clock()
    with display(True) as show:

        def say(done: int, total: int, last: Run | None) -> None:
            tell(lambda: f"{done} of {total} runs are stored in {folder}, and {GOES_ON}")
            line = f"{done} of {total} runs"
            if last is not None:
                seconds = clock.seconds_left(float(total - done))
                left = "" if seconds is None else f", {datetime.timedelta(seconds=round(seconds))} left"
                line += f"{left}; last: {_describe(last)}"
            show(line, done / total if total else 1.0)

        yield say


def _describe(run: Run) -> str:
    """A run by its first settings and its seed."""
    shown = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in run.settings.values()]
    return f"{' '.join(shown[:5])}, seed {run.seed}"
