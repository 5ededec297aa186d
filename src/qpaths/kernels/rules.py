"""What kernels share: what they report, what they are fitted to, the Metropolis rule, and moments of particles."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Bool, Float

from ..core import AnyArray, RealLike, Rows, Vector, log_ess, namespace, quiet, softmax
from ..rows import Evaluator, Particles, ShardedRows


class Info(NamedTuple):
    """What a transition reports besides the new state; one entry for each particle.

    The tutorial [Write a kernel](tutorials/own_kernel.md) has a complete example.

    Examples:
        >>> import numpy as np
        >>> info = Info(np.array([0.5, 1.0]), np.array([False, True]), np.zeros(2, bool), np.zeros((2, 1)))
        >>> float(info.acceptance.mean())
        0.75
    """

    acceptance: Vector
    """Probability with which the proposal was accepted."""
    accepted: Bool[AnyArray, " n"]
    """Whether it was."""
    invalid: Bool[AnyArray, " n"]
    """Whether the density at a proposal was NaN or `+inf` where that cannot be the kernel's own doing."""
    proposal: Rows
    """The position of the first such proposal."""


class Cloud(NamedTuple):
    """Weighted particles near one beta, to which a kernel is fitted.

    `weighted_moments(cloud)` is the mean and covariance. Particles of weight zero must not count.

    Attributes:
        evaluator: What evaluates the path; `evaluator.xp` is the array library.
        beta: The beta of the fit.
        particles: The particles.
        log_weights: Their log weights, up to a constant.

    See [The methods](tutorials/own_kernel.md#the-methods).

    Examples:
        >>> import numpy as np
        >>> cloud = Cloud(None, 0.5, Particles(np.array([[1.0], [3.0]]), None, None), np.log([1.0, 3.0]))
        >>> float(weighted_moments(cloud)[0][0])
        2.5
    """

    evaluator: Evaluator
    beta: RealLike
    particles: Particles
    log_weights: Vector

    @property
    def positions(self) -> Rows:
        """The positions of the particles, one row each."""
        return self.particles.position


@quiet()
def accept(
    uniform: Vector,
    evaluator: Evaluator,
    beta: RealLike,
    old: Particles,
    new: Particles,
    log_correction: Vector,
    *,
    diverged: Bool[AnyArray, " n"] | bool = False,
) -> tuple[Particles, Info]:
    """The Metropolis rule (Metropolis et al., 1953; Hastings, 1970). A NaN ratio is a rejection.

    Args:
        uniform: One number in [0, 1) for each particle: `new` is kept where it is below min(1, ratio).
        evaluator: What evaluates the path.
        beta: The beta at which the ratio is taken.
        old: The particles.
        new: Their proposals, evaluated.
        log_correction: `log q(old | new) - log q(new | old)` of the proposal: zero if it is symmetric.
        diverged: Where a NaN or `+inf` density at `new` is the kernel's own doing, and no fault of the model.

    Returns:
        The particles after the rule, and their `Info`.

    Examples:
        >>> import jax, numpy as np, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Normal(0.0, 1.0))
        >>> stream = qp.core.stream_of(jax.random.key(0), host=True)
        >>> evaluator = qp.rows.evaluator_of(path, stream, with_slopes=False)

        >>> old, new = (evaluator.particles(np.full((1, 1), x), with_slopes=False) for x in (0.0, 1.0))
        >>> _, info = accept(np.array([0.5]), evaluator, 1.0, old, new, np.zeros(1))
        >>> round(float(info.acceptance[0]), 3)  # exp(-1/2)
        0.607
    """
    xp = evaluator.xp
    log_new = evaluator.log_density(beta, new.features)
    log_ratio = log_new - evaluator.log_density(beta, old.features) + log_correction
    probability = xp.where(xp.isnan(log_ratio), 0.0, xp.exp(xp.minimum(log_ratio, 0.0)))
    accepted = uniform < probability
    invalid = xp.logical_not((log_new < xp.inf) | diverged)
    chosen = jax.tree.map(lambda a, b: xp.where(_per_row(accepted, a), a, b), new, old)
    return chosen, Info(probability.astype(new.position.dtype), accepted, invalid, new.position)


def _per_row(values: Any, like: Any) -> Any:
    """One value for each row, with axes for the rest of an array."""
    return values.reshape(values.shape + (1,) * (like.ndim - 1))


@quiet()
def weighted_moments(cloud: Cloud) -> tuple[Float[AnyArray, " d"], Float[AnyArray, "d d"]]:
    """Mean and covariance of a weighted population, the covariance shrunk to its diagonal when particles are few.

    The share of the diagonal is d / (ESS + d): nothing for the populations of a real run, all that can be known for a
    handful of particles. The result is positive definite even when a coordinate does not vary.

    Args:
        cloud: The particles.

    Returns:
        The mean (d,), and the covariance (d, d).

    See [The methods](tutorials/own_kernel.md#the-methods).

    Examples:
        >>> import numpy as np
        >>> cloud = Cloud(None, 0.5, Particles(np.array([[1.0], [3.0]]), None, None), np.zeros(2))
        >>> [float(moment.ravel()[0].round(3)) for moment in weighted_moments(cloud)]
        [2.0, 1.0]
    """
    positions, log_weights = cloud.positions, cloud.log_weights
    xp = namespace(positions)
    weights = softmax(log_weights)
    if isinstance(positions, ShardedRows):
        mean, covariance = positions.moments(weights)
    else:
        mean = weights @ positions
        # The square of one matrix takes half of the time of a product of two.
        centered = positions - mean
        centered *= xp.sqrt(weights)[:, None]  # in place on the host, since memory takes longer than arithmetic
        covariance = centered.T @ centered
    dimension = positions.shape[1]
    share = dimension / (xp.exp(log_ess(log_weights)) + dimension)
    variance = xp.diag(covariance)
    floor = xp.finfo(positions.dtype).eps * (xp.max(variance) + xp.finfo(positions.dtype).tiny)
    shrunk = (1 - share) * covariance + share * xp.diag(variance) + floor * xp.eye(dimension, dtype=positions.dtype)
    return mean, shrunk
