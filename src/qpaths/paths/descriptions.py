"""Describe what a path costs, and learn paths from a pilot: both from stored features, without an evaluation."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..core import AnyArray, quiet, to_host
from .base import AbstractPath, AbstractPointwisePath, Ordered
from .spline import SplinePath
from .varying_q import VaryingQPath

_MOST_ROUNDS, _SETTLED = 500, 1e-8
_NUM_BETAS = 33
"""Betas at which a path is looked at while it is learned."""
_LEAST_ESS = 30.0
"""Draws of the pilot that must count at every beta of a learned path: beyond, it would lead where nothing was seen."""


class Pilot(NamedTuple):
    """States of a run at each of its betas, by their features. A result of `ParallelTempering` has the same two.

    Attributes:
        betas: From 0 to 1.
        features: Those of the path, with an axis for the betas and one for the states.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 1.0))
        >>> betas = np.linspace(0.0, 1.0, 3)
        >>> states = np.random.default_rng(0).normal(size=(3, 50)) + betas[:, None]  # exact draws
        >>> pilot = Pilot(betas, jax.vmap(jax.vmap(path.features))(states))
        >>> pilot.features.log_base.shape
        (3, 50)
    """

    betas: AnyArray
    features: Any


class Description(NamedTuple):
    """Hold what a path costs, as `describe` found it; `str()` of it is a table."""

    betas: Float[np.ndarray, " num"]
    log_z: Float[np.ndarray, " num"]
    """Log of the normalizing constant over that of the base."""
    mean: Float[np.ndarray, " num"]
    """Mean of the derivative in beta: where it is steep, mass moves."""
    spread: Float[np.ndarray, " num"]
    """Standard deviation of the derivative: the speed of the path in the Fisher-Rao metric."""
    rejection: Float[np.ndarray, " pairs"]
    """Rate at which swaps of neighboring states are rejected, between exact draws."""
    information: Float[np.ndarray, " num"]
    """Bregman information: the least mixed alpha-divergence to both ends, of a q-path with q > 0; else NaN."""

    @property
    def barrier(self) -> float:
        """The global communication barrier, the sum of the rejection rates (Syed et al., 2022)."""
        return float(np.sum(self.rejection))

    @property
    def length(self) -> float:
        """The Fisher-Rao length, the integral of the spread."""
        return float(np.sum(np.diff(self.betas) * (self.spread[1:] + self.spread[:-1]) / 2))

    @property
    def round_trips(self) -> float:
        """Round trips in a scan of parallel tempering with many temperatures, `1 / (2 + 2 barrier)`."""
        return 1 / (2 + 2 * self.barrier)

    def equal_betas(self, num: int) -> Float[np.ndarray, " betas"]:
        """Return `num` betas with equal shares of the barrier between them, for `FixedSchedule`."""
        passed = np.append(0.0, np.cumsum(self.rejection + 1e-12))
        betas = np.interp(np.linspace(0, passed[-1], num), passed, self.betas)
        return np.append(np.append(0.0, betas[1:-1]), 1.0)

    def __str__(self) -> str:
        rows = zip(self.betas, self.log_z, self.mean, self.spread, np.append(0.0, self.rejection), strict=True)
        lines = [f"{b:8.4f} {z:12.4f} {m:12.3f} {s:10.3f} {r:9.3f}" for b, z, m, s, r in rows]
        head = f"{'beta':>8} {'log Z':>12} {'derivative':>12} {'spread':>10} {'rejected':>9}"
        sums = f"barrier {self.barrier:.3f}, length {self.length:.3f}, round trips {self.round_trips:.3f} in a scan"
        return "\n".join([head, *lines, sums])


@quiet()
def describe(path: AbstractPath[Any], pilot: Any) -> Description:
    """Return the barrier, the length and the information of a path, from the states of a pilot on it.

    Args:
        path: The path of the pilot.
        pilot: A `Pilot`, or the result of `ParallelTempering` on the path.

    Returns:
        A `Description`. `print` shows it as a table.

    It knows what the pilot saw: a mode that no state visits adds nothing. Log Z comes from all states at all betas (the
    multistate estimator of Shirts and Chodera, 2008).

    Examples:
        >>> import jax
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 1.0))
        >>> run = qp.ParallelTempering(4, 6, qp.RandomWalk()).run(path, key=jax.random.key(0))
        >>> 0.3 < describe(path, run).length < 2.0  # 1 for exact draws
        True
    """
    betas, features = _checked(pilot)
    pooled, log_mixture, log_z = _pooled(path, betas, features)
    rows = [_at(path, beta, pooled, log_mixture) for beta in betas]
    pairs = [_rejection(path, *pair, pooled, log_mixture) for pair in itertools.pairwise(betas)]
    means, spreads = np.array(rows).T
    return Description(betas, log_z, means, spreads, np.array(pairs), _information(path, betas, pooled, log_mixture))


def learn(
    family: type | Callable[[Any], AbstractPath[Any]],
    pilot: Any,
    *,
    path: AbstractPointwisePath,
    num_knots: int = 5,
    start: Any = None,
) -> AbstractPath[Any]:
    """Return the member of a family of paths with the least Fisher-Rao length, from the states of a pilot.

    The knots are frozen in the path that is returned: a run on it is as unbiased as on any other. Only paths whose
    every density at least 30 states of the pilot speak for are considered. Where the best lies at that bound, learn
    again from a pilot on the new path.

    Args:
        family: `SplinePath` or `VaryingQPath`, or a function of a vector of parameters that returns a path with the
            features of the pilot.
        pilot: A `Pilot`, or the result of `ParallelTempering`.
        path: The path of the pilot.
        num_knots: Knots of a spline or of q, both ends included.
        start: The parameters to begin with, of a family that is a function.

    Returns:
        The path. Schedules follow from `describe(path, pilot).equal_betas(num)` with a pilot on it.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(-3.0, 1.0), qp.Normal(3.0, 1.0))
        >>> betas = jnp.linspace(0.0, 1.0, 12)
        >>> states = jax.random.normal(jax.random.key(0), (12, 100)) + 6.0 * betas[:, None] - 3.0  # exact draws
        >>> pilot = Pilot(betas, jax.vmap(jax.vmap(path.features))(states))
        >>> learned = learn(SplinePath, pilot, path=path)
        >>> float(learned.knots[2].sum()) < 0.8  # it becomes wide in the middle
        True
    """
    import scipy.optimize

    betas, features = _checked(pilot)
    pooled, log_mixture, _ = _pooled(path, betas, features)
    make, first = _family(family, path, num_knots, start)
    grid = jnp.linspace(0.0, 1.0, _NUM_BETAS)
    data = jax.tree.map(jnp.asarray, (pooled, log_mixture))

    @jax.jit
    def objective(parameters: Any, data: Any) -> Any:
        features, log_mixture = data
        member = make(parameters)
        values = member.log_density_from(grid[:, None], features)
        weights = jax.nn.softmax(values - log_mixture, axis=1)
        # The length of a step is that of the change of the log density under both of its ends.
        change = jnp.where(jnp.isfinite(values[1:] - values[:-1]), values[1:] - values[:-1], 0.0)
        both = (weights[1:], weights[:-1])
        symmetric = jnp.sum((both[0] - both[1]) * change, axis=1)
        ess = 1 / jnp.sum(weights**2, axis=1)
        return jnp.sum(jnp.sqrt(jnp.maximum(symmetric, 0.0) + 1e-12)) + jnp.sum(
            jnp.square(jnp.maximum(jnp.log(_LEAST_ESS / ess), 0.0)) * 10
        )

    gradient = jax.jit(jax.value_and_grad(objective))

    def of(parameters: Any) -> tuple[float, Any]:
        value, slope = gradient(jnp.asarray(parameters), data)
        return float(value), np.nan_to_num(np.asarray(slope, float))

    found = scipy.optimize.minimize(of, np.asarray(first, float), jac=True, method="L-BFGS-B")
    best = found.x if np.isfinite(found.fun) and found.fun < of(first)[0] else first
    return to_host(make(np.asarray(best)))


def _family(family: Any, path: AbstractPointwisePath, num_knots: int, start: Any) -> tuple[Callable[[Any], Any], Any]:
    """Return a function of free parameters, and the parameters of the geometric path."""
    if num_knots < 2:
        raise ValueError(f"`num_knots` must be at least 2, got {num_knots}: both ends are knots.")
    inner = np.linspace(0.0, 1.0, num_knots)[1:-1]
    if family is SplinePath:
        ends = jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]])

        def spline(parameters: Any) -> SplinePath:
            middle = jnp.exp(jnp.asarray(parameters).reshape(-1, 2))
            return SplinePath(path.base, path.target, jnp.concatenate([ends[0], middle, ends[1]]))

        return spline, np.log(np.column_stack([1 - inner, inner])).ravel()
    if family is VaryingQPath:
        return lambda p: VaryingQPath(path.base, path.target, jnp.exp(jnp.asarray(p))), np.full(num_knots, np.log(1e-3))
    if start is None:
        raise ValueError("`start` must be given, got None: the parameters at which a family of your own begins.")
    return family, start


def _checked(pilot: Any) -> tuple[np.ndarray, Any]:
    betas, features = to_host(pilot.betas), to_host(pilot.features)
    if features is None or len(betas) < 2 or len(betas) != len(jax.tree.leaves(features)[0]):
        raise ValueError(
            "`pilot` must have features of states at each of two or more betas: take `Pilot(betas, features)`, or the "
            "result of `ParallelTempering`."
        )
    return np.asarray(betas, float), features


@quiet()
def _pooled(path: AbstractPath[Any], betas: np.ndarray, features: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return all states, the log density of the mixture that they come from, and log Z at each beta."""
    num_states = jax.tree.leaves(features)[0].shape[1]
    pooled = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), features)
    values = np.asarray(path.log_density_from(betas[:, None], pooled), float)
    log_z = np.zeros(len(betas))
    for _ in range(_MOST_ROUNDS):
        log_mixture = np.logaddexp.reduce(values - log_z[:, None], axis=0) + np.log(num_states)
        new = np.logaddexp.reduce(np.where(values == -np.inf, -np.inf, values - log_mixture), axis=1)
        new -= new[0]
        if np.max(np.abs(new - log_z)) < _SETTLED:
            break
        log_z = new
    return pooled, log_mixture, log_z


