"""Times a stranger's way: what README.md says, word for word, in a fresh copy and a fresh environment.

    python -m benchmarks.speed.stranger [--write] [--python python3.11]

It copies the files that git tracks, makes an environment, runs the install command of the README and its example. Then
it puts other data into the example, which is the stranger's first own answer. `--write` stores the results in
benchmarks/results/stranger.md. It needs a package index and a machine that is not busy. Wanted: at most 180 seconds.
"""

import argparse
import os
import re
import resource
import subprocess
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
WANTED = 180.0
OWN_DATA = "y = jnp.array([2.1, 1.4, 3.3, 2.8, 2.2, 1.9])"


class Step(NamedTuple):
    """One step, its seconds by the clock and by the processor, and the first line that it printed."""

    name: str
    seconds: float
    cpu: float
    printed: str


def cpu_seconds() -> float:
    """Of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def instructions(readme: str) -> tuple[str, str, str]:
    """The README's command that installs a clone, its first example, and the example with the stranger's own data."""
    install = re.search(r"^    (pip install '\.[^']*')", readme, flags=re.MULTILINE)
    example = re.search(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    if install is None or example is None:
        raise ValueError("README.md must have an indented `pip install '.[...]'` line and a ```python block.")
    own, changes = re.subn(r"^y = .*$", OWN_DATA, example[1], flags=re.MULTILINE)
    if changes != 1:
        raise ValueError(f"The README's example must have one line `y = ...`, found {changes}.")
    return install[1], example[1], own


def copy(target: Path) -> None:
    """The tracked files, as a clone would have them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())


def follow(python: str, folder: Path) -> list[Step]:
    """The steps, one after the other."""
    install, example, own = instructions((ROOT / "README.md").read_text())
    copy(folder)
    path = f"{folder}/.venv/bin:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PATH": path}
    (folder / "example.py").write_text(example)
    (folder / "own.py").write_text(own)
    steps = []
    for name, command in [
        ("a fresh environment", f"{python} -m venv .venv"),
        (install, f"{install} --quiet --disable-pip-version-check"),
        ("the example of the README", "python example.py"),
        ("the same with other data: the first own answer", "python own.py"),
    ]:
        begun, used = time.monotonic(), cpu_seconds()
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        first = (done.stdout.splitlines() or [""])[0]
        steps.append(Step(name, time.monotonic() - begun, cpu_seconds() - used, first))
        print(f"{name}: {steps[-1].seconds:.1f} s, {steps[-1].cpu:.1f} CPU s {first}", flush=True)
    return steps


def page(steps: list[Step]) -> str:
    """The results as a page."""
    rows = [f"| {step.name} | {step.seconds:.1f} | {step.cpu:.1f} | {step.printed} |" for step in steps]
    seconds, cpu = sum(step.seconds for step in steps), sum(step.cpu for step in steps)
    made = f"Made by `python -m benchmarks.speed.stranger --write` on {date.today()}, {os.cpu_count()} cores, "
    head = [
        "# A stranger's way from the README to an own answer",
        "",
        f"{made}load {os.getloadavg()[0]:.1f} afterwards.",
        "It follows README.md literally in a fresh copy and a fresh environment. Reading is not counted. Wanted:",
        f"at most {WANTED:.0f} seconds on a machine that does nothing else; on a busy one look at the CPU seconds.",
        "",
        "| step | seconds | CPU seconds | first line printed |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows, f"| in all | {seconds:.1f} | {cpu:.1f} | |", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the result page")
    parser.add_argument("--python", default="python3", help="the interpreter that makes the environment")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = page(follow(arguments.python, Path(folder)))
    print(text)
    if arguments.write:
        (ROOT / "benchmarks" / "results" / "stranger.md").write_text(text)


if __name__ == "__main__":
    main()
