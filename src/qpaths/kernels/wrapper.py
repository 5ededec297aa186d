"""A kernel around another one."""

from typing import Any

from jax import Array
from jaxtyping import Float

from .._types import PRNGKey, Scalar, ScalarLike
from .base import AbstractKernel, Evaluations, FlatPath, Info, Particle


class KernelWrapper(AbstractKernel[Any]):
    """Passes everything on to `kernel`; those who derive from it say what they change."""

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
    def evaluations(self) -> Evaluations:
        return self.kernel.evaluations

    def fit_evaluations(self, num_particles: int, again: bool) -> Evaluations:
        return self.kernel.fit_evaluations(num_particles, again)

    def fit(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        previous: Any,
    ) -> Any:
        return self.kernel.fit(path, beta, particles, log_weights, key, previous)

    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> Any:
        return self.kernel.randomness(key, position, num)

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Any
    ) -> tuple[Particle, Info]:
        return self.kernel.transition(path, beta, particle, randomness, params)

    def step_size_of(self, params: Any) -> Scalar:
        return self.kernel.step_size_of(params)
