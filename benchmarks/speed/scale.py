"""Many workers: what an executor gains, what sweep, scheduler and store can take, and what dying workers cost.

    python -m benchmarks.speed.scale [equal] [processes] [workers] [simulated] [store] [scheduler] [killed]

Without arguments all of them, some 20 minutes. `processes` and `workers` sleep at each point, as a likelihood that
waits for another program does: they measure the executor and not how busy the machine is. Results with the wanted
figures are in `benchmarks/results/scale.md`.
"""

import concurrent.futures
import heapq
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import jax
import numpy as np

import qpaths as qp
from qpaths_paper.harness import sweep as sweeping
from qpaths_paper.harness.registry import VARIABLE, find
from qpaths_paper.harness.report import write_report
from qpaths_paper.harness.store import Store

ROOT = Path(__file__).parents[2]
POINT = 0.02
"""Seconds of the likelihood."""
SPAWN = multiprocessing.get_context("spawn")
MILLION = 1_000_000


def log_prior(x):
    return -0.5 * np.sum(np.square(x), axis=-1) - np.log(2 * np.pi)


def sample_prior(generator):
    return generator.standard_normal(2)


def curved(x):
    """Prior times likelihood: a bent valley, so that the path has some length."""
    return float(log_prior(x)) - 30.0 * (x[0] - x[1] ** 2) ** 2


def slow(x):
    time.sleep(POINT)
    return curved(x)


def evidence(target, executor, budget):
    """The result, the seconds, and the CPU seconds of this process."""
    base = qp.Density(log_prior, sample_prior, backend="numpy", batched=True)
    wall, cpu = time.perf_counter(), time.process_time()
    result = qp.evidence(
        base, qp.Density(target, backend="numpy"), key=jax.random.key(0), budget=budget, executor=executor
    )
    return result, time.perf_counter() - wall, time.process_time() - cpu


def digest(result):
    """All numbers of a result, as bytes."""
    parts = result.log_evidence, result.log_evidence_se, result.samples, result.log_weights, result.betas
    return b"".join(np.asarray(part).tobytes() for part in parts)


def equal(budget=20_000):
    """The same model over every kind of executor."""
    from distributed import Client, LocalCluster

    target = napping
    alone = digest(evidence(target, None, budget)[0])
    pools = {f"{num} threads": concurrent.futures.ThreadPoolExecutor(num) for num in (1, 2, 16)}
    pools |= {f"{num} processes": concurrent.futures.ProcessPoolExecutor(num, SPAWN) for num in (1, 2)}
    for name, pool in pools.items():
        with pool:
            print(f"| {name} | {digest(evidence(target, pool, budget)[0]) == alone} |", flush=True)
    with LocalCluster(n_workers=2, dashboard_address=None) as cluster, Client(cluster) as client:
        print(f"| Dask, 2 workers | {digest(evidence(target, client, budget)[0]) == alone} |", flush=True)


def napping(x):
    """Expensive enough to travel."""
    time.sleep(0.0005)
    return curved(x)


def processes(budget=20_000):
    """Seconds with one process and with two, both calls at the same time: so they meet the same load."""

    def run(num):
        with concurrent.futures.ProcessPoolExecutor(num, SPAWN) as pool:
            pool.submit(os.getpid).result()
            result, wall, _ = evidence(slow, pool, budget)
        print(f"| {num} | {result.num_evaluations.total:,} | {wall:.1f} |", flush=True)
        return wall

    with concurrent.futures.ThreadPoolExecutor(2) as both:
        one, two = both.map(run, (1, 2))
    print(f"Two processes are {one / two:.2f} times faster than one.", flush=True)


def workers(num=64, budget=200_000):
    """Sleeping threads as workers of a cluster. All their Python runs in this process."""
    with concurrent.futures.ThreadPoolExecutor(num) as pool:
        result, wall, cpu = evidence(slow, pool, budget)
    total = result.num_evaluations.total
    print(f"| {num} | {total:,} | {wall:.1f} | {cpu:.1f} | {total * POINT / wall:.1f} |", flush=True)


