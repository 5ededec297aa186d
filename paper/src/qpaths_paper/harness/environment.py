"""Describe where rows were made: versions, device, precision, commit and time.

Each sweep notes its environment in the store. The same settings and seed can give other digits on another device or
with another version, and the report shows which ones made the rows.
"""

import datetime
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

import qpaths

_PACKAGES = "jax", "jaxlib", "numpy", "scipy", "equinox"


def describe() -> dict[str, Any]:
    """The environment of this process, as text that JSON can hold."""
    return {
        "qpaths": qpaths.__version__,
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "device": ", ".join(sorted({device.device_kind for device in jax.devices()})),
        "precision": "float64" if jax.config.read("jax_enable_x64") else "float32",
        "commit": _commit(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """The commit of the source tree, marked if sources differ from it.

    None for an installed package, or if git cannot be run.
    """
    folder = Path(__file__).parent
    root = next((parent for parent in folder.parents if (parent / ".git").exists()), None)
    if root is None or not (root / "pyproject.toml").is_file():
        return None
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return commit + (" with changes" if _git(root, "status", "--porcelain", "--", "src", "paper/src") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    """The output of a git command in a folder."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
