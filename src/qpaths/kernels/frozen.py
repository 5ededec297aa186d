"""A kernel whose parameters were fitted once and stay as they are."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from .._types import ScalarLike
from .base import AbstractKernel, Evaluations
from .wrapper import KernelWrapper


class FrozenKernel(KernelWrapper):
    """`kernel` with parameters that were fitted at some betas in a pilot; in between they are interpolated.

    It looks at no particle, so every algorithm that runs it with a fixed schedule has an unbiased estimate of the
    evidence, and AIS needs no pilot of its own. `params` are stacked along `betas`, which increase from 0 to 1.
    """

    betas: Float[Array, " num"]
    params: Any

    def __init__(self, kernel: AbstractKernel[Any], betas: Float[Array, " num"], params: Any):
        self.kernel = kernel
        self.betas = betas
        self.params = params

    needs_fit = False

    def fit_evaluations(self, num_particles: int, again: bool) -> Evaluations:
        return Evaluations(0, 0)

    def fit(self, path: Any, beta: ScalarLike, *unused: Any) -> Any:
        """The parameters at `beta`; nothing else is looked at."""
        return self.params_at(beta)

    def params_at(self, beta: ScalarLike) -> Any:
        """The parameters at one beta."""
        last = jnp.clip(jnp.searchsorted(self.betas, beta, side="right"), 1, self.betas.shape[0] - 1)
        low, high = self.betas[last - 1], self.betas[last]
        share = jnp.clip((beta - low) / (high - low), 0.0, 1.0)
        return jax.tree.map(
            lambda leaf: ((1 - share) * leaf[last - 1] + share * leaf[last]).astype(leaf.dtype), self.params
        )

    def at(self, betas: Float[Array, " num"]) -> "FrozenKernel":
        """The same kernel, with parameters at other betas."""
        return FrozenKernel(self.kernel, betas, jax.vmap(self.params_at)(betas))

    def reversed(self) -> "FrozenKernel":
        return FrozenKernel(self.kernel, 1 - self.betas[::-1], jax.tree.map(lambda leaf: leaf[::-1], self.params))
