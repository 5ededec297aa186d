"""The store: rows outlive anything that happens, and a folder is never mixed up with another."""

import dataclasses
import json
import shutil
import sqlite3

import pytest

from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.experiment import Experiment, Run
from qpaths_paper.harness.store import FILE, Store
from qpaths_paper.harness.sweep import sweep

SETTINGS = {"size": 3, "words": ["a", "b"]}


def _runs(settings, num_seeds):
    return [Run({"word": word, "size": settings["size"]}, s) for word in settings["words"] for s in range(num_seeds)]


TINY = Experiment(
    name="tiny",
    title="for tests",
    paper="none",
    duration="none",
    about="",
    settings=SETTINGS,
    smoke={},
    runs=_runs,
    run_one=lambda settings, seed: {"value": seed / 3, "list": [settings["size"], float("inf")]},
    claims=lambda rows: [],
    num_seeds=2,
)


def _silent(done, total, last):
    pass


def _fill(folder, num_seeds=2, experiment=TINY, settings=SETTINGS):
    with Store.create(folder, experiment, settings, num_seeds) as store:
        sweep(experiment, settings, num_seeds, store, progress=_silent)
        return store.rows()


def _rows(folder):
    with Store.open(folder) as store:
        return store.rows()


def test_rows_come_back_as_they_were(tmp_path):
    rows = _fill(tmp_path / "new" / "folder")
    assert [(row["word"], row.seed) for row in rows] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [row["value"] for row in rows] == [0, 1 / 3, 0, 1 / 3]
    assert rows[0]["list"] == [3, float("inf")]
    assert _rows(tmp_path / "new" / "folder") == rows


def test_only_what_is_missing_is_run(tmp_path):
    _fill(tmp_path)
    told = []

    def fails(settings, seed):
        raise ValueError("nothing should run")

    broken = dataclasses.replace(TINY, run_one=fails)
    with Store.create(tmp_path, broken, SETTINGS, 2) as store:
        sweep(broken, SETTINGS, 2, store, progress=lambda *given: told.append(given))
    assert told == [(4, 4, None)]
    assert len(_fill(tmp_path, num_seeds=3)) == 6
    with Store.open(tmp_path) as store:
        assert store.meta()["num_seeds"] == 3


def test_an_interrupted_sweep_ends_in_the_same_table(tmp_path):
    def stops(settings, seed):
        if settings["word"] == "b":
            raise KeyboardInterrupt
        return TINY.run_one(settings, seed)

    with pytest.raises(KeyboardInterrupt):
        _fill(tmp_path / "stopped", experiment=dataclasses.replace(TINY, run_one=stops))
    assert len(_rows(tmp_path / "stopped")) == 2
    assert _fill(tmp_path / "stopped") == _fill(tmp_path / "whole")


def test_a_run_that_fails_is_named_and_the_others_stay(tmp_path):
    def fails(settings, seed):
        if settings["word"] == "b":
            raise FloatingPointError("no weight is left.")
        return {}

    with pytest.raises(UserError, match=r"no weight is left. This was the run with word = b, size = 3, seed 0"):
        _fill(tmp_path, experiment=dataclasses.replace(TINY, run_one=fails))
    assert len(_rows(tmp_path)) == 2


