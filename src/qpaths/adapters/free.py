"""Distributions whose draws and densities are exact in coordinates without bounds.

A draw of `Gamma(1e-4, 1e-4)` is below the smallest number of 64 bits with a probability of 0.93, and its logarithm is a
plain number. So gamma, inverse gamma, beta and Dirichlet distributions are drawn and evaluated as logarithms of gamma
variables, and the exponential of a distribution as that distribution.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, gammaln

from ..families import Gamma


class Free(NamedTuple):
    """A distribution of a coordinate without bounds."""

    sample: Callable[[Any], Any]
    """One draw, by a key of JAX or a generator of NumPy."""
    log_prob: Callable[[Any], Any]
    """Log density, the Jacobian of the coordinate included."""


def is_free(part: Any) -> bool:
    """Return whether `free_of` knows a distribution of NumPyro. Nothing is computed from its parameters."""
    import numpyro.distributions as dist

    base = _unwrapped(part)
    if isinstance(base, dist.Gamma | dist.InverseGamma | dist.Beta | dist.Dirichlet):
        return True
    if not isinstance(base, dist.TransformedDistribution):
        return False
    return isinstance(base.transforms[-1], dist.transforms.ExpTransform) and base.shape() == part.shape()


def _unwrapped(part: Any) -> Any:
    import numpyro.distributions as dist

    while isinstance(part, dist.Independent | dist.ExpandedDistribution):
        part = part.base_dist
    return part


def free_of(part: Any) -> Free | None:
    """Return a distribution of NumPyro or of this library in coordinates without bounds; None if it is not known."""
    if isinstance(part, Gamma):
        return _log_gamma(jnp.asarray(part.concentration), jnp.asarray(part.rate), 1)
    if not is_free(part):
        return None
    import numpyro.distributions as dist

    base, shape = _unwrapped(part), part.shape()
    if isinstance(base, dist.Gamma):  # chi-squared ones, too
        return _log_gamma(jnp.broadcast_to(base.concentration, shape), jnp.broadcast_to(base.rate, shape), 1)
    if isinstance(base, dist.InverseGamma):
        rate = jnp.broadcast_to(base.rate, shape)
        return _log_gamma(jnp.broadcast_to(base.concentration, shape), rate, -1)
    if isinstance(base, dist.Beta):
        first, second = (jnp.broadcast_to(c, shape) for c in (base.concentration1, base.concentration0))
        return _sticks(first, second, 0.0)
    if isinstance(base, dist.Dirichlet):
        own = jnp.broadcast_to(base.concentration, shape)
        rest = jnp.flip(jnp.cumsum(jnp.flip(own[..., 1:], -1), -1), -1)
        num = rest.shape[-1]
        return _sticks(own[..., :-1], rest, jnp.log(num - jnp.arange(num)))
    inner = base.base_dist
    if base.transforms[:-1]:
        inner = dist.TransformedDistribution(inner, base.transforms[:-1])
    return Free(inner.sample, inner.log_prob)


def free_of_scipy(part: Any) -> Free | None:
    """Return a frozen distribution of SciPy in coordinates without bounds; None if it is not known."""
    name = getattr(part.dist, "name", "")
    if name not in ("gamma", "invgamma", "beta"):
        return None
    shapes, loc, scale = part.dist._parse_args(*part.args, **part.kwds)
    if np.any(np.asarray(loc) != 0) or (name == "beta" and np.any(np.asarray(scale) != 1)):
        return None
    from scipy import special

    if name == "beta":
        first, second = (np.asarray(shape, float) for shape in shapes)
        constant = special.betaln(first, second)
        return Free(
            lambda generator: _log_gamma_draw(generator, first) - _log_gamma_draw(generator, second),
            lambda u: -first * np.logaddexp(0.0, -u) - second * np.logaddexp(0.0, u) - constant,
        )
    concentration, sign = np.asarray(shapes[0], float), 1 if name == "gamma" else -1
    log_scale = np.log(scale)
    constant = special.gammaln(concentration)

    def log_prob(u: Any) -> Any:
        away = sign * (u - log_scale)
        return concentration * away - np.exp(away) - constant

    return Free(lambda generator: log_scale + sign * _log_gamma_draw(generator, concentration), log_prob)


def _log_gamma_draw(generator: Any, concentration: Any) -> Any:
    """Return the logarithm of a gamma variable, by one with a shape above 1."""
    above = np.log(generator.gamma(concentration + 1.0))
    return above - generator.exponential(size=np.shape(concentration)) / concentration


def _log_gamma(concentration: Any, rate: Any, sign: int) -> Free:
    """Return the distribution of the logarithm of a gamma variable, or of its inverse."""
    constant = concentration * jnp.log(rate) - gammaln(concentration)

    def sample(key: Any) -> Any:
        return sign * (jax.random.loggamma(key, concentration) - jnp.log(rate))

    return Free(sample, lambda u: sign * concentration * u - rate * jnp.exp(sign * u) + constant)


def _sticks(first: Any, second: Any, offset: Any) -> Free:
    """Return the distribution of the logits of beta variables, plus an offset: pieces of a stick, or one of them."""
    constant = betaln(first, second)

    def sample(key: Any) -> Any:
        own, other = jax.random.split(key)
        return jax.random.loggamma(own, first) - jax.random.loggamma(other, second) + offset

    def log_prob(u: Any) -> Any:
        logit = u - offset
        return -first * jnp.logaddexp(0.0, -logit) - second * jnp.logaddexp(0.0, logit) - constant

    return Free(sample, log_prob)
