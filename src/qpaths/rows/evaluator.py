"""Densities at rows, and what kernels and algorithms see of a path: positions in, numbers out, row by row."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import AnyArray, ArrayNamespace, Features, FloatArray, Point, PyTree, RealLike, Rows, Stream, to_host
from ..densities import DensityLike
from ..paths import AbstractPath, EndpointSlopes, EndpointValues, Reversed
from .layout import DerivedDensity, Layout, inner_of

_MOST_ROUNDED = 0.01
"""Rounding error of the log density of a base, in nats, beyond which a target that is built on it says nothing."""
_HOPELESS = 100.0
"""Nats for each dimension by which the log density of a base is below zero where no draw from it is."""


class Particles(NamedTuple):
    """Points with everything that was computed about them, so that nothing is computed twice.

    Rows of every array are particles. The features always belong to the positions: to move particles, call
    `evaluator.particles(new_positions, with_slopes=...)`, and do not replace the positions alone.

    The tutorial [Write a kernel](tutorials/own_kernel.md) has a complete example.

    Examples:
        >>> import numpy as np
        >>> particles = Particles(np.zeros((3, 2)), None, None)
        >>> particles.position.shape, particles.memory is None
        ((3, 2), True)
    """

    position: Rows
    """The points as flat vectors."""
    features: Features
    """Numbers that the path needs for the density at every beta."""
    slopes: PyTree
    """Gradients that the path needs for that of the density at every beta; None for kernels that follow no gradient."""
    memory: PyTree = None
    """Numbers that a kernel keeps of each particle from move to move, such as its momentum; None as a rule."""


class AbstractDensities(abc.ABC):
    """Evaluates densities at rows, and draws from them. Positions are flat vectors, the rows of an array (n, d)."""

    layout: Layout
    """Translates between rows and the user's points."""
    xp: ArrayNamespace
    """`numpy` on the host, `jax.numpy` in a compiled program."""

    @abc.abstractmethod
    def own(self, values: PyTree) -> PyTree:
        """Return what a path's arithmetic gave, as arrays of this kind.

        A path that is written with `jax.numpy` alone returns JAX arrays on the host, too.
        """

    @abc.abstractmethod
    def each_row(self, function: Callable[..., Any], tree: PyTree, *arrays: AnyArray) -> PyTree:
        """Return `function(tree, *rows)` for each row of the arrays, for paths that are not pointwise."""

    @abc.abstractmethod
    def draw(self, density: DensityLike, stream: Stream, num: int) -> Rows:
        """Return positions of `num` exact draws. Use a stream for one draw only."""

    @abc.abstractmethod
    def at(
        self, densities: dict[str, DensityLike], positions: Rows, *, with_slopes: bool
    ) -> list[tuple[FloatArray, Any]]:
        """Return log densities at all positions, each with its gradients or None.

        Args:
            densities: By the name that errors have for them.
            positions: One row for each point.
            with_slopes: Whether gradients are needed.
        """

    def in_points(self, positions: Rows, score: Rows | None) -> tuple[Rows, Rows | None]:
        """Return positions and scores in the user's coordinates, where those of the rows are others."""
        return positions, score


