"""A sweep that is killed at any moment goes on to the same table as one that was left alone."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from qpaths_paper.harness.registry import find
from qpaths_paper.harness.store import FILE, Store
from qpaths_paper.harness.sweep import sweep

SETTINGS = {"biases": [0.25, 0.5], "pause": 0.0}
"""Of the experiment `coins` (conftest.py), whose rows differ with the precision of the process."""
NUM_SEEDS = 25


def _finish(folder, jobs=1, progress=lambda done, total, last: None):
    """What is missing; every row of the folder."""
    experiment = find("coins")
    with Store.create(folder, experiment, SETTINGS, NUM_SEEDS) as store:
        sweep(experiment, SETTINGS, NUM_SEEDS, store, jobs=jobs, progress=progress)
        return store.rows()


def _sweep_slowly(folder):
    """In a process of its own: say each row that is stored, and wait, so that there is time to be killed."""

    def report(done, total, last):
        print(done, flush=True)
        time.sleep(0.05)

    _finish(Path(folder), jobs=2, progress=report)


def _count(folder):
    if not (folder / FILE).exists():
        return 0
    connection = sqlite3.connect(folder / FILE, timeout=30)
    try:
        return connection.execute("SELECT count(*) FROM rows").fetchone()[0]
    except sqlite3.OperationalError:  # the tables are not there yet
        return 0
    finally:
        connection.close()


def _children(pid):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(folder.name))
    return found


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc, which is not there")
def test_killed_in_the_middle(tmp_path, coins):
    """Two workers, killed without warning; then one process does the rest."""
    process = subprocess.Popen(
        [sys.executable, __file__, tmp_path / "killed"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for line in process.stdout:
            if int(line) >= 5:
                break
        else:
            pytest.fail(process.stderr.read())
        workers = _children(process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert workers
    assert 5 <= _count(tmp_path / "killed") < 2 * NUM_SEEDS, "killed too late to tell"
    assert _finish(tmp_path / "killed") == _finish(tmp_path / "whole")
    # Workers do not stay behind.
    deadline = time.monotonic() + 30
    while any(map(_alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    _sweep_slowly(sys.argv[1])
