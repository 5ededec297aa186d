"""Kernels around another one: with one thing changed, or with parameters that stay as they were fitted."""

import dataclasses
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..core import AnyArray, Cost, PyTree, RealLike, Stream, namespace
from .base import AbstractKernel, Cloud


def _passed_on(name: str) -> Any:
    """Return a member that is looked up in the kernel inside."""
    return property(operator.attrgetter(f"kernel.{name}"))


class KernelWrapper(AbstractKernel[Any]):
    """Passes everything on to `kernel`; those who derive from it say what they change.

    The deliberately wrong kernels of `qpaths.testing` are wrappers:

        class StaleBeta(KernelWrapper):
            def transition(self, evaluator, beta, particles, randomness, params):
                return self.kernel.transition(evaluator, 0.5 * beta, particles, randomness, params)

    Args:
        kernel: The kernel to pass everything on to.

    A wrapper that changes the density is no longer exact. The tutorial [Write a
    kernel](tutorials/own_kernel.md) has a complete example.

    Examples:
        >>> import qpaths as qp
        >>> KernelWrapper(qp.RandomWalk(3)).num_steps
        3
    """

    kernel: AbstractKernel[Any]

    def __init__(self, kernel: AbstractKernel[Any]):
        self.kernel = kernel

    num_steps = _passed_on("num_steps")
    with_slopes = _passed_on("with_slopes")
    needs_fit = _passed_on("needs_fit")
    cost = _passed_on("cost")
    fit_cost = _passed_on("fit_cost")
    fit = _passed_on("fit")
    between = _passed_on("between")
    first_memory = _passed_on("first_memory")
    randomness = _passed_on("randomness")
    transition = _passed_on("transition")
    step_size_of = _passed_on("step_size_of")


class FrozenKernel(KernelWrapper):
    """`kernel` with parameters that were fitted at some betas in a pilot; in between they are interpolated.

    It looks at no particle. So every algorithm that runs it with a fixed schedule has an unbiased estimate of the
    evidence, and AIS needs no further pilot. `qpaths.tune` returns such a kernel.

    Args:
        kernel: The kernel that makes the transitions.
        betas: Where the parameters were fitted, increasing from 0 to 1.
        params: The parameters of one group at each beta, stacked along the first axis.

    See [Choosing parts yourself](evidence.md#choosing-parts-yourself). Parameters that were fitted on another path may
    suit this one badly; the estimate is still unbiased.

    Examples:
        >>> import numpy as np
        >>> import qpaths as qp
        >>> factors = np.array([[[2.0]], [[1.0]]])  # a random walk of width 2 at the base and 1 at the target

        >>> frozen = FrozenKernel(qp.RandomWalk(), np.array([0.0, 1.0]), factors)
        >>> frozen.needs_fit, round(float(frozen.params_at(0.5)[0, 0]), 3)  # scales go geometrically
        (False, 1.414)
    """

    betas: Float[AnyArray, " num"]
    params: PyTree

    def __init__(self, kernel: AbstractKernel[Any], betas: Float[AnyArray, " num"], params: PyTree):
        self.kernel = kernel
        self.betas = betas
        self.params = params

    needs_fit = False

    def fit_cost(self, num_particles: int, again: bool) -> Cost:
        """Nothing: parameters are looked up."""
        return Cost()

    def fit(self, cloud: Cloud, stream: Stream, previous: PyTree) -> PyTree:
        """The parameters at the beta of the cloud; nothing else is looked at."""
        return self.params_at(cloud.beta)

    def params_at(self, beta: RealLike) -> PyTree:
        """The parameters at one beta, or at each of several; between neighboring betas as the kernel says."""
        xp = namespace(self.betas, beta, self.params)
        betas = xp.asarray(self.betas)
        # All comparisons at once: the rounds of a binary search take a tenth of a transition on a GPU.
        method = {} if xp is np else {"method": "compare_all"}
        last = xp.clip(xp.searchsorted(betas, beta, side="right", **method), 1, betas.shape[0] - 1)
        share = xp.clip((beta - betas[last - 1]) / (betas[last] - betas[last - 1]), 0.0, 1.0)
        params = jax.tree.map(xp.asarray, self.params)
        low, high = (jax.tree.map(lambda leaf: leaf[at], params) for at in (last - 1, last))  # noqa: B023

        def exact_at_ends(new: AnyArray, low: AnyArray, high: AnyArray) -> AnyArray:
            part = share.reshape(share.shape + (1,) * (low.ndim - share.ndim))
            return xp.where(part <= 0, low, xp.where(part >= 1, high, new)).astype(low.dtype)

        return jax.tree.map(exact_at_ends, self.kernel.between(low, high, share), low, high)

    def at(self, betas: Float[AnyArray, " num"]) -> "FrozenKernel":
        """The same kernel, with parameters at other betas."""
        return FrozenKernel(self.kernel, betas, self.params_at(betas))

    def resampled(self, num: int = 256) -> "FrozenKernel":
        """The same kernel with parameters at `num` betas, as dense as before where they were dense.

        Kernels of one size share a compiled program.
        """
        betas = np.asarray(self.betas)
        return self.at(np.interp(np.linspace(0, betas.size - 1, num), np.arange(betas.size), betas))

    def reversed(self) -> "FrozenKernel":
        """The parameters at `1 - beta`, for the reverse chains of bidirectional Monte Carlo."""
        return FrozenKernel(self.kernel, 1 - self.betas[::-1], jax.tree.map(lambda leaf: leaf[::-1], self.params))


def shared(kernel: AbstractKernel[Any]) -> Any:
    """Return the kernel with arrays in place of what would otherwise be part of a compiled program.

    Frozen kernels of one kind then share a program, whatever their betas and their numbers, such as the share of the
    momentum that particles keep.
    """
    if not isinstance(kernel, FrozenKernel):
        return kernel
    kernel = kernel.resampled()

    def traced(leaf: AnyArray) -> Any:
        # Of Python numbers, so that they do not widen float32.
        return jnp.asarray(float(leaf)) if isinstance(leaf, float | int) else leaf

    return dataclasses.replace(kernel, kernel=jax.tree.map(traced, kernel.kernel))
