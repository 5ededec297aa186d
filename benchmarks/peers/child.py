"""What runs in the interpreter of a peer: one answer to one problem, as one line of JSON on standard output.

    python -m benchmarks.peers.child PEER PROBLEM SEED EFFORT

The adapter of the peer is `adapters/PEER.py`. Its `run(problem, seed, effort)` returns the log evidence, the error bar
of the peer (None where it reports none) and the number of evaluations, a gradient counted as two.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time

NAMESPACES = {"numpy": "numpy", "jax": "jax.numpy", "pytensor": "pytensor.tensor"}


def version_of(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def main(peer, name, seed, effort):
    adapter = importlib.import_module(f"benchmarks.peers.adapters.{peer}")
    # Everybody counts in 64 bits.
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    for module in adapter.MODULES:
        importlib.import_module(module)
    namespace = importlib.import_module(NAMESPACES[adapter.NAMESPACE])
    imported = time.process_time()
    from benchmarks.peers.densities import PROBLEMS

    problem = PROBLEMS[name](namespace)
    found = adapter.run(problem, int(seed), effort)
    versions = {package: version_of(package) for package in (*adapter.PACKAGES, "jax", "numpy", "scipy")}
    found |= {
        "truth": problem.truth,
        "truth_se": problem.truth_se,
        "import_seconds": imported,
        "versions": {package: version for package, version in versions.items() if version},
        "python": sys.version.split()[0],
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
