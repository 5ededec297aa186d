"""A kernel around another one: derive from it to change one thing about a kernel."""

from typing import Any

from ..core import Cost, RealLike, Rows, Scalar, Stream
from ..rows import Evaluator, Particles
from .base import AbstractKernel, Cloud, Info


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

    @property  # type: ignore[misc]
    def num_steps(self) -> int:  # type: ignore[override]
        return self.kernel.num_steps

    @property
    def with_slopes(self) -> bool:
        return self.kernel.with_slopes

    @property
    def needs_fit(self) -> bool:
        return self.kernel.needs_fit

    @property
    def cost(self) -> Cost:
        return self.kernel.cost

    def fit_cost(self, num_particles: int, again: bool) -> Cost:
        return self.kernel.fit_cost(num_particles, again)

    def fit(self, cloud: Cloud, stream: Stream, previous: Any) -> Any:
        return self.kernel.fit(cloud, stream, previous)

    def between(self, low: Any, high: Any, share: Any) -> Any:
        return self.kernel.between(low, high, share)

    def first_memory(self, position: Rows, stream: Stream) -> Any:
        return self.kernel.first_memory(position, stream)

    def randomness(self, rows: Any, position: Rows, num: int) -> Any:
        return self.kernel.randomness(rows, position, num)

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: Any, params: Any
    ) -> tuple[Particles, Info]:
        return self.kernel.transition(evaluator, beta, particles, randomness, params)

    def step_size_of(self, params: Any, memory: Any = None) -> Scalar:
        return self.kernel.step_size_of(params, memory)
