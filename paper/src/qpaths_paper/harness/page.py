"""The HTML of a report: one page with pictures, tables and verdicts that needs no other file.

Each folder is a section: the claims with their verdicts, the pictures, the tables, and the settings with the
environments that made the rows. All text is escaped (`_text`). Pictures and the style sheet are inside the page.
"""

import base64
import functools
import html
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

import qpaths

from .experiment import Claim, Judgment, Picture, Sheet
from .folders import Stored, Unreadable
from .settings import rehearsed

_MARKS = {
    Judgment.HOLDS: ("holds", "✓ holds"),
    Judgment.FAILS: ("fails", "✗ does not hold"),
    Judgment.OPEN: ("open", "? undecided"),
}
"""Style and text of each verdict."""


@functools.cache
def _style() -> str:
    """The style sheet, which is written into the page."""
    return resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")


def render(stored: Sequence[Stored | Unreadable], failed: list[Unreadable] | None = None) -> str:
    """The whole page.

    Args:
        stored: What the folders hold, in the order of the sections. One that could not be read has a section that says
            why.
        failed: One of several folders whose rows cannot be drawn is added to it, and has such a section too. It is an
            error if there is no list.
    """
    title = "Experiments of the q-paths paper"
    stored = list(stored)
    sections = []
    for i, one in enumerate(stored):
        try:
            sections.append(_section(one))
        except Exception as error:
            if failed is None or len(stored) == 1:
                raise
            why = f"the rows of {one.folder} are of another kind than they should be ({type(error).__name__}: {error})."
            failed.append(Unreadable(one.folder, why))
            stored[i] = failed[-1]
            sections.append(_section(failed[-1]))
    contents = "" if len(stored) == 1 else _contents(stored)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(title)}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
        f"<header><h1>{_text(title)}</h1>\n"
        f'<p class="soft">Made by qpaths {qpaths.__version__} from stored runs. “Paper” is Masrani, Brekelmans et al., '
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
    return f'<nav aria-label="Experiments"><ul>{lines}</ul></nav>'


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
    if changed := rehearsed(experiment, stored.meta["settings"], stored.meta["num_seeds"]):
        words = f"A rehearsal, not with the paper's settings: {', '.join(changed)}. Its verdicts say no more."
        parts.append(f'<p class="note">{_text(words)}</p>\n')
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
            f'<tr><th scope="row">{_text(claim.statement)}</th><td data-label="paper">{_text(claim.paper)}</td>'
            f'<td data-label="ours">{_text(claim.ours)}</td><td class="verdict {style}">{words}</td></tr>\n'
        )
    head = f"<caption>Claims and verdicts</caption>{_head(['claim', 'paper', 'ours', 'verdict'])}"
    return f'<table class="claims">{head}<tbody>\n{"".join(lines)}</tbody></table>\n'


def _head(columns: Sequence[str], styles: Sequence[str] = ()) -> str:
    """The head of a table, with attributes for some of its cells."""
    pairs = itertools.zip_longest(columns, styles, fillvalue="")
    cells = "".join(f'<th scope="col"{style}>{_text(column)}</th>' for column, style in pairs)
    return f"<thead><tr>{cells}</tr></thead>"


def _picture(picture: Picture, anchor: str) -> str:
    """A picture as SVG inside the page. Closes the figure.

    The same rows give the same bytes.
    """
    buffer = io.BytesIO()
    with plt.rc_context({"svg.hashsalt": picture.name}):
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    alternative = _described(picture.figure)
    plt.close(picture.figure)
    data = base64.b64encode(buffer.getvalue()).decode()
    return (
        f'<figure><img id="{_text(anchor)}" alt="{_text(alternative)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>\n"
    )


def _described(figure: Figure) -> str:
    """Describe what a picture consists of, for readers who cannot see it; the caption says what it shows."""
    axes = [ax for ax in figure.axes if ax.axison]
    legends = filter(None, [*figure.legends, *(ax.get_legend() for ax in axes)])
    words = {
        "Panels": [ax.get_title() for ax in axes],
        "Horizontal axis": [figure.get_supxlabel(), *(ax.get_xlabel() for ax in axes)],
        "Vertical axis": [figure.get_supylabel(), *(ax.get_ylabel() for ax in axes)],
        "Legend": [text.get_text() for legend in legends for text in legend.get_texts()],
    }
    parts = [f"{name}: {', '.join(dict.fromkeys(filter(None, found)))}." for name, found in words.items() if any(found)]
    return " ".join(["Chart.", *(re.sub(r"\\mathrm|[$\\{}]", "", part) for part in parts)])


def _sheet(sheet: Sheet) -> str:
    """A table of numbers with its title and note."""
    has_digits = [any(map(str.isdigit, "".join(column))) for column in zip(*sheet.lines, strict=True)]
    styles = ["" if numeric else ' class="words"' for numeric in has_digits]
    body = ""
    for first, *rest in sheet.lines:
        cells = "".join(f"<td{style}>{_text(cell)}</td>" for cell, style in zip(rest, styles[1:], strict=True))
        body += f'<tr><th scope="row">{_text(first)}</th>{cells}</tr>\n'
    note = f'<p class="note">{_text(sheet.note)}</p>\n' if sheet.note else ""
    title = _text(sheet.title)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{title}"><table class="numbers">'
        f"<caption>{title}</caption>{_head(sheet.columns, styles)}<tbody>\n{body}</tbody></table></div>\n{note}"
    )


def _settings(stored: Stored) -> str:
    """Settings, number of runs, their time, and the environments that made them."""
    experiment, meta = stored.experiment, stored.meta
    settings = dict(meta["settings"])
    if experiment.num_seeds is not None:
        settings["seeds"] = meta["num_seeds"]
    lines = ["Settings: " + "; ".join(f"{name} = {_shown(value)}" for name, value in settings.items()) + "."]
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
