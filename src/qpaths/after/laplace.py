"""The evidence of one small data set by weighted draws, as a compiled program that runs over many at once.

Newton ascents from draws of the prior find modes; Student-t distributions with the curvature there propose pilot draws,
and one that is fitted to these proposes the draws that count. A share of the prior is in every proposal.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core import Cost, Identity, in_precision
from ..densities import DensityLike, as_pytree, evaluate
from ..rows import Layout

_NUM_STARTS, _NUM_STEPS, _PILOTS, _DF = 4, 20, 256, 6
"""Ascents of a data set and their steps, pilot draws, and degrees of freedom of all Student-t distributions."""
_FARTHEST, _FLATTEST = 4.0, 0.1
"""Prior deviations that a step of an ascent goes at most, and the least curvature that a proposal has, against that of
a normal prior."""
_LENGTHS = (1.0, 0.4, 0.1, 0.01)
_SHARES = 0.05, 0.15, 0.8
"""Shares of the prior, of the distributions at the modes, and of the fitted one in the draws that count."""
_SHRUNK, _NARROWER = 10.0, 0.85
"""Pilot draws that the curvature at the best mode counts for in the fit, and the square of a factor: tails of the
Student-t distribution make up for it."""
NUM_KEPT = 100
"""Draws of equal weight that are kept of each data set."""


_programs: dict[Identity, Any] = {}
_MOST_PROGRAMS = 8


@dataclasses.dataclass(frozen=True)
class Weigher:
    """Weighs draws for data sets with the given numbers.

    Attributes:
        prior: Its density.
        likelihood: `likelihood(x, data)` at one point.
        constrain: Makes the variables of a point.
        layout: That of a point.
        center: Of the prior, by coordinate.
        spread: As its standard deviation.
        data: Of all data sets, with their axis in front.
        keys: Data of a random key for each of them.
        num: Draws that count.
        double: Whether numbers have 64 bits.
    """

    prior: DensityLike
    likelihood: Any
    constrain: Any
    layout: Layout
    center: np.ndarray
    spread: np.ndarray
    data: Any
    keys: Any
    num: int
    double: bool

    is_compiled = True

    def __call__(self, numbers: np.ndarray) -> Any:
        """Return for each data set log weights, kept draws, moments of the variables, and the share of NaN."""
        with in_precision(self.double):
            data = jax.tree.map(lambda leaf: leaf[numbers], self.data)
            return jax.tree.map(np.asarray, self._program(self.keys[numbers], data))

    @functools.cached_property
    def _program(self) -> Any:
        """A compiled program, that of another call with the same functions where there was one."""
        shape = self.layout, self.num, self.double, self.center.tobytes(), self.spread.tobytes()
        identity = Identity((self.prior, as_pytree(self.likelihood)), *shape)
        if identity not in _programs:
            while len(_programs) >= _MOST_PROGRAMS:
                _programs.pop(next(iter(_programs)))
            without_data = dataclasses.replace(self, data=None, keys=None)
            _programs[identity] = jax.jit(jax.vmap(without_data._of_one))
        return _programs[identity]

    def __getstate__(self) -> Any:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _log_prior(self, z: Any) -> Any:
        rows = self.center + self.spread * z
        return evaluate(self.prior, self.layout.points(rows), "prior") + np.sum(np.log(self.spread))

    def _of_one(self, key_data: Any, data: Any) -> Any:
        """Coordinates are in deviations of the prior from its center."""
        start, pilot, count, keep = jax.random.split(jax.random.wrap_key_data(key_data), 4)

        def raw(z: Any) -> Any:
            log_prior = self._log_prior(z)
            value = self.likelihood(self.layout.points(self.center + self.spread * z), data)
            return jnp.where(log_prior == -jnp.inf, -jnp.inf, log_prior + value)

        def log_joint(z: Any) -> Any:
            value = raw(z)
            return jnp.where(value < jnp.inf, value, -jnp.inf)  # NaN too is a point without mass

        def from_prior(key: Any, num: int) -> Any:
            points = jax.vmap(self.prior.sample)(jax.random.split(key, num))  # type: ignore[attr-defined]
            return (self.layout.rows(points) - self.center) / self.spread

        modes = _modes(
            log_joint, jnp.concatenate([jnp.zeros((1, self.center.size)), from_prior(start, _NUM_STARTS - 1)])
        )
        best = jax.tree.map(lambda leaf: leaf[jnp.argmax(modes[2])], modes)

        def weighted(key: Any, counts: tuple[int, ...], main: Any) -> Any:
            keys, total = jax.random.split(key, 3), sum(counts)
            which = jnp.searchsorted(
                jnp.cumsum(jax.nn.softmax(modes[2])), (jnp.arange(counts[1]) + 0.5) / counts[1]
            ).clip(0, _NUM_STARTS - 1)
            at_modes = jax.tree.map(lambda leaf: leaf[which], modes)
            z = [from_prior(keys[0], counts[0]), _drawn(keys[1], at_modes[0], at_modes[1], counts[1])]
            parts = [jax.vmap(self._log_prior), lambda z: _log_mixture(z, modes)]
            if counts[2]:
                z.append(_drawn(keys[2], main[0], main[1], counts[2]))
                parts.append(lambda z: _log_student(z, *main))
            rows = jnp.concatenate(z)
            shares = jnp.log(jnp.asarray(counts[: len(parts)]) / total)
            log_proposal = jax.nn.logsumexp(jnp.stack([part(rows) for part in parts]) + shares[:, None], axis=0)
            values = jax.vmap(raw)(rows)
            bad = ~(values < jnp.inf)
            return rows, jnp.where(bad, -jnp.inf, values - log_proposal), jnp.mean(bad)

        first = _PILOTS // 5, _PILOTS - _PILOTS // 5, 0
        pilots, log_weights, _ = weighted(pilot, first, None)
        main = _fitted(pilots, log_weights, best)
        counts = [round(share * self.num) for share in _SHARES[:2]]
        rows, log_weights, bad = weighted(count, (*counts, self.num - sum(counts)), main)
        weights = jax.nn.softmax(log_weights)
        weights = jnp.where(jnp.isfinite(weights), weights, 1 / self.num)
        uniform = (jnp.arange(NUM_KEPT) + jax.random.uniform(keep)) / NUM_KEPT
        kept = jnp.searchsorted(jnp.cumsum(weights), uniform).clip(0, self.num - 1)
        points = self.layout.points(self.center + self.spread * rows)
        named = jax.vmap(self.constrain)(points)
        mean = jax.tree.map(lambda x: jnp.tensordot(weights, x, 1), named)
        variance = jax.tree.map(lambda x, m: jnp.tensordot(weights, (x - m) ** 2, 1), named, mean)
        taken = jax.tree.map(lambda leaf: leaf[kept], (points, named))
        return log_weights, taken, mean, jax.tree.map(jnp.sqrt, variance), bad


def cost_of_pilots(dimension: int) -> Cost:
    """Return what ascents and pilot draws of a data set cost; a second derivative is a gradient of each slope."""
    steps = _NUM_STARTS * _NUM_STEPS
    return Cost(target=steps * len(_LENGTHS) + _PILOTS, target_gradient=steps * (1 + dimension))


def _modes(log_joint: Any, starts: Any) -> Any:
    """Return ends of Newton ascents, square roots of the inverse curvature there, and log masses by Laplace's rule."""
    gradient, hessian = jax.grad(log_joint), jax.hessian(log_joint)

    def curvature(z: Any) -> Any:
        values, vectors = jnp.linalg.eigh(jnp.nan_to_num(-hessian(z)))
        return values, vectors

    def advance(carry: Any, _: None) -> Any:
        z, value = carry
        sizes, vectors = curvature(z)
        # Where the density is convex, as if it bent the other way: the direction still leads uphill.
        step = vectors @ ((vectors.T @ jnp.nan_to_num(gradient(z))) / jnp.maximum(jnp.abs(sizes), 0.05))
        step = step * jnp.minimum(1.0, _FARTHEST / jnp.maximum(jnp.linalg.norm(step), 1e-30))
        tried = z + jnp.asarray(_LENGTHS)[:, None] * step
        values = jax.vmap(log_joint)(tried)
        chosen = jnp.argmax(values)
        better = values[chosen] > value
        return (jnp.where(better, tried[chosen], z), jnp.where(better, values[chosen], value)), None

    def climb(z: Any) -> Any:
        (z, value), _ = jax.lax.scan(advance, (z, log_joint(z)), None, length=_NUM_STEPS)
        sizes, vectors = curvature(z)
        sizes = jnp.maximum(sizes, _FLATTEST)
        return z, vectors / jnp.sqrt(sizes), value - 0.5 * jnp.sum(jnp.log(sizes))

    ends, roots, masses = jax.vmap(climb)(starts)
    none = ~jnp.any(masses > -jnp.inf)
    return ends, roots, jnp.where(none, 0.0, masses)


