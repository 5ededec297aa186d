"""Put the pure-Python packages that qpaths needs into one folder, for a machine with jax but without a package index.

    python tools/vendor.py FOLDER        # then, there: PYTHONPATH=src:FOLDER python ...

jax, numpy and scipy are compiled and must be on that machine already. The versions are those of constraints.txt.
"""

import re
import subprocess
import sys
from pathlib import Path

PACKAGES = [
    "absl-py",
    "blackjax",
    "cloudpickle",
    "equinox",
    "jaxtyping",
    "lazy-loader",
    "lineax",
    "optax",
    "optimistix",
    "packaging",
    "threadpoolctl",
    "typing_extensions",
    "wadler_lindig",
]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    constraints = (Path(__file__).parents[1] / "constraints.txt").read_text()
    pinned = [re.search(rf"^{name}==.*$", constraints, re.MULTILINE) for name in PACKAGES]
    missing = [name for name, match in zip(PACKAGES, pinned, strict=True) if match is None]
    if missing:
        sys.exit(f"constraints.txt has no version of {', '.join(missing)}: add it there.")
    options = ["--quiet", "--upgrade", "--no-deps", "--no-compile", "--only-binary=:all:", "--target", sys.argv[1]]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *(m[0] for m in pinned if m)], check=True)


if __name__ == "__main__":
    main()
