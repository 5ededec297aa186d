"""What is said where the file of a store cannot be read or written."""

import sqlite3
from pathlib import Path

from .errors import UserError

FILE = "runs.sqlite"


def in_words(path: Path, error: sqlite3.Error) -> UserError:
    """The error for an error of SQLite: no room, no permission, another program at work, or damage."""
    kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return UserError(
            f"{path} could not be written ({error}): free some room on the disk and run the same command again. The "
            f"rows that were there are kept."
        )
    if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return UserError(f"{path} cannot be opened for writing ({error}): give a folder of your own with --out.")
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UserError(f"{path} is in use by another program ({error}): wait for it, or take another folder.")
    return damaged(path.parent, error)


def damaged(folder: Path, reason: object) -> UserError:
    """The error for a file that is not as it was written."""
    return UserError(
        f"{folder / FILE} is damaged or no table of qpaths ({reason}); it is left as it is: take a copy, or another "
        f"folder."
    )
