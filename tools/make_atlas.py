"""Write the page `docs/atlas.md` and its picture from the rows in `docs/atlas/runs.sqlite`.

Every number of the page comes from the rows. To make new ones, and then the page:

    qpaths run atlas --out docs/atlas
    python tools/make_atlas.py

A test fails while the page is out of date.
"""

import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np

from qpaths_paper.harness.folders import load
from qpaths_paper.parts.atlas_figures import LABELS, TUNED, Cell, Gain, cells_of, losers, pictures, winners
from qpaths_paper.parts.atlas_problems import PROBLEMS

DOCS = Path(__file__).parents[1] / "docs"
FOLDER, PAGE, PICTURE = DOCS / "atlas", DOCS / "atlas.md", DOCS / "pictures" / "atlas_map.png"

Cells = dict[tuple[str, str], Cell]


INTRODUCTION = """
This page answers one question: when is a q-path with q other than 1 better than the geometric path, if kernel, schedule
and reference are tuned, or some of them? It is written by `tools/make_atlas.py` from stored rows, which
`qpaths run atlas` makes.
"""
HOW = """
Sequential Monte Carlo runs on {num_problems} small problems with a known log evidence, each hard in one way, with
{num_seeds} seeds. All runs of a problem cost {budget:,} evaluations, a gradient counted as two. The bound chooses q:
the mean estimate of the log evidence is a lower bound in expectation, and needs no truth. q stays 1 unless another q
has a better bound by more than two standard errors. For each seed the other seeds choose, so gains are those of
held-out seeds.
"""
PICTURED = """
Each square is the root mean square error of one q over that of the geometric path. Blue is better. Dots mark the best
bound. Pairs such as 0.9:1 are values of q at the base and at the target; in between `1 - q` is linear in beta.
"""
LIMITS = """
Pilots are run once for each q, and its seeds share them. So a gain of a single q may be partly the luck of its pilot; a
pattern over neighboring values of q, or over several problems, is not. With so few seeds small gains cannot be seen.
The rule that chooses q was made stricter while the first rows came in: choices on half of the seeds had harmed as often
as they helped. It favors q = 1, so part of the zeros is the rule. The picture shows every q without it.
"""
LEGEND = """
Each cell has the error at q = 1. Where the bound chose another q, it follows with its gain: 2 means half the error; in
brackets is the range of one standard error. Several values of q mean that the seeds disagree; the most frequent comes
first. The full report is [here](reports/atlas.html).
"""


def page(rows: list) -> str:
    """The text of the page."""
    cells = cells_of(rows)
    numbers = {
        "num_problems": len({problem for problem, _ in cells}),
        "num_seeds": len({row.seed for row in rows}),
        "budget": rows[0]["budget"],
    }
    parts = [
        "# Where q helps",
        _filled(INTRODUCTION),
        _filled(HOW.format(**numbers)),
        "![Errors of every q relative to the geometric path](pictures/atlas_map.png)",
        _filled(PICTURED),
        _summary(cells),
        _advice(cells),
        _filled(LIMITS),
        _table(cells),
        _filled(LEGEND),
    ]
    return "\n\n".join(parts) + "\n"


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), 120, subsequent_indent=indent, break_on_hyphens=False)


def _gains(cells: Cells, tuned: str, varying: bool = False) -> dict[str, Gain]:
    """What q gains on each problem with some parts tuned."""
    here = {problem: cell for (problem, what), cell in cells.items() if what == tuned}
    found = {problem: cell.of_varying() if varying else cell.of_q() for problem, cell in here.items()}
    return {problem: gain for problem, gain in found.items() if gain}


def _levels(cells: Cells) -> list[str]:
    return [tuned for tuned in TUNED if any(what == tuned for _, what in cells)]


def _typical(gains: dict[str, Gain]) -> float:
    """The geometric mean of the gains."""
    return float(2.0 ** np.mean([gain.log_ratio.value for gain in gains.values()]))


def _listed(names: list[str]) -> str:
    return ", ".join(PROBLEMS[name][0] for name in names)


