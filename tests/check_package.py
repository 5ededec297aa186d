"""Build sdist and wheel, install the wheel into a fresh environment, and use it there: what `make package` runs.

The wheel is built from the sdist, so both are tried. Needs a package index for the dependencies.
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
NEEDED = {f"qpaths/{name}" for name in ("py.typed", "__init__.pyi", "experiments/report.css", "models/data/vae.json")}
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
    missing = NEEDED - set(zipfile.ZipFile(wheel).namelist())
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}.")
    home = folder / "fresh"
    venv.create(home, with_pip=True)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    run(*pip, "--constraint", ROOT / "constraints.txt", f"{wheel}[cli]")
    run(home / "bin" / "python", "-m", "pip", "check")
    used = run(home / "bin" / "python", "-c", USE, cwd=folder)
    version = run(home / "bin" / "qpaths", "--version", cwd=folder)
    if version.split()[-1] != used.split()[0] or used.split()[0] not in wheel.name:
        sys.exit(f"the versions differ: {version}, {used.split()[0]} and {wheel.name}.")
    print(f"{version}: wheel {size / 1e6:.2f} MB, sdist {sdist.stat().st_size / 1e6:.2f} MB, installed and imported")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check(Path(temporary))
