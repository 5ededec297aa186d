"""Join the rows of two folders of one experiment whose settings differ in lists alone, for sweeps that ran in parts.

    python tools/merge_rows.py FIRST SECOND OUT       # then: qpaths report OUT

The lists of OUT hold the values of both. Rows that both folders have are taken from the first. Runs that neither has
are missing, as in a sweep that was interrupted.
"""

import json
import shutil
import sqlite3
import sys
from pathlib import Path


def merge(first: Path, second: Path, out: Path) -> list[str]:
    """Write the joined folder, and return the names of the settings that differ."""
    out.mkdir(parents=True)
    shutil.copy(first / "runs.sqlite", out / "runs.sqlite")
    with sqlite3.connect(out / "runs.sqlite") as joined, sqlite3.connect(second / "runs.sqlite") as other:
        ours, theirs = (dict(part.execute("SELECT name, value FROM meta")) for part in (joined, other))
        settings, added = json.loads(ours.pop("settings")), json.loads(theirs.pop("settings"))
        different = [name for name in {**settings, **added} if settings.get(name) != added.get(name)]
        if ours != theirs or not all(isinstance(settings.get(name), list) for name in different):
            sys.exit(f"the folders must be of one experiment and differ in lists alone, and differ in {different}.")
        for name in different:
            settings[name] += [value for value in added[name] if value not in settings[name]]
        text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
        joined.execute("UPDATE meta SET value = ? WHERE name = 'settings'", (text,))
        last = joined.execute("SELECT MAX(id) FROM environments").fetchone()[0]
        for number, content in other.execute("SELECT id, content FROM environments"):
            joined.execute("INSERT INTO environments VALUES (?, ?)", (last + number, content))
        columns = "settings, seed, content, checksum, environment, seconds, finished"
        for *row, environment, seconds, finished in other.execute(f"SELECT {columns} FROM rows ORDER BY id"):
            values = (*row, last + environment, seconds, finished)
            joined.execute(f"INSERT OR IGNORE INTO rows ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    return different


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print("joined in", *merge(*map(Path, sys.argv[1:])))