class Trace:
    """An executor that does each task at once, and a record of what each thread gave it: CPU seconds and tasks.

    The time of workers counts on paper only: 20 ms a point. What threads of this process did is measured.
    """

    def __init__(self, num):
        self._max_workers = num
        self.phases = [{}]
        self.local = threading.local()

    def submit(self, function, *arguments):
        begun = time.thread_time()
        future = concurrent.futures.Future()
        future.set_result(function(*arguments))
        self.local.there = getattr(self.local, "there", 0.0) + time.thread_time() - begun
        return future

    def ship(self, model, chunks):
        """In the place of `OverWorkers._ship`."""
        found = self.original(self.spread(), model, chunks)
        here = time.thread_time() - getattr(self.local, "there", 0.0)
        chain = self.phases[-1].setdefault(threading.get_ident(), [])
        chain.append((here - getattr(self.local, "last", 0.0), [len(chunk) * model.seconds_each for chunk in chunks]))
        self.local.last = here
        return found

    def seconds(self):
        """Of the whole call: phases follow each other, the chains of a phase share workers and this process."""
        total = 0.0
        for phase in self.phases:
            here, ends = 0.0, [0.0]
            free = [0.0] * self._max_workers
            ready = [(0.0, number, 0) for number in range(len(phase))]
            chains = list(phase.values())
            while ready:
                now, number, step = heapq.heappop(ready)
                cpu, tasks = chains[number][step]
                now = here = max(now, here) + cpu
                for seconds in tasks:
                    end = max(heapq.heappop(free), here) + seconds
                    heapq.heappush(free, end)
                    now = max(now, end)
                ends.append(now)
                if step + 1 < len(chains[number]):
                    heapq.heappush(ready, (now, number, step + 1))
            total += max(ends)
        return total


def simulated(num=64, budget=200_000):
    """Workers that sleep on paper: queues are simulated from the CPU seconds and the tasks of each thread."""
    from qpaths.algorithms import islands
    from qpaths.rows import executors as spreading

    trace = Trace(num)
    trace.original, trace.spread = spreading.OverWorkers._ship, spreading.spread_of_call
    together, clock = islands.together, spreading._timed

    def in_phases(function, items):
        trace.phases.append({})
        found = together(function, items)
        trace.phases.append({})
        return found

    def on_paper(function, rows):
        found, seconds = clock(function, rows)
        return found, POINT * len(rows) if function.name == "target" else seconds

    islands.together, spreading._timed = in_phases, on_paper
    spreading.OverWorkers._ship = lambda self, model, chunks: trace.ship(model, chunks)
    try:
        result, _, _ = evidence(curved, trace, budget)
    finally:
        islands.together, spreading._timed, spreading.OverWorkers._ship = together, clock, trace.original
    total, seconds = result.num_evaluations.total, trace.seconds()
    here = sum(cpu for phase in trace.phases for chain in phase.values() for cpu, _ in chain)
    print(f"| {num} | {total:,} | {seconds:.1f} | {here:.1f} | {total * POINT / seconds:.1f} |", flush=True)


def timed(label, function):
    wall, cpu = time.perf_counter(), time.process_time()
    found = function()
    seconds = time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {label} | {seconds:.1f} | {time.perf_counter() - wall:.1f} | {memory:.1f} |", flush=True)
    return found


def say_nothing(done, total, last):
    pass


