"""The table of an experiment on disk: one SQLite file in a folder, one row per finished run, written as it finishes.

The file has three tables. `meta` says which experiment, version and settings it belongs to. `environments` says where
rows were made. `rows` has the settings, the seed and the values of each run as JSON, with a checksum. Errors of SQLite
become `UserError`s that say what to do.
"""

import contextlib
import datetime
import gc
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .errors import UserError
from .experiment import Experiment, Row, Run, Settings, canonical
from .settings import under_present_names

FILE = "runs.sqlite"


def _in_words(path: Path, error: sqlite3.Error) -> UserError:
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


SCHEMA = 1
"""Version of the tables below; files of another version are refused."""

_BLOCK = 5000
"""Rows that are read at a time."""

_META = {"schema": int, "experiment": str, "version": int, "settings": dict, "num_seeds": int}

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS environments (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    id INTEGER PRIMARY KEY,
    settings TEXT NOT NULL,
    seed INTEGER NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT NOT NULL,
    environment INTEGER NOT NULL REFERENCES environments (id),
    seconds REAL NOT NULL,
    finished TEXT NOT NULL,
    UNIQUE (settings, seed)
);
"""


class Store:
    """The rows of one experiment with one set of settings, and the environments that made them.

    A row is on the disk before `add` returns, so that a process that is killed loses only the runs in progress. Rows
    are only ever added. A folder of another experiment, version or settings is refused and left as it is.

        with Store.create(folder, experiment, settings, num_seeds) as store:
            environment = store.add_environment(describe())
            store.add(run, values, environment, seconds)
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection):
        self.folder = folder
        self.connection = connection

    @staticmethod
    @contextlib.contextmanager
    def create(folder: Path, experiment: Experiment, settings: Settings, num_seeds: int) -> Iterator["Store"]:
        """Open the store in a folder for writing; make it if it is missing.

        Raises `UserError` if the folder has rows of something else, or cannot be written. A folder without rows belongs
        to nobody yet. More seeds are added to the stored ones; fewer change nothing.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"the folder {folder} cannot be made ({error.strerror}): give a folder of your own with --out."
            ) from error
        with _opened(folder, "rwc") as store, store._complaints():
            if not store._tables():
                store.connection.executescript("BEGIN;" + _TABLES + "COMMIT;")
            meta = store.meta() if store._meta_count() else {}
            if meta:
                store._check_schema()
            if meta and store.count():
                _check_same(folder, meta, experiment, settings)
                num_seeds = max(num_seeds, meta["num_seeds"])
            store._write_meta(
                schema=SCHEMA,
                experiment=experiment.name,
                version=experiment.version,
                settings=dict(settings),
                num_seeds=num_seeds,
            )
            yield store

    @staticmethod
    @contextlib.contextmanager
    def open(folder: Path) -> Iterator["Store"]:
        """Open the store in a folder for reading. Raises `UserError` if there is none."""
        if not (folder / FILE).is_file():
            raise UserError(f"{folder} holds no runs: give a folder that `qpaths run` wrote.")
        # Not read-only: a process that was killed in the middle of a commit leaves a journal to be rolled back.
        with _opened(folder, "rw") as store, store._complaints():
            if "meta" not in store._tables() or not store._meta_count():
                raise UserError(f"{folder / FILE} is not a table of qpaths: give a folder that `qpaths run` wrote.")
            store._check_schema()
            yield store

    def meta(self) -> dict[str, Any]:
        """The experiment, its version, the settings, the number of seeds, and the schema of the file."""
        found = self.connection.execute("SELECT name, value FROM meta").fetchall()
        meta = {name: self._parsed(value) for name, value in found}
        if missing := sorted(set(_META) - set(meta)):
            raise damaged(self.folder, f"it does not say its {', '.join(missing)}")
        for name, kind in _META.items():
            if not isinstance(meta[name], kind):
                raise damaged(self.folder, f"its {name} is {meta[name]!r}")
        return meta

    def count(self) -> int:
        """The number of rows."""
        return int(self.connection.execute("SELECT count(*) FROM rows").fetchone()[0])

    def keys(self) -> set[tuple[str, int]]:
        """The keys of the stored runs (`Run.key`)."""
        return set(self.connection.execute("SELECT settings, seed FROM rows").fetchall())

    def add_environment(self, content: dict[str, Any]) -> int:
        """Note where the next rows are made. Returns the number to give to `add`."""
        with self._complaints(), self.connection:
            cursor = self.connection.execute("INSERT INTO environments (content) VALUES (?)", [canonical(content)])
        return int(cursor.lastrowid or 0)

    def environments(self) -> list[dict[str, Any]]:
        """Every environment that made a row, the oldest first."""
        found = self.connection.execute(
            "SELECT content FROM environments WHERE id IN (SELECT environment FROM rows) ORDER BY id"
        )
        contents = [self._parsed(content) for (content,) in found]
        if wrong := [content for content in contents if not isinstance(content, dict)]:
            raise damaged(self.folder, f"one of its environments is {wrong[0]!r}")
        return contents

    def _parsed(self, text: Any) -> Any:
        """Read JSON; anything else means that the file is damaged."""
        try:
            return json.loads(text)
        except (ValueError, TypeError) as error:
            raise damaged(self.folder, error) from error

    def seconds(self) -> float:
        """The total time of all runs."""
        return float(self.connection.execute("SELECT coalesce(sum(seconds), 0) FROM rows").fetchone()[0])

    def add(self, run: Run, values: dict[str, Any], environment: int, seconds: float) -> None:
        """Add the row of a run. A row that is already stored stays as it is."""
        self.add_all([(run, values, seconds, environment)])

    def add_all(self, rows: Iterable[tuple[Run, dict[str, Any], float, int]]) -> None:
        """Add rows in one transaction: each a run, its values, its seconds, and the number of its environment.

        Rows that are already stored stay as they are.
        """
        finished = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        records = []
        for run, values, seconds, environment in rows:
            (settings, seed), content = run.key, canonical(values)
            records.append(
                (settings, seed, content, _checksum(settings, seed, content), environment, seconds, finished)
            )
        with self._complaints(), self.connection:
            self.connection.executemany(
                "INSERT OR IGNORE INTO rows (settings, seed, content, checksum, environment, seconds, finished) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                records,
            )

    def rows(self) -> list[Row]:
        """All rows, in an order that does not depend on when they were made. Raises `UserError` if one is damaged."""
        rows: list[Row] = []
        parsed: dict[str, Settings] = {}
        with _no_collection():
            for records in self._records():
                # One text for many rows: they then share the names of their values, and most of the memory.
                contents = json.loads(f"[{','.join(content for *_, content in records)}]")
                for (settings, seed, _), values in zip(records, contents, strict=True):
                    if settings not in parsed:
                        parsed[settings] = json.loads(settings)
                    rows.append(Row(parsed[settings], seed, values))
        return rows

    def check(self) -> None:
        """Raise `UserError` if a row is damaged: it is better to know before a long sweep than after it."""
        for _ in self._records():
            pass

    def _records(self) -> Iterator[list[tuple[str, int, str]]]:
        """Settings, seed and content of all rows as text, some thousand rows at a time. Checksums are verified."""
        with self._complaints():
            cursor = self.connection.execute(
                "SELECT settings, seed, content, checksum, id FROM rows ORDER BY settings, seed"
            )
            while found := cursor.fetchmany(_BLOCK):
                for settings, seed, content, checksum, number in found:
                    if _checksum(settings, seed, content) != checksum:
                        raise self._damaged_row(number)
                yield [record[:3] for record in found]

    def _damaged_row(self, number: int) -> UserError:
        return UserError(
            f"row {number} of {self.folder / FILE} is damaged (its checksum differs); the others are kept. Take a copy "
            f"of the folder, or delete that row (sqlite3 {FILE} 'DELETE FROM rows WHERE id = {number}') and run again: "
            f"only it is computed anew."
        )

    def _tables(self) -> list[str]:
        """The names of the tables in the file."""
        found = self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [name for (name,) in found]

    def _meta_count(self) -> int:
        """The number of entries in `meta`; zero in a file that was never written."""
        return int(self.connection.execute("SELECT count(*) FROM meta").fetchone()[0])

    def _check_schema(self) -> None:
        """Raise if the file is in another version of the format."""
        schema = self.meta().get("schema")
        if schema != SCHEMA:
            raise UserError(
                f"{self.folder / FILE} is in version {schema} of the format, and this is version {SCHEMA}: read it "
                f"with the qpaths that wrote it, or take another folder."
            )

    def _write_meta(self, **content: Any) -> None:
        """Write entries of `meta`, each in the place of an older one."""
        with self.connection:
            self.connection.executemany(
                "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                [(name, canonical(value)) for name, value in content.items()],
            )

    @contextlib.contextmanager
    def _complaints(self) -> Iterator[None]:
        """Turn errors of SQLite into a `UserError` that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise _in_words(self.folder / FILE, error) from error


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Make a million objects without a search for garbage among them after every few hundred."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _opened(folder: Path, mode: str) -> Iterator[Store]:
    """The store of a folder with an open connection; `mode` is that of SQLite, `rw` or `rwc`."""
    path = folder / FILE
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, timeout=30)
    except sqlite3.Error as error:
        raise _in_words(path, error) from error
    with contextlib.closing(connection):
        yield Store(folder, connection)


def _checksum(settings: str, seed: int, content: str) -> str:
    """A digest of a row, by which damage is found."""
    return hashlib.sha256(f"{settings}\n{seed}\n{content}".encode()).hexdigest()


def _check_same(folder: Path, meta: dict[str, Any], experiment: Experiment, settings: Settings) -> None:
    """Raise if a folder with rows belongs to another experiment, version or settings."""
    advice = "nothing was changed; take another folder with --out."
    if meta["experiment"] != experiment.name:
        raise UserError(f"{folder} holds runs of {meta['experiment']}, not of {experiment.name}: {advice}")
    if meta["version"] != experiment.version:
        raise UserError(
            f"{folder} holds runs of version {meta['version']} of {experiment.name}, and this is version "
            f"{experiment.version}: {advice}"
        )
    old = under_present_names(meta["settings"], experiment.settings)
    different = [name for name in {**old, **settings} if old.get(name) != settings.get(name)]
    if different:
        shown = ", ".join(f"{name} = {old.get(name)} there, {settings.get(name)} here" for name in different)
        raise UserError(f"{folder} holds runs with other settings ({shown}): {advice}")
