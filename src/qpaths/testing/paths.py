"""Conformance of a path: the rules of `AbstractPath`, checked on any path."""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Point, PRNGKey, ScalarLike
from ..paths import AbstractParametricPath, AbstractPath, AbstractPointwisePath, Reversed

_BETAS = (0.0, 2.0**-20, 0.125, 0.5, 0.875, 1 - 2.0**-20, 1.0)  # exact under 1 - beta


def check_path(path: AbstractPath[Any], points: Point = None, *, key: PRNGKey | None = None) -> None:
    """Check that a path keeps the rules of `AbstractPath`; raise one AssertionError that lists all it breaks.

    `points` is a batch of points (a pytree with a leading axis); without it 16 are drawn from the base. Points where
    an endpoint is `-inf` are welcome. The tolerance follows from the precision of the densities; float64 sees more.
    """
    if points is None:
        points = jax.vmap(path.sample_base)(jax.random.split(jax.random.key(0) if key is None else key, 16))
    broken = [str(message) for rule in _RULES for message in rule(path, points)]
    assert not broken, f"{type(path).__name__} breaks the contract of a path:\n- " + "\n- ".join(broken)


@jax.jit
def _values(path: AbstractPath[Any], beta: ScalarLike, points: Point) -> jax.Array:
    return jax.vmap(lambda x: path.log_density(beta, x))(points)


@jax.jit
def _features(path: AbstractPath[Any], points: Point) -> Any:
    return jax.vmap(path.features)(points)


def _close(a: Any, b: Any, power: float) -> bool:
    """Equal up to `eps ** power` of the size, infinities included."""
    a, b = np.asarray(a), np.asarray(b)
    tolerance = float(np.finfo(a.dtype).eps) ** power
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, _size(a), _size(b))))


def _size(a: np.ndarray) -> float:
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 0.0


def _endpoints_are_exact(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    for name, beta in (("base", 0.0), ("target", 1.0)):
        # Without jit: compiled together with other code, the same density may round differently.
        values = jax.vmap(lambda x, b=beta: path.log_density(b, x))(points)
        if not np.array_equal(values, jax.vmap(lambda x, n=name: getattr(path, n).log_prob(x))(points)):
            yield f"log_density({beta:g}, x) must be {name}.log_prob(x), bit for bit"


def _ways_agree(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    features = _features(path, points)
    first = jax.tree.map(lambda leaf: leaf[0], points)
    ways: dict[str, Callable[[float], Any]] = {
        "at(beta).log_prob(x)": jax.jit(lambda beta: jax.vmap(path.at(beta).log_prob)(points)),
        "log_density_from(beta, features(x))": jax.jit(
            lambda beta: jax.vmap(lambda f: path.log_density_from(beta, f))(features)
        ),
        "Reversed(path).log_density(1 - beta, x)": lambda beta: _values(Reversed(path), 1 - beta, points),
    }
    for name, way in ways.items():
        if not all(_close(way(beta), _values(path, beta, points), 0.8) for beta in _BETAS):
            yield f"{name} must agree with log_density(beta, x)"
    if not _close(path.log_density(0.5, first), _values(path, 0.5, points)[0], 0.8):
        yield "log_density must give the same with and without jax.jit and jax.vmap"


def _no_nan(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    if any(np.isnan(_values(path, beta, points)).any() for beta in _BETAS):
        yield "log_density is NaN at some point: zero mass is -inf"
    if isinstance(path, AbstractPointwisePath):
        low, high = jnp.array([-jnp.inf, -1.0, -jnp.inf]), jnp.array([-1.0, -jnp.inf, -jnp.inf])
        if any(np.isnan(path.interpolate(beta, low, high)).any() for beta in _BETAS):
            yield "interpolate is NaN where an endpoint is -inf"


def _log_ratio_adds_up(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    features = _features(path, points)
    possible = np.isfinite(_values(path, 0.3, points)) & np.isfinite(_values(path, 0.6, points))
    all_ratios = jax.jit(lambda beta, new_beta: jax.vmap(lambda f: path.log_ratio(beta, new_beta, f))(features))

    def ratio(beta: float, new_beta: float) -> np.ndarray:
        return np.asarray(all_ratios(beta, new_beta))[possible]

    if not _close(ratio(0.3, 0.6) + ratio(0.6, 0.9), ratio(0.3, 0.9), 0.7):
        yield "log_ratio must add up: (0.3 to 0.6) + (0.6 to 0.9) = (0.3 to 0.9)"
    if not _close(ratio(0.3, 0.6), (_values(path, 0.6, points) - _values(path, 0.3, points))[possible], 0.7):
        yield "log_ratio(beta, new_beta, features) must be log_density(new_beta) - log_density(beta)"


def _derivative_is_right(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    features = _features(path, points)
    beta = 0.4
    possible = np.isfinite(_values(path, beta, points))
    step = float(jnp.finfo(_values(path, beta, points).dtype).eps) ** (1 / 3)
    difference = (_values(path, beta + step, points) - _values(path, beta - step, points)) / (2 * step)
    derivative = jax.jit(jax.vmap(lambda f: path.derivative_from(beta, f)))(features)
    if not _close(np.asarray(derivative)[possible], np.asarray(difference)[possible], 0.4):
        yield "derivative_from must be the derivative of log_density in beta"


def _score_is_the_mix_of_endpoint_scores(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    def mix(x: Point) -> Any:
        base_share, target_share = path.shares(0.4, *path.features(x))  # type: ignore[attr-defined]
        scores = jax.grad(path.base.log_prob)(x), jax.grad(path.target.log_prob)(x)
        return jax.tree.map(lambda b, t: base_share * b + target_share * t, *scores)

    scores = jax.tree.leaves(jax.jit(jax.vmap(jax.grad(lambda x: path.log_density(0.4, x))))(points))
    if any(np.isnan(leaf).any() for leaf in scores):
        yield "the gradient of log_density in x is NaN at some point"
    elif isinstance(path, AbstractPointwisePath):
        mixed = jax.tree.leaves(jax.jit(jax.vmap(mix))(points))
        if not all(_close(a, b, 0.7) for a, b in zip(scores, mixed, strict=True)):
            yield "the score must be the mix of the endpoint scores with weights `shares`"


class _Counted(eqx.Module):
    """A density that counts how often it is called."""

    density: Any
    calls: list[int] = eqx.field(static=True)

    def log_prob(self, x: Point) -> Any:
        self.calls[0] += 1
        return self.density.log_prob(x)


def _densities_are_evaluated_once(path: AbstractPath[Any], points: Point) -> Iterator[str]:
    if isinstance(path, AbstractParametricPath):
        return  # its densities are members of a family, which a counter is not
    x = jax.tree.map(lambda leaf: leaf[0], points)
    for name in ("base", "target"):
        if name not in vars(path):
            continue  # a wrapper around another path
        calls = [0]
        counted = eqx.tree_at(operator.attrgetter(name), path, _Counted(getattr(path, name), calls))
        jax.eval_shape(jax.value_and_grad(functools.partial(counted.log_density, 0.4)), x)
        if calls[0] > 1:
            yield f"log_density and its gradient must evaluate `{name}` once, not {calls[0]} times"


_RULES = (
    _endpoints_are_exact,
    _ways_agree,
    _no_nan,
    _log_ratio_adds_up,
    _derivative_is_right,
    _score_is_the_mix_of_endpoint_scores,
    _densities_are_evaluated_once,
)
