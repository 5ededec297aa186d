"""Build sdist and wheels, install them into a fresh environment, and use them there: what `make package` runs.

The wheel is built from the sdist, so both are tried. The paper's package comes later, so that the library is also tried
without it. Needs a package index for the dependencies.
"""

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = 3_000_000
"""Bytes that the wheel may have."""
NEEDED = {f"qpaths/{name}" for name in ("py.typed", "__init__.pyi", "models/data/vae.json")}
"""Files that are no modules and must come with it."""
USE = """
import qpaths, sys
assert "site-packages" in qpaths.__file__, qpaths.__file__
path = qpaths.QPath(qpaths.Normal(0.0, 1.0), qpaths.Normal(1.0, 1.0), q=0.9)
print(qpaths.__version__, round(float(path.log_density(0.5, 0.3)), 3))
"""


def run(*command: object, **options: object) -> str:
    """The output of a command; it fails with what the command wrote if the command does."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return str(done.stdout).strip()


def check(folder: Path) -> None:
    """Build into the folder, install from there, and use the result."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    size = wheel.stat().st_size
    if size > LARGEST:
        sys.exit(f"{wheel.name} has {size / 1e6:.2f} MB, and {LARGEST / 1e6:.0f} MB are allowed.")
    names = set(zipfile.ZipFile(wheel).namelist())
    if missing := NEEDED - names:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}.")
    if paper := [name for name in names if "paper" in name or "experiments" in name]:
        sys.exit(f"{wheel.name} has {', '.join(sorted(paper))}, which belong to qpaths-paper.")
    home = folder / "fresh"
    venv.create(home, with_pip=True)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    run(*pip, "--constraint", ROOT / "constraints.txt", f"{wheel}[cli]")
    run(home / "bin" / "python", "-m", "pip", "check")
    used = run(home / "bin" / "python", "-c", USE, cwd=folder)
    version = run(home / "bin" / "qpaths", "--version", cwd=folder)
    if version.split()[-1] != used.split()[0] or used.split()[0] not in wheel.name:
        sys.exit(f"the versions differ: {version}, {used.split()[0]} and {wheel.name}.")
    listed = subprocess.run([home / "bin" / "qpaths", "list"], capture_output=True, text=True, check=False)
    if listed.returncode != 2 or "pip install qpaths-paper" not in listed.stderr:
        sys.exit(f"`qpaths list` without qpaths-paper does not say how to install it:\n{listed.stdout}{listed.stderr}")
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT / "paper")
    run(*pip, "--constraint", ROOT / "constraints.txt", *folder.glob("qpaths_paper-*.whl"))
    if "table1" not in run(home / "bin" / "qpaths", "list", cwd=folder):
        sys.exit("`qpaths list` does not show the experiments of qpaths-paper.")
    print(f"{version}: wheel {size / 1e6:.2f} MB, sdist {sdist.stat().st_size / 1e6:.2f} MB, installed and imported")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary))