def _weights(path: Any, beta: float, pooled: Any, log_mixture: np.ndarray) -> np.ndarray:
    values = np.asarray(path.log_density_from(beta, pooled), float)
    weights = np.exp(values - log_mixture - np.max(values - log_mixture))
    return weights / weights.sum()


def _at(path: Any, beta: float, pooled: Any, log_mixture: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of the derivative at a beta."""
    weights = _weights(path, beta, pooled, log_mixture)
    slopes = np.where(weights > 0, np.asarray(path.derivative_from(beta, pooled), float), 0.0)
    mean = float(weights @ slopes)
    return mean, float(weights @ (slopes - mean) ** 2) ** 0.5


def _rejection(path: Any, beta: float, new_beta: float, pooled: Any, log_mixture: np.ndarray) -> float:
    """Return the rate of rejected swaps between exact draws at two betas, `1 - E min(1, exp(W' - W))`."""
    change = np.asarray(path.log_ratio(beta, new_beta, pooled), float)
    low, high = (_weights(path, b, pooled, log_mixture) for b in (beta, new_beta))
    order = np.argsort(change, kind="stable")
    low, high = low[order], high[order]
    # Where the change is smaller on the low side, low(x) high(y) exp(change(x) - change(y)) is high(x) low(y).
    passed = np.cumsum(high)
    return float(np.clip(1 - np.sum(low * (2 * passed - high)), 0.0, 1.0))


def _information(path: Any, betas: np.ndarray, pooled: Any, log_mixture: np.ndarray) -> np.ndarray:
    """Return `((1-beta) + beta - Z) / q` with both ends normalized: the least mixed alpha-divergence at each beta."""
    if not isinstance(path, Ordered) or not isinstance(path, AbstractPointwisePath) or not 1 - float(path.delta) > 0:
        return np.full(len(betas), np.nan)
    log_base, log_target = (np.asarray(part, float) for part in pooled)

    def mass(values: np.ndarray) -> float:
        return float(np.logaddexp.reduce(values - log_mixture))

    log_base, log_target = log_base - mass(log_base), log_target - mass(log_target)
    masses = [np.exp(mass(np.asarray(path.interpolate(beta, log_base, log_target)))) for beta in betas]
    return (1 - np.array(masses)) / (1 - float(path.delta))
