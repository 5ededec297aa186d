"""Fills marked places of the README and the pages with what stored rows say, so that no number of them is typed.

    python tools/make_pages.py        # fill the pages from the digests in docs/results
    python tools/make_pages.py out    # first make digests, report pages and pictures of the folders in out/

A marked place is `<!-- rows NAME what -->...<!-- end -->`, with NAME an experiment and `what` one of

    claims            its table of claims with verdicts
    sheet TITLE       one of its tables
    cell TITLE; CELLS; COLUMN    one number of a table: the line that begins with CELLS, separated by semicolons
    size              how many runs, how long they took, and which settings are not those of the paper
    report            a link to its report page, and its size
    ours STATEMENT    our number of the claim whose statement begins so, and the verdict
    picture PICTURE   one of its pictures

A folder `NAME-PART` holds a further sweep of the experiment NAME, such as that from another base. Its places are
marked `<!-- rows NAME-PART what -->`.

A place whose rows are missing, or come from another version of the experiment, says which command makes them.
"""

import json
import re
import sys
from pathlib import Path

from qpaths_paper.harness.folders import Stored, load_all
from qpaths_paper.harness.page import render
from qpaths_paper.harness.registry import find
from qpaths_paper.harness.settings import rehearsed

DOCS = Path(__file__).parents[1] / "docs"
_PLACE = re.compile(r"<!-- rows ([\w-]+?) (\w+)(?: ((?:(?!-->).)*?))? -->.*?<!-- end -->", flags=re.DOTALL)


def digest(stored):
    """What pages may need of one folder, as plain data."""
    experiment, rows = stored.experiment, stored.rows
    return {
        "experiment": experiment.name,
        "version": experiment.version,
        "settings": stored.meta["settings"],
        "num_seeds": stored.meta["num_seeds"],
        "num_runs": len(rows),
        "num_planned": stored.num_planned,
        "changed": rehearsed(experiment, stored.meta["settings"], stored.meta["num_seeds"]),
        "minutes": round(stored.seconds / 60, 1),
        "claims": [
            {"statement": c.statement, "paper": c.paper, "ours": c.ours, "verdict": c.judgment.value}
            for c in experiment.claims(rows)
        ],
        "sheets": [
            {"title": s.title, "columns": list(s.columns), "lines": [list(line) for line in s.lines], "note": s.note}
            for s in experiment.sheets(rows)
        ],
        "pictures": {p.name: p.caption for p in experiment.pictures(rows)},
    }


def collect(folder):
    """Write the digest, the report page and the pictures of every experiment in a folder."""
    for stored in load_all(folder):
        if not isinstance(stored, Stored):
            print(f"{stored.folder.name}: {stored.reason}", file=sys.stderr)
            continue
        name, folder_name = stored.experiment.name, stored.folder.name
        name = folder_name if folder_name.startswith(f"{name}-") else name
        found = digest(stored) | {"name": name}
        (DOCS / "results").mkdir(exist_ok=True)
        (DOCS / "results" / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        (DOCS / "reports").mkdir(exist_ok=True)
        (DOCS / "reports" / f"{name}.html").write_text(render([stored]))
        pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
        for picture in stored.experiment.pictures(stored.rows):
            file = f"{name}_{picture.name}.png"
            if f"pictures/{file}" in pages or f"<!-- rows {name} picture {picture.name} -->" in pages:
                picture.figure.savefig(DOCS / "pictures" / file, dpi=110)


def filled(text, results=None):
    """The text of a page with every marked place filled anew. `results` has digests by name; None reads the files."""

    def place(match):
        name, what, rest = match.groups()
        start = match.group(0).split("-->")[0] + "-->"
        return f"{start}{_content(name, what, rest or '', results)}<!-- end -->"

    return _PLACE.sub(place, text)


def _content(name, what, rest, results):
    found = _stored(name) if results is None else results.get(name)
    experiment = find(name.split("-")[0])
    block = what in ("claims", "sheet", "picture")
    if found is None or found["version"] != experiment.version:
        why = "no rows are stored" if found is None else f"the stored rows are of version {found['version']}"
        text = f"{why}: run `qpaths run {experiment.name}`, then `python tools/make_pages.py out`"
        return f"\n\n*{text[0].upper()}{text[1:]}.*\n\n" if block else f"({text})"
    content = _CONTENTS[what](found, rest)
    return f"\n\n{content}\n\n" if block else content


def _stored(name):
    path = DOCS / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _table(columns, lines):
    def row(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([row(columns), "|" + "---|" * len(columns), *map(row, lines)])


def _claims(found, _):
    lines = [[c["statement"], c["paper"], c["ours"], c["verdict"]] for c in found["claims"]]
    note = f"\n\nThis is {_rehearsal(found)}." if found.get("changed") else ""
    return _table(["claim", "paper", "ours", "verdict"], lines) + note


def _sheet(found, title):
    sheet = _only([s for s in found["sheets"] if s["title"] == title], title, found)
    return _table(sheet["columns"], sheet["lines"]) + (f"\n\n{sheet['note']}" if sheet["note"] else "")


def _cell(found, place):
    title, *begin, column = (part.strip() for part in place.split(";"))
    sheet = _only([s for s in found["sheets"] if s["title"] == title], title, found)
    line = _only([line for line in sheet["lines"] if line[: len(begin)] == begin], place, found)
    number = _only([i for i, name in enumerate(sheet["columns"]) if name == column], place, found)
    return line[number]


def _size(found, _):
    size = f"{found['num_runs']:,} of {found['num_planned']:,} runs, {found['minutes']:g} minutes in all"
    return f"{size}; {_rehearsal(found)}" if found.get("changed") else size


def _rehearsal(found):
    """That the settings are not those of the paper, and which."""
    seeds = {"seeds": f"seeds ({found['num_seeds']} of {find(found['experiment']).num_seeds})"}
    return "a rehearsal, because these settings are not the paper's: " + ", ".join(
        seeds.get(name, f"`{name}`") for name in found["changed"]
    )


def _report(found, rest):
    return f"[report](reports/{_name(found)}.html), {_size(found, rest)}"


def _ours(found, statement):
    claim = _only([c for c in found["claims"] if c["statement"].startswith(statement)], statement, found)
    return f"{claim['ours']} ({claim['verdict']}{', in a rehearsal' if found.get('changed') else ''})"


def _picture(found, name):
    _only([p for p in found["pictures"] if p == name], name, found)
    return f"![{found['pictures'][name]}](pictures/{_name(found)}_{name}.png)"


def _name(found):
    return found.get("name", found["experiment"])


def _only(found, what, digest):
    if len(found) != 1:
        raise ValueError(f"the rows of {digest['experiment']} have {len(found)} times {what!r}: mend the marked place.")
    return found[0]


_CONTENTS = {"claims": _claims, "sheet": _sheet, "cell": _cell, "size": _size, "report": _report}
_CONTENTS |= {"ours": _ours, "picture": _picture}


def pages():
    """The files that have marked places."""
    return [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        collect(Path(sys.argv[1]))
    for page in pages():
        page.write_text(filled(page.read_text()))
