"""Annealed chains of many observations at once.

One compiled program serves all values of q and all schedules: the path, the betas, the number of steps and the
parameters of the kernel are arguments, and no shape depends on them. What remains fixed is the model, the number of
observations, chains and directions, and the number of leapfrog steps.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._types import AnyArray, Point
from ..algorithms import AIS, BDMC
from ..algorithms.replicates import at_bases, at_targets, run_many
from ..annealing import State
from ..kernels import AbstractKernel
from ..kernels.frozen import shared
from ..schedules import padded
from .bounds import DecoderBounds
from .released import ReleasedProtocol


class Chains(NamedTuple):
    """Chains with the settings of an algorithm, whose kernel is fitted to each observation where it needs a fit.

    `num_steps` is the length of the run; 0 compiles the program and makes no step.
    """

    path_of: Any
    algorithm: AIS
    num_steps: int

    @staticmethod
    def of(path_of: Any, algorithm: AIS | BDMC | ReleasedProtocol) -> "Chains":
        """The chains of an algorithm in full length."""
        both = algorithm.both_ways if isinstance(algorithm, ReleasedProtocol) else algorithm
        forward = both.forward if isinstance(both, BDMC) else both
        return Chains(path_of, forward, forward.betas.shape[0] - 1)

    def forward(self, x: Point, keys: Array) -> DecoderBounds:
        """Lower bounds alone."""
        kernel, points, streams = self._start(x, keys)
        log_weights, acceptance, status = self._run(kernel, x, [(points, streams, self.algorithm.betas)])
        return DecoderBounds(log_weights[0], log_weights[0, :, :0], acceptance[0], status[0])

    def both_ways(self, x: Point, latents: Point, keys: Array) -> DecoderBounds:
        """Bounds from both sides; `latents` are exact draws from the posteriors.

        The chains of both directions move together: a GPU does more with twice as many at once.
        """
        betas = self.algorithm.betas
        kernel, points, streams = self._start(x, keys)
        reverse = *at_targets(self.path_of, self.algorithm.num_chains, x, latents, keys), betas[::-1]
        log_weights, acceptance, status = self._run(kernel, x, [(points, streams, betas), reverse])
        return DecoderBounds(log_weights[0], log_weights[1], acceptance[0], status.max(axis=0))

    def _start(self, x: Point, keys: Array) -> tuple[AbstractKernel[Any], Point, Any]:
        """The kernel, fitted to each observation or shared by all, draws from the bases, and streams."""
        algorithm = self.algorithm
        to_fit = algorithm if algorithm.kernel.needs_fit else None
        points, streams, kernel = at_bases(self.path_of, algorithm.num_chains, x, keys, to_fit)
        return shared(algorithm.kernel) if to_fit is None else kernel, points, streams

    def _run(self, kernel: Any, x: Point, directions: list[tuple[Point, Any, AnyArray]]) -> tuple[Array, ...]:
        """The chains of each direction, from its points and streams along its betas."""
        num, fitted = np.array([self.num_steps]), self.algorithm.kernel.needs_fit
        padded_ways = [(points, streams, padded(betas)) for points, streams, betas in directions]
        points, streams, betas = jax.tree.map(lambda *leaves: jnp.stack(leaves), *padded_ways)
        log_weights, accepted, status = _run_chains(
            self.path_of, kernel, fitted, self.algorithm.chunk_size, betas, num, x, points, streams
        )
        return log_weights, accepted / (self.algorithm.betas.size - 1), status


def _acceptance(state: State, stats: dict[str, Any]) -> Any:
    return stats["acceptance"]


@eqx.filter_jit
def _run_chains(
    path_of: Any,
    kernel: AbstractKernel[Any],
    fitted: bool,
    chunk_size: int | None,
    betas: AnyArray,
    num_steps: AnyArray,
    x: Point,
    points: Point,
    streams: Any,
) -> tuple[Array, ...]:
    """Log weights, sums of the acceptance rates over the steps, and the status.

    Betas, points and streams have a leading axis for the directions, points and streams then one for the observations.
    """

    def one_way(betas: AnyArray, points: Point, streams: Any) -> tuple[Any, ...]:
        settings: Any = {"is_fitted": fitted, "chunk_size": chunk_size, "add": _acceptance, "keep": lambda state: ()}
        end, sums, _ = run_many(path_of, kernel, betas, num_steps, x, points, streams, **settings)
        return end.log_weights, sums[:, 0], end.fault.status

    return jax.vmap(one_way)(betas, points, streams)