def store(num=MILLION):
    """CPU seconds, wall seconds and GB of memory of what is done with a million rows."""
    experiment, settings = find("naps"), {"num_cells": 100, "pause": 0.0}
    num_seeds = num // settings["num_cells"]
    runs = experiment.runs(settings, num_seeds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store.create(folder, experiment, settings, num_seeds) as rows:
            environment = rows.add_environment({})
            records = [(run, experiment.run_one(run.settings, run.seed), 1.0, environment) for run in runs]
            begun = time.perf_counter()
            for record in records[:200]:
                rows.add_all([record])
            print(f"One row a transaction: {200 / (time.perf_counter() - begun):,.0f} rows/s", flush=True)
            timed("write, 1,000 rows a transaction", lambda: write(rows, records))
            records.clear()
            assert rows.count() == num
            timed("list: read and verify all rows", rows.rows)
            timed("resume: find what is missing", lambda: resume(experiment, settings, num_seeds, rows))
        timed("report", lambda: write_report(folder, folder / "report.html"))
        size = (folder / "runs.sqlite").stat().st_size
        print(f"The file has {size / 1e6:,.0f} MB, the page {(folder / 'report.html').stat().st_size / 1e3:.0f} kB.")


def write(rows, records):
    for start in range(0, len(records), 1000):
        rows.add_all(records[start : start + 1000])


def resume(experiment, settings, num_seeds, rows):
    sweeping.sweep(experiment, settings, num_seeds, rows, progress=say_nothing)


def scheduler(num=MILLION, jobs=2):
    """A sweep of a million runs that cost nothing, over a real scheduler into a real store; and bare tasks."""
    from distributed import Client, LocalCluster

    from qpaths.rows import Workers

    with (
        LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        tasks = [(number,) for number in range(5000)]
        begun = time.perf_counter(), time.process_time()
        Workers(client).ordered(abs, tasks)
        wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
        print(f"Bare tasks: {len(tasks) / wall:,.0f}/s, {1e3 * cpu / len(tasks):.2f} CPU ms each here", flush=True)
    experiment, settings = find("naps"), {"num_cells": 100, "pause": 0.0}
    num_seeds = num // settings["num_cells"]
    with (
        tempfile.TemporaryDirectory() as name,
        Store.create(Path(name), experiment, settings, num_seeds) as rows,
    ):
        begun = time.perf_counter(), time.process_time()
        sweeping.sweep(experiment, settings, num_seeds, rows, jobs=jobs, progress=say_nothing)
        wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
        print(f"Sweep: {rows.count():,} rows in {wall:.0f} s, {cpu:.0f} CPU s here: {num / cpu:,.0f} rows per CPU s")


def killed(num_runs=200, jobs=4, pause=1.0, every=10.0):
    """A sweep of which one worker is killed every ten seconds; its table, compared with that of one left alone."""
    experiment, settings = find("naps"), {"num_cells": 10, "pause": pause}
    kills = []
    begun, over = threading.Event(), threading.Event()

    def kill():
        begun.wait()
        while not over.wait(every):
            children = [pid for pid in _workers_of(os.getpid()) if pid not in kills]
            if children:
                kills.append(random.choice(children))
                os.kill(kills[-1], signal.SIGKILL)

    def progress(done, total, last):
        if done:
            begun.set()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killer = threading.Thread(target=kill)
        killer.start()
        started = time.perf_counter()
        try:
            with Store.create(folder / "rows", experiment, settings, num_runs // 10) as rows:
                sweeping.sweep(experiment, settings, num_runs // 10, rows, jobs=jobs, progress=progress)
                found, count = rows.rows(), rows.count()
        finally:
            over.set()
            begun.set()
            killer.join()
        wall = time.perf_counter() - started
    runs = experiment.runs(settings, num_runs // 10)
    expected = {run.key: experiment.run_one({**run.settings, "pause": 0}, run.seed) for run in runs}
    same = {sweeping.Run(row.settings, row.seed).key: row.values for row in found} == expected
    print(f"| {num_runs} | {jobs} | {len(kills)} | {count} | {same} | {wall:.0f} |", flush=True)


def _workers_of(parent):
    """Processes that do runs: children of this process that were spawned, without their resource tracker."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and "spawn_main" in command:
            found.append(int(folder.name))
    return found


PARTS = {part.__name__: part for part in (equal, processes, workers, simulated, store, scheduler, killed)}


def main():
    os.environ[VARIABLE] = "benchmarks.speed.scale_experiments"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    for name in sys.argv[1:] or PARTS:
        print(f"\n## {name}\n{PARTS[name].__doc__}\nLoad of the machine {os.getloadavg()[0]:.1f}", flush=True)
        PARTS[name]()


if __name__ == "__main__":
    main()
