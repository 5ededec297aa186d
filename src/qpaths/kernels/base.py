"""The contract of a kernel, and what kernels share: reports, fits, the Metropolis rule, moments of particles."""

import abc
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from ..core import (
    AnyArray,
    Cost,
    Module,
    PyTree,
    RealLike,
    Rows,
    Scalar,
    Stream,
    StreamRows,
    Vector,
    log_ess,
    namespace,
    quiet,
    scan,
    softmax,
)
from ..rows import Evaluator, Particles, ShardedRows
from .factors import per_particle as per_particle


class Info(NamedTuple):
    """Report of a transition besides the new state; one entry for each particle.

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
    """True where the proposal was accepted."""
    invalid: Bool[AnyArray, " n"]
    """True where the density at a proposal was NaN or `+inf` where that cannot be the kernel's own doing."""
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

    def keep(proposed: AnyArray, before: AnyArray) -> AnyArray:
        return xp.where(accepted.reshape(-1, *[1] * (proposed.ndim - 1)), proposed, before)

    chosen = jax.tree.map(keep, new, old)
    return chosen, Info(probability.astype(new.position.dtype), accepted, invalid, new.position)


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


Params = TypeVar("Params")


class AbstractKernel(Module, Generic[Params]):
    """A Markov kernel, applied `num_steps` times to every particle at each beta.

    Kernels work on arrays with a leading particle axis, NumPy's on the host and JAX's in a compiled program:
    `namespace(position)` is the library to compute with. Particles fall into groups of equal size, one after the other,
    and every array of the parameters has a leading axis of groups (a single one, as a rule).

    `fit` looks at a population near the current beta and returns the numbers that the kernel works with (a covariance,
    a step size); `transition` uses them and nothing else, so a kernel with frozen parameters is exactly invariant.
    Members evaluate the user's densities only where the proposal takes them.

    The tutorial [Write a kernel](tutorials/own_kernel.md) has a complete example.

    Examples:
        >>> import qpaths as qp
        >>> kernel = qp.HMC(num_leapfrog=5)
        >>> isinstance(kernel, AbstractKernel), kernel.with_slopes, kernel.cost.target_gradient
        (True, True, 5)
    """

    num_steps: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def with_slopes(self) -> bool:
        """True if the kernel needs gradients."""

    @property
    @abc.abstractmethod
    def needs_fit(self) -> bool:
        """True if `fit` looks at the particles at all."""

    @property
    @abc.abstractmethod
    def cost(self) -> Cost:
        """Cost of one transition of one particle."""

    def start_cost(self, num_particles: int) -> Cost:
        """Return what it costs to evaluate `num_particles` particles before the first move."""
        return Cost.gradients(num_particles) if self.with_slopes else Cost.values(num_particles)

    def fit_cost(self, num_particles: int, again: bool) -> Cost:
        """Return what one call of `fit` costs: the first, or one `again` with the parameters before."""
        return Cost()

    def fit(self, cloud: Cloud, stream: Stream, previous: Params | None) -> Params:
        """Return the parameters of one group for the beta of the cloud; `previous` are those of the beta before.

        They are None for a kernel without parameters, and otherwise an array or a tree of arrays. A class of named
        tuples among them must be known in the module of the kernel, so that files can hold it.
        """
        return None  # type: ignore[return-value]

    def between(self, low: Params, high: Params, share: AnyArray) -> Params:
        """Parameters that are the share of the way from `low` to `high`; linear unless a kernel knows better.

        `share` is one number, or one for each entry of a leading axis of the parameters.
        """

        def linear(low: AnyArray, high: AnyArray) -> AnyArray:
            part = share.reshape(share.shape + (1,) * (low.ndim - share.ndim))
            return (1 - part) * low + part * high

        return jax.tree.map(linear, low, high)

    def first_memory(self, position: Rows, stream: Stream) -> PyTree:
        """Return what the kernel keeps of each particle from move to move, at the start of a run; None as a rule.

        It becomes `particles.memory`, an array or a tree of arrays with one row for each particle, and `transition`
        returns it with the particles. `stream` is shared with the caller: fold in a number before drawing.
        """
        return None

    @abc.abstractmethod
    def randomness(self, rows: StreamRows, position: Rows, num: int) -> PyTree:
        """The random numbers of `num` transitions of every particle, with these axes in front."""

    @abc.abstractmethod
    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: Params
    ) -> tuple[Particles, Info]:
        """One transition of every particle that leaves the density at `beta` invariant.

        `beta` is one number, or one for each particle; `randomness` is one entry of what the method of that name
        returned, and `params` have a leading axis of groups.
        """

    def step_size_of(self, params: Params, memory: PyTree = None) -> Scalar:
        """Return the step size to report, its mean over groups or particles; NaN for a kernel without one."""
        leaves = jax.tree.leaves(params)
        return namespace(leaves).asarray(float("nan"))

    def reversed(self) -> "AbstractKernel[Params]":
        """The kernel for `Reversed(path)`, whose beta is one minus the path's."""
        return self

    def move(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, rows: StreamRows, params: Params
    ) -> tuple[Particles, Info]:
        """`num_steps` transitions of every particle."""
        numbers = self.randomness(rows, particles.position, self.num_steps)
        return self._transitions(evaluator, beta, particles, numbers, params)

    def trajectory(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, rows: StreamRows, params: Params, num: int
    ) -> tuple[Particles, Info]:
        """`num` states of every chain, the given one first, each `num_steps` transitions after the one before.

        The states of a chain follow each other in the result.
        """
        xp = evaluator.xp
        numbers = self.randomness(rows, particles.position, (num - 1) * self.num_steps)
        numbers = jax.tree.map(lambda leaf: leaf.reshape(num - 1, self.num_steps, *leaf.shape[1:]), numbers)

        def advance(carry: tuple[Particles, Info], numbers: PyTree) -> tuple[tuple[Particles, Info], Particles]:
            new, info = self._transitions(evaluator, beta, carry[0], numbers, params)
            return (new, _merge(carry[1], info)), new

        (_, info), states = scan(xp, advance, (particles, _no_info(particles)), numbers)

        def in_order(first: AnyArray, rest: AnyArray) -> AnyArray:
            chains = xp.swapaxes(xp.concatenate([first[None], rest]), 0, 1)
            return chains.reshape(-1, *chains.shape[2:])

        return jax.tree.map(in_order, particles, states), info._replace(acceptance=info.acceptance / (num - 1))

    def _transitions(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, numbers: PyTree, params: Params
    ) -> tuple[Particles, Info]:
        if self.num_steps == 1:
            numbers = jax.tree.map(lambda leaf: leaf[0], numbers)
            return self.transition(evaluator, beta, particles, numbers, params)

        def advance(carry: tuple[Particles, Info], numbers: PyTree) -> tuple[tuple[Particles, Info], None]:
            new, info = self.transition(evaluator, beta, carry[0], numbers, params)
            return (new, _merge(carry[1], info)), None

        (particles, info), _ = scan(evaluator.xp, advance, (particles, _no_info(particles)), numbers)
        return particles, info._replace(acceptance=info.acceptance / self.num_steps)


