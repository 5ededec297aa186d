"""The HTML of a report: one page with pictures, tables and verdicts that needs no other file.

Each folder is a section: the claims with their verdicts, the pictures, the tables, and the settings with the
environments that made the rows. All text is escaped (`_text`). Pictures and the style sheet are inside the page.
"""

import base64
import functools
import html
import importlib
import io
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import matplotlib.pyplot as plt

from .experiment import Claim, Judgment, Picture, Sheet
from .folders import Stored, Unreadable
from .settings import rehearsed

_MARKS = {
    Judgment.HOLDS: ("holds", "✓ holds"),
    Judgment.FAILS: ("fails", "✗ does not hold"),
    Judgment.OPEN: ("open", "? cannot be told"),
}
"""Style and text of each verdict."""


@functools.cache
def _style() -> str:
    """The style sheet, which is written into the page."""
    return resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")


def render(stored: Sequence[Stored | Unreadable]) -> str:
    """The whole page.

    Args:
        stored: What the folders hold, in the order of the sections. One that could not be read has a section that says
            why.
    """
    version = importlib.import_module(__package__.split(".")[0]).__version__
    title = "Experiments of the q-paths paper"
    sections = [_section(one) for one in stored]
    contents = "" if len(stored) == 1 else _contents(stored)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
        f"<header><h1>{_text(title)}</h1>\n"
        f'<p class="soft">Made by qpaths {version} from stored runs. “Paper” is Masrani, Brekelmans et al., '
        f"<cite>q-Paths: Generalizing the Geometric Annealing Path using Power Means</cite>, 2021.</p>"
        f"{contents}</header>\n"
        f"<main>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def _contents(stored: Sequence[Stored | Unreadable]) -> str:
    """A list of links to the sections."""

    def line(one: Stored | Unreadable) -> str:
        name, title = one.folder.name, "cannot be drawn"
        if isinstance(one, Stored):
            name, title = one.experiment.name, one.experiment.title
        return f'<li><a href="#{_text(_anchor(one))}">{_text(name)}</a>: {_text(title)}</li>'

    lines = "".join(map(line, stored))
    return f"<ul>{lines}</ul>"


def _section(stored: Stored | Unreadable) -> str:
    """The section of one folder; if it could not be read, the section says why."""
    if isinstance(stored, Unreadable):
        return (
            f'<section id="{_text(_anchor(stored))}">\n<h2>{_text(stored.folder.name)}: cannot be drawn</h2>\n'
            f"<p>{_text(stored.reason)}</p>\n</section>\n"
        )
    experiment = stored.experiment
    rows = stored.rows
    heading = f"{experiment.name}: {experiment.title}"
    source = f"{experiment.paper} of the paper" if experiment.paper else "not in the paper"
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
    """The table of claims; on a narrow screen the style sheet stacks its cells."""
    lines = []
    for claim in claims:
        style, words = _MARKS[claim.judgment]
        lines.append(
            f'<tr><td>{_text(claim.statement)}</td><td data-label="paper">{_text(claim.paper)}</td>'
            f'<td data-label="ours">{_text(claim.ours)}</td><td class="verdict {style}">{words}</td></tr>\n'
        )
    head = "<thead><tr><th>claim</th><th>paper</th><th>ours</th><th>verdict</th></tr></thead>"
    return f'<table class="claims">{head}<tbody>\n{"".join(lines)}</tbody></table>\n'


def _picture(picture: Picture, anchor: str) -> str:
    """A picture as PNG inside the page. Closes the figure."""
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
    """A table of numbers with its title and note."""
    head = "".join(f"<th>{_text(column)}</th>" for column in sheet.columns)
    lines = ("".join(f"<td>{_text(cell)}</td>" for cell in line) for line in sheet.lines)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    note = f'<p class="note">{_text(sheet.note)}</p>\n' if sheet.note else ""
    return (
        f'<h3>{_text(sheet.title)}</h3>\n<div class="wide"><table class="numbers"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}</tbody></table></div>\n{note}"
    )


def _settings(stored: Stored) -> str:
    """Settings, number of runs, their time, and the environments that made them."""
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
    """A setting as text."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _duration(seconds: float) -> str:
    """A time in seconds, or in minutes if it is long."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _anchor(stored: Stored | Unreadable) -> str:
    """The id of a section."""
    return stored.folder.resolve().name or "runs"


def _text(value: str) -> str:
    """Text that a browser does not take for tags."""
    return html.escape(value)
