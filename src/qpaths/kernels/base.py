"""What a kernel is, the state it moves, and how particles tell it the shape of the target."""

import abc
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Float

from .._numerics import log_ess
from .._types import FloatArray, PRNGKey, Scalar, ScalarLike
from ..paths import AbstractPath

Params = TypeVar("Params")


class Particle(NamedTuple):
    """A point with all that was ever computed about it, so that nothing is computed twice."""

    position: Array
    """The point as a flat vector."""
    features: Any
    """What the path needs for the density at every beta."""
    slopes: Any
    """What the path needs for the gradient at every beta; None for kernels that follow no gradient."""


class FlatPath(eqx.Module):
    """A path over flat vectors: kernels see vectors, users see their own pytrees."""

    path: AbstractPath[Any]
    unravel: Any = eqx.field(static=True)

    def particle(self, position: Array, *, with_slopes: bool) -> Particle:
        """Evaluate the user's densities at a position, each once."""
        x = self.unravel(position)
        if not with_slopes:
            return Particle(position, self.path.features(x), None)
        features, slopes = self.path.linearize(x)
        return Particle(position, features, slopes)

    def waypoint(self, position: Array) -> Particle:
        """A particle on a trajectory: good for its score, and to be `completed` where the trajectory ends."""
        return Particle(position, *self.path.waypoint(self.unravel(position)))

    def completed(self, particle: Particle) -> Particle:
        features = self.path.completed(self.unravel(particle.position), particle.features)
        return particle._replace(features=features)

    def log_density(self, beta: ScalarLike, particle: Particle) -> Scalar:
        return self.path.log_density_from(beta, particle.features)

    def score(self, beta: ScalarLike, particle: Particle) -> Float[Array, " d"]:
        score = self.path.score(beta, particle.features, particle.slopes)
        return ravel_pytree(score)[0]


class Info(NamedTuple):
    """What a transition reports besides the new state."""

    acceptance: FloatArray
    """Probability with which the proposal was accepted."""
    invalid: Bool[Array, "..."]
    """Whether the density at a proposal was NaN or `+inf` where that cannot be the kernel's own doing."""
    proposal: Array
    """The position of the first such proposal."""


class Evaluations(NamedTuple):
    """Evaluations of each endpoint density: values alone, and values with their gradient."""

    values: int
    gradients: int


class AbstractKernel(eqx.Module, Generic[Params]):
    """A Markov kernel for one particle, applied `num_steps` times at each beta.

    `fit` looks at a population near the current beta and returns the numbers that the kernel works with (a covariance,
    a step size); `transition` uses them and nothing else, so a kernel with frozen parameters is exactly invariant.
    Members evaluate the user's densities only where the proposal takes them.
    """

    num_steps: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def with_slopes(self) -> bool:
        """Whether the kernel needs gradients."""

    @property
    @abc.abstractmethod
    def needs_fit(self) -> bool:
        """Whether `fit` looks at the particles at all."""

    @property
    @abc.abstractmethod
    def evaluations(self) -> Evaluations:
        """Evaluations of each endpoint in one transition."""

    def fit_evaluations(self, num_particles: int, again: bool) -> Evaluations:
        """Evaluations of each endpoint in one call of `fit`, the first or `again` with the parameters before."""
        return Evaluations(0, 0)

    @abc.abstractmethod
    def fit(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        previous: Params | None,
    ) -> Params:
        """Parameters for `beta` from a weighted population; `previous` are those of the beta before."""

    @abc.abstractmethod
    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> Any:
        """The random numbers of `num` transitions of a particle, stacked; drawn at once, which is much cheaper."""

    @abc.abstractmethod
    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Params
    ) -> tuple[Particle, Info]:
        """One transition of one particle that leaves the density at `beta` invariant."""

    def step_size_of(self, params: Params) -> Scalar:
        """The step size to report, NaN for a kernel without one."""
        return jnp.array(jnp.nan)

    def reversed(self) -> "AbstractKernel[Params]":
        """The kernel for `Reversed(path)`, whose beta is one minus the path's."""
        return self

    def move(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, key: PRNGKey, params: Params
    ) -> tuple[Particle, Info]:
        """`num_steps` transitions of one particle."""
        numbers = self.randomness(key, particle.position, self.num_steps)
        return self._transitions(path, beta, particle, numbers, params)

    def trajectory(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, key: PRNGKey, params: Params, num: int
    ) -> tuple[Particle, Info]:
        """`num` states of one chain, the given one first, each `num_steps` transitions after the one before."""
        numbers = self.randomness(key, particle.position, (num - 1) * self.num_steps)
        numbers = jax.tree.map(lambda leaf: leaf.reshape(num - 1, self.num_steps, *leaf.shape[1:]), numbers)

        def advance(carry: tuple[Particle, Info], numbers: Any) -> tuple[tuple[Particle, Info], Particle]:
            new, info = self._transitions(path, beta, carry[0], numbers, params)
            return (new, _merge(carry[1], info)), new

        (_, info), states = jax.lax.scan(advance, (particle, _no_info(particle)), numbers)
        states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), particle, states)
        return states, info._replace(acceptance=info.acceptance / (num - 1))

    def _transitions(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, numbers: Any, params: Params
    ) -> tuple[Particle, Info]:
        if self.num_steps == 1:
            return self.transition(path, beta, particle, jax.tree.map(lambda leaf: leaf[0], numbers), params)

        def advance(carry: tuple[Particle, Info], numbers: Any) -> tuple[tuple[Particle, Info], None]:
            new, info = self.transition(path, beta, carry[0], numbers, params)
            return (new, _merge(carry[1], info)), None

        (particle, info), _ = jax.lax.scan(advance, (particle, _no_info(particle)), numbers)
        return particle, info._replace(acceptance=info.acceptance / self.num_steps)


