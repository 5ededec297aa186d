"""Metropolis kernels that need no gradient: one evaluation of each density per transition."""

from typing import NamedTuple

import equinox as eqx
from jaxtyping import Float

from ..core import (
    AnyArray,
    Cost,
    PyTree,
    RealLike,
    Rows,
    ScalarLike,
    Stream,
    StreamRows,
    Vector,
    is_concrete,
    namespace,
)
from ..rows import Evaluator, Particles
from .base import AbstractKernel, Cloud, Info, accept, check_num_steps, weighted_moments
from .factors import cholesky_or_diagonal, factors_between, per_particle, times

Factors = Float[AnyArray, "*g d d"]


class RandomWalk(AbstractKernel[Factors]):
    """Random-walk Metropolis: the proposal is normal, centered at the particle.

    Its covariance is `scale^2 / d` times that of the particles. `scale = 2.38` is optimal for a Gaussian in many
    dimensions (Roberts, Gelman and Gilks, 1997), where it accepts 23 % of the proposals. The number of moves needed
    grows with the dimension d: prefer `HMC` above ten dimensions or so, where there are gradients.

    Args:
        num_steps: Transitions at each beta; each costs one value of each density.
        scale: Length of the steps, in standard deviations of the particles times sqrt(d).

    It needs no gradient, but too few moves leave the particles behind the path.

    Examples:
        >>> RandomWalk(num_steps=5).cost.total
        1
    """

    num_steps: int = eqx.field(static=True, default=1)
    scale: ScalarLike = 2.38

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)
        if is_concrete(self.scale) and not self.scale > 0:
            raise ValueError(f"`scale` must be positive, got {self.scale}: 2.38 is the usual choice.")

    with_slopes = False
    needs_fit = True
    cost = Cost.values(1)

    def fit(self, cloud: Cloud, stream: Stream, previous: Factors | None) -> Factors:
        """The Cholesky factor of the proposal covariance."""
        _, covariance = weighted_moments(cloud)
        return self.scale * covariance.shape[0] ** -0.5 * cholesky_or_diagonal(covariance)

    def between(self, low: Factors, high: Factors, share: AnyArray) -> Factors:
        return factors_between(low, high, share)

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> tuple[AnyArray, AnyArray]:
        noise, uniform = rows.draw(*_sizes(position, num), dtype=position.dtype, coarse=True)
        return noise, uniform[..., 0]

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: Factors
    ) -> tuple[Particles, Info]:
        noise, uniform = randomness
        proposal = evaluator.particles(particles.position + times(noise, params), with_slopes=False)
        return accept(uniform, evaluator, beta, particles, proposal, evaluator.xp.zeros_like(uniform))


class Fitted(NamedTuple):
    """A normal distribution fitted to the particles."""

    mean: Float[AnyArray, "*g d"]
    cholesky: Factors

    def log_densities(self, *positions: Rows) -> list[Vector]:
        """Log densities of the proposal, up to a constant that cancels in the Metropolis ratio."""
        xp = namespace(*positions)
        # Not kept: the inverse of a mix of factors is not the mix of the inverses.
        inverse, mean = xp.linalg.inv(self.cholesky), per_particle(self.mean, positions[0].shape[0])
        return [-0.5 * xp.sum(times(rows - mean, inverse) ** 2, axis=1) for rows in positions]


class IndependentMH(AbstractKernel[Fitted]):
    """Independent Metropolis-Hastings: the proposal is a normal distribution fitted to the particles.

    A proposal does not depend on the particle, so one accepted transition forgets the past. Good for targets close to
    a normal distribution in few dimensions (Chopin, 2002). It gets stuck where the target has heavier tails than the
    proposal, or several modes.

    Args:
        num_steps: Transitions at each beta; each costs one value of each density.

    Examples:
        >>> IndependentMH(num_steps=5).num_steps
        5
    """

    num_steps: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)

    with_slopes = False
    needs_fit = True
    cost = Cost.values(1)

    def fit(self, cloud: Cloud, stream: Stream, previous: Fitted | None) -> Fitted:
        """Mean and Cholesky factor of the weighted particles."""
        mean, covariance = weighted_moments(cloud)
        return Fitted(mean, cholesky_or_diagonal(covariance))

    def between(self, low: Fitted, high: Fitted, share: AnyArray) -> Fitted:
        mean = super().between(low, high, share).mean
        return Fitted(mean, factors_between(low.cholesky, high.cholesky, share))

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> tuple[AnyArray, AnyArray]:
        noise, uniform = rows.draw(*_sizes(position, num), dtype=position.dtype)
        return noise, uniform[..., 0]

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: Fitted
    ) -> tuple[Particles, Info]:
        noise, uniform = randomness
        ahead = per_particle(params.mean, noise.shape[0]) + times(noise, params.cholesky)
        proposal = evaluator.particles(ahead, with_slopes=False)
        before, after = params.log_densities(particles.position, proposal.position)
        return accept(uniform, evaluator, beta, particles, proposal, before - after)


def _sizes(position: Rows, num: int) -> tuple[int, int, int, int]:
    """Rows, transitions, normal and uniform numbers of each."""
    return position.shape[0], num, position.shape[1], 1
