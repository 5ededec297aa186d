"""A path walked the other way."""

from typing import Any

from ..core import FloatArray, Point, RealLike, ScalarLike, check_beta
from ..densities import DensityLike
from .base import AbstractPath


class Reversed(AbstractPath[Any]):
    """A path walked from its target to its base: `beta` here is `1 - beta` there.

    Features are those of the path itself. Bidirectional Monte Carlo runs its reverse chains on it.

    Args:
        path: Any path.

    Its base is the target of `path`, which as a rule cannot be sampled. Give exact draws where a run begins, as `BDMC`
    does (Grosse, Ghahramani and Adams, 2015).

    Examples:
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(lambda x: -x, lambda x: -3 * x)
        >>> float(Reversed(path).log_density(0.25, 1.0)) == float(path.log_density(0.75, 1.0))
        True
    """

    path: AbstractPath[Any]

    def __init__(self, path: AbstractPath[Any]):
        self.path = path

    @property  # type: ignore[misc]
    def base(self) -> DensityLike:  # type: ignore[override]
        """The target of the path."""
        return self.path.target

    @property  # type: ignore[misc]
    def target(self) -> DensityLike:  # type: ignore[override]
        """The base of the path."""
        return self.path.base

    def features(self, x: Point) -> Any:
        return self.path.features(x)

    @property
    def is_pointwise(self) -> bool:
        return self.path.is_pointwise

    def log_density_from(self, beta: RealLike, features: Any) -> FloatArray:
        return self.path.log_density_from(1 - beta, features)

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Any) -> FloatArray:
        return self.path.log_ratio(1 - beta, 1 - new_beta, features)

    def derivative_from(self, beta: RealLike, features: Any) -> FloatArray:
        """By the chain rule, with the opposite sign."""
        return -self.path.derivative_from(1 - beta, features)

    def derivatives_from(self, beta: RealLike, features: Any) -> tuple[FloatArray, FloatArray]:
        """The second derivative keeps its sign."""
        first, second = self.path.derivatives_from(1 - beta, features)
        return -first, second

    def score(self, beta: RealLike, features: Any, slopes: Any) -> Point:
        return self.path.score(1 - beta, features, slopes)  # type: ignore[attr-defined]

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        return self.path.at(1 - beta)