def _no_info(particle: Particle) -> Info:
    dtype = jnp.result_type(float)
    return Info(jnp.zeros((), dtype), jnp.zeros((), bool), jnp.zeros_like(particle.position))


def _merge(total: Info, new: Info) -> Info:
    """Acceptances add up; the first invalid proposal is kept."""
    return Info(
        total.acceptance + new.acceptance,
        total.invalid | new.invalid,
        jnp.where(total.invalid, total.proposal, new.proposal),
    )


def accept(
    uniform: Scalar,
    path: FlatPath,
    beta: ScalarLike,
    old: Particle,
    new: Particle,
    log_correction: ScalarLike,
    *,
    diverged: Bool[Array, ""] | bool = False,
) -> tuple[Particle, Info]:
    """The Metropolis rule: keep `new` if `uniform` in [0, 1) is below min(1, ratio). A NaN ratio is a rejection.

    A NaN or `+inf` density at `new` is invalid, unless the kernel `diverged` on the way there.
    """
    log_new = path.log_density(beta, new)
    log_ratio = log_new - path.log_density(beta, old) + log_correction
    probability = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
    accepted = uniform < probability
    invalid = jnp.logical_not((log_new < jnp.inf) | diverged)
    chosen = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)
    dtype = jnp.result_type(float)
    return chosen, Info(probability.astype(dtype), invalid, new.position)


def weighted_moments(
    positions: Float[Array, "n d"], log_weights: Float[Array, " n"]
) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """Mean and covariance of a weighted population, the covariance shrunk to its diagonal when particles are few.

    The share of the diagonal is d / (ESS + d): nothing for the populations of a real run, all that can be known for a
    handful of particles. The result is positive definite even when a coordinate does not vary.
    """
    weights = jax.nn.softmax(log_weights)
    mean = weights @ positions
    centred = positions - mean
    covariance = (centred * weights[:, None]).T @ centred
    dimension = positions.shape[1]
    share = dimension / (jnp.exp(log_ess(log_weights)) + dimension)
    variance = jnp.diag(covariance)
    floor = jnp.finfo(positions.dtype).eps * (jnp.max(variance) + jnp.finfo(positions.dtype).tiny)
    shrunk = (1 - share) * covariance + share * jnp.diag(variance) + floor * jnp.eye(dimension, dtype=positions.dtype)
    return mean, shrunk


def cholesky_or_diagonal(covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """Cholesky factor; where rounding left the matrix indefinite, that of its diagonal."""
    factor = jnp.linalg.cholesky(covariance)
    return jnp.where(jnp.isnan(factor).any(), jnp.diag(jnp.sqrt(jnp.diag(covariance))), factor)


def flat_uniform(key: PRNGKey, num: int, size: int, dtype: Any) -> Float[Array, "num size"]:
    """Uniform numbers in [0, 1), `size` for each of `num` transitions.

    Drawn flat, the same numbers under `vmap` in a quarter of the time; and in one call, since each is compiled anew.
    """
    return jax.random.uniform(key, (num * size,), dtype).reshape(num, size)


def normal_at(uniform: FloatArray) -> FloatArray:
    """Quantiles of the normal law, finite at 0."""
    symmetric = jnp.maximum(2 * uniform - 1, np.nextafter(-1.0, 0.0, dtype=uniform.dtype))
    return np.sqrt(2.0).astype(uniform.dtype) * jax.lax.erf_inv(symmetric)


def times(vector: Float[Array, " d"], factor: Float[Array, "d d"]) -> Float[Array, " d"]:
    """`factor @ vector`, written so that under `vmap` the batch stays the slowest axis.

    With the matrix on the left the batch becomes the fastest one, and everything after it, the user's density first of
    all, runs several times slower on a CPU.
    """
    return vector @ factor.T


def check_num_steps(num_steps: int) -> None:
    if num_steps < 1:
        raise ValueError(f"`num_steps` must be at least 1, got {num_steps}: it counts transitions at each beta.")