def _no_info(particles: Particles) -> Info:
    """Return what is reported before any transition."""
    xp = namespace(particles.position)
    num = particles.position.shape[0]
    no = xp.zeros(num, bool)
    return Info(xp.zeros(num, particles.position.dtype), no, no, xp.zeros_like(particles.position))


def _merge(total: Info, new: Info) -> Info:
    """Acceptances add up; the first invalid proposal is kept."""
    return Info(
        total.acceptance + new.acceptance,
        total.accepted | new.accepted,
        total.invalid | new.invalid,
        _first_proposal(total, new),
    )


def _first_proposal(total: Info, new: Info) -> Rows:
    """The proposals of the first transition that was invalid, or else of the last."""
    xp = namespace(new.proposal)
    if xp is np and not total.invalid.any():  # as always but for a faulty density, and known on the host
        return new.proposal
    return xp.where(total.invalid[:, None], total.proposal, new.proposal)


def grouped(params: PyTree) -> PyTree:
    """Parameters of one group with the axis of groups in front."""
    return jax.tree.map(lambda leaf: leaf[None], params)


def check_num_steps(num_steps: int) -> None:
    """Raise unless a kernel makes at least one transition at each beta."""
    if num_steps < 1:
        raise ValueError(f"`num_steps` must be at least 1, got {num_steps}: it counts transitions at each beta.")
