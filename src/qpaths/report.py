"""Stored rows in, one page out: pictures, tables and verdicts of experiments as HTML that needs no other file."""

import base64
import contextlib
import html
import importlib
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from .experiments.base import Claim, Experiment, Picture, Row, Sheet, UserError, Verdict, find, rehearsed
from .experiments.store import FILE, Store, damaged

_STYLE = """
:root { color-scheme: light; --ink: #1c2733; --soft: #5b6875; --line: #d5dbe1; --ground: #f5f7f9; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; color: var(--ink); background: white;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.8rem 0 .3rem; padding-top: 1rem;
  border-top: 2px solid var(--ink); }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .5rem 0; max-width: 44rem; }
.soft, figcaption, .note { color: var(--soft); font-size: .9rem; }
figure { margin: 1rem 0; }
img { display: block; width: 100%; max-width: 46rem; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-weight: 600; border-bottom: 1px solid var(--ink); }
.numbers td:first-child { white-space: nowrap; }
.numbers td:not(:first-child), .numbers th:not(:first-child) { text-align: right; padding: .3rem 0 .3rem .9rem;
  white-space: nowrap; }
.verdict { white-space: nowrap; font-weight: 600; }
.holds { color: #1a6b3a; } .fails { color: #a3241c; } .open { color: #7a5a00; }
.settings { background: var(--ground); padding: .6rem .9rem; overflow-wrap: anywhere; }
.settings p { margin: .2rem 0; max-width: none; }
a { color: inherit; }
@media (max-width: 40rem) {
  .claims thead { display: none; }
  .claims, .claims tbody { display: block; }
  .claims tr { display: block; padding: .6rem 0; border-bottom: 1px solid var(--line); }
  .claims td { display: block; border: 0; padding: .05rem 0; }
  .claims td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); font-weight: 400; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  figure, tr, .settings { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  img { max-width: 100%; max-height: 20cm; width: auto; }
  .wide { overflow: visible; }
  .verdict { color: black; }
}
"""

_MARKS = {
    Verdict.HOLDS: ("holds", "✓ holds"),
    Verdict.FAILS: ("fails", "✗ does not hold"),
    Verdict.OPEN: ("open", "? cannot be told"),
}


@dataclass(frozen=True)
class Stored:
    """What one folder holds."""

    folder: Path
    experiment: Experiment
    meta: dict[str, Any]
    environments: list[dict[str, Any]]
    seconds: float
    rows: list[Row]
    num_planned: int


@dataclass(frozen=True)
class Unreadable:
    """A folder that cannot be drawn, and why."""

    folder: Path
    reason: str


def load(folder: Path) -> Stored:
    """The rows of one folder and all that is known about them."""
    with Store.open(folder) as store:
        meta = store.meta()
        experiment = find(meta["experiment"])
        if meta["version"] != experiment.version:
            raise UserError(
                f"{folder} holds runs of version {meta['version']} of {experiment.name}, and this qpaths draws version "
                f"{experiment.version}: report them with the qpaths that ran them."
            )
        try:
            num_planned = len(experiment.runs(meta["settings"], meta["num_seeds"]))
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(folder, f"its settings are no sweep: {type(error).__name__} {error}") from error
        return Stored(folder, experiment, meta, store.environments(), store.seconds(), store.rows(), num_planned)


