"""Conformance of a path: the rules of `AbstractPath`, checked on any path."""

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import AnyArray, Features, FloatArray, Point, PRNGKey, RealLike, quiet, to_host
from ..densities import DensityLike
from ..paths import AbstractParametricPath, AbstractPath, AbstractPointwisePath, Reversed
from ..rows import Evaluator, HostDensities, Layout


def close(a: RealLike, b: RealLike, power: float) -> bool:
    """Equal up to `eps ** power` of the size, infinities included."""
    a, b = np.asarray(a), np.asarray(b)
    tolerance = float(np.finfo(b.dtype).eps) ** power
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, _size(a), _size(b))))


def _size(a: np.ndarray) -> float:
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 0.0


def stencil(center: float, step: float) -> list[float]:
    """Betas near `center`, on both sides or only inside the path, for differences with two steps."""
    if center == 0:
        return [h * k for h in (step, step / 2) for k in (1, 2, 3)]
    if center == 1:
        return [1 - beta for beta in stencil(0.0, step)]
    return [center + h * k for h in (step, step / 2) for k in (-1, 1)]


def is_off(derivative: np.ndarray, differences: tuple[np.ndarray, np.ndarray], possible: np.ndarray) -> bool:
    """Return whether a derivative is no number, or far from the difference quotient where that is a number."""
    quotient, error = differences
    known = possible & np.isfinite(quotient) & np.isfinite(error)
    far = known & ~(np.abs(derivative - quotient) <= error)
    return bool((far | (possible & np.isnan(derivative))).any())


_BETAS = (0.0, 2.0**-20, 0.125, 0.375, 0.5, 0.875, 1 - 2.0**-20, 1.0)
"""Betas that are exact under `1 - beta`."""
_OUTSIDE = (-0.25, 1.25)
"""Betas at which every number must be NaN."""
_ROUND = {0.125: 0.375, 0.375: 0.875, 0.875: 0.125}
"""Steps of beta that lead back to where they began."""
_SLOPES = (0.0, 0.375, 1.0)
"""Betas at which derivatives are compared with differences."""


@quiet()
def check_path(path: AbstractPath[Any], points: Point = None, *, key: PRNGKey | None = None) -> None:
    """Check that a path keeps the rules of `AbstractPath`; raise one AssertionError that lists all it breaks.

    The path is looked at inside it and at both ends, from base to target and reversed, compiled and on the host. The
    tutorial [Write a path](tutorials/own_path.md) has an example of a mistake.

    Args:
        path: The path.
        points: A batch of points, a pytree with a leading axis; without it 16 are drawn from the base. Points where an
            endpoint is `-inf` are welcome.
        key: For the draws.

    It sees only the points. The tolerance follows from the precision of the densities; float64 sees more.

    Examples:
        >>> import qpaths as qp
        >>> base = qp.Normal(0.0, 1.0)
        >>> check_path(qp.QPath(base, lambda x: -2.0 * (x - 1.0) ** 2, q=0.9))
    """
    if points is None:
        points = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0) if key is None else key, 16))
    case = _Case(path, points)
    broken = [str(message) for rule in _RULES for message in rule(case)]
    assert not broken, f"{type(path).__name__} breaks the contract of a path:\n- " + "\n- ".join(broken)


