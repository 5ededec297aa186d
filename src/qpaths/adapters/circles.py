"""Periodic parameters of a model as angles: a phase that leaves its interval at one end comes back at the other."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..core import namespace, quiet
from ..densities import Density

Named = dict[str, Any]

_FAR, _FARTHER = 40.0, 60.0
"""Coordinates at which a parameter with two bounds is at the upper one."""
_SHAPE = 6.0
"""Shape of the gamma distribution of half the squared distance from the origin. With 1 the plane would be normal."""


def on_circles(model: Any, periodic: Sequence[str | int]) -> Any:
    """Return a model in which some parameters with two bounds have no ends.

    Each number of them has two coordinates, a point of the plane. Its angle is the parameter, and half of its squared
    distance from the origin has a gamma distribution. So the density has no top at the origin, where there is no angle.
    The evidence does not change.

    Args:
        model: The model.
        periodic: Names of variables whose lower and upper bounds are the same place.
    """
    for name in periodic:
        if name not in model.variables:
            raise ValueError(f"`periodic` has {name!r}, which is no parameter: these are {', '.join(model.variables)}.")
        _check_bounds(model, str(name))
    circles = _Circles(model, tuple(map(str, periodic)))
    return dataclasses.replace(
        model,
        prior=Density(circles.log_prior, circles.sample, backend=model.prior.backend, batched=model.prior.batched),
        log_likelihood=lambda point, *data: model.log_likelihood(circles.inner(point), *data),
        constrain=lambda point: model.constrain(circles.inner(point)),
        unconstrain=lambda named: circles.outer(model.unconstrain(named), (2 * _SHAPE) ** 0.5),
        simulate=None if model.simulate is None else lambda key, x: model.simulate(key, circles.inner(x)),
        pointwise=None if model.pointwise is None else lambda point: model.pointwise(circles.inner(point)),
        target=None,
    )


@quiet()
def _check_bounds(model: Any, name: str) -> None:
    """Raise unless a variable is the logistic function of its coordinate, between two bounds."""
    is_numpy = model.prior.backend == "numpy"
    source = np.random.default_rng(0) if is_numpy else jax.random.key(0)
    sample: Any = model.prior.sample
    point = sample(source)

    def at(u: float) -> Any:
        return np.asarray(model.constrain(point | {name: np.full_like(point[name], u)})[name], float)

    low, high = at(-_FAR), at(_FAR)
    inside = low + (high - low) / (1 + np.exp(-1.0))
    ends = np.isfinite(high - low).all() and np.allclose(at(_FARTHER), high) and np.allclose(at(-_FARTHER), low)
    if not (ends and np.shape(point[name]) == low.shape and np.allclose(at(1.0), inside, rtol=1e-4)):
        raise ValueError(
            f"`periodic` has {name!r}, which has no two bounds of its own: give it a prior on an interval, such as "
            f"`numpyro.distributions.Uniform(0, 2 * jnp.pi)`."
        )


class _Circles:
    """Points with two coordinates for each periodic number, and what the model takes for them."""

    def __init__(self, model: Any, names: tuple[str, ...]):
        self.model, self.names = model, names
        self.draw: Any = model.prior.sample

    def inner(self, point: Named) -> Named:
        """Return the model's own point, where the coordinate of a bounded number is the logit of its place."""
        found = {}
        for name in self.names:
            z = point[name]
            xp = namespace(z)
            share = xp.arctan2(z[..., 1], z[..., 0]) / (2 * np.pi) % 1.0
            tiny = float(xp.finfo(share.dtype).eps)
            share = xp.clip(share, tiny, 1 - tiny)
            found[name] = xp.log(share) - xp.log1p(-share)
        return point | found

    def outer(self, point: Named, distance: Any) -> Named:
        """Return points of the plane at some distance from the origin."""
        found = {}
        for name in self.names:
            xp = namespace(point[name])
            angle = 2 * np.pi / (1 + xp.exp(-point[name]))
            found[name] = distance * xp.stack([xp.cos(angle), xp.sin(angle)], -1)
        return point | found

    def log_prior(self, point: Named) -> Any:
        """Return the density of the plane: that of the distance, times that of the parameter over the uniform one."""
        inner = self.inner(point)
        total = self.model.prior.log_prob(inner)
        for name in self.names:
            u, z = inner[name], point[name]
            xp = namespace(z)
            half = 0.5 * xp.sum(z**2, -1)
            of_distance = (_SHAPE - 1) * xp.log(half) - half - math.lgamma(_SHAPE) - math.log(2 * math.pi)
            each = xp.logaddexp(0.0, u) + xp.logaddexp(0.0, -u) + of_distance
            total = total + each.sum(axis=tuple(range(int(self.model.prior.batched), each.ndim)))
        return total

    def sample(self, source: Any) -> Named:
        """Draw a point."""
        if self.model.prior.backend == "numpy":
            point = self.draw(source)
            half = {name: source.gamma(_SHAPE, size=np.shape(point[name])) for name in self.names}
        else:
            own, *keys = jax.random.split(source, 1 + len(self.names))
            point = self.draw(own)
            half = {
                name: jax.random.gamma(key, _SHAPE, np.shape(point[name]))
                for name, key in zip(self.names, keys, strict=True)
            }
        for name in self.names:
            point = _Circles(self.model, (name,)).outer(point, (2 * half[name][..., None]) ** 0.5)
        return point
