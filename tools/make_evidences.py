"""Writes docs/reference_evidences.md and .json from `benchmarks/suites/reference_evidences.toml`.

python tools/make_evidences.py
"""

import json
import tomllib
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "benchmarks" / "suites" / "reference_evidences.toml"
PAGE = ROOT / "docs" / "reference_evidences.md"
HEAD = """<!-- Made by tools/make_evidences.py from benchmarks/suites/reference_evidences.toml. Edit that file. -->

# Reference log evidences

Standard targets of the literature with their log evidence, its standard error, and how it was obtained. Use them to
test a sampler, and check the version first: the same name often means two targets. All values are natural
logarithms. An error of 0 means exact to the digits that are given.
[reference_evidences.json](reference_evidences.json) has the same in a form that programs read.

The Python versions of these targets are in `benchmarks/suites/public/`, and tests compare this page with them. A value
that you can correct, or a target that is missing, is welcome as an issue.
"""
FOOT = """## Cite

Name the version of qpaths (`qpaths.__version__`), since corrections change values. `CITATION.cff` has the entry.
"""


def load(source=SOURCE):
    """The groups of targets, methods and sources. Numbers are decimals, as they are written."""
    return tomllib.loads(source.read_text(encoding="utf-8"), parse_float=Decimal)


def table(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def line(target):
    """One row: the name, the dimension, log evidence, standard error and method."""
    value = "infinite" if target.get("infinite") else target["log_evidence"] or 0
    error = "" if target.get("infinite") else target["standard_error"] or 0
    return [target["name"], target.get("dimension", ""), value, error, target["method"]]


def versions(targets):
    """What tells a target from others of the same name, and what others published."""
    items = []
    for target in targets:
        text = f"**{target['name']}.** {target['version']}" if "version" in target else ""
        figures = [f"{f['value']} ({f['what']}) [{f['source']}]" for f in target.get("published", [])]
        text += f" Published: {'; '.join(figures)}." if figures else ""
        items += [f"- {text}"] if text else []
    return "\n".join(items)


def page(found):
    """The page as text."""
    parts = [HEAD]
    for group in found["groups"]:
        head = ["target", "dimension", "log evidence", "error", "method"]
        rows = table(head, [line(target) for target in group["targets"]])
        parts += [f"## {group['title']}", group["text"], rows, versions(group["targets"])]
    parts += ["## Methods", "\n".join(f"- **{name}**: {text}" for name, text in found["methods"].items())]
    parts += ["## Sources", "\n".join(f"- [{name}] {text}" for name, text in found["sources"].items()), FOOT]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def records(found):
    """What programs read: a list of targets with all fields, methods and sources spelled out."""
    targets = []
    for group in found["groups"]:
        for target in group["targets"]:
            record = {"group": group["title"]} | {key: item for key, item in target.items() if key != "published"}
            record["how"] = found["methods"][target["method"]]
            record["published"] = [f | {"source": found["sources"][f["source"]]} for f in target.get("published", [])]
            targets.append(record)
    content = {"format": "qpaths reference evidences", "version": 1, "unit": "nats", "targets": targets}
    return json.dumps(content, indent=1, default=float) + "\n"


if __name__ == "__main__":
    found = load()
    PAGE.write_text(page(found), encoding="utf-8")
    PAGE.with_suffix(".json").write_text(records(found), encoding="utf-8")