class _Case:
    """A path, some points, and the numbers of the path there: rows are betas, columns are points."""

    def __init__(self, path: AbstractPath[Any], points: Point):
        self.path, self.points = path, points
        self.first = jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], points)
        dtype = jax.eval_shape(lambda x: path.log_density(0.5, x), self.first).dtype
        self.step = float(2.0 ** round(np.log2(float(jnp.finfo(dtype).eps)) / 3))
        stencils = [beta for center in _SLOPES for beta in stencil(center, self.step)]
        self.betas = (*_BETAS, *_OUTSIDE, *stencils)
        betas, ahead = (jnp.asarray(part, dtype)[:, None] for part in (self.betas, self._ahead))
        self.features, self.values = to_host(_by_points(path, betas, points))
        features = jax.tree.map(jnp.asarray, self.features)
        # What is not pointwise is compiled by itself, and once for both worlds.
        numbers = _compiled_numbers if path.is_pointwise else _numbers
        self.one_by_one = np.asarray(_one_by_one(path, betas, features))
        self.traced = self._tables(numbers(path, betas, ahead, features))
        self.host = self._on_host(path, np.array(self.betas), np.array(self._ahead))
        self.reversed = self._on_host(Reversed(path), *map(self._mirrored, (self.betas, self._ahead)))

    @property
    def _ahead(self) -> list[float]:
        return [_ROUND.get(beta, beta) for beta in self.betas]

    @staticmethod
    def _mirrored(betas: Sequence[float] | np.ndarray) -> np.ndarray:
        """`1 - beta`; what is outside stays there."""
        betas = np.asarray(betas)
        return np.where((betas < 0) | (betas > 1), betas, 1 - betas)

    def _on_host(self, path: AbstractPath[Any], betas: np.ndarray, ahead: np.ndarray) -> dict[str, np.ndarray]:
        """From features that are NumPy arrays."""
        evaluator = Evaluator.of(path, HostDensities(Layout.of(self.first), with_slopes=False))
        return self._tables(_numbers(evaluator.path, betas[:, None], ahead[:, None], self.features))

    def _tables(self, found: dict[str, Any]) -> dict[str, np.ndarray]:
        """Arrays with a row for each beta; NaN where the shape is wrong, which breaks several rules."""
        shape, tables = self.values.shape, {}
        for name, value in to_host(found).items():
            tables[name] = np.full(shape, np.nan, self.values.dtype)
            if np.shape(value) in (shape, shape[1:], (shape[0], 1), ()):
                tables[name][...] = value
        return tables

    def at(self, table: np.ndarray, *betas: float) -> np.ndarray:
        """Some rows of a table."""
        return table[[self.betas.index(beta) for beta in betas]]


@jax.jit
def _by_points(path: AbstractPath[Any], betas: AnyArray, points: Point) -> tuple[Any, Any]:
    values = jax.vmap(lambda beta: jax.vmap(lambda x: path.log_density(beta[0], x))(points))(betas)
    return jax.vmap(path.features)(points), values


@jax.jit
def _one_by_one(path: AbstractPath[Any], betas: AnyArray, features: Features) -> AnyArray:
    return jax.vmap(lambda beta: jax.vmap(lambda f: path.log_density_from(beta[0], f))(features))(betas)


def _numbers(path: AbstractPath[Any], betas: AnyArray, ahead: AnyArray, features: Features) -> dict[str, Any]:
    first, second = path.derivatives_from(betas, features)
    return {
        "log_density": path.log_density_from(betas, features),
        "log_ratio": path.log_ratio(betas, ahead, features),
        "derivative": path.derivative_from(betas, features),
        "first": first,
        "second": second,
    }


_compiled_numbers = jax.jit(_numbers)


@jax.jit
def _interpolated(path: AbstractPointwisePath, *arguments: AnyArray) -> AnyArray:
    return path.interpolate(*arguments)


