"""Deliberately wrong parts. A test that accepts one of them tests nothing."""

import copy
from typing import Any

import equinox as eqx

from ..core import Features, FloatArray, Point, PyTree, RealLike, ScalarLike, log_power_mean_pair, namespace
from ..densities import DensityLike, endpoint
from ..kernels import Info, KernelWrapper
from ..paths import AbstractPath, AbstractPointwisePath
from ..rows import Evaluator, Particles


class StaleBeta(KernelWrapper):
    """Moves at an earlier beta than it is asked to, as an implementation that updates beta too late does.

    Args:
        kernel: A right kernel.

    A test of an algorithm that accepts it does not look at the order of weights and moves. For tests of tests only. See
    [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> import qpaths as qp
        >>> StaleBeta(qp.RandomWalk(3)).num_steps
        3
    """

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: PyTree
    ) -> tuple[Particles, Info]:
        return self.kernel.transition(evaluator, 0.5 * beta, particles, randomness, params)


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

    @property
    def is_pointwise(self) -> bool:
        return self.path.is_pointwise

    def features(self, x: Point) -> Features:
        return self.path.features(x)

    def score(self, beta: ScalarLike, features: Features, slopes: PyTree) -> Point:
        return self.path.score(beta, features, slopes)  # type: ignore[attr-defined]

    def log_density_from(self, beta: RealLike, features: Features) -> FloatArray:
        values = self.path.log_density_from(beta, features)
        return namespace(values).zeros_like(values)

    def derivative_from(self, beta: RealLike, features: Features) -> FloatArray:
        return self.path.derivative_from(beta, features)

    def derivatives_from(self, beta: RealLike, features: Features) -> tuple[FloatArray, FloatArray]:
        return self.path.derivatives_from(beta, features)

    def at(self, beta: ScalarLike) -> DensityLike:
        return self.path.at(beta)


class NoRejection(KernelWrapper):
    """Accepts every proposal.

    Args:
        kernel: A right kernel.

    `check_kernel` must reject it. For tests of tests only. See [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> import qpaths as qp
        >>> from qpaths.testing import check_kernel
        >>> try:
        ...     check_kernel(NoRejection(qp.RandomWalk()), num_particles=500)
        ... except AssertionError:
        ...     print("rejected")
        rejected
    """

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: PyTree
    ) -> tuple[Particles, Info]:
        flat = copy.copy(evaluator)
        object.__setattr__(flat, "path", _Flat(evaluator.path))
        return self.kernel.transition(flat, beta, particles, randomness, params)


class FlippedSign(_Flat):
    """A path whose incremental weights have the wrong sign.

    Args:
        path: A right path.

    `check_path` must reject it. For tests of tests only. See [Test it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(lambda x: 0.0 * x, lambda x: x)
        >>> float(FlippedSign(path).log_ratio(0.0, 1.0, path.features(2.0)))  # should be 2
        -2.0
    """

    def log_density_from(self, beta: RealLike, features: Features) -> FloatArray:
        return self.path.log_density_from(beta, features)

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Features) -> FloatArray:
        return -self.path.log_ratio(beta, new_beta, features)


class StuckEnds(AbstractPointwisePath):
    """A geometric path whose derivative in beta is 0 at both ends: that of the `where` that returns the endpoints.

    Args:
        base: A density, or a function of one point.
        target: Another one.

    `check_path` must reject it. Thermodynamic integration would be wrong on it. For tests of tests only. See [Test
    it](tutorials/own_algorithm.md#test-it).

    Examples:
        >>> path = StuckEnds(lambda x: 0.0 * x, lambda x: x)
        >>> float(path.derivative(0.0, 0.0, 2.0))  # should be 2
        0.0
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        inside = log_power_mean_pair(beta, log_base, log_target, 0.0)
        xp = namespace(inside)
        return xp.where(beta == 0, log_base, xp.where(beta == 1, log_target, inside))
