"""Distributions of NumPyro, of SciPy and of this library as variables of one kind."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..families import Bernoulli, Categorical, Gamma, GeneralizedPareto, Poisson
from .enumeration import joint_values
from .free import Free, free_of, free_of_scipy
from .transforms import Bounded, Simplex


class Variable(NamedTuple):
    """What a prior needs of a distribution."""

    sample: Callable[[Any], Any]
    """One draw, by a key of JAX or a generator of NumPy."""
    log_prob: Callable[[Any], Any]
    """Log density, perhaps with the axes of a batch."""
    transform: Any
    """From all real numbers to the support."""
    values: Any = None
    """All values of a discrete variable."""
    free: Free | None = None
    """The same distribution in coordinates without bounds, if that is known in closed form."""

    def draw(self, source: Any) -> tuple[Any, Any]:
        """Return a draw as a coordinate without bounds, and as a value of the variable."""
        if self.free is not None:
            u = self.free.sample(source)
            return u, self.transform(u)
        x = self.sample(source)
        return self.transform.inv(x), x

    def log_prob_at(self, u: Any, x: Any) -> tuple[Any, ...]:
        """Return parts of the log density of a coordinate without bounds, perhaps with the axes of a batch."""
        if self.free is not None:
            return (self.free.log_prob(u),)
        return self.log_prob(x), self.transform.log_abs_det_jacobian(u, x)


def is_scipy(part: Any) -> bool:
    """Whether it is a frozen distribution of SciPy."""
    return hasattr(part, "rvs") and hasattr(part, "random_state")


def is_distribution(part: Any) -> bool:
    return not isinstance(part, type) and (is_scipy(part) or (hasattr(part, "log_prob") and hasattr(part, "sample")))


def variable_of(name: str, part: Any) -> Variable:
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


def from_numpyro_distribution(name: str, part: Any) -> Variable:
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


def discrete_elements(name: str, part: Any) -> np.ndarray | None:
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


def _without_wrappers(name: str, part: Any) -> Any:
    """The distribution inside of copies and events; a mask is an error."""
    import numpyro.distributions as dist

    while isinstance(part, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        if isinstance(part, dist.MaskedDistribution):
            raise ValueError(f"the prior of `{name}` is masked, so it does not integrate to 1: give it without a mask.")
        part = part.base_dist
    return part


def _from_scipy(name: str, part: Any) -> Variable:
    """A frozen distribution of SciPy, with one number or several of them."""
    if not hasattr(part, "logpdf"):
        kind = getattr(getattr(part, "dist", None), "name", type(part).__name__)
        raise refuse_discrete(name, kind)
    kind = type(part).__name__.removesuffix("_frozen")
    if hasattr(part, "support"):
        transform: Any = Bounded.between(name, *part.support())
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
