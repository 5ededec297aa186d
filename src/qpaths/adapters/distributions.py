"""Distributions of NumPyro, of SciPy and of this library as variables of one kind, in coordinates without bounds.

Transforms have the interface of NumPyro's: `transform(u)`, `transform.inv(x)`, and
`transform.log_abs_det_jacobian(u, x)`, which keeps the axes of a batch.

Some distributions are drawn and evaluated in these coordinates directly. A draw of `Gamma(1e-4, 1e-4)` is below the
smallest number of 64 bits with a probability of 0.93, and its logarithm is a plain number. So gamma, inverse gamma,
beta and Dirichlet distributions are drawn and evaluated as logarithms of gamma variables, and the exponential of a
distribution as that distribution.
"""

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln, gammaln

from ..core import AnyArray, PRNGKey, QpathsError, namespace, quiet
from ..families import Bernoulli, Categorical, Gamma, GeneralizedPareto, Poisson

Distribution: TypeAlias = Any
"""A distribution of NumPyro, SciPy or this library."""
Transform: TypeAlias = Any
"""A map from all real numbers to a support, with `inv` and `log_abs_det_jacobian`."""
Source: TypeAlias = Any
"""A key of JAX, or a generator of NumPy."""
Values: TypeAlias = AnyArray | float

MOST_COMBINATIONS = 1024
"""Values of discrete variables together in one table of a sum."""


class Bounded(NamedTuple):
    """Coordinates above a lower and below an upper bound, either of which can be None.

    `x = lower + exp(u)`, `x = upper - exp(u)`, `x = lower + (upper - lower) sigmoid(u)`, or u itself.
    """

    lower: Values | None = None
    upper: Values | None = None

    @staticmethod
    def between(name: str, lower: Values | list[float], upper: Values | list[float]) -> "Bounded":
        """The map to an interval whose ends may be infinite, the same ones for every coordinate."""
        ends = []
        for end in (np.asarray(lower, float), np.asarray(upper, float)):
            finite = np.isfinite(end)
            if finite.any() and not finite.all():
                raise ValueError(
                    f"the prior of `{name}` is bounded in some coordinates only: give them as separate variables."
                )
            ends.append(end if finite.all() else None)
        return Bounded(*ends)

    def __call__(self, u: Values) -> Values:
        xp = namespace(u)
        if self.lower is None:
            return u if self.upper is None else self.upper - xp.exp(u)
        if self.upper is None:
            return self.lower + xp.exp(u)
        return self.lower + (self.upper - self.lower) / (1 + xp.exp(-u))

    def inv(self, x: Values) -> Values:
        xp = namespace(x)
        if self.lower is None:
            return x if self.upper is None else xp.log(self.upper - x)
        if self.upper is None:
            return xp.log(x - self.lower)
        return xp.log(x - self.lower) - xp.log(self.upper - x)

    def log_abs_det_jacobian(self, u: Values, x: Values) -> Values:
        """For each coordinate."""
        xp = namespace(u)
        if self.lower is None or self.upper is None:
            return 0 * u if self.lower is None and self.upper is None else u
        return xp.log(self.upper - self.lower) - xp.logaddexp(0.0, u) - xp.logaddexp(0.0, -u)