class PlainDensities(AbstractDensities):
    """Densities in the user's coordinates. Those that are derived follow from the ones that they are built on."""

    @abc.abstractmethod
    def _evaluated(
        self, densities: dict[str, DensityLike], positions: Rows, with_slopes: bool
    ) -> list[tuple[FloatArray, Any]]:
        """Evaluate as `at` does, by the user's functions."""

    @abc.abstractmethod
    def _drawn(self, density: DensityLike, stream: Any, num: int) -> Rows:
        """Draw by the user's sampler."""

    def draw(self, density: DensityLike, stream: Stream, num: int) -> Rows:
        if isinstance(density, DerivedDensity):
            return density.draw_rows(stream, num, functools.partial(self._drawn, density.inner))
        return self._drawn(density, stream, num)

    def at(
        self, densities: dict[str, DensityLike], positions: Rows, *, with_slopes: bool
    ) -> list[tuple[FloatArray, Any]]:
        if not any(isinstance(density, DerivedDensity) for density in densities.values()):
            return self._evaluated(densities, positions, with_slopes)
        found = self._evaluated({name: inner_of(one) for name, one in densities.items()}, positions, with_slopes)
        for density, (log_inner, _) in zip(densities.values(), found, strict=True):
            if isinstance(density, DerivedDensity):
                found = [(self._forgiven(density, positions, log_inner, value), slope) for value, slope in found]
        return [
            density.given_inner(positions, *pair) if isinstance(density, DerivedDensity) else pair
            for density, pair in zip(densities.values(), found, strict=True)
        ]

    def _forgiven(self, derived: DerivedDensity, positions: Rows, log_inner: AnyArray, value: Any) -> AnyArray:
        """Log densities, where NaN, +inf and rounding errors far beyond all draws count as no mass.

        Heavy-tailed draws and trajectories in the coordinates of a map lead to points that the user never had in mind.
        A density may overflow there, and a likelihood that makes up for a tiny prior is lost in rounding.
        """
        xp = self.xp
        rounded = xp.isfinite(log_inner) & (xp.abs(log_inner) * xp.finfo(self.layout.dtype).eps > _MOST_ROUNDED)
        wrong = ~(value < xp.inf) | rounded
        if xp is np and not wrong.any():
            return value
        far = derived.is_far(positions) | (log_inner < -_HOPELESS * (10 + positions.shape[1]))
        return xp.where(wrong & far, -xp.inf, value)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluator:
    """Evaluate a path for kernels and algorithms: positions in, numbers out.

    Attributes:
        path: The path, whose arithmetic on features needs no evaluation.

    Positions are flat vectors, the rows of an array (n, d). `layout` translates between them and the user's points.
    There are two kinds of methods:

    - `draw`, `values`, `particles`, `waypoints` and `completed` call the user's functions, and these calls are what a
      run costs.
    - `log_density`, `log_ratio`, `derivative`, `derivatives` and `score` are arithmetic on what was found before.

    `qpaths.rows.evaluator_of(path, stream, with_slopes=...)` makes the evaluator of a run.

    The tutorial [Write a kernel](tutorials/own_kernel.md) has a complete example. Algorithms call it with all particles
    at once: calls with single rows are slow.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> import qpaths as qp
        >>> base = qp.Density(lambda x: -x[0], lambda key: jax.random.exponential(key, (1,)))
        >>> path = qp.GeometricPath(base, lambda x: -3.0 * x[0])
        >>> stream = qp.rows.stream_for(jax.random.key(0), path)
        >>> evaluator = qp.rows.evaluator_of(path, stream, with_slopes=False)

        >>> particles = evaluator.particles(np.ones((2, 1)), with_slopes=False)  # evaluates both densities
        >>> evaluator.log_density(0.5, particles.features).tolist()  # evaluates nothing
        [-2.0, -2.0]
    """

    path: AbstractPath[Any]
    densities: Any
    """`AbstractDensities`; JAX puts other things in their place where it takes the tree apart."""

    @staticmethod
    def of(path: AbstractPath[Any], densities: AbstractDensities) -> "Evaluator":
        """The evaluator of a path; on the host the path's own numbers become NumPy's."""
        return Evaluator(_with_host_numbers(path) if densities.xp is np else path, densities)

    @property
    def layout(self) -> Any:  # a `Layout`, or one through the map of a reference
        """The layout of points in rows."""
        return self.densities.layout

    @property
    def xp(self) -> ArrayNamespace:
        """`numpy` on the host, `jax.numpy` in a compiled program."""
        return self.densities.xp

    def draw(self, stream: Stream, num: int) -> Rows:
        """Positions of `num` exact draws from the base.

        Use a stream for one draw only.
        """
        return self.densities.draw(self.path.base, stream, num)

    @property
    def dimension(self) -> int:
        """The number of coordinates of a position."""
        return self.layout.dimension

    def values(self, positions: Rows) -> EndpointValues:
        """Log densities of the two endpoints at some positions.

        The endpoints are those of the path itself, also where the run is on `Reversed(path)`.
        """
        path = forward(self.path)
        ends = {"base": path.base, "target": path.target}
        return EndpointValues(*(value for value, _ in self.densities.at(ends, positions, with_slopes=False)))

    def particles(self, positions: Rows, *, with_slopes: bool) -> Particles:
        """Evaluate the user's densities at some positions, each once.

        Args:
            positions: One row for each particle.
            with_slopes: Whether gradients are needed. A kernel gives its own `with_slopes` here.

        Returns:
            The positions with the features, and with the slopes where they are wanted.
        """
        if with_slopes:
            return self.completed(self.waypoints(positions))
        if self.path.is_pointwise:
            return Particles(positions, self.values(positions), None)
        return self._of_path(positions, None)

    def _of_path(self, positions: Rows, slopes: PyTree) -> Particles:
        """With the features that a path has which is not pointwise."""
        return Particles(
            positions, self.densities.each_row(_features, self.path, self.layout.points(positions)), slopes
        )

    def waypoints(self, positions: Rows) -> Particles:
        """Particles on a trajectory, at which only the score is needed.

        Where the target has a `guide` (a cheaper density), features and slopes are those of the guide. Call `completed`
        where a trajectory ends, before the Metropolis rule.
        """
        if not self.path.is_pointwise:
            return self._of_path(positions, positions)
        guide, path = self._guide, forward(self.path)
        ends = {"base": path.base, "target": path.target if guide is None else guide}
        (log_base, base_slope), (log_target, target_slope) = self.densities.at(ends, positions, with_slopes=True)
        features = EndpointValues(log_base, log_target)
        return Particles(
            positions, features, EndpointSlopes(base_slope, target_slope, None if guide is None else features)
        )

    def completed(self, particles: Particles) -> Particles:
        """Waypoints at which trajectories ended, with the features of the target itself.

        Costs nothing unless the target has a `guide`.
        """
        if self._guide is None:
            return particles
        return particles._replace(features=self.values(particles.position))

    @property
    def _guide(self) -> DensityLike | None:
        """The cheaper density that steers trajectories, or None."""
        return getattr(forward(self.path).target, "guide", None) if self.path.is_pointwise else None

    def in_points(self, positions: Rows, score: Rows | None) -> tuple[Rows, Rows | None]:
        """Positions and scores in the coordinates of the densities, for a run in other coordinates."""
        return self.densities.in_points(positions, score)

    # The path's arithmetic: no density is evaluated.

    def log_density(self, beta: RealLike, features: Features) -> FloatArray:
        """Log of the unnormalized density at `beta`, one number for each particle."""
        return self.densities.own(self.path.log_density_from(beta, features))

    def log_ratio(self, beta: RealLike, new_beta: RealLike, features: Features) -> FloatArray:
        """Log incremental weights of a step from `beta` to `new_beta`; `-inf` where no mass is left."""
        return self.densities.own(self.path.log_ratio(beta, new_beta, features))

    def derivative(self, beta: RealLike, features: Features) -> FloatArray:
        """Derivative of the log density in beta: the integrand of thermodynamic integration."""
        return self.densities.own(self.path.derivative_from(beta, features))

    def derivatives(self, beta: RealLike, features: Features) -> tuple[FloatArray, FloatArray]:
        """First and second derivative of the log density in beta."""
        return self.densities.own(self.path.derivatives_from(beta, features))

    def score(self, beta: RealLike, particles: Particles) -> Rows:
        """Gradient of the log density at `beta` in the positions, one row for each particle.

        `beta` is one number or one for each particle. On a pointwise path the score is a mix of the two slopes, and no
        density is evaluated.
        """
        if self.path.is_pointwise:
            return self.densities.own(self.path.score(beta, particles.features, particles.slopes))  # type: ignore[attr-defined]
        betas = self.xp.broadcast_to(self.xp.asarray(beta), particles.position.shape[:1])
        return self.densities.each_row(_score_in(self.layout), self.path, particles.position, betas)