def _log_student(z: Any, center: Any, root: Any) -> Any:
    """Return the log density of a Student-t distribution whose scale matrix is `root @ root.T`, at rows."""
    d = center.size
    # One inverse for all rows: solving for each of them takes ten times as long as everything else.
    standard = (z - center) @ jnp.linalg.inv(root).T
    constant = math.lgamma((_DF + d) / 2) - math.lgamma(_DF / 2) - 0.5 * d * math.log(_DF * math.pi)
    square = jnp.sum(standard**2, axis=1)
    return constant - jnp.linalg.slogdet(root)[1] - 0.5 * (_DF + d) * jnp.log1p(square / _DF)


def _log_mixture(z: Any, modes: Any) -> Any:
    each = jax.vmap(lambda center, root: _log_student(z, center, root))(modes[0], modes[1])
    return jax.nn.logsumexp(each + jax.nn.log_softmax(modes[2])[:, None], axis=0)


def _drawn(key: Any, center: Any, root: Any, num: int) -> Any:
    """Return draws of Student-t distributions: of one, or of one for each draw."""
    one, other = jax.random.split(key)
    noise = jax.random.normal(one, (num, center.shape[-1]))
    # A gamma variable with an integer shape is a sum of exponential ones.
    gamma = jnp.sum(jax.random.exponential(other, (num, _DF // 2)), axis=1)
    noise = noise / jnp.sqrt(gamma * 2 / _DF)[:, None]
    return center + jnp.einsum("...ij,...j->...i", root, noise)


def _fitted(rows: Any, log_weights: Any, best: Any) -> Any:
    """Return center and root of a distribution fitted to weighted pilot draws."""
    weights = jax.nn.softmax(log_weights)
    worth = 1 / jnp.sum(weights**2)
    center = weights @ rows
    away = rows - center
    covariance = (worth * (weights[:, None] * away).T @ away + _SHRUNK * best[1] @ best[1].T) / (worth + _SHRUNK)
    root = jnp.linalg.cholesky(_NARROWER * covariance)
    good = (worth > 5) & jnp.isfinite(root).all() & jnp.isfinite(center).all()
    return jnp.where(good, center, best[0]), jnp.where(good, root, best[1])
