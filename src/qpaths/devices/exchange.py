"""Rows that change places, as in resampling: each device sends what others need, and nothing else travels."""

import functools
import math
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .mesh import AXIS, mapped
from .spread import Spread


def taken(tree: Any, numbers: Any) -> Any:
    """Rows of all arrays by number, as many as there are devices times something: those of spread arrays spread again.

    Every process calls it with the same numbers. Only rows that are needed on another device travel, each once.
    """
    leaves, structure = jax.tree.flatten(tree)
    spread = [leaf.array for leaf in leaves if isinstance(leaf, Spread)]
    if spread:
        devices = next(leaf.devices for leaf in leaves if isinstance(leaf, Spread))
        moved = iter(_exchanged(spread, numbers, devices))
    return jax.tree.unflatten(
        structure, [Spread(next(moved)) if isinstance(leaf, Spread) else leaf[numbers] for leaf in leaves]
    )


def _exchanged(arrays: list[Any], numbers: np.ndarray, devices: tuple[Any, ...]) -> list[Any]:
    """The rows with the given numbers of arrays that have equally many rows."""
    _check_agreement(numbers)
    num_devices, height = len(devices), arrays[0].shape[0] // len(devices)
    wanted = numbers.reshape(num_devices, -1)
    source, local = np.divmod(wanted, height)
    needed = [[np.unique(local[to][source[to] == at]) for at in range(num_devices)] for to in range(num_devices)]
    most = max((needed[to][at].size for to in range(num_devices) for at in range(num_devices) if at != to), default=0)
    # A few sizes, since each compiles a program.
    most = 0 if most == 0 else min(4 ** math.ceil(math.log(most, 4)), height)
    sent = np.zeros((num_devices, num_devices, most), np.int32)
    picked = local.copy()
    for to in range(num_devices):
        for at in range(num_devices):
            if at != to and needed[to][at].size:
                sent[at, to, : needed[to][at].size] = needed[to][at]
                comes = source[to] == at
                picked[to, comes] = height + at * most + np.searchsorted(needed[to][at], local[to][comes])
    plan = tuple(Spread.of(rows, devices, np.int32).array for rows in (sent, picked))
    return _exchange(arrays, *plan, devices=devices)


@functools.partial(jax.jit, static_argnames="devices")
def _exchange(arrays: list[Any], sent: Any, picked: Any, *, devices: tuple[Any, ...]) -> list[Any]:
    """On each device: send rows to the others, and pick from the own rows and those that came."""

    def on_device(arrays: list[Any], sent: Any, picked: Any) -> list[Any]:
        def one(rows: Any) -> Any:
            if sent.size:
                came = jax.lax.all_to_all(rows[sent[0]], AXIS, 0, 0)
                rows = jnp.concatenate([rows, came.reshape(-1, *rows.shape[1:])])
            return rows[picked[0]]

        return [one(rows) for rows in arrays]

    return mapped(on_device, devices, "rrr", "r")(arrays, sent, picked)


def _check_agreement(numbers: np.ndarray) -> None:
    """Raise where processes of a cluster would send other rows than the others expect."""
    if jax.process_count() == 1:
        return
    from jax.experimental.multihost_utils import process_allgather

    found = np.asarray(process_allgather(np.uint32(zlib.crc32(numbers.tobytes()))))
    if (found != found[0]).any():
        raise RuntimeError(
            "the processes of the cluster chose different ancestors: give all of them the same key, model and data, "
            "and run them on machines of one kind, with the same versions of NumPy and JAX."
        )
