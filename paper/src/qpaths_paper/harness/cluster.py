"""Open the Dask cluster that does the runs of a sweep: one of this machine, or one whose address is given."""

import contextlib
import importlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from .errors import UserError

_CONNECT = 10.0
"""Seconds in which a scheduler must answer."""
_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""Bytes that a worker keeps for its next call of a density. Dask lets workers give back all but 64 kB, and then most of
their time goes into getting the same memory again."""


@contextlib.contextmanager
def open_cluster(jobs: int, address: str | None) -> Iterator[Any]:
    """A Dask client of the cluster at an address, or without one of a new cluster with `jobs` processes here.

    The processes of a new cluster end with the context, and with this process. One that dies is replaced.
    """
    try:
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise UserError(
            "`--jobs` above 1 and `--cluster` need Dask, which is not installed: pip install 'qpaths[cluster]'."
        ) from error
    # Dask logs every broken connection with a traceback; what matters of it is an error of ours.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if address is None:
        with _local(distributed, jobs) as cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client
        return
    try:
        if re.fullmatch("((tcp|tls)://)?[^:]*", address):  # Dask would wait for what cannot come
            raise ValueError("it has no port")
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UserError(
            f"no Dask scheduler answers at {address!r} ({error}): start one with `dask scheduler`, and give the "
            f"address that it prints, as tcp://HOST:8786."
        ) from error
    with client:
        yield client


def _local(distributed: Any, jobs: int) -> Any:
    """A cluster of processes on this machine, which says nothing of the processes that die."""
    dask = importlib.import_module("dask")
    settings = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in _MEMORY.items()}
    try:
        with dask.config.set(settings):
            return distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
    except (RuntimeError, OSError) as error:
        raise UserError(
            f"{jobs} worker processes could not be started ({error}): give fewer --jobs. Finished runs are stored."
        ) from error
