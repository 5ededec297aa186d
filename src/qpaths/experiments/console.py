"""Experiments at the terminal: the list, a sweep with its progress bar, and the verdicts at its end."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from . import sweep as sweeping
from .base import Claim, Experiment, Run, UserError, Verdict, find, find_all, rehearsed, with_changes
from .store import Store

_COLOURS = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.OPEN: "yellow"}


def show_experiments() -> None:
    """One line for each experiment."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "what", "in the paper", "time"):
        table.add_column(column, no_wrap=column == "name")
    for experiment in find_all().values():
        table.add_row(experiment.name, experiment.title, experiment.paper, experiment.duration)
    Console().print(table)
    print("\nTimes are on two cores with --jobs 2, or on the GPU that is named.")
    print("`qpaths run NAME --smoke` tries one out in seconds.")


def run_experiment(
    name: str, *, smoke: bool, seeds: int | None, changes: Sequence[str], jobs: int, out: Path | None
) -> None:
    """Do what is missing of a sweep, then say what the rows say."""
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
        store.rows()  # a damaged one is better known before a long sweep than after it
        with _bar(experiment) as progress:
            sweeping.sweep(experiment, settings, num_seeds, store, jobs=jobs, progress=progress)
        rows = store.rows()
    show_claims(experiment.claims(rows))
    if rehearsed(experiment, settings, num_seeds):
        print("Not the settings of the paper: these verdicts are a rehearsal.")
    print(f"{len(rows)} rows in {folder}. For pictures and tables: qpaths report {folder}")


def show_omniglot(path: Path | None) -> None:
    """What the file of Omniglot holds, given or found."""
    from ..models import find_omniglot, load_omniglot

    path = find_omniglot() if path is None else path
    images = load_omniglot(path)
    kind = "the canonical characters" if path.suffix == ".mat" else "drawings"
    print(f"{path}: {kind}, {len(images.train):,} for training and {len(images.test):,} for tests, 28 x 28 pixels,")
    print(f"{images.train.mean():.1%} and {images.test.mean():.1%} of the pixels inked.")
    print(f"Bounds on the test images: qpaths run omniglot_ais --set images={path}")


def show_claims(claims: Sequence[Claim]) -> None:
    """Claim, the paper's figure, ours, and the verdict."""
    table = Table("claim", "paper", "ours", "verdict")
    for claim in claims:
        colour = _COLOURS[claim.verdict]
        words = [Text(text) for text in (claim.statement, claim.paper, claim.ours)]  # brackets are no markup there
        table.add_row(*words, Text(claim.verdict.value, style=colour))
    Console().print(table)


@contextmanager
def _bar(experiment: Experiment) -> Iterator[sweeping.Progress]:
    """A bar on a terminal, a line per tenth of the sweep elsewhere; both on standard error."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    columns = TextColumn(experiment.name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int, last: Run | None) -> None:
            bar.update(task, completed=done, total=total, description=_describe(last) if last else "first run")

        yield show


class _Lines:
    """A line for each tenth of the sweep."""

    def __init__(self) -> None:
        self.last_tenth = -1

    def __call__(self, done: int, total: int, last: Run | None) -> None:
        tenth = 10 * done // max(total, 1)
        if tenth > self.last_tenth:
            self.last_tenth = tenth
            print(f"{done} of {total} runs", file=sys.stderr, flush=True)


def _describe(run: Run) -> str:
    shown = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in run.settings.values()]
    return f"{' '.join(shown[:5])}, seed {run.seed}"
