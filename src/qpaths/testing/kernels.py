"""Conformance of a kernel: it leaves the density invariant, in both worlds, at the cost that it declares."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..annealing import Population, State
from ..core import AnyArray, Cost, PRNGKey, PyTree, Rows, Stream, stream_of, to_host
from ..densities import Density, DensityLike
from ..families import MultivariateNormal
from ..io import Codec, classes_around, parts_of
from ..kernels import HMC, AbstractKernel, Cloud
from ..paths import GeometricPath
from ..rows import Evaluator, HostDensities, Layout, Particles, TracedDensities

_BETA = 0.5
"""Beta of the checks, at which both endpoints matter."""
_MEAN, _VARIANCE = np.array([1.0, -0.5]), np.array([0.5, 2.0])
_RARE = 1e-6
"""Probability with which a right kernel fails a statistical check."""


def check_kernel(kernel: AbstractKernel[Any], *, key: PRNGKey | None = None, num_particles: int = 4000) -> None:
    """Check a kernel; raise one AssertionError with all that it breaks.

    Exact draws at beta = 1/2 of a path between normal distributions must still be draws from there after a move, with
    parameters fitted to other draws; so must draws beyond a hard bound. The particles must carry the features of where
    they are. Files must be able to hold what `fit` returns, and the numbers must not depend on the size of chunks. A
    transition must be the same on the host and compiled, and evaluations must cost what `cost` says.

    Args:
        kernel: The kernel.
        key: For the draws and the moves.
        num_particles: Draws; fewer see less.

    A kernel that is invariant may still mix badly, which this does not see. The tutorial [Write a
    kernel](tutorials/own_kernel.md) uses it.

    Examples:
        >>> import qpaths as qp
        >>> check_kernel(qp.RandomWalk(5))
    """
    case = _Case.of(kernel, jax.random.key(0) if key is None else key, num_particles)
    broken = [message for rule in _RULES for message in rule(case)]
    assert not broken, f"{type(kernel).__name__} breaks the contract of a kernel:\n- " + "\n- ".join(broken)


class _Counting(HostDensities):
    """Counts the evaluations that are asked for."""

    cost = Cost()  # set anew by the rule that counts

    def at(self, densities: dict[str, DensityLike], positions: Rows, *, with_slopes: bool) -> Any:
        num = positions.shape[0]
        self.cost += Cost.gradients(num) if with_slopes else Cost.values(num)
        return super().at(densities, positions, with_slopes=with_slopes)


def _log_target(x: Array) -> Array:
    return -0.5 * jnp.sum((x - _MEAN) ** 2 / _VARIANCE)


def _log_bounded(x: Array) -> Array:
    return jnp.where(x[0] > _MEAN[0], _log_target(x), -jnp.inf)


def _path(log_target: Callable[[Array], Array]) -> GeometricPath:
    return GeometricPath(MultivariateNormal(jnp.zeros(2), jnp.eye(2)), Density(log_target))


class _Case(NamedTuple):
    """A kernel with parameters, and exact draws from the density at beta = 1/2."""

    kernel: AbstractKernel[Any]
    evaluator: Evaluator
    params: PyTree
    draws: Rows
    stream: Stream

    @staticmethod
    def of(kernel: AbstractKernel[Any], key: PRNGKey, num: int) -> "_Case":
        stream = stream_of(key, host=True)
        evaluator = Evaluator.of(_path(_log_target), _Counting(Layout.of(jnp.zeros(2)), kernel.with_slopes))
        others, draws = (_draw(stream.fold(i), num) for i in (0, 1))
        particles = evaluator.particles(others, with_slopes=kernel.with_slopes)
        params = kernel.fit(Cloud(evaluator, _BETA, particles, np.zeros(num)), stream.fold(2), None)
        return _Case(kernel, evaluator, params, draws, stream.fold(3))

    @property
    def grouped(self) -> PyTree:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[None], self.params)

    def moved(
        self, chunk_size: int | None = None, evaluator: Evaluator | None = None, draws: Rows | None = None
    ) -> State:
        """The draws after a move."""
        evaluator, draws = evaluator or self.evaluator, self.draws if draws is None else draws
        population = Population(chunk_size=chunk_size)
        state = population.start(evaluator, self.kernel, draws, self.stream)
        state = state._replace(beta=np.asarray(_BETA))
        return population.move(evaluator, self.kernel, state, self.stream, self.grouped)[0]


def _draw(stream: Stream, num: int) -> Rows:
    """Exact draws at beta = 1/2, where precisions and precisions times means are halfway."""
    precision = 0.5 + 0.5 / _VARIANCE
    return 0.5 * _MEAN / _VARIANCE / precision + stream.normal((num, 2)) / precision**0.5


def _is_invariant(case: _Case) -> Iterator[str]:
    from scipy.special import chdtr, ndtr
    from scipy.stats import kstest

    precision = 0.5 + 0.5 / _VARIANCE
    moved = case.moved().particles
    white = (moved.position - 0.5 * _MEAN / _VARIANCE / precision) * precision**0.5
    values: dict[str, Any] = {
        "distance from the center": chdtr(2, np.sum(white**2, axis=1)),
        "first coordinate": ndtr(white[:, 0]),
        "second coordinate": ndtr(white[:, 1]),
    }
    if isinstance(case.kernel, HMC) and moved.memory is not None:
        values["momentum"] = chdtr(2, np.sum(moved.memory**2, axis=1))
    for name, uniform in values.items():
        if kstest(uniform, "uniform").pvalue < _RARE:
            yield f"exact draws are no longer exact after a move: the law of their {name} has changed"


def _moves(case: _Case) -> Iterator[str]:
    state = case.moved()
    if np.array_equal(state.particles.position, case.draws):
        yield "no particle has moved"
    fresh = case.evaluator.particles(state.particles.position, with_slopes=case.kernel.with_slopes)
    pairs = zip(jax.tree.leaves(fresh), jax.tree.leaves(state.particles._replace(memory=None)), strict=True)
    if not all(np.allclose(a, b, rtol=1e-6, atol=1e-6) for a, b in pairs):
        yield "particles must carry the features and slopes of where they are after a move"


def _keeps_bounds(case: _Case) -> Iterator[str]:
    evaluator = Evaluator.of(_path(_log_bounded), HostDensities(case.evaluator.layout, case.kernel.with_slopes))
    inside = case.draws[case.draws[:, 0] > _MEAN[0]]
    log_target = case.moved(evaluator=evaluator, draws=inside).particles.features.log_target
    if (np.asarray(log_target) == -np.inf).any():
        yield "a particle has moved to where the density is zero"


def _survives_a_file(case: _Case) -> Iterator[str]:
    try:
        Codec(classes_around(*parts_of(kernel=case.kernel).values())).encode(case.params)
    except TypeError:
        yield "files cannot hold what `fit` returns: define its class in the module of the kernel, or import it there"


def _chunks_do_not_matter(case: _Case) -> Iterator[str]:
    if not np.allclose(case.moved().particles.position, case.moved(chunk_size=100).particles.position):
        yield "numbers depend on the size of chunks: draw random numbers from `rows`, row by row"


def _same_when_compiled(case: _Case) -> Iterator[str]:
    kernel, few = case.kernel, case.draws[:64]
    numbers = kernel.randomness(case.stream.rows(64), few, 1)
    numbers = jax.tree.map(lambda leaf: leaf[0], numbers)

    def transition(evaluator: Evaluator, position: Rows, numbers: AnyArray, params: PyTree) -> Particles:
        particles = evaluator.particles(position, with_slopes=kernel.with_slopes)
        particles = particles._replace(memory=kernel.first_memory(position, case.stream))
        return kernel.transition(evaluator, _BETA, particles, numbers, params)[0]

    traced = Evaluator.of(case.evaluator.path, TracedDensities(case.evaluator.layout))
    compiled = to_host(jax.jit(transition)(traced, few, numbers, case.grouped))
    host = transition(case.evaluator, few, numbers, case.grouped)
    pairs = zip(*(jax.tree.leaves((one.position, one.memory)) for one in (compiled, host)), strict=True)
    if not all(np.allclose(a, b, rtol=1e-3, atol=1e-3) for a, b in pairs):
        yield "a compiled transition differs from one on the host with the same random numbers"


def _costs_what_it_says(case: _Case) -> Iterator[str]:
    num, kernel = case.draws.shape[0], case.kernel
    counting = case.evaluator.densities
    counting.cost = Cost()
    case.moved()
    counted = counting.cost
    expected = kernel.start_cost(num) + kernel.fit_cost(num, again=False) + num * kernel.num_steps * kernel.cost
    # Gradients that a kernel takes by itself are not seen here.
    seen = dataclasses.replace(expected, base_gradient=0, target_gradient=0)
    if counted != (expected if kernel.with_slopes else seen):
        yield f"a move of {num} particles should cost {expected} by `cost` and `fit_cost`, and costs {counted}"


_RULES = (
    _is_invariant,
    _moves,
    _keeps_bounds,
    _survives_a_file,
    _chunks_do_not_matter,
    _same_when_compiled,
    _costs_what_it_says,
)
