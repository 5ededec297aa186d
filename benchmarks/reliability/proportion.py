"""Are runs right whose only finding is a small part of the target that the draws miss?

    python -m benchmarks.reliability.proportion [--write]

Reads the stored rows of all suites, and runs nothing. A part counts in the standard error by its full size. The table
says how far the answers were from the truth, by the size of the part. `--write` stores it in
benchmarks/results/proportion.md.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"
SENTENCES = {
    "DRIFT": re.compile(r"may be ([\d.e+-]+?) nats too small"),
    "MISSED_MODE": re.compile(r"([\d.]+)% of the mass belongs there, and ([\d.]+)% of the draws"),
}
"""What the sentences of the two findings say of the size of the part, in nats or as two shares."""
SIZES = ((0.0, 0.01), (0.01, 0.03), (0.03, np.inf))


def size_of(kind, text):
    """The nats that are missing, or None if the sentence does not say."""
    found = SENTENCES[kind].search(text)
    if found is None:
        return None
    if kind == "DRIFT":
        return float(found[1])
    expected, there = (float(share) / 100 for share in found.groups())
    return float(np.log1p(-there) - np.log1p(-min(expected, 1 - 1e-12)))


def runs():
    """Size of the part, and error in standard errors, of each stored run with one of the findings and no other."""
    seen = {}
    for file in sorted((RESULTS / "rows").glob("*.jsonl")):
        for row in map(json.loads, file.read_text().splitlines()):
            findings = row.get("findings", [])
            if len(findings) == 1 and findings[0] in SENTENCES and row.get("truth") is not None and row.get("se"):
                size = size_of(findings[0], row["text"])
                if size is not None:
                    error = row["log_evidence"] - row["truth"]
                    z = error / np.hypot(row["se"], row.get("truth_se") or 0.0)
                    seen[row["target"], row["seed"], size] = (size, abs(error), abs(z))
    return list(seen.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    found = runs()
    lines = [
        "| missing part, nats | runs | largest error, nats | largest error, standard errors |",
        "|---|---|---|---|",
    ]
    for low, high in SIZES:
        own = [run for run in found if low <= run[0] < high]
        worst = [f"{max(run[i] for run in own):.2g}" if own else "" for i in (1, 2)]
        lines.append(f"| {low:g} to {high:g} | {len(own)} | {worst[0]} | {worst[1]} |")
    table = "\n".join(lines)
    print(table)
    if parser.parse_args().write:
        page = (
            f"# Verdicts in proportion\n\nMade by `python -m benchmarks.reliability.proportion --write`.\n\n{table}\n"
        )
        (RESULTS / "proportion.md").write_text(page)


if __name__ == "__main__":
    main()