def _differences(case: _Case, center: float, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Difference quotients of the rows of a table at one beta, and how far they may be off.

    At an end they are one-sided and do without the end itself. Where two steps disagree nothing is known.
    """
    rows = case.at(table, *stencil(center, case.step)).astype(float)
    weights = np.array([-5.0, 8.0, -3.0] if center in (0, 1) else [-1.0, 1.0]) / 2
    sign = -1 if center == 1 else 1
    coarse, fine = (
        sign * np.einsum("k,kn->n", weights, part) / h
        for part, h in zip(np.split(rows, 2), (case.step, case.step / 2), strict=True)
    )
    gap, rounding = np.abs(coarse - fine), float(np.finfo(table.dtype).eps) ** 0.4
    tolerance = rounding * np.maximum(1.0, np.abs(rows).max(axis=0) + np.abs(fine))
    return fine, np.where(gap <= 0.1 * np.abs(fine) + tolerance, 4 * gap + tolerance, np.inf)


def _endpoints_are_exact(case: _Case) -> Iterator[str]:
    path = case.path
    for name, beta in (("base", 0.0), ("target", 1.0)):
        # Without jit: compiled together with other code, the same density may round differently.
        values = jax.vmap(lambda x, b=beta: path.log_density(b, x))(case.points)
        if not np.array_equal(values, jax.vmap(lambda x, n=name: getattr(path, n).log_prob(x))(case.points)):
            yield f"log_density({beta:g}, x) must be {name}.log_prob(x), bit for bit"


def _ways_agree(case: _Case) -> Iterator[str]:
    values = case.at(case.values, *_BETAS)
    member = jax.jit(lambda beta: jax.vmap(case.path.at(beta).log_prob)(case.points))
    ways = {
        "at(beta).log_prob(x)": np.stack([member(beta) for beta in _BETAS]),
        "log_density_from(beta, features(x))": case.at(case.one_by_one, *_BETAS),
        "Reversed(path).log_density_from(1 - beta, features(x))": case.at(case.reversed["log_density"], *_BETAS),
    }
    for name, way in ways.items():
        if not close(way, values, 0.8):
            yield f"{name} must agree with log_density(beta, x)"
    if not close(case.path.log_density(0.5, case.first), case.at(case.values, 0.5)[0, 0], 0.8):
        yield "log_density must give the same with and without jax.jit and jax.vmap"


def _is_elementwise(case: _Case) -> Iterator[str]:
    together, one_by_one = (case.at(table, *_BETAS) for table in (case.traced["log_density"], case.one_by_one))
    if not close(together, one_by_one, 0.8):
        yield "log_density_from must be elementwise: betas and features of many points give one number for each"
    for name in ("log_density", "derivative"):
        # The derivative is worse conditioned than the density.
        power = 0.9 if name == "log_density" else 0.7
        host, traced = (case.at(tables[name], *_BETAS) for tables in (case.host, case.traced))
        if not close(host, traced, power):
            yield f"{name}_from must give the same for NumPy and for JAX features"


def _no_nan(case: _Case) -> Iterator[str]:
    if np.isnan(case.at(case.values, *_BETAS)).any():
        yield "log_density is NaN at some point: zero mass is -inf"
    if isinstance(case.path, AbstractPointwisePath):
        low, high = jnp.array([-jnp.inf, -1.0, -jnp.inf]), jnp.array([-1.0, -jnp.inf, -jnp.inf])
        if np.isnan(_interpolated(case.path, jnp.asarray(_BETAS)[:, None], low, high)).any():
            yield "interpolate is NaN where an endpoint is -inf"


def _nan_outside(case: _Case) -> Iterator[str]:
    tables = {
        "log_density": [case.values],
        "log_density_from": [tables["log_density"] for tables in (case.traced, case.host, case.reversed)],
        "derivative_from": [tables["derivative"] for tables in (case.traced, case.host, case.reversed)],
    }
    for name, parts in tables.items():
        if not all(np.isnan(case.at(part, *_OUTSIDE)).all() for part in parts):
            yield f"{name} must be NaN where beta, traced or checked by nobody, lies outside [0, 1]"


def _log_ratio_adds_up(case: _Case) -> Iterator[str]:
    values = case.at(case.values, *_ROUND)
    possible = np.isfinite(values).all(axis=0)
    differences = (case.at(case.values, *_ROUND.values()) - values)[:, possible]
    for name, tables in (("log_ratio", case.traced), ("Reversed(path).log_ratio", case.reversed)):
        ratios = case.at(tables["log_ratio"], *_ROUND)[:, possible]
        if not close(ratios[0] + ratios[1], -ratios[2], 0.7):
            yield f"{name} must add up: to 0.375, to 0.875 and back to 0.125 makes 0"
        if not close(ratios, differences, 0.7):
            yield f"{name}(beta, new_beta, features) must be log_density(new_beta) - log_density(beta)"
    host, traced = (case.at(tables["log_ratio"], *_ROUND)[:, possible] for tables in (case.host, case.traced))
    if not close(host, traced, 0.8):
        yield "log_ratio must give the same for NumPy and for JAX features"


def _derivative_is_right(case: _Case) -> Iterator[str]:
    directions = {"": (case.traced, 1), "Reversed(path).": (case.reversed, -1)}
    for beta in _SLOPES:
        possible = np.isfinite(case.at(case.values, beta)[0])
        slope = _differences(case, beta, case.values)
        bend = _differences(case, beta, case.traced["derivative"])
        for name, (tables, sign) in directions.items():
            derivative, first, second = (case.at(tables[key], beta)[0] for key in ("derivative", "first", "second"))
            where = beta if sign == 1 else 1 - beta
            if is_off(sign * derivative, slope, possible):
                yield f"{name}derivative_from must be the derivative of log_density in beta, also at beta = {where:g}"
            if not close(first[possible], derivative[possible], 0.7):
                yield f"{name}derivatives_from must return derivative_from first, also at beta = {where:g}"
            if is_off(second, bend, possible & np.isfinite(slope[0])):
                yield f"{name}derivatives_from must return the second derivative, also at beta = {where:g}"


@jax.jit
def _scores(path: AbstractPath[Any], points: Point) -> tuple[Any, Any]:
    """The gradient in x, and the mix of those of the endpoints."""

    def both(x: Point) -> tuple[Any, Any]:
        score = jax.grad(lambda x: path.log_density(0.375, x))(x)
        if not isinstance(path, AbstractPointwisePath):
            return score, score
        base_share, target_share = path.shares(0.375, *path.features(x))
        scores = jax.grad(path.base.log_prob)(x), jax.grad(path.target.log_prob)(x)
        return score, jax.tree.map(lambda b, t: base_share * b + target_share * t, *scores)

    return jax.vmap(both)(points)


def _score_is_the_mix_of_endpoint_scores(case: _Case) -> Iterator[str]:
    scores, mixed = map(jax.tree.leaves, _scores(case.path, case.points))
    if any(np.isnan(leaf).any() for leaf in scores):
        yield "the gradient of log_density in x is NaN at some point"
    elif not all(close(a, b, 0.7) for a, b in zip(scores, mixed, strict=True)):
        yield "the score must be the mix of the endpoint scores with weights `shares`"


class _Counted(eqx.Module):
    """A density that counts how often it is called."""

    density: DensityLike
    calls: list[int] = eqx.field(static=True)

    def log_prob(self, x: Point) -> FloatArray:
        self.calls[0] += 1
        return self.density.log_prob(x)


def _densities_are_evaluated_once(case: _Case) -> Iterator[str]:
    path = case.path
    if isinstance(path, AbstractParametricPath):
        return  # its densities are members of a family, which a counter is not
    for name in ("base", "target"):
        if name not in vars(path):
            continue  # a wrapper around another path
        calls = [0]
        counted = eqx.tree_at(operator.attrgetter(name), path, _Counted(getattr(path, name), calls))
        jax.eval_shape(jax.value_and_grad(functools.partial(counted.log_density, 0.375)), case.first)
        if calls[0] > 1:
            yield f"log_density and its gradient must evaluate `{name}` once, not {calls[0]} times"


_RULES = (
    _endpoints_are_exact,
    _ways_agree,
    _is_elementwise,
    _no_nan,
    _nan_outside,
    _log_ratio_adds_up,
    _derivative_is_right,
    _score_is_the_mix_of_endpoint_scores,
    _densities_are_evaluated_once,
)
