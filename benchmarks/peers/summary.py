"""Figures of the rows: one cell for each peer, problem and effort, and how two cells compare at equal error."""

from dataclasses import dataclass, field

import numpy as np

OURS = "qpaths"
EFFORTS = ("default", "more")


@dataclass(frozen=True)
class Cell:
    """The runs of one peer on one problem with one effort."""

    peer: str
    problem: str
    effort: str
    rows: list = field(repr=False)

    @property
    def answers(self):
        return [row for row in self.rows if row["status"] == "done"]

    @property
    def stopped(self):
        """The limit of CPU seconds at which a run was stopped, or None."""
        return max((row["limit"] for row in self.rows if row["status"] == "stopped"), default=None)

    @property
    def failure(self):
        return next((row["reason"] for row in self.rows if row["status"] == "failed"), None)

    @property
    def errors(self):
        return np.array([row["log_evidence"] - row["truth"] for row in self.answers])

    @property
    def rms(self):
        return float(np.sqrt(np.mean(self.errors**2)))

    def median(self, name):
        values = [row[name] for row in self.answers if row.get(name) is not None]
        return float(np.median(values)) if values else None

    @property
    def covered(self):
        """For each answer with an error bar, whether the truth is within two of them. The truth has one of its own."""
        return [
            bool(abs(row["log_evidence"] - row["truth"]) <= 2 * np.hypot(row["se"], row["truth_se"]))
            for row in self.answers
            if row.get("se") is not None
        ]

    @property
    def error(self):
        """The root-mean-square error, and no less than the error bar: a few runs may be close to the truth by luck."""
        return max(self.rms, self.median("se") or 0.0)

    def seconds_at(self, error):
        """CPU seconds that a smaller error would take by the square-root law; imports are not repeated."""
        seconds, imports = self.median("cpu_seconds"), self.median("import_seconds")
        return imports + (seconds - imports) * max(1.0, self.error / error) ** 2


def cells_of(rows):
    """By (peer, problem, effort). Of runs that were repeated the last one counts."""
    last = {(row["peer"], row["problem"], row["effort"], row["seed"]): row for row in rows if "problem" in row}
    grouped = {}
    for (*key, _), row in last.items():
        grouped.setdefault(tuple(key), []).append(row)
    return {key: Cell(*key, runs) for key, runs in grouped.items()}


def times_more(ours, theirs):
    """How many times our CPU seconds a peer needs for the smaller one of the two errors, and whether that is a bound.

    None where the peer has no answer although it was not stopped.
    """
    if theirs.answers:
        error = min(ours.error, theirs.error)
        return theirs.seconds_at(error) / ours.seconds_at(error), False
    if theirs.stopped is not None:
        return theirs.stopped / ours.median("cpu_seconds"), True
    return None


def best_of(cells, peer, problem):
    """The effort with which a peer comes closest to us, as (factor, is a bound, cell); None if it has no answer.

    Stopped runs count only where no effort has an answer.
    """
    ours = cells.get((OURS, problem, "default"))
    own = [cells[peer, problem, effort] for effort in EFFORTS if (peer, problem, effort) in cells]
    if ours is None or not ours.answers:
        return None
    found = [(*times_more(ours, cell), cell) for cell in own if times_more(ours, cell) is not None]
    return min(found, key=lambda item: (item[1], item[0])) if found else None


def interval(num, total, z=1.96):
    """Wilson's interval for a share."""
    share, spread = num / total, z**2 / total
    center, half = share + spread / 2, z * np.sqrt(share * (1 - share) / total + spread / (4 * total))
    return (center - half) / (1 + spread), (center + half) / (1 + spread)
