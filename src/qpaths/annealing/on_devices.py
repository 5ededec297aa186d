"""Particles that are spread over devices: evaluated and moved where they lie.

Positions, slopes and momenta stay on the devices. The features, two numbers for each particle of a pointwise path, are
gathered on the host, which computes weights, ancestors and statistics from them as in any other run there.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import Rows, TracedRows, TracedStream
from ..kernels import AbstractKernel, Info
from ..rows import Evaluator, OnDevices, Particles, ShardedRows, evaluator_of, gathered, in_pieces, portable


def evaluated(
    evaluator: Evaluator,
    kernel: AbstractKernel[Any],
    positions: Rows,
    devices: tuple[Any, ...],
    chunk_size: int | None,
) -> Particles:
    """Particles at the given positions, which every process has, with all that the kernel needs of them."""
    rows = ShardedRows.of(positions, devices, jax.dtypes.canonicalize_dtype(evaluator.layout.dtype))
    work, shared = _Evaluate(kernel.with_slopes), portable(evaluator.path, rows.dtype)
    return _on_both(in_pieces(work, rows.array, chunk_size, OnDevices(devices, shared)))


def moved(
    evaluator: Evaluator,
    kernel: AbstractKernel[Any],
    beta: Any,
    particles: Particles,
    stream: Any,
    params: Any,
    chain_length: int,
    chunk_size: int | None,
) -> tuple[Particles, Info]:
    """The particles after the kernel's moves, or all states of the chains that they begin.

    Particle i has the key `fold_in(key, i)` of the stage.
    """
    position = particles.position
    devices, dtype = position.devices, position.dtype

    def cast(leaf: Any) -> Any:
        is_real = np.issubdtype(np.result_type(leaf), np.floating)
        return np.asarray(leaf, dtype) if is_real else np.asarray(leaf)

    rows = jax.tree.map(lambda leaf: leaf.array if isinstance(leaf, ShardedRows) else leaf, particles)
    features = jax.tree.map(lambda leaf: ShardedRows.of(leaf, devices, dtype).array, particles.features)
    params = jax.tree.map(cast, params)
    shared = portable((evaluator.path, kernel), dtype), cast(beta), stream.key_data(), params
    work = _Move(chain_length)
    found, info = in_pieces(work, rows._replace(features=features), chunk_size, OnDevices(devices, shared))
    acceptance, accepted, invalid = gathered(info[:3])
    return _on_both(found), Info(acceptance, accepted, invalid, ShardedRows(info.proposal))


def _on_both(particles: Particles) -> Particles:
    """Features on the host in 64 bits, as everything there, and the rest on the devices."""
    features = jax.tree.map(lambda leaf: np.asarray(leaf, float), gathered(particles.features))
    rest = jax.tree.map(ShardedRows, particles._replace(features=None))
    return rest._replace(features=features)


@dataclasses.dataclass(frozen=True)
class _Evaluate:
    """What devices do with the positions of new particles."""

    with_slopes: bool

    def __call__(self, path: Any, numbers: Any, before: Any, positions: Any) -> Particles:
        evaluator = _traced(path, self.with_slopes)
        return evaluator.particles(positions, with_slopes=self.with_slopes)


@dataclasses.dataclass(frozen=True)
class _Move:
    """What devices do with particles at each beta."""

    chain_length: int

    def __call__(self, shared: Any, numbers: Any, before: Any, particles: Any) -> tuple[Particles, Info]:
        (path, kernel), beta, key_data, params = shared

        def of_group(leaf: Any) -> Any:
            return leaf[jnp.floor(before * leaf.shape[0] + 1e-6).astype(int)][None]

        own = jax.tree.map(of_group, params)
        key = jax.random.wrap_key_data(key_data)
        draws = TracedRows(jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers))
        evaluator = _traced(path, kernel.with_slopes)
        if self.chain_length == 1:
            return kernel.move(evaluator, beta, particles, draws, own)
        return kernel.trajectory(evaluator, beta, particles, draws, own, num=self.chain_length)


def _traced(path: Any, with_slopes: bool) -> Evaluator:
    return evaluator_of(path, TracedStream(jnp.zeros(())), with_slopes=with_slopes)
