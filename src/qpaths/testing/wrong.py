"""Deliberately wrong parts. A test that accepts one of them tests nothing."""

from typing import Any

import jax.numpy as jnp

from .._types import FloatArray, Point, RealLike, ScalarLike
from ..densities import DensityLike
from ..kernels import KernelWrapper, Particle
from ..kernels.base import FlatPath, Info
from ..paths import AbstractPath


class StaleBeta(KernelWrapper):
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


class NoRejection(KernelWrapper):
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
