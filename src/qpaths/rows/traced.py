"""Evaluation inside a compiled program.

The same methods as on the host, on traced arrays: chunks and errors are the business of the caller.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..core import Rows, TracedStream
from ..densities import DensityLike, evaluate, sampler_of
from .evaluator import PlainDensities
from .layout import Layout


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedDensities(PlainDensities):
    """Evaluates inside a compiled program: `jax.vmap` around the user's density, and nothing else."""

    layout: Layout = dataclasses.field(metadata={"static": True})

    xp = jnp

    def _evaluated(
        self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool
    ) -> list[tuple[Any, Any]]:
        return [of_rows(density, name, self.layout, positions, with_slopes) for name, density in densities.items()]

    def _drawn(self, density: DensityLike, stream: TracedStream, num: int) -> Rows:
        """Each draw has its key, `fold_in(key, i)`: the draws do not depend on chunks."""
        return draws(density, self.layout, stream.key, jnp.arange(num))

    def each_row(self, function: Callable[..., Any], tree: Any, *arrays: Any) -> Any:
        return jax.vmap(functools.partial(function, tree))(*arrays)

    def own(self, values: Any) -> Any:
        return values


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
