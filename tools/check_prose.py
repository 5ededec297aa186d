"""Run proselint over the prose of the repository: the Markdown files, and the docstrings of the package.

Run `python tools/check_prose.py`; `make prose` also runs codespell. Code, tables, formulas and addresses are left out.
What proselint finds and we keep is in `EXCEPTIONS`, with the reason. It exits with status 1 and a list if it finds
anything else.
"""

import ast
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from proselint.checks import __register__
from proselint.config import DEFAULT
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).parents[1]

EXCEPTIONS = {
    "typography.symbols": "plain ASCII quotation marks, dots and multiplication signs are the convention of code docs",
    "typography.diacritical_marks": "it takes the verb resume for a résumé",
}
"""Findings that are kept, by the start of their text, and why."""

_CODE = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|\$\$.*?\$\$|\$[^$\n]+\$|https?://\S+", flags=re.DOTALL)
_LEFT_OUT = re.compile(r"^(?:\||    |\t|\s*>>> |\s*\.\.\. |!\[|:::).*$", flags=re.MULTILINE)


def _blank(found: re.Match[str]) -> str:
    """The same lines with nothing on them; a word, another for each text, replaces code inside a sentence."""
    lines = found[0].count("\n")
    return "\n" * lines if lines else f"code{zlib.crc32(found[0].encode())}x" if found[0].startswith("`") else ""


def prose_of_page(text: str) -> str:
    """The prose of a Markdown file, on the lines where it is."""
    # A heading is a sentence: its words may come again in the next.
    return re.sub(r"^#+ .*$", r"\g<0>.", _LEFT_OUT.sub("", _CODE.sub(_blank, text)), flags=re.MULTILINE)


def prose_of_module(text: str) -> str:
    """The docstrings of a Python file, on the lines where they are."""
    lines = [""] * (text.count("\n") + 2)
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                for offset, line in enumerate(_docstring(value.value).split("\n")):
                    lines[value.lineno - 1 + offset] = line
    return "\n".join(lines)


def _docstring(text: str) -> str:
    """Its sentences: no code, no doctests and their output, and no blocks that are indented further."""
    text = re.sub(r"^( *)>>> .*?(?=^\s*$|\Z)", _blank, _CODE.sub(_blank, text), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^ {12,}", "", re.sub(r"^ {4,8}(?=\S)", "", text, flags=re.MULTILINE), flags=re.MULTILINE)


def texts() -> Iterator[tuple[Path, str]]:
    """Every file with its prose."""
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md"):
        for file in sorted(ROOT.glob(pattern)):
            if any(part.startswith(".") for part in file.relative_to(ROOT).parts):  # environments of other packages
                continue
            yield file, prose_of_page(file.read_text(encoding="utf-8"))
    for file in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "paper" / "src").rglob("*.py")]):
        yield file, prose_of_module(file.read_text(encoding="utf-8"))


def findings() -> list[str]:
    """What proselint says of all files, one line each, but for the exceptions."""
    CheckRegistry().register_many(__register__)
    found = []
    for file, text in texts():
        if not text.strip():
            continue
        for one in LintFile(str(file), text).lint(DEFAULT):
            result = one.check_result
            text_of = f"{result.check_path}: {result.message}"
            if not text_of.startswith(tuple(EXCEPTIONS)):
                found.append(f"{file.relative_to(ROOT)}:{one.pos[0]}: {text_of}")
    return found


def main() -> int:
    found = findings()
    print("\n".join(found) or "proselint finds nothing")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
