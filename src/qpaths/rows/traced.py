"""Evaluation inside a compiled program.

The same methods as on the host, on traced arrays: chunks and errors are the business of the caller.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._types import Rows
from ..arrays import TracedStream
from ..densities import DensityLike, evaluate, sampler_of
from ..paths.base import AbstractPath
from .evaluator import AbstractEvaluator
from .layout import Layout


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedEvaluator(AbstractEvaluator):
    """Evaluates inside a compiled program: `jax.vmap` around the user's density, and nothing else."""

    path: AbstractPath[Any]
    layout: Layout = dataclasses.field(metadata={"static": True})

    xp = jnp

    def _evaluate(self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool) -> list[tuple[Any, Any]]:
        return [of_rows(density, name, self.layout, positions, with_slopes) for name, density in densities.items()]

    def _by_path(self, function: Callable[..., Any], *arrays: Any) -> Any:
        return jax.vmap(functools.partial(function, self.path))(*arrays)

    def _own(self, values: Any) -> Any:
        return values

    def draw(self, stream: TracedStream, num: int) -> Rows:
        """Each draw has its key."""
        base: Any = self.path.base
        if hasattr(base, "draw_rows"):
            return base.draw_rows(stream, num, lambda s, n: _draw_rows(base.inner, self.layout, s.key, n))
        return _draw_rows(base, self.layout, stream.key, num)


def of_rows(density: DensityLike, name: str, layout: Layout, positions: Any, with_slopes: bool) -> tuple[Any, Any]:
    """Log densities at all rows, and their gradients or None, by `jax.vmap` of the user's function."""

    def log_prob(row: Any) -> Any:
        return evaluate(density, layout.points(row), name)

    if with_slopes:
        return jax.vmap(jax.value_and_grad(log_prob))(positions)
    return jax.vmap(log_prob)(positions), None


def draws(density: DensityLike, layout: Layout, key: Any, numbers: Any) -> Any:
    """Rows of the draws with the given numbers, each with its key."""
    sample = sampler_of(density, "base")
    return jax.vmap(lambda i: layout.rows(sample(jax.random.fold_in(key, i))))(numbers)


def _draw_rows(density: DensityLike, layout: Layout, key: Any, num: int) -> Any:
    """The first `num` draws of a key.

    Draw i has the key `fold_in(key, i)`: the draws do not depend on chunks.
    """
    return draws(density, layout, key, jnp.arange(num))
