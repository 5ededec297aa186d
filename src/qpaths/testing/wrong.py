"""Deliberately wrong parts. A test that accepts one of them tests nothing."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._types import FloatArray, Point, PRNGKey, RealLike, ScalarLike
from ..densities import DensityLike
from ..kernels import AbstractKernel, Particle
from ..kernels.base import Evaluations, FlatPath, Info
from ..paths import AbstractPath


class _Wrapper(AbstractKernel[Any]):
    """A kernel that passes everything on."""

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


class StaleBeta(_Wrapper):
    """Moves at an earlier beta than it is asked to, as an implementation that updates beta too late does."""

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Any
    ) -> tuple[Particle, Info]:
        return self.kernel.transition(path, 0.5 * beta, particle, randomness, params)


class _Flat(AbstractPath[Any]):
    """A path on which every proposal is accepted."""

    path: AbstractPath[Any]

    def __init__(self, path: AbstractPath[Any]):
        self.path = path

    @property  # type: ignore[misc]
    def base(self) -> DensityLike:  # type: ignore[override]
        return self.path.base

    @property  # type: ignore[misc]
    def target(self) -> DensityLike:  # type: ignore[override]
        return self.path.target

    def features(self, x: Point) -> Any:
        return self.path.features(x)

    def linearize(self, x: Point) -> tuple[Any, Any]:
        return self.path.linearize(x)

    def score(self, beta: ScalarLike, features: Any, slopes: Any) -> Point:
        return self.path.score(beta, features, slopes)

    def log_density_from(self, beta: RealLike, features: Any) -> FloatArray:
        return jnp.zeros_like(self.path.log_density_from(beta, features))

    def at(self, beta: ScalarLike) -> DensityLike:
        return self.path.at(beta)


class NoRejection(_Wrapper):
    """Accepts every proposal."""

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Any
    ) -> tuple[Particle, Info]:
        flat = FlatPath(_Flat(path.path), path.unravel)
        return self.kernel.transition(flat, beta, particle, randomness, params)


class FlippedSign(_Flat):
    """A path whose incremental weights have the wrong sign."""

    def log_density_from(self, beta: RealLike, features: Any) -> FloatArray:
        return self.path.log_density_from(beta, features)

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Any) -> FloatArray:
        return -self.path.log_ratio(beta, new_beta, features)
