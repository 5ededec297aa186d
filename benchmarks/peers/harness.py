"""Environments, cold processes and rows: what `run.py` does. Only the standard library is needed."""

import datetime
import importlib
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENTS = HERE / ".envs"
ROWS = ROOT / "benchmarks" / "results" / "rows" / "peers.jsonl"
PEERS = tuple(sorted(file.stem for file in (HERE / "adapters").glob("[!_]*.py")))
WALL_PER_CPU = 6
"""A run that uses no CPU time is stopped after this many times the limit of CPU seconds."""
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
    "JAX_PLATFORMS": "cpu",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
}


def adapter_of(peer):
    """The adapter as a module. Adapters import their peer only when they run."""
    return importlib.import_module(f"benchmarks.peers.adapters.{peer}")


def python_of(peer):
    return ENVIRONMENTS / peer / "bin" / "python"


def set_up(peer, rows=ROWS):
    """Make the environment of a peer anew. A failure becomes a row, so that the report can say why."""
    folder, requirements = ENVIRONMENTS / peer, adapter_of(peer).REQUIREMENTS
    if folder.is_symlink():
        folder.unlink()  # never install into what it points to
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [python_of(peer), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        append(rows, {"peer": peer, "status": "not installed", "reason": lines[-1] if lines else "", "date": now()})
    return done.returncode == 0


def measure(command, limit, environment=None):
    """Run a command to its end or to the limit of CPU seconds. Its CPU time includes that of its children."""
    start, stopped = time.perf_counter(), threading.Event()

    def confine():
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | ONE_THREAD | (environment or {}),
        preexec_fn=confine,
        start_new_session=True,
    )

    def stop():
        stopped.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(WALL_PER_CPU * limit, stop)
    timer.start()
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    output = process.stdout.read()
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.stdout.close()
    process.stderr.close()
    process.returncode = code = os.waitstatus_to_exitcode(status)
    return {
        "code": code,
        "stopped": stopped.is_set() or code in (-signal.SIGXCPU, -signal.SIGKILL),
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "wall_seconds": time.perf_counter() - start,
        "output": output,
        "errors": errors[0],
    }


def cold_run(peer, problem, seed, effort, limit, command=None):
    """One row. `command` replaces the one that runs the adapter in the environment of the peer."""
    command = command or [str(python_of(peer)), "-m", "benchmarks.peers.child", peer, problem, str(seed), effort]
    found = measure(command, limit)
    row = {"peer": peer, "problem": problem, "seed": seed, "effort": effort, "limit": limit, "date": now()}
    row |= {"machine": machine(), "load": os.getloadavg()[0]}
    row |= {name: round(found[name], 3) for name in ("cpu_seconds", "wall_seconds")}
    if found["stopped"]:
        return row | {"status": "stopped", "reason": f"stopped after {limit:g} CPU seconds"}
    lines = found["output"].strip().splitlines()
    if found["code"] or not lines:
        errors = found["errors"].strip().splitlines()
        reason = errors[-1] if errors else f"ended with code {found['code']}"
        return row | {"status": "failed", "reason": reason.replace(str(ROOT), ".")[:300]}
    row |= json.loads(lines[-1])
    if not abs(row["log_evidence"]) < float("inf"):
        return row | {"status": "failed", "reason": f"the log evidence is {row['log_evidence']}", "log_evidence": None}
    return row | {"status": "done"}


def run_all(peers, problems, seeds, effort, limit, rows=ROWS, run=cold_run, say=print):
    """All runs that are not among the rows, seed by seed, so that an interrupted batch is even.

    A peer that was stopped on a problem is not run there with further seeds: its CPU time would be the limit again.
    A larger limit gives it another chance.
    """
    done, given_up = state(rows, limit)
    for seed in range(seeds):
        for problem in problems:
            for peer in peers:
                if (peer, problem, seed, effort) in done or gives_up(given_up, peer, problem, effort):
                    continue
                row = run(peer, problem, seed, effort, limit)
                append(rows, row)
                if row["status"] == "stopped":
                    given_up.add((peer, problem, effort))
                answer = row.get("reason") or f"{row['log_evidence'] - row['truth']:+.4f} +- {row['se'] or 0:.4f}"
                say(f"{peer} ({effort}), {problem}, seed {seed}: {answer} ({row['cpu_seconds']:.1f} CPU s)", flush=True)


def state(rows, limit):
    """The keys of the runs that are there, and those (peer, problem, effort) that were stopped at this limit or later.

    Runs that were stopped at a smaller limit are run again.
    """
    runs = [row for row in read(rows) if "problem" in row and (row["status"] != "stopped" or row["limit"] >= limit)]
    done = {(row["peer"], row["problem"], row["seed"], row["effort"]) for row in runs}
    return done, {(row["peer"], row["problem"], row["effort"]) for row in runs if row["status"] == "stopped"}


def gives_up(given_up, peer, problem, effort):
    """Whether this effort or a smaller one was stopped."""
    return any((peer, problem, smaller) in given_up for smaller in {"default", effort})


def read(file):
    """The rows of a file, as far as they are whole: an interrupted run may leave half a row."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def append(file, row):
    file.parent.mkdir(parents=True, exist_ok=True)
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(("" if text.endswith("\n") or not text else "\n") + json.dumps(row) + "\n")


def now():
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def machine():
    """The processor, its cores and the system, in words."""
    name = platform.processor() or platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        name = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"
