"""Makes the pages of docs/tutorials from the Python files next to them: text, code, what it prints, and its pictures.

    python tools/make_tutorials.py                   # all pages
    python tools/make_tutorials.py compare_models    # some
    python tools/make_tutorials.py --check           # run everything, write nothing, fail where a page is out of date

A tutorial is a Python file with `# %%` cells. A cell that begins with `# %% [markdown]` is text. Any other is code. It
runs, and what it prints follows it on the page. A cell that draws has a text alternative: `# %% picture: ...`.
The pages are stored, so that they can be read in the repository and built without PyMC or NumPyro.
All tutorials run in one process, each with its own variables, without changing any setting of JAX for the next one.
"""

import argparse
import contextlib
import difflib
import io
import re
import sys
import textwrap
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
STYLE = {"svg.hashsalt": "qpaths", "svg.fonttype": "none", "font.size": 10, "figure.figsize": (6.4, 3.2)}
WIDTH = 110
CELL = re.compile(r"^# %%(.*)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d.,]*(?:e[-+]?\d+)?|-?\binf\b")


@dataclass(frozen=True)
class Cell:
    """One cell: text, or code that runs and perhaps draws."""

    source: str
    is_text: bool
    alternative: str | None


def cells(text: str) -> list[Cell]:
    """The cells of a tutorial."""
    parts = CELL.split(text)[1:]
    found = []
    for header, body in zip(parts[::2], parts[1::2], strict=True):
        is_text = "[markdown]" in header
        body = body.strip("\n")
        if is_text:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines())
        alternative = header.partition("picture:")[2].strip() or None
        found.append(Cell(body, is_text, alternative))
    return found


def page(source: Path, *, save: bool) -> str:
    """Run a tutorial and return its page; `save` also writes the pictures."""
    blocks = [f"<!-- Made by tools/make_tutorials.py from {source.name}. Edit that file. -->"]
    names: dict[str, object] = {"__name__": "__main__"}
    num_pictures = 0
    for cell in cells(source.read_text()):
        if cell.is_text:
            blocks.append(cell.source)
            continue
        blocks.append(f"```python\n{cell.source}\n```")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.source, f"{source.name}, cell {len(blocks)}", "exec"), names)
        if printed.getvalue():
            blocks.append(f"```text\n{wrapped(printed.getvalue().rstrip())}\n```")
        if bool(plt.get_fignums()) != (cell.alternative is not None):
            raise ValueError(f"{source.name}, block {len(blocks)}: cells that draw, and no others, need `picture:`")
        for number in plt.get_fignums():
            num_pictures += 1
            name = f"pictures/{source.stem}_{num_pictures}.svg"
            if save:
                draw(plt.figure(number), FOLDER / name, cell.alternative)
            blocks.append(f"![{cell.alternative}]({name})")
        plt.close("all")
    return "\n\n".join(blocks) + "\n"


def wrapped(text: str) -> str:
    """The text with long lines broken, since a page does not scroll sideways on paper."""
    lines = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True) or [""]
    return "\n".join(lines)


def draw(figure: Figure, target: Path, alternative: str) -> None:
    """Save a picture; clouds of points become pixels, which take less room than their outlines."""
    target.parent.mkdir(exist_ok=True)
    for line in figure.findobj(Line2D):
        line.set_rasterized(line.get_linestyle() == "None" and len(line.get_xdata()) > 200)
    figure.savefig(target, dpi=150, metadata={"Date": None, "Description": alternative})


def run(source: Path, *, save: bool) -> str:
    """`page` under the settings of a fresh process, which it leaves as they were."""
    wide = jax.config.jax_enable_x64
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what `evidence` warns of is also in its verdict
        try:
            return page(source, save=save)
        finally:
            jax.config.update("jax_enable_x64", wide)  # PyTensor turns it on
            plt.close("all")


def masked(printed: str) -> str:
    """What a cell printed, one word a line, without its numbers: these differ a little from machine to machine."""
    return "\n".join(NUMBER.sub("#", printed).split())


def differences(stored: str, made: str) -> str:
    """How a page differs from the stored one, apart from numbers in what it prints."""
    old, new = (re.split(r"(```text\n.*?```)", text, flags=re.DOTALL) for text in (stored, made))
    old, new = ([masked(part) if part.startswith("```text") else part for part in side] for side in (old, new))
    before, after = ("".join(side).splitlines() for side in (old, new))
    return "\n".join(difflib.unified_diff(before, after, "stored", "made", n=0, lineterm=""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="tutorials without .py; all unless given")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where a page is out of date")
    arguments = parser.parse_args()
    sources = [FOLDER / f"{name}.py" for name in arguments.names] or sorted(FOLDER.glob("*.py"))
    stale = 0
    for source in sources:
        begun = time.process_time()
        made = run(source, save=not arguments.check)
        target = source.with_suffix(".md")
        if arguments.check:
            found = differences(target.read_text() if target.exists() else "", made)
            stale += bool(found)
            if found:
                print(f"{target.name} is out of date: run `python tools/make_tutorials.py {source.stem}`\n{found}")
        else:
            target.write_text(made)
        print(f"{source.stem}: {time.process_time() - begun:.1f} CPU s", file=sys.stderr)
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
