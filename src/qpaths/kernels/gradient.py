"""Kernels that follow the gradient: Hamiltonian Monte Carlo, and its special case with one leapfrog step.

They use the score of the path at beta, which on a pointwise path is a mix of the endpoints' gradients. A target with a
`guide` is followed along the gradient of the guide, and accepted by its own density.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..core import (
    AnyArray,
    Cost,
    PyTree,
    RealLike,
    Rows,
    Scalar,
    ScalarLike,
    Stream,
    StreamRows,
    is_concrete,
    namespace,
    quiet,
    scan,
    softmax,
)
from ..rows import Evaluator, Particles
from .base import AbstractKernel, Cloud, Info, accept, check_num_steps, grouped, weighted_moments
from .factors import LeapfrogParams as LeapfrogParams
from .factors import LowRank, cholesky_or_diagonal, factors_between, low_rank, per_particle, scales_between

_MOST_UNROLLED = 10
"""Leapfrog steps that are unrolled at most: a program grows with each and takes longer to compile."""
_RANK = 20
"""Directions of a low-rank preconditioner."""
_MOMENTA = 2**31
"""Folded into the stream of the first momenta: no draw and no round of a fit has such a number."""
_DIVERGED = 1000.0
"""Nats of kinetic energy gained on the way that no exact trajectory from a typical point would gain."""


def _effort(num_particles: int, again: bool) -> tuple[int, int]:
    """Rounds and copies of the tuning: fewer where the step size of the beta before is there to start from."""
    num_rounds, most = (4, 32) if again else (10, 64)
    return num_rounds, min(num_particles, most, max(16, num_particles // 8))


class HMC(AbstractKernel[LeapfrogParams]):
    """Hamiltonian Monte Carlo (Duane et al., 1987; Neal, 2011).

    Args:
        num_steps: Transitions at each beta.
        num_leapfrog: Leapfrog steps of a transition; each costs a value with gradient of each density.
        step_size: None has it tuned at each beta to `target_acceptance`, or above where a longer trajectory would turn
            back. A number is used as given, in the coordinates of the preconditioner.
        preconditioner: The covariance of the particles (`"dense"`), its diagonal (`"diagonal"`), a diagonal with up to
            20 directions in which particles or their scores vary most (`"low_rank"`), or nothing (`"none"`). A dense
            one is reliable only with many more particles than coordinates. A low-rank one follows a few wide or narrow
            directions with fewer particles than coordinates. With 256 particles in 200 dimensions SMC that fits it
            at every beta was still up to 5 nats off: freeze it with `qpaths.tune`.
        jitter: The step size of each transition is multiplied by a uniform number in `1 +- jitter`, so that no orbit
            returns to its start every time.
        target_acceptance: The acceptance rate of the tuning.
        persistence: The share of its momentum that a particle keeps from one transition to the next (Horowitz, 1991),
            also to the next beta. It pays with few leapfrog steps, after which a particle would otherwise often turn
            back: try 0.5 to 0.7 with 3 steps. It costs nothing.
        spread: The step size of each transition is also multiplied by a number between `1 / spread` and `spread`,
            uniform on a log scale. Long and short steps then alternate where no single step size serves everywhere.
            `qpaths.tune` tries it for chains. It seldom pays, and populations moved less
            (`benchmarks/reliability/step_sizes.py`).

    With `step_size` given and no preconditioner nothing is fitted, and AIS needs no pilot.

    It needs gradients of both densities. Single step sizes fail where scales differ much from place to place, as in the
    neck of a funnel.

    Examples:
        >>> HMC(num_leapfrog=5).cost.total  # a gradient counts as two evaluations
        10
        >>> HMC(step_size=0.1, preconditioner="none").needs_fit
        False
    """

    num_steps: int = eqx.field(static=True, default=1)
    num_leapfrog: int = eqx.field(static=True, default=10)
    step_size: ScalarLike | None = None
    preconditioner: str = eqx.field(static=True, default="dense")
    jitter: ScalarLike = 0.2
    target_acceptance: ScalarLike = 0.85
    persistence: ScalarLike = 0.0
    spread: ScalarLike = 1.0

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)
        if self.num_leapfrog < 1:
            raise ValueError(f"`num_leapfrog` must be at least 1, got {self.num_leapfrog}.")
        if self.step_size is not None and is_concrete(self.step_size) and not self.step_size > 0:
            raise ValueError(f"`step_size` must be positive, got {self.step_size}: give None to have it tuned.")
        if is_concrete(self.jitter) and not 0 <= self.jitter < 1:
            raise ValueError(f"`jitter` must lie in [0, 1), got {self.jitter}: it is a share of the step size.")
        if is_concrete(self.target_acceptance) and not 0 < self.target_acceptance < 1:
            raise ValueError(
                f"`target_acceptance` must lie in (0, 1), got {self.target_acceptance}: it is a share of the proposals."
            )
        if is_concrete(self.persistence) and not 0 <= self.persistence < 1:
            raise ValueError(f"`persistence` must lie in [0, 1), got {self.persistence}: 0 draws momenta afresh.")
        if is_concrete(self.spread) and not self.spread >= 1:
            raise ValueError(f"`spread` must be at least 1, got {self.spread}: it is a factor of the step size.")
        if self.preconditioner not in ("dense", "low_rank", "diagonal", "none"):
            raise ValueError(
                f"`preconditioner` must be dense, low_rank, diagonal or none, got {self.preconditioner!r}."
            )

    with_slopes = True

    @property
    def needs_fit(self) -> bool:
        return self.step_size is None or self.preconditioner != "none"

    @property
    def cost(self) -> Cost:
        return Cost.gradients(self.num_leapfrog)

    def fit_cost(self, num_particles: int, again: bool) -> Cost:
        if self.step_size is not None:
            return Cost()
        num_rounds, num_copies = _effort(num_particles, again)
        return Cost.gradients(num_rounds * num_copies * self.num_leapfrog)

    def step_size_of(self, params: LeapfrogParams, memory: PyTree = None) -> Scalar:
        return namespace(params.step_size).mean(params.step_size)

    def between(self, low: LeapfrogParams, high: LeapfrogParams, share: AnyArray) -> LeapfrogParams:
        """Scales and step sizes go geometrically: halfway between 0.01 and 1 is 0.1."""
        step_size = scales_between(low.step_size, high.step_size, share)
        if isinstance(low.scale, LowRank) and isinstance(high.scale, LowRank):
            return LeapfrogParams(low.scale.toward(high.scale, share), step_size)
        scale = factors_between if self.preconditioner == "dense" else scales_between
        return LeapfrogParams(scale(low.scale, high.scale, share), step_size)

    def first_memory(self, position: Rows, stream: Stream) -> Rows | None:
        """Return standard normal momenta if they are kept, or may be: a share in an array counts as kept."""
        if isinstance(self.persistence, float | int) and not self.persistence:
            return None
        num, dimension = position.shape
        normal, _ = stream.fold(_MOMENTA).rows(num).draw(num, 1, dimension, 0, dtype=position.dtype)
        return normal[0]

    def fit(self, cloud: Cloud, stream: Stream, previous: LeapfrogParams | None) -> LeapfrogParams:
        """The preconditioner from the particles, and the step size from short runs of copies of them.

        The search starts from the step size of the beta before, or from `d^(-1/4)`.
        """
        xp, dtype = cloud.evaluator.xp, cloud.positions.dtype
        scale = self._scale(cloud)
        if self.step_size is not None:
            return LeapfrogParams(scale, xp.asarray(self.step_size, dtype))
        # A step of d^(-1/4) is about right for a whitened normal target.
        start = xp.asarray(cloud.positions.shape[1] ** -0.25, dtype) if previous is None else previous.step_size
        effort = _effort(cloud.log_weights.size, previous is not None)
        step_size = self._tune(cloud, stream, LeapfrogParams(scale, start), effort)
        if self.preconditioner in ("dense", "low_rank"):
            # Whitened, a normal target turns once in 2 pi: a quarter of that is a fresh draw, all of it is where the
            # particle was, and particles that stay put while their own covariance steers them bias the evidence.
            step_size = xp.minimum(step_size, 0.5 * np.pi / self.num_leapfrog)
        return LeapfrogParams(scale, step_size.astype(dtype))

    def _scale(self, cloud: Cloud) -> AnyArray | LowRank:
        """A square root of the covariance of the particles, of a part of it, or of the identity."""
        xp, dimension = cloud.evaluator.xp, cloud.positions.shape[1]
        if self.preconditioner == "none":
            return xp.ones(dimension, cloud.positions.dtype)
        if self.preconditioner == "low_rank":
            scores = cloud.evaluator.score(cloud.beta, cloud.particles)
            return low_rank(cloud.positions, scores, softmax(cloud.log_weights), min(_RANK, dimension))
        covariance = weighted_moments(cloud)[1]
        return cholesky_or_diagonal(covariance) if self.preconditioner == "dense" else xp.sqrt(xp.diag(covariance))

    def _tune(self, cloud: Cloud, stream: Stream, start: LeapfrogParams, effort: tuple[int, int]) -> Scalar:
        """Step size at which copies of some particles accept as often as wanted; the particles themselves stay put.

        The acceptance rate is an average over the copies and so almost without noise: a few steps of stochastic
        approximation with decreasing gain settle it, and the mean of the later ones is taken.
        """
        xp = cloud.evaluator.xp
        num_rounds, num = effort
        # At random rather than the first ones: after resampling neighbors are copies of each other.
        cumulative = xp.cumsum(softmax(cloud.log_weights))
        uniform = stream.fold(num_rounds).uniform((num,), cumulative.dtype)
        chosen = xp.searchsorted(cumulative, uniform * cumulative[-1], side="right")
        chosen = xp.minimum(chosen, cloud.log_weights.size - 1)  # where no particle has weight the sum is NaN
        # Without their momenta: acceptance rates do not depend on whether momenta are kept.
        copies = jax.tree.map(lambda leaf: leaf[chosen], cloud.particles._replace(memory=None))

        def one_round(carry: tuple[Particles, Scalar], inputs: tuple[Any, Any]) -> Any:
            copies, log_step = carry
            number, gain = inputs
            params = grouped(LeapfrogParams(start.scale, xp.exp(log_step)))
            numbers = self.randomness(stream.fold(number).rows(num), copies.position, 1)
            numbers = jax.tree.map(lambda leaf: leaf[0], numbers)
            moved, info = self.transition(cloud.evaluator, cloud.beta, copies, numbers, params)
            error = xp.mean(info.acceptance).astype(log_step.dtype) - self.target_acceptance
            # From -1 to 1: a step that is far too long must not throw the search further than one far too short.
            error = error / xp.where(error > 0, 1 - self.target_acceptance, self.target_acceptance)
            log_step = (log_step + gain * error).astype(log_step.dtype)
            return (moved, log_step), log_step

        gains = (1.0 / np.arange(1, num_rounds + 1) ** 0.5).astype(start.step_size.dtype)
        inputs = xp.arange(num_rounds), xp.asarray(gains)
        _, log_steps = scan(xp, one_round, (copies, xp.log(start.step_size)), inputs)
        return xp.exp(xp.mean(log_steps[num_rounds // 2 :]))

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Momenta, factors of the step size, and uniform numbers for the Metropolis rule."""
        normal, uniform = rows.draw(position.shape[0], num, position.shape[1], 2, dtype=position.dtype)
        # A step size that does not depend on the state leaves the kernel exact, and no orbit closes for every one.
        around = 2 * uniform[..., 1] - 1
        return normal, (1 + self.jitter * around) * self.spread**around, uniform[..., 0]

    @quiet()
    def transition(
        self,
        evaluator: Evaluator,
        beta: RealLike,
        particles: Particles,
        randomness: PyTree,
        params: LeapfrogParams,
    ) -> tuple[Particles, Info]:
        """`num_leapfrog` leapfrog steps of all particles at once, then the Metropolis rule.

        Particles whose trajectory leaves the finite numbers stop there and are rejected. A momentum that is kept is
        refreshed first, and turns around on rejection. The law of position and momentum then stays the density times
        a standard normal one. Run backwards, the moves and refreshments of a chain alternate as they do forwards, so
        the same kernel serves reverse chains: they begin with a normal momentum, which a refreshment does not change.
        """
        xp = evaluator.xp
        start, factor, uniform = randomness
        keeps = particles.memory is not None
        if keeps:
            start = self.persistence * particles.memory + (1 - self.persistence**2) ** 0.5 * start
            particles = particles._replace(memory=None)
        step = (per_particle(params.step_size, uniform.shape[0]) * factor)[:, None]

        def kick(momentum: AnyArray, particles: Particles, share: float) -> AnyArray:
            return momentum + share * step * params.backward(evaluator.score(beta, particles))

        def leapfrog(carry: tuple[Particles, Any, Any], _: None) -> tuple[tuple[Particles, Any, Any], None]:
            particles, momentum, going = carry
            ahead = particles.position + step * params.forward(momentum)
            particles = evaluator.waypoints(xp.where(going, ahead, particles.position))
            # The half kicks at the end of one step and at the start of the next are one; the last is taken back.
            kicked = kick(momentum, particles, 1.0)
            # A trajectory without a finite score stays there, so that its end shows whether the density was to blame.
            going = going & xp.isfinite(kicked).all(axis=1, keepdims=True)
            return (particles, xp.where(going, kicked, momentum), going), None

        kicked = kick(start, particles, 0.5)
        begun = particles, kicked, xp.isfinite(kicked).all(axis=1, keepdims=True)
        # On a GPU a round of a loop costs 12 us, and unrolled, the values of the path are computed only where they are
        # used; on a CPU it would only take longer to compile.
        unroll = 1 if jax.default_backend() == "cpu" else min(self.num_leapfrog, _MOST_UNROLLED)
        (proposal, momentum, _), _ = scan(xp, leapfrog, begun, length=self.num_leapfrog, unroll=unroll)
        before = xp.sum(start**2, axis=1)
        gained = 0.5 * (xp.sum(momentum**2, axis=1) - before)
        # A trajectory that diverges ends in NaN by its own doing; it is rejected like any other bad proposal.
        diverged = ~((gained < _DIVERGED) & xp.isfinite(proposal.position).all(axis=1))
        momentum = kick(momentum, proposal, -0.5)
        kinetic = 0.5 * (before - xp.sum(momentum**2, axis=1))
        proposal = evaluator.completed(proposal)
        if keeps:
            particles, proposal = particles._replace(memory=-start), proposal._replace(memory=momentum)
        return accept(uniform, evaluator, beta, particles, proposal, kinetic, diverged=diverged)


def MALA(  # noqa: N802
    num_steps: int = 1,
    step_size: ScalarLike | None = None,
    preconditioner: str = "dense",
    target_acceptance: ScalarLike = 0.574,
) -> HMC:
    """Return the Metropolis-adjusted Langevin algorithm: Hamiltonian Monte Carlo with one leapfrog step, no jitter.

    Args:
        num_steps: Transitions at each beta; each costs one value with gradient of each density.
        step_size: As in `HMC`; None has it tuned at each beta.
        preconditioner: As in `HMC`: `"dense"`, `"low_rank"`, `"diagonal"` or `"none"`.
        target_acceptance: The acceptance rate of the tuning. 57 % is optimal in many dimensions (Roberts and Rosenthal,
            1998).

    Returns:
        The kernel.

    It needs gradients, and moves less far than `HMC` for the same number of them.

    Examples:
        >>> MALA(num_steps=2).cost.total  # one gradient for each transition, which counts as two
        2
    """
    return HMC(num_steps, 1, step_size, preconditioner, jitter=0.0, target_acceptance=target_acceptance)