def load_all(folder: Path) -> list[Stored | Unreadable]:
    """The folder itself if it holds runs, else every folder in it that does; of several a bad one is no error."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give one that `qpaths run` wrote.")
    if (folder / FILE).is_file():
        return [load(folder)]
    inside = sorted(child for child in folder.iterdir() if (child / FILE).is_file())
    if not inside:
        raise UserError(f"{folder} holds no runs, and no folder in it does: give one that `qpaths run` wrote.")
    return [_load_or_say_why(child) for child in inside]


def _load_or_say_why(folder: Path) -> Stored | Unreadable:
    try:
        return load(folder)
    except (UserError, OSError) as error:
        return Unreadable(folder, str(error))


def write_report(folder: Path, page: Path) -> list[Unreadable]:
    """Write the page of all experiments in a folder; a page already there is replaced at the very end.

    Returns the folders that it could not draw, for which the page says why.
    """
    if page.is_dir():
        raise UserError(f"{page} is a folder: give a file for the page, such as {page / 'report.html'}.")
    stored = load_all(folder)
    content = render(stored)
    temporary = page.with_name(f".{page.name}.{os.getpid()}.part")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(content, encoding="utf-8")
        os.replace(temporary, page)
    except OSError as error:
        raise UserError(
            f"{page} cannot be written ({error.strerror}): make room, or give another file with --out."
        ) from error
    finally:
        with contextlib.suppress(OSError):  # its folder may be what is missing
            temporary.unlink()
    return [one for one in stored if isinstance(one, Unreadable)]


def render(stored: Sequence[Stored | Unreadable]) -> str:
    """The page."""
    version = importlib.import_module(__package__).__version__
    title = "Experiments of the q-paths paper"
    sections = [_section(one) for one in stored]
    contents = "" if len(stored) == 1 else _contents(stored)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{_text(title)}</h1>\n"
        f'<p class="soft">Made by qpaths {version} from stored runs. “Paper” is Masrani, Brekelmans et al., '
        f"<cite>q-Paths: Generalizing the Geometric Annealing Path using Power Means</cite>, 2021.</p>"
        f"{contents}</header>\n"
        f"<main>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _contents(stored: Sequence[Stored | Unreadable]) -> str:
    def line(one: Stored | Unreadable) -> str:
        name, title = one.folder.name, "cannot be drawn"
        if isinstance(one, Stored):
            name, title = one.experiment.name, one.experiment.title
        return f'<li><a href="#{_text(_anchor(one))}">{_text(name)}</a>: {_text(title)}</li>'

    lines = "".join(map(line, stored))
    return f"<ul>{lines}</ul>"


def _section(stored: Stored | Unreadable) -> str:
    if isinstance(stored, Unreadable):
        return (
            f'<section id="{_text(_anchor(stored))}">\n<h2>{_text(stored.folder.name)}: cannot be drawn</h2>\n'
            f"<p>{_text(stored.reason)}</p>\n</section>\n"
        )
    experiment = stored.experiment
    rows = stored.rows
    heading = f"{experiment.name}: {experiment.title}"
    source = "not in the paper" if experiment.paper == "ours" else f"{experiment.paper} of the paper"
    parts = [
        f'<section id="{_text(_anchor(stored))}">\n<h2>{_text(heading)}</h2>\n',
        f'<p class="soft">{_text(source)}</p>\n<p>{_text(experiment.about)}</p>\n',
    ]
    if rows:
        parts += [_claims(experiment.claims(rows))]
        parts += [_picture(picture, f"{_anchor(stored)}-{picture.name}") for picture in experiment.pictures(rows)]
        parts += [_sheet(sheet) for sheet in experiment.sheets(rows)]
    else:
        parts.append("<p>No run has finished yet.</p>\n")
    parts.append(_settings(stored))
    parts.append("</section>\n")
    return "".join(parts)


def _claims(claims: Iterable[Claim]) -> str:
    lines = []
    for claim in claims:
        style, words = _MARKS[claim.verdict]
        lines.append(
            f'<tr><td>{_text(claim.statement)}</td><td data-label="paper">{_text(claim.paper)}</td>'
            f'<td data-label="ours">{_text(claim.ours)}</td><td class="verdict {style}">{words}</td></tr>\n'
        )
    head = "<thead><tr><th>claim</th><th>paper</th><th>ours</th><th>verdict</th></tr></thead>"
    return f'<table class="claims">{head}<tbody>\n{"".join(lines)}</tbody></table>\n'


def _picture(picture: Picture, anchor: str) -> str:
    buffer = io.BytesIO()
    picture.figure.savefig(buffer, format="png", dpi=170)
    plt.close(picture.figure)
    data = base64.b64encode(buffer.getvalue()).decode()
    caption = _text(picture.caption)
    return (
        f'<figure><img id="{_text(anchor)}" alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _sheet(sheet: Sheet) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in sheet.columns)
    lines = ("".join(f"<td>{_text(cell)}</td>" for cell in line) for line in sheet.lines)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    note = f'<p class="note">{_text(sheet.note)}</p>\n' if sheet.note else ""
    return (
        f'<h3>{_text(sheet.title)}</h3>\n<div class="wide"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}</tbody></table></div>\n{note}"
    )


def _settings(stored: Stored) -> str:
    experiment, meta = stored.experiment, stored.meta
    settings = dict(meta["settings"])
    if experiment.num_seeds is not None:
        settings["seeds"] = meta["num_seeds"]
    lines = ["Settings: " + "; ".join(f"{name} = {_shown(value)}" for name, value in settings.items()) + "."]
    if changed := rehearsed(experiment, meta["settings"], meta["num_seeds"]):
        lines.append(f"Not the settings of the paper: {', '.join(changed)}. The verdicts are a rehearsal.")
    done, planned = len(stored.rows), stored.num_planned
    lines.append(f"{done} of {planned} runs, {_duration(stored.seconds)} in all.")
    for environment in stored.environments:
        lines.append("Made with " + ", ".join(f"{name} {value}" for name, value in environment.items() if value) + ".")
    return '<div class="settings soft">' + "".join(f"<p>{_text(line)}</p>" for line in lines) + "</div>\n"


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _anchor(stored: Stored | Unreadable) -> str:
    return stored.folder.resolve().name or "runs"


def _text(value: str) -> str:
    return html.escape(value)
