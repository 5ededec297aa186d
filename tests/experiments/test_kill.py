"""A sweep that is killed at any moment goes on to the same table as one that was left alone."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qpaths.experiments.base import find
from qpaths.experiments.store import FILE, Store
from qpaths.experiments.sweep import sweep

CHANGES = {"endpoints": ["gaussian"], "num_distributions": [3, 21], "num_deltas": 1, "num_samples": 200}
NUM_SEEDS = 25


def _finish(folder):
    """What is missing, in this process; every row of the folder."""
    experiment = find("toy_bdmc")
    settings = {**experiment.settings, **CHANGES}
    with Store.create(folder, experiment, settings, NUM_SEEDS) as store:
        sweep(experiment, settings, NUM_SEEDS, store, progress=lambda done, total, last: None)
        return store.rows()


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
def test_killed_in_the_middle(tmp_path):
    """Two workers, killed without warning; then one process does the rest."""
    changes = [f"--set={name}={','.join(map(str, v)) if isinstance(v, list) else v}" for name, v in CHANGES.items()]
    command = ["run", "toy_bdmc", f"--seeds={NUM_SEEDS}", "--jobs=2", f"--out={tmp_path / 'killed'}", *changes]
    process = subprocess.Popen(
        [sys.executable, "-c", "from qpaths.cli import main; main()", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        while (done := _count(tmp_path / "killed")) < 5:
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.01)
        workers = _children(process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    stored = _count(tmp_path / "killed")
    assert done <= stored < 6 * NUM_SEEDS, "killed too late to tell"
    assert _finish(tmp_path / "killed") == _finish(tmp_path / "whole")
    # Workers do not stay behind.
    deadline = time.monotonic() + 30
    while any(map(_alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