@pytest.mark.parametrize(
    ("experiment", "settings", "words"),
    [
        (dataclasses.replace(TINY, name="other"), SETTINGS, "holds runs of tiny, not of other"),
        (dataclasses.replace(TINY, version=2), SETTINGS, "runs of version 1 of tiny, and this is version 2"),
        (TINY, {**SETTINGS, "size": 4}, r"other settings \(size = 3 there, 4 here\)"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, experiment, settings, words):
    rows = _fill(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(UserError, match=words):
        _fill(tmp_path, experiment=experiment, settings=settings)
    assert (tmp_path / FILE).read_bytes() == before
    assert _rows(tmp_path) == rows


def test_a_folder_without_rows_is_free(tmp_path):
    """A first attempt with settings that cannot run must not lock the folder."""
    with Store.create(tmp_path, TINY, {**SETTINGS, "size": -1}, 2):
        pass
    assert len(_fill(tmp_path)) == 4


def _change(folder, statement):
    connection = sqlite3.connect(folder / FILE)
    with connection:
        connection.execute(statement)
    connection.close()


def test_a_damaged_row_is_named(tmp_path):
    _fill(tmp_path)
    _change(tmp_path, """UPDATE rows SET content = '{"value":9}' WHERE id = 3""")
    with pytest.raises(UserError, match=r"row 3 of .* is damaged"):
        _rows(tmp_path)
    with Store.open(tmp_path) as store:
        assert store.count() == 4
    # What the message advises: without the row, the same command computes it anew.
    _change(tmp_path, "DELETE FROM rows WHERE id = 3")
    assert _fill(tmp_path) == _fill(tmp_path / "whole")


def test_a_commit_that_was_cut_short_is_taken_back(tmp_path):
    """A copy of the files in the middle of a transaction that has reached the disk: what a power failure leaves."""
    rows = _fill(tmp_path / "there")
    connection = sqlite3.connect(tmp_path / "there" / FILE)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("UPDATE rows SET content = zeroblob(100000)")
    shutil.copytree(tmp_path / "there", tmp_path / "copy")
    connection.close()
    assert (tmp_path / "copy" / f"{FILE}-journal").stat().st_size > 0
    assert _rows(tmp_path / "copy") == rows


def test_a_file_that_does_not_say_whose_it_is_is_refused(tmp_path):
    _fill(tmp_path)
    _change(tmp_path, "UPDATE meta SET value = '{' WHERE name = 'settings'")
    with pytest.raises(UserError, match="is damaged or no table of qpaths"):
        _rows(tmp_path)
    _change(tmp_path, "DELETE FROM meta WHERE name = 'settings'")
    with pytest.raises(UserError, match="does not say its settings"):
        _fill(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("settings", "[1]", r"its settings is \[1\]"),
        ("num_seeds", '"two"', "its num_seeds is 'two'"),
        ("experiment", "7", "its experiment is 7"),
        ("version", "null", "its version is None"),
    ],
)
def test_meta_of_wrong_types_is_damage(tmp_path, name, value, words):
    _fill(tmp_path)
    _change(tmp_path, f"UPDATE meta SET value = '{value}' WHERE name = '{name}'")
    for attempt in (_rows, _fill):
        with pytest.raises(UserError, match=rf"{FILE} is damaged or no table of qpaths \({words}\)"):
            attempt(tmp_path)


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_environment_is_told(tmp_path, content):
    _fill(tmp_path)
    _change(tmp_path, f"UPDATE environments SET content = '{content}'")
    with Store.open(tmp_path) as store, pytest.raises(UserError, match=rf"{FILE} is damaged or no table of qpaths"):
        store.environments()


def test_a_file_of_another_version_is_refused(tmp_path):
    _fill(tmp_path)
    _change(tmp_path, "UPDATE meta SET value = '99' WHERE name = 'schema'")
    with pytest.raises(UserError, match="version 99 of the format"):
        _rows(tmp_path)
    with pytest.raises(UserError, match="version 99 of the format"):
        _fill(tmp_path)


@pytest.mark.parametrize("content", [b"no database at all, but long enough to have a header" * 20, None])
def test_a_damaged_file_is_left_as_it_is(tmp_path, content):
    _fill(tmp_path)
    path = tmp_path / FILE
    if content is None:  # ours, with the middle overwritten
        whole = path.read_bytes()
        content = whole[:3000] + b"\xff" * 6000 + whole[9000:]
    path.write_bytes(content)
    for attempt in (_rows, _fill):
        with pytest.raises(UserError, match="is damaged or no table of qpaths"):
            attempt(tmp_path)
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_refused(tmp_path):
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    for attempt in (_rows, _fill):
        with pytest.raises(UserError, match="table of qpaths"):
            attempt(tmp_path)


def test_a_full_disk_keeps_the_rows(tmp_path):
    rows = _fill(tmp_path)
    big = dataclasses.replace(TINY, run_one=lambda settings, seed: {"list": list(range(100_000))})
    with Store.create(tmp_path, big, SETTINGS, 3) as store:
        pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
        store.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(UserError, match="free some room on the disk"):
            sweep(big, SETTINGS, 3, store, progress=_silent)
    assert _rows(tmp_path) == rows
    assert len(_fill(tmp_path, num_seeds=3)) == 6


def test_the_environment_is_beside_the_rows(tmp_path):
    _fill(tmp_path)
    _fill(tmp_path)  # nothing to do, nothing to note
    with Store.open(tmp_path) as store:
        (environment,) = store.environments()
    assert {"qpaths", "jax", "numpy", "device", "precision", "commit", "started"} <= set(environment)
    assert json.dumps(environment)


def test_a_folder_under_an_old_name_of_a_setting_is_continued(tmp_path):
    """`orders` is `q` now: the folder is not refused, and takes the present name."""
    settings = {**SETTINGS, "q": [1.0]}
    experiment = dataclasses.replace(TINY, settings=settings)
    rows = _fill(tmp_path, experiment=experiment, settings=settings)
    old = json.dumps({**SETTINGS, "orders": [1.0]})
    _change(tmp_path, f"UPDATE meta SET value = '{old}' WHERE name = 'settings'")
    assert _fill(tmp_path, experiment=experiment, settings=settings) == rows
    with Store.open(tmp_path) as store:
        assert store.meta()["settings"] == settings
    _change(tmp_path, f"UPDATE meta SET value = '{old}' WHERE name = 'settings'")
    with pytest.raises(UserError, match=r"q = \[1.0\] there, \[0.5\] here"):
        _fill(tmp_path, experiment=experiment, settings={**settings, "q": [0.5]})
