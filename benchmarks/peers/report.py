"""Writes `docs/peers.md` with its pictures, and the tables of all problems, from stored rows.

Every figure and every sentence is computed from them.
"""

from benchmarks.peers.densities import PROBLEMS
from benchmarks.peers.harness import PEERS, ROOT, adapter_of, read
from benchmarks.peers.pictures import coverage, errors_against
from benchmarks.peers.summary import EFFORTS, OURS, best_of, cells_of

PAGE = ROOT / "docs" / "peers.md"
TABLES = ROOT / "benchmarks" / "results" / "peers.md"
WANTED_FACTOR, WANTED_PROBLEMS = 3.0, 8
MOST = 1000
"""Larger factors are not given: the square-root law does not hold that far."""
WHY = {
    "mixture": "In two dimensions a few thousand draws of the prior reach every mode, so plain tempering does well.",
}
"""What is special about a problem on which packages come close."""
HEAD = """---
hide: [toc]
---

# Comparison with other packages

The same ten problems, each with a known log evidence, for qpaths and {num} other packages. Each package runs with
the defaults of its documentation, and may also run with a setting for more effort. Nothing is tuned for a problem. The
page and its pictures are written from the stored rows by `python -m benchmarks.peers.run report`.

- Each run is a cold process on one core in a separate environment. CPU seconds include imports and compilation.
- All compute in double precision. NumPy packages call the densities in NumPy, PyMC in PyTensor, the others in JAX, from
  the same formulas (`benchmarks/peers/densities.py`). Nested samplers get the map from the unit cube.
- A gradient counts as two evaluations. PyMC does not report evaluations.
- A run is stopped at its limit of CPU seconds. A package that was stopped on a problem is not run there again.
- *At equal error* extrapolates the CPU seconds of the less accurate of the two packages to the smaller error. Half the
  error takes four times the CPU seconds; imports are not counted again. The better of the two efforts counts. The error
  is the root-mean-square error, and no less than the package's own error bar, because a few runs may be lucky.
"""