class OneDensity:
    """A single density where kernels expect a path: the same at every beta, for kernels that leave it invariant.

    The features of particles are the log densities, and the slopes their gradients.
    """

    def __init__(self, density: DensityLike, name: str, densities: AbstractDensities, with_slopes: bool):
        self.density, self.name, self.densities, self.with_slopes = density, name, densities, with_slopes
        self.layout, self.xp = densities.layout, densities.xp

    def draw(self, stream: Stream, num: int) -> Rows:
        return self.densities.draw(self.density, stream, num)

    def values(self, positions: Rows) -> FloatArray:
        return self.particles(positions, with_slopes=False).features

    def particles(self, positions: Rows, *, with_slopes: bool) -> Particles:
        density = {self.name: self.density}
        return Particles(positions, *self.densities.at(density, positions, with_slopes=with_slopes)[0])

    def waypoints(self, positions: Rows) -> Particles:
        return self.particles(positions, with_slopes=True)

    def completed(self, particles: Particles) -> Particles:
        return particles

    def log_density(self, beta: RealLike, features: FloatArray) -> FloatArray:
        return features

    def score(self, beta: RealLike, particles: Particles) -> Rows:
        return particles.slopes


def forward(path: AbstractPath[Any]) -> AbstractPath[Any]:
    """The path in the direction in which features are stored.

    Features of `Reversed(path)` are those of `path`, so that both directions of a run can share them.
    """
    while isinstance(path, Reversed):
        path = path.path
    return path


def _with_host_numbers(path: AbstractPath[Any]) -> AbstractPath[Any]:
    """A path whose own numbers (q, a scale) are NumPy's: a JAX number would turn arrays that it meets into JAX's."""
    if isinstance(path, Reversed):
        return Reversed(_with_host_numbers(path.path))
    if not path.is_pointwise:
        return path
    new = object.__new__(type(path))
    for name, value in vars(path).items():
        object.__setattr__(new, name, value if name in ("base", "target") else to_host(value))
    return new


def _features(path: AbstractPath[Any], x: Point) -> Features:
    """A named function, because compiled programs are kept by the identity of their function."""
    return path.features(x)


@functools.lru_cache(maxsize=8)
def _score_in(layout: Layout) -> Callable[..., Any]:
    """One function for each layout, so that programs are found again."""

    def score(path: AbstractPath[Any], position: AnyArray, beta: AnyArray) -> AnyArray:
        return jax.grad(lambda row: path.log_density_from(beta, path.features(layout.points(row))))(position)

    return score
