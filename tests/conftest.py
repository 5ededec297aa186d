"""Float64 by default, shapes checked at run time, and keys that follow from the test's name."""

import ctypes
import gc
import os
import zlib
from pathlib import Path

# Nearly all the time of the tests is compilation of programs that run for milliseconds. `XLA_FLAGS= make test` runs
# them with the compiler's usual optimizations, which take twice as long.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
# What is compiled once is kept for the other workers, for subprocesses, and for the next run. `make clean` deletes it.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import pytest
from jaxtyping import _import_hook, config, install_import_hook

jax.config.update("jax_enable_x64", True)

# Shapes of the inner loops are checked by `test_types.py` alone: there a check takes longer than what it checks.
INNER = {
    "annealing",
    "core",
    "densities",
    "kernels",
    "maps",
    "paths",
    "references",
    "resampling",
    "rows",
    "schedules",
    "stats",
}
ROOMS = {
    path.stem
    for path in (Path(__file__).parents[1] / "src" / "qpaths").iterdir()
    if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.stem.startswith("__")
}
assert ROOMS >= INNER, f"these are called otherwise now: {INNER - ROOMS}"


class _OfModules(_import_hook.JaxtypingTransformer):
    """Checks functions of modules and classes alone: checks of a function within another are made at each call."""

    def visit_FunctionDef(self, node):  # noqa: N802
        inside, node.body = node.body, []
        super().visit_FunctionDef(node)
        node.body = inside
        return node


_import_hook.JaxtypingTransformer = _OfModules
# Not "beartype.beartype", whose compiled files, with all functions checked, are those of `test_types.py`.
OUTER = ["qpaths_paper", *sorted(f"qpaths.{room}" for room in ROOMS - INNER)]
_hook = install_import_hook(OUTER, "beartype.beartype.__call__")

# What the imports made stays, and most of what compilation makes does too: with the usual settings Python spends a
# twentieth of the time on looking for garbage there.
gc.set_threshold(20_000, 10, 10)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


SEED = int(os.environ.get("QPATHS_TEST_SEED", "0"))


_STATM = Path("/proc/self/statm")
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
_forget_at = 2**30
"""Bytes of resident memory from which compiled programs are forgotten. A worker would grow by gigabytes."""


@pytest.fixture(autouse=True)
def _few_programs():
    """Forget compiled programs where they take too much memory; the cache on disk has them."""
    yield
    global _forget_at
    if _resident() > _forget_at:
        jax.clear_caches()
        gc.collect()
        if _TRIM is not None:  # glibc keeps what was freed in small pieces
            _TRIM(0)
        _forget_at = max(_forget_at, _resident() + 2**28)


def _resident():
    """Bytes of memory that this process has; 0 where nothing says so."""
    return os.sysconf("SC_PAGE_SIZE") * int(_STATM.read_text().split()[1]) if _STATM.exists() else 0


@pytest.fixture
def as_a_user():
    """Shapes and types of arguments are not checked, so that the errors are those that users see."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def key(request: pytest.FixtureRequest) -> jax.Array:
    """A key of the test's own, the same in every run unless QPATHS_TEST_SEED says otherwise."""
    return jax.random.fold_in(jax.random.key(SEED), zlib.crc32(request.node.nodeid.encode()))