def _summary(cells: Cells) -> str:
    """A line for each level of tuning."""
    columns = ["tuned", "error at q = 1", "gain by q", "problems with a gain beyond noise", "gain by a varying q"]
    lines = ["## In short", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for tuned in _levels(cells):
        gains, varying = _gains(cells, tuned), _gains(cells, tuned, varying=True)
        errors = [cell.rms()[cell.geometric] for (_, what), cell in cells.items() if what == tuned]
        helped = ": ".join([f"{len(winners(gains))} of {len(gains)}", *filter(None, [_listed(winners(gains))])])
        numbers = [f"{np.median(errors):.2g} nats", f"{_typical(gains):.2f}", helped, f"{_typical(varying):.2f}"]
        lines.append(f"| {LABELS[tuned]} | {' | '.join(numbers)} |")
    note = """Errors are medians over the problems, and gains are geometric means over them. The last column compares
    with the best constant q. A gain counts as beyond noise if the error is a fifth smaller or more, and the gain
    exceeds two standard errors."""
    return "\n".join([*lines, "", _filled(note)])


def _advice(cells: Cells) -> str:
    """Plain words, with the numbers of the rows."""
    levels = _levels(cells)
    lines = ["## When to reach for q, and when not", ""]
    for tuned in levels:
        gains = _gains(cells, tuned)
        helped, harmed = winners(gains), losers(gains)
        if not helped and not harmed:
            continue
        words = f"- **{LABELS[tuned].capitalize()}.** The chosen q helps beyond noise on {len(helped)} of "
        words += f"{len(gains)} problems"
        if helped:
            most = max(helped, key=lambda name: gains[name].ratio)
            words += f', most of all on "{PROBLEMS[most][0]}": {gains[most].ratio:.3g} times smaller errors with q = '
            words += f"{gains[most].chosen}"
        words += f". It harms beyond noise on {len(harmed) or 'none'}" + (f" ({_listed(harmed)})." if harmed else ".")
        lines.append(_filled(words, "  "))
    return "\n".join([*lines, "", _other_parts(cells, levels[0], levels[-1]), "", _varying(cells, levels)])


def _other_parts(cells: Cells, first: str, last: str) -> str:
    """What tuning the rest gives, compared with what q gives."""
    problems = [problem for problem, what in cells if what == first and (problem, last) in cells]
    tuned, by_q = [], []
    for problem in problems:
        before, after = cells[problem, first], cells[problem, last]
        tuned.append(before.rms()[before.geometric] / after.rms()[after.geometric])
        gain = before.of_q()
        by_q.append(gain.ratio if gain else np.nan)
    ahead = sum(a > b for a, b in zip(tuned, by_q, strict=True))
    text = f"""Tuning the other parts ({LABELS[last]}) at q = 1 divides the error by
    {np.exp(np.mean(np.log(tuned))):.3g} in the geometric mean over the problems; q alone, with {LABELS[first]}, divides
    it by {np.exp(np.nanmean(np.log(by_q))):.3g}. On {ahead} of {len(problems)} problems the other parts give more. So
    tune reference, kernel and schedule first, as `qpaths.evidence` and `qpaths.tune` do, and let the bound choose q
    last."""
    return _filled(text)


def _varying(cells: Cells, levels: list[str]) -> str:
    """Whether a q that changes along the path is worth its parameters."""
    found = {tuned: _gains(cells, tuned, varying=True) for tuned in levels}
    helped = {tuned: winners(gains) for tuned, gains in found.items()}
    won, total = sum(map(len, helped.values())), sum(map(len, found.values()))
    where = "; ".join(f"{LABELS[tuned]}: {_listed(names)}" for tuned, names in helped.items() if names)
    text = "A q that may change along the path, also chosen by the bound, beats the best constant q beyond noise in "
    return _filled(text + f"{won} of {total} cases" + (f" ({where})." if where else "."))


def _table(cells: Cells) -> str:
    """A line for each problem: the q of the bound and its gain at each level."""
    levels = _levels(cells)
    lines = ["## Every problem", "", "| problem | " + " | ".join(LABELS[tuned] for tuned in levels) + " |"]
    lines.append("|---" * (len(levels) + 1) + "|")
    for problem in dict.fromkeys(problem for problem, _ in cells):
        parts = [_cell(cells.get((problem, tuned))) for tuned in levels]
        lines.append(f"| {PROBLEMS[problem][0]} | {' | '.join(parts)} |")
    return "\n".join(lines)


def _cell(cell: Cell | None) -> str:
    gain = cell.of_q() if cell else None
    if cell is None or gain is None:
        return ""
    low, high = (2.0 ** (gain.log_ratio.value + sign * gain.log_ratio.standard_error) for sign in (-1, 1))
    error = cell.rms()[cell.geometric]
    if set(str(gain.chosen).split(" / ")) == {"1"}:
        return f"{error:.2g} nats"
    return f"{error:.2g} nats; q = {gain.chosen}: {gain.ratio:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    mpl.use("Agg")
    rows = load(FOLDER).rows
    PAGE.write_text(page(rows))
    pictures(rows)[0].figure.savefig(PICTURE, dpi=150)
