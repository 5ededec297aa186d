"""Where chains of many problems start: at draws from their bases, or at exact draws from their targets.

Problems have a leading axis, and `path_of(problem)` makes the path of one. The random numbers are those of `AIS` and
`BDMC` with the same key.
"""

from typing import Any

import equinox as eqx
import jax
from jax import Array

from .._types import Point
from ..arrays import TracedStream
from ..rows import evaluator_of, layout_of
from .ais import AIS
from .bdmc import REVERSE, one_per_chain


@eqx.filter_jit
def at_bases(
    path_of: Any, num_chains: int, problems: Any, keys: Array, to_fit: AIS | None = None
) -> tuple[Point, Any, Any]:
    """Draws from the base of each problem, the streams of its chains, and the kernel of `to_fit` fitted to it."""

    def one(problem: Any, key: Any) -> tuple[Point, Any, Any]:
        path = path_of(problem)
        pilot, start, run = TracedStream(key).split(3)
        evaluator = evaluator_of(path, run, with_slopes=True)
        points = evaluator.layout.points(evaluator.draw(start, num_chains))
        return points, run, None if to_fit is None else to_fit.fitted(path, pilot)

    return jax.vmap(one)(problems, keys)


@eqx.filter_jit
def at_targets(path_of: Any, num_chains: int, problems: Any, target_samples: Point, keys: Array) -> tuple[Point, Any]:
    """The exact draw of each problem, once for each chain, and the streams of the chains from there."""

    def one(problem: Any, sample: Point, key: Any) -> tuple[Point, Any]:
        return one_per_chain(sample, layout_of(path_of(problem)), num_chains), TracedStream(key).fold(REVERSE)

    return jax.vmap(one)(problems, target_samples, keys)
