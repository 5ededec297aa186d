"""Draws docs/pictures/readme.svg, the picture of the README, from stored rows: `python -m tools.make_readme_picture`.

Errors of the log evidence on two targets with a known answer: ten runs of `qpaths.evidence` with defaults
(benchmarks/results/rows/suite.jsonl), and the published means and standard deviations of other methods
(`PUBLISHED` in benchmarks/suites/run.py, which names the source).
"""

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.suites.run import PUBLISHED

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "benchmarks" / "results" / "rows" / "suite.jsonl"
PICTURE = ROOT / "docs" / "pictures" / "readme.svg"
TITLES = {"funnel": "Neal's funnel, 10 dimensions", "brownian": "Brownian motion, 32 dimensions"}


def draw(target: Path) -> None:
    """Write the picture to a file."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    with mpl.rc_context({"svg.hashsalt": "qpaths", "svg.fonttype": "none", "font.size": 10}):
        figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained", sharey=True)
        for ax, (name, title) in zip(axes, TITLES.items(), strict=True):
            own = [row for row in rows if row["target"] == name]
            errors = [row["log_evidence"] - row["truth"] for row in own]
            ax.plot(errors, [0] * len(errors), ".", color="C0")
            others = PUBLISHED[name]
            for place, (mean, sd) in enumerate(others.values(), 1):
                ax.errorbar(mean - own[0]["truth"], place, xerr=sd, fmt="o", color="0.5", capsize=3)
            ax.set_yticks(range(len(others) + 1), [f"qpaths, {len(errors)} runs", *others])
            ax.axvline(0, color="0.8", zorder=0)
            ax.set(title=title, xlabel="error of log Z in nats", ylim=(len(others) + 0.5, -0.5))
            ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(target, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(PICTURE)
