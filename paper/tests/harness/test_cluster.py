"""Sweeps on a Dask cluster: the rows of a sweep alone, whatever happens to the workers."""

import importlib
import os
import signal

import pytest

from qpaths.rows import workers
from qpaths_paper.harness import cluster as clusters
from qpaths_paper.harness import sweep as sweeping
from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.registry import find
from qpaths_paper.harness.store import Store

distributed = pytest.importorskip("distributed")

SETTINGS = {"biases": [0.25, 0.5], "pause": 0.02}


def _sweep(folder, num_seeds=30, progress=lambda done, total, last: None, **where):
    experiment = find("coins")
    with Store.create(folder, experiment, SETTINGS, num_seeds) as store:
        sweeping.sweep(experiment, SETTINGS, num_seeds, store, progress=progress, **where)
        return store.rows(), store.environments()


def _same_but_for(environments, *names):
    return [{name: value for name, value in one.items() if name not in names} for one in environments]


def test_workers_here_keep_their_memory(monkeypatch):
    """Dask's own 64 kB make a sweep of densities with many data several times slower."""
    found = []

    def local(**settings):
        found.append(distributed.nanny._get_env_variables("distributed.nanny.pre-spawn-environ"))
        raise OSError("no more processes")

    monkeypatch.setattr(distributed, "LocalCluster", local)
    with pytest.raises(UserError, match="2 worker processes could not be started"), clusters.open_cluster(2, None):
        pass
    assert int(found[0]["MALLOC_TRIM_THRESHOLD_"]) >= 2**27
    assert int(found[0]["MALLOC_MMAP_THRESHOLD_"]) == 2**25  # glibc takes no more


def test_a_cluster_whose_workers_come_and_go(tmp_path, coins, monkeypatch):
    whole, environments = _sweep(tmp_path / "alone")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, memory_limit=0
    ) as cluster:
        address = cluster.scheduler_address
        with monkeypatch.context() as patch:
            patch.setattr(sweeping, "versions", lambda: workers.versions() | {"qpaths": "99"})
            with pytest.raises(UserError, match=r"qpaths [\d.]+ there, 99 here.* Finished runs are stored"):
                _sweep(tmp_path / "rows", cluster=address)
        pids, killed = [worker.pid for worker in cluster.workers.values()], []

        def kill(done, total, last):
            if done > 10 and not killed:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        rows, found = _sweep(tmp_path / "rows", cluster=address, progress=kill)
        assert killed
        assert rows == whole
        assert _same_but_for(found, "started") == _same_but_for(environments, "started")

        cluster.scale(0)
        cluster.sync(cluster._correct_state)
        monkeypatch.setattr(workers, "PATIENCE", 0.5)
        with pytest.raises(UserError, match=r"no workers for .* start some .* Finished runs are stored"):
            _sweep(tmp_path / "rows", num_seeds=31, cluster=address)
        with Store.open(tmp_path / "rows") as store:
            assert store.rows() == whole


def test_nobody_listens(tmp_path, coins, monkeypatch):
    monkeypatch.setattr(clusters, "_CONNECT", 0.5)
    with pytest.raises(UserError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:9'.* `dask scheduler`"):
        _sweep(tmp_path, cluster="tcp://127.0.0.1:9")
    with pytest.raises(UserError, match=r"no Dask scheduler answers at 'what ever' \(it has no port\)"):
        _sweep(tmp_path, cluster="what ever")


def test_without_dask(tmp_path, coins, monkeypatch):
    """One process needs no Dask."""

    def missing(name, *arguments):
        if name == "distributed":
            raise ModuleNotFoundError(name)
        return found(name, *arguments)

    found = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match=r"pip install 'qpaths\[cluster\]'"):
        _sweep(tmp_path, jobs=2)
    rows, _ = _sweep(tmp_path, num_seeds=2)
    assert len(rows) == 4


def test_short_runs_travel_in_groups():
    pace = sweeping._Pace()
    assert pace.size(1000, 4) == 1, "nothing is known yet"
    pace.note([sweeping.Finished(None, {}, 0.01, {})] * 4)
    assert pace.size(1000, 4) == 25
    assert pace.size(100, 4) == 6, "the end is shared"
    assert pace.size(3, 4) == 1
    assert pace.size(10**9, 4000) == 1000, "ten seconds, where many ask the scheduler"
    pace.note([sweeping.Finished(None, {}, 100.0, {})])
    assert pace.size(1000, 4) == 1


def test_an_error_in_a_run_names_the_run(tmp_path, coins):
    path = coins / "coins.py"
    path.write_text(path.read_text().replace('time.sleep(settings["pause"])', "raise ValueError('no coin.')"))
    for where in ({"jobs": 2}, {}):
        with pytest.raises(UserError, match=r"no coin. This was the run with bias = .*, seed \d+; finished runs"):
            _sweep(tmp_path / "rows", **where)