class Simplex:
    """Proportions that sum to 1, by breaking a stick: u = 0 are equal ones. For NumPy arrays."""

    @quiet()
    def __call__(self, u: Values) -> Values:
        log_share, log_rest = self._logs(u)
        left = np.cumsum(log_rest, axis=-1)
        before = np.concatenate([np.zeros_like(left[..., :1]), left], axis=-1)
        return np.exp(before + np.concatenate([log_share, np.zeros_like(left[..., :1])], axis=-1))

    @quiet()
    def inv(self, x: Values) -> Values:
        x = np.maximum(x, np.finfo(float).tiny)
        # From the small end, so that nothing cancels.
        rest = np.cumsum(x[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        return np.log(x[..., :-1]) - np.log(rest) + self._offsets(x.shape[-1] - 1)

    @quiet()
    def log_abs_det_jacobian(self, u: Values, x: Values) -> Values:
        log_share, log_rest = self._logs(u)
        return np.sum(log_share + log_rest, axis=-1) + np.sum(np.cumsum(log_rest, axis=-1)[..., :-1], axis=-1)

    def _logs(self, u: Values) -> tuple[np.ndarray, np.ndarray]:
        """Log of the share of the rest of the stick that is broken off, and of what is left of it."""
        u = np.asarray(u)
        u = u - self._offsets(u.shape[-1])
        return -np.logaddexp(0.0, -u), -np.logaddexp(0.0, u)

    @staticmethod
    def _offsets(num: int) -> np.ndarray:
        return np.log(np.arange(num, 0, -1.0))


class Free(NamedTuple):
    """A distribution of a coordinate without bounds."""

    sample: Callable[[Any], Values]
    """One draw, by a key of JAX or a generator of NumPy."""
    log_prob: Callable[[Any], Values]
    """Log density, the Jacobian of the coordinate included."""


def is_free(part: Distribution) -> bool:
    """Return whether `free_of` knows a distribution of NumPyro. Nothing is computed from its parameters."""
    import numpyro.distributions as dist

    base = _unwrapped(part)
    if isinstance(base, dist.Gamma | dist.InverseGamma | dist.Beta | dist.Dirichlet):
        return True
    if not isinstance(base, dist.TransformedDistribution):
        return False
    return isinstance(base.transforms[-1], dist.transforms.ExpTransform) and base.shape() == part.shape()


def _unwrapped(part: Distribution) -> Distribution:
    import numpyro.distributions as dist

    while isinstance(part, dist.Independent | dist.ExpandedDistribution):
        part = part.base_dist
    return part


def free_of(part: Distribution) -> Free | None:
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


def free_of_scipy(part: Distribution) -> Free | None:
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

    def log_prob(u: Values) -> Values:
        away = sign * (u - log_scale)
        return concentration * away - np.exp(away) - constant

    return Free(lambda generator: log_scale + sign * _log_gamma_draw(generator, concentration), log_prob)


def _log_gamma_draw(generator: np.random.Generator, concentration: Values) -> Values:
    """Return the logarithm of a gamma variable, by one with a shape above 1."""
    above = np.log(generator.gamma(concentration + 1.0))
    return above - generator.exponential(size=np.shape(concentration)) / concentration


def _log_gamma(concentration: Values, rate: Values, sign: int) -> Free:
    """Return the distribution of the logarithm of a gamma variable, or of its inverse."""
    constant = concentration * jnp.log(rate) - gammaln(concentration)

    def sample(key: PRNGKey) -> Values:
        return sign * (jax.random.loggamma(key, concentration) - jnp.log(rate))

    return Free(sample, lambda u: sign * concentration * u - rate * jnp.exp(sign * u) + constant)


def _sticks(first: Values, second: Values, offset: Values) -> Free:
    """Return the distribution of the logits of beta variables, plus an offset: pieces of a stick, or one of them."""
    constant = betaln(first, second)

    def sample(key: PRNGKey) -> Values:
        own, other = jax.random.split(key)
        return jax.random.loggamma(own, first) - jax.random.loggamma(other, second) + offset

    def log_prob(u: Values) -> Values:
        logit = u - offset
        return -first * jnp.logaddexp(0.0, -logit) - second * jnp.logaddexp(0.0, logit) - constant

    return Free(sample, log_prob)


class Variable(NamedTuple):
    """Hold what a prior needs of a distribution."""

    sample: Callable[[Any], Values]
    """One draw, by a key of JAX or a generator of NumPy."""
    log_prob: Callable[[Any], Values]
    """Log density, perhaps with the axes of a batch."""
    transform: Transform
    """From all real numbers to the support."""
    values: np.ndarray | None = None
    """All values of a discrete variable."""
    free: Free | None = None
    """The same distribution in coordinates without bounds, if that is known in closed form."""

    def draw(self, source: Source) -> tuple[Values, Values]:
        """Return a draw as a coordinate without bounds, and as a value of the variable."""
        if self.free is not None:
            u = self.free.sample(source)
            return u, self.transform(u)
        x = self.sample(source)
        return self.transform.inv(x), x

    def log_prob_at(self, u: Values, x: Values) -> tuple[Values, ...]:
        """Return parts of the log density of a coordinate without bounds, perhaps with the axes of a batch."""
        if self.free is not None:
            return (self.free.log_prob(u),)
        return self.log_prob(x), self.transform.log_abs_det_jacobian(u, x)


def is_scipy(part: Distribution) -> bool:
    """Return whether it is a frozen distribution of SciPy."""
    return hasattr(part, "rvs") and hasattr(part, "random_state")


def is_distribution(part: Distribution) -> bool:
    return not isinstance(part, type) and (is_scipy(part) or (hasattr(part, "log_prob") and hasattr(part, "sample")))


def variable_of(name: str, part: Distribution) -> Variable:
    """A distribution as a variable; what is none is an error that names the variable and says what to give."""
    if is_scipy(part):
        return _from_scipy(name, part)
    if not is_distribution(part):
        hint = "call it with its parameters" if isinstance(part, type) else "give one of NumPyro, SciPy or `qpaths`"
        raise TypeError(f"the prior of `{name}` must be a distribution, got {part!r}: {hint}.")
    numpyro = sys.modules.get("numpyro")
    if numpyro is not None and isinstance(part, numpyro.distributions.Distribution):
        return from_numpyro_distribution(name, part)
    if isinstance(part, Bernoulli | Categorical | Poisson):
        raise refuse_discrete(name, type(part).__name__)
    transform = Bounded()
    if isinstance(part, Gamma):
        return Variable(part.sample, part.log_prob, Bounded(lower=0.0), free=free_of(part))
    if isinstance(part, GeneralizedPareto):
        end = part.loc - part.scale / part.shape if part.shape < 0 else None
        transform = Bounded(lower=part.loc, upper=end)
    return Variable(part.sample, part.log_prob, transform)


def refuse_discrete(name: str, kind: str) -> TypeError:
    """The error for a discrete variable that cannot be summed out."""
    return TypeError(
        f"`{name}` is discrete ({kind}), and its values cannot be listed here: sum over them in the likelihood (a "
        f"mixture's `logsumexp`), or give it as a NumPyro distribution with finitely many values, such as "
        f"`dist.Categorical`."
    )


def from_numpyro_distribution(name: str, part: Distribution) -> Variable:
    """A NumPyro distribution; support, transform and sampler are its own."""
    import numpyro.distributions as dist

    kind = type(part).__name__
    elements = discrete_elements(name, part)
    if elements is not None:
        return Variable(part.sample, part.log_prob, None, values=joint_values(name, elements, part.shape()))
    base = _without_wrappers(name, part)
    if isinstance(base, dist.ImproperUniform):
        raise ValueError(
            f"the prior of `{name}` is improper, so the evidence is not defined: give one that integrates to 1, such "
            f"as `dist.Normal(0, 100)`."
        )
    if isinstance(base, dist.Delta | dist.Unit):
        raise ValueError(f"the prior of `{name}` is a single value ({kind}): make it a constant of the model.")
    try:
        transform = dist.biject_to(part.support)
    except NotImplementedError as error:
        raise ValueError(
            f"the support of `{name}` ({part.support}) has no map from all real numbers: write the model with other "
            f"variables, for instance normal ones that are normalized."
        ) from error
    return Variable(part.sample, part.log_prob, transform, free=free_of(part))


def discrete_elements(name: str, part: Distribution) -> np.ndarray | None:
    """The values of each number of a discrete distribution of NumPyro; None for a continuous one."""
    from numpyro.distributions import constraints

    if part.support is constraints.dependent or not part.support.is_discrete:
        return None
    base = _without_wrappers(name, part)
    if not base.has_enumerate_support or base.event_shape:
        raise refuse_discrete(name, type(base).__name__)
    try:
        with jax.ensure_compile_time_eval():
            return np.asarray(base.enumerate_support(expand=False)).reshape(-1)
    except (NotImplementedError, TypeError) as error:  # bounds that differ, or that depend on another variable
        raise refuse_discrete(name, type(base).__name__) from error


def _without_wrappers(name: str, part: Distribution) -> Distribution:
    """The distribution inside of copies and events; a mask is an error."""
    import numpyro.distributions as dist

    while isinstance(part, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        if isinstance(part, dist.MaskedDistribution):
            raise ValueError(f"the prior of `{name}` is masked, so it does not integrate to 1: give it without a mask.")
        part = part.base_dist
    return part


def _from_scipy(name: str, part: Distribution) -> Variable:
    """A frozen distribution of SciPy, with one number or several of them."""
    if not hasattr(part, "logpdf"):
        kind = getattr(getattr(part, "dist", None), "name", type(part).__name__)
        raise refuse_discrete(name, kind)
    kind = type(part).__name__.removesuffix("_frozen")
    if hasattr(part, "support"):
        transform: Transform = Bounded.between(name, *part.support())
        free = free_of_scipy(part)
        return Variable(
            lambda generator: np.asarray(part.rvs(random_state=generator)), part.logpdf, transform, free=free
        )
    if kind in ("multivariate_normal", "multivariate_t"):
        return Variable(lambda generator: np.asarray(part.rvs(random_state=generator)), part.logpdf, Bounded())
    if kind == "dirichlet":
        tiny = np.finfo(float).tiny
        return Variable(
            lambda generator: part.rvs(random_state=generator)[0],
            lambda x: np.asarray(part.logpdf(np.maximum(x, tiny).T)),
            Simplex(),
        )
    known = "univariate ones, `multivariate_normal`, `multivariate_t` and `dirichlet`"
    raise TypeError(f"the prior of `{name}` is SciPy's `{kind}`, and only {known} are known here: take NumPyro's.")


def joint_values(name: str, elements: np.ndarray | list[int], shape: tuple[int, ...]) -> np.ndarray:
    """All values of an array of discrete numbers, each of which is one of the elements: (number, *shape)."""
    elements = np.asarray(elements).reshape(-1)
    num_values = len(elements) ** math.prod(shape)
    if num_values > MOST_COMBINATIONS:
        raise QpathsError(
            f"`{name}` has {num_values:,} values, too many to sum over (at most {MOST_COMBINATIONS:,}): where its "
            f"{math.prod(shape)} numbers are independent, put it and what depends on it into a `numpyro.plate` of a "
            f"NumPyro model, or sum over it yourself (a mixture's `logsumexp`)."
        )
    grid = np.meshgrid(*[elements] * math.prod(shape), indexing="ij") if shape else [elements]
    return np.stack([axis.reshape(-1) for axis in grid], axis=-1).reshape(num_values, *shape)