def table(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def number(value):
    """Two digits, or all that are before the point."""
    return "" if value is None else f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def factor_text(found):
    """What `best_of` found, in words."""
    if found is None:
        return "no answer"
    factor, is_bound, _ = found
    if is_bound:
        return f"stopped (over {number(factor)})"
    return number(factor) if factor < MOST else f"over {MOST:,}"


def settings(titles, rows):
    """The calls and the versions."""
    lines = []
    for peer in titles:
        adapter = adapter_of(peer)
        versions = next((row["versions"] for row in reversed(rows) if row["peer"] == peer and "versions" in row), {})
        own = ", ".join(f"{name} {version}" for name, version in versions.items() if name in adapter.PACKAGES)
        lines.append([titles[peer], own, adapter.SETTINGS["default"], adapter.SETTINGS["more"]])
    notes = [f"- {titles[peer]}: {adapter_of(peer).NOTE}" for peer in titles if hasattr(adapter_of(peer), "NOTE")]
    return table(["package", "version", "default", "more effort"], lines) + "\n\n" + "\n".join(notes)


def factors(cells, problems, titles):
    """Our CPU seconds and error, and the factor of every peer at equal error."""
    others = [peer for peer in titles if peer != OURS]
    lines = []
    for problem in problems:
        ours = cells.get((OURS, problem, "default"))
        own = [f"{ours.rms:.4f}", number(ours.median("cpu_seconds"))] if ours and ours.answers else ["", ""]
        found = {peer: best_of(cells, peer, problem) for peer in others}
        has_run = {peer for peer in others if any((peer, problem, effort) in cells for effort in EFFORTS)}
        lines.append([problem, *own, *(factor_text(found[peer]) if peer in has_run else "not run" for peer in others)])
    return table(["problem", "our RMS error", "our CPU s", *(titles[peer] for peer in others)], lines)


def verdicts(cells, problems, titles):
    """Sentences that the rows support, the unpleasant ones included."""
    others = [peer for peer in titles if peer != OURS]
    compared = [problem for problem in problems if (OURS, problem, "default") in cells]
    won, sentences = [], []
    for problem in compared:
        found = {peer: best_of(cells, peer, problem) for peer in others}
        factors = [item[0] for item in found.values() if item is not None]
        if factors and min(factors) >= WANTED_FACTOR:
            won.append(problem)
        for peer, item in found.items():
            if item is not None and item[0] < WANTED_FACTOR and not item[1]:
                sentences.append((item[0], sentence(cells, titles, problem, peer, item)))
    first = (
        f"qpaths takes at least {WANTED_FACTOR:g} times fewer CPU seconds at equal error than every package that "
        f"was run and has an answer on {len(won)} of {len(compared)} problems (wanted: {WANTED_PROBLEMS} of "
        f"{len(PROBLEMS)})"
    )
    pairs = [(peer, problem) for peer in PEERS for problem in PROBLEMS if peer != OURS]
    ran = {(peer, problem) for peer, problem, _ in cells}
    num = sum(pair not in ran for pair in pairs)
    more = sum(peer != OURS and effort == "more" for peer, _, effort in cells)
    last = f"Of {len(pairs)} pairs of a package and a problem {num} have not been run yet; {more} have more effort too."
    won_text = f"{first}: {', '.join(won)}." if won else f"{first}."
    return [won_text, *(text for _, text in sorted(sentences)), coverage_sentence(cells, titles), last]


def coverage_sentence(cells, titles):
    """Our share of answers within two error bars, and who has a higher one."""
    covered = {
        peer: [hit for (name, *_), cell in cells.items() if name == peer for hit in cell.covered] for peer in titles
    }
    shares = {peer: sum(hits) / len(hits) for peer, hits in covered.items() if hits}
    if OURS not in shares:
        return "No answer of qpaths has an error bar yet."
    higher = [peer for peer, share in shares.items() if share > shares[OURS]]
    texts = [f"{titles[peer]} ({sum(covered[peer])} of {len(covered[peer])})" for peer in higher]
    return f"{shares[OURS]:.0%} of {len(covered[OURS])} answers of qpaths are within two error bars. " + (
        f"Higher shares: {', '.join(texts)}." if texts else "No package has a higher share."
    )


def sentence(cells, titles, problem, peer, item):
    factor, _, cell = item
    ours = cells[OURS, problem, "default"]
    kind = "is ahead" if factor < 1 else f"is within a factor of {WANTED_FACTOR:g}"
    reason = f" {WHY[problem]}" if problem in WHY else ""
    return (
        f"{titles[peer]} ({cell.effort}) {kind} on {problem}: RMS error {cell.rms:.4f} in "
        f"{cell.median('cpu_seconds'):.1f} CPU s ({len(cell.answers)} runs) against {ours.rms:.4f} in "
        f"{ours.median('cpu_seconds'):.1f} CPU s ({len(ours.answers)} runs), a factor of {factor:.2g} at equal "
        f"error.{reason}"
    )


def bars(cells, titles):
    """Coverage and answers of each peer over all problems."""
    lines = []
    for peer in titles:
        for effort in EFFORTS:
            own = [cell for (name, _, how), cell in cells.items() if name == peer and how == effort]
            if not own:
                continue
            covered = [hit for cell in own for hit in cell.covered]
            share = f"{sum(covered)} of {len(covered)} ({sum(covered) / len(covered):.0%})" if covered else "none given"
            states = [row["status"] for cell in own for row in cell.rows]
            counts = [states.count(state) for state in ("done", "stopped", "failed")]
            lines.append([titles[peer], effort, len(own), *counts, share])
    head = ["package", "effort", "problems", "answers", "stopped", "failed", "within two error bars"]
    return table(head, lines)


def details(cells, problem, titles):
    lines = []
    for peer in titles:
        for effort in EFFORTS:
            cell = cells.get((peer, problem, effort))
            if cell is None:
                continue
            if not cell.answers:
                reason = f"stopped at {cell.stopped:g} CPU s" if cell.stopped is not None else f"failed: {cell.failure}"
                lines.append([titles[peer], effort, 0, reason.replace("|", "/"), "", "", "", ""])
                continue
            covered, se = cell.covered, cell.median("se")
            share = f"{sum(covered)} of {len(covered)}" if covered else "none given"
            figures = [f"{cell.rms:.4f}", "" if se is None else f"{se:.4f}", share]
            costs = [number(cell.median("evaluations")), f"{cell.median('cpu_seconds'):.1f}"]
            lines.append([titles[peer], effort, len(cell.answers), *figures, *costs])
    head = ["package", "effort", "runs", "RMS error", "median error bar", "within two", "evaluations", "CPU s"]
    return f"## {problem}\n\n{table(head, lines)}"


def _with_peers(rows, machine):
    """A machine, and the packages that ran there: CPU seconds of two machines compare only roughly."""
    return f"{machine} ({', '.join(sorted({row['peer'] for row in rows if row.get('machine') == machine}))})"


def machines(rows):
    """Where, when and under which load the rows were made."""
    found = sorted({row["machine"] for row in rows if "machine" in row})
    loads = [row["load"] for row in rows if "load" in row]
    dates = sorted(row["date"][:10] for row in rows)
    pythons = sorted({row["python"] for row in rows if "python" in row})
    limits = sorted({row["limit"] for row in rows if "limit" in row})
    return (
        f"Machine: {'; '.join(_with_peers(rows, machine) for machine in found)}. "
        f"Load average while the runs were made: {min(loads):.0f} to {max(loads):.0f}, so "
        f"CPU seconds are those of a shared machine. Python {', '.join(pythons)}. Dates: {dates[0]} to {dates[-1]}. "
        f"Limit: {' or '.join(f'{limit:g}' for limit in limits)} CPU seconds for a run."
    )


def write(rows_file, page=PAGE, tables=TABLES):
    """The page, the three pictures in `pictures/` next to it, and the tables of settings and problems."""
    rows = read(rows_file)
    cells = cells_of(rows)
    problems = [name for name in PROBLEMS if any(problem == name for _, problem, _ in cells)]
    order = [OURS, *(peer for peer in PEERS if peer != OURS)]
    titles = {peer: adapter_of(peer).TITLE for peer in order if any(name == peer for name, *_ in cells)}
    refused = [row for row in rows if row["status"] == "not installed" and row["peer"] not in titles]
    missing = {row["peer"]: row["reason"] for row in refused}
    pictures = page.parent / "pictures"
    errors_against("cpu_seconds", "CPU seconds", cells, problems, titles, pictures / "peers_cpu.svg")
    errors_against("evaluations", "evaluations", cells, problems, titles, pictures / "peers_evaluations.svg")
    coverage(cells, titles, pictures / "peers_coverage.svg")
    absent = [f"- {adapter_of(peer).TITLE} could not be installed: {reason}" for peer, reason in missing.items()]
    absent += [f"- {adapter_of(peer).TITLE} has no rows yet." for peer in order if peer not in titles | missing]
    parts = [
        HEAD.format(num=len(titles) - 1),
        "## What the rows say\n\n" + "\n".join(f"- {text}" for text in verdicts(cells, problems, titles)),
        "CPU seconds of a package over those of qpaths with defaults, at equal error. Below 1 the package is ahead.",
        factors(cells, problems, titles),
        "With fewer than five runs an error is a rough figure. `benchmarks/results/peers.md` has the versions and "
        "calls of all packages, and for each problem the number of runs, errors, evaluations and CPU seconds.",
        "## Error bars\n\n" + bars(cells, titles),
        "![Coverage of the error bars](pictures/peers_coverage.svg)",
        "## Error against CPU seconds\n\nFilled marks are defaults, hollow ones more effort. Marks on "
        "the upper edge were stopped.\n\n"
        "![Error against CPU seconds](pictures/peers_cpu.svg)",
        "## Error against evaluations\n\n![Error against evaluations](pictures/peers_evaluations.svg)",
        machines(rows),
        "## Run it yourself\n\n```\npython -m benchmarks.peers.run setup all\n"
        "python -m benchmarks.peers.run run --seeds 5\npython -m benchmarks.peers.run run --seeds 5 --effort more\n"
        "python -m benchmarks.peers.run report\n```",
    ]
    details_of_all = [
        "# Comparison with other packages: settings and problems\n\n"
        "Made by `python -m benchmarks.peers.run report`, with [the page](../../docs/peers.md).",
        "## Settings\n\n" + settings(titles, rows) + ("\n\n" + "\n".join(absent) if absent else ""),
        *(details(cells, problem, titles) for problem in problems),
    ]
    for file, blocks in ((page, parts), (tables, details_of_all)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n\n".join(block.strip() for block in blocks) + "\n", encoding="utf-8")
