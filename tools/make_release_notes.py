"""Prints the part of CHANGELOG.md about one version, for the page of a release.

python tools/make_release_notes.py v0.2.0
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def notes(version, text):
    """Return the section of a version, without its heading."""
    found = re.search(rf"^## \[{re.escape(version.removeprefix('v'))}\].*?\n(.*?)(?=^## \[|\Z)", text, re.M | re.S)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section `## [{version.removeprefix('v')}]`: add it, then tag again.")
    return found[1].strip()


if __name__ == "__main__":
    print(notes(sys.argv[1], CHANGELOG.read_text(encoding="utf-8")))
