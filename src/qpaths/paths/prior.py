"""From prior to prior: a path in the hyperparameters of the prior, with the likelihood in full all the way."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..core import FloatArray, Point, RealLike, Sampler, ScalarLike, check_beta, is_concrete
from ..densities import Density, DensityLike, as_pytree, evaluate
from .base import AbstractPath, inside


class PriorFeatures(NamedTuple):
    """Hold what a `PriorPath` needs to know about a point. The priors between are evaluated at the point itself."""

    x: Point
    log_base: FloatArray
    log_target: FloatArray
    log_likelihood: FloatArray


class PriorPath(AbstractPath[PriorFeatures]):
    """`prior(x; h(beta)) likelihood(x)` with hyperparameters `h` that move linearly from `start` to `stop`.

    Only the prior is evaluated again along the path, the likelihood once for each point. The log evidence of a run is
    the log ratio of the evidences under the two priors. Without a likelihood it is 0.

    Power scaling of prior and likelihood is `DataPath(posterior, lambda x: [log_prior(x), log_likelihood(x)], powers)`
    with the rows `[0, 0]` and `[a - 1, c - 1]` for `prior^a likelihood^c`.

    Args:
        prior: A function of the hyperparameters that returns a normalized density.
        start: The hyperparameters at beta = 0: a number, an array, or a tree of arrays.
        stop: Those at beta = 1.
        log_likelihood: A function of one point; None is a path between the priors alone.
        sample: `sample(key)` draws from the posterior under the first prior. Runs from the base need it, unless there
            is no likelihood.

    Examples:
        >>> import qpaths as qp
        >>> path = PriorPath(lambda scale: qp.Normal(0.0, scale), 1.0, 3.0, lambda mu: -0.5 * (mu - 1.0) ** 2)
        >>> float(path.log_density(0.5, 1.0)) == float(qp.Normal(0.0, 2.0).log_prob(1.0))
        True
    """

    prior: Callable[[Any], DensityLike]
    start: Any
    stop: Any
    log_likelihood: Callable[[Point], Any] | None
    sample: Sampler | None

    def __init__(
        self,
        prior: Callable[[Any], DensityLike],
        start: Any,
        stop: Any,
        log_likelihood: Callable[[Point], Any] | None = None,
        sample: Sampler | None = None,
    ):
        self.prior = as_pytree(prior)
        self.start, self.stop = (jax.tree.map(lambda leaf: jnp.asarray(leaf, float), end) for end in (start, stop))
        if len({jax.tree.structure(end) for end in (self.start, self.stop)}) > 1:
            raise ValueError(f"`start` and `stop` must have the same hyperparameters, got {start} and {stop}.")
        self.log_likelihood = None if log_likelihood is None else as_pytree(log_likelihood)
        self.sample = None if sample is None else as_pytree(sample)
        if not is_concrete((self.start, self.stop)):
            return
        for beta in np.linspace(0.0, 1.0, 5):
            try:
                self._prior_at(beta)
            except ValueError as error:
                raise ValueError(
                    f"the prior at beta = {beta:g} is none, with hyperparameters {self._hyperparameters(beta)}: "
                    f"{error} "
                    f"Take others, or a transform under which all between are proper (the log of a scale)."
                ) from error

    def _hyperparameters(self, beta: RealLike) -> Any:
        return jax.tree.map(lambda a, b: (1 - beta) * a + beta * b, self.start, self.stop)

    def _prior_at(self, beta: RealLike) -> DensityLike:
        return self.prior(self._hyperparameters(beta))

    @property  # type: ignore[misc]
    def base(self) -> DensityLike:  # type: ignore[override]
        """The first prior times the likelihood."""
        prior = self._prior_at(0.0)
        if self.log_likelihood is None:
            return prior
        return Density(jax.tree_util.Partial(type(self)._log_joint, self, 0.0), self.sample)

    @property  # type: ignore[misc]
    def target(self) -> DensityLike:  # type: ignore[override]
        """The last prior times the likelihood."""
        return Density(jax.tree_util.Partial(type(self)._log_joint, self, 1.0))

    def _log_joint(self, beta: ScalarLike, x: Point) -> Any:
        return evaluate(self._prior_at(beta), x, "prior") + self._log_likelihood(x)

    def _log_likelihood(self, x: Point) -> Any:
        return 0.0 if self.log_likelihood is None else evaluate(Density(self.log_likelihood), x, "log_likelihood")

    def features(self, x: Point) -> PriorFeatures:
        likelihood = self._log_likelihood(x)
        log_base, log_target = (evaluate(self._prior_at(beta), x, "prior") + likelihood for beta in (0.0, 1.0))
        return PriorFeatures(jax.tree.map(jnp.asarray, x), log_base, log_target, likelihood + 0 * log_base)

    def log_density_from(self, beta: RealLike, features: PriorFeatures) -> FloatArray:
        beta = jnp.asarray(beta)
        within = jnp.where((beta >= 0) & (beta <= 1), beta, 0.5)
        between = _log_density(self, within, features)
        log_base, log_target = features.log_base, features.log_target
        return inside(beta, jnp.where(beta == 0, log_base, jnp.where(beta == 1, log_target, between)))

    def derivative_from(self, beta: RealLike, features: PriorFeatures) -> FloatArray:
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        within = jnp.where((beta >= 0) & (beta <= 1), beta, 0.5)
        slope = jax.jvp(lambda b: _log_density(self, b, features), (within,), (jnp.ones_like(within),))[1]
        return inside(beta, slope)

    def at(self, beta: ScalarLike) -> DensityLike:
        check_beta(beta)
        if is_concrete(beta) and beta in (0, 1):
            return self.target if beta else self.base
        return Density(jax.tree_util.Partial(type(self).log_density, self, beta))


@jax.jit
def _log_density(path: PriorPath, beta: Any, features: PriorFeatures) -> Any:
    """Compiled, because on the host the priors' own functions would run operation by operation."""
    shape = jnp.broadcast_shapes(jnp.shape(beta), jnp.shape(features.log_base))
    axes = jnp.ndim(features.log_base)

    def flat(leaf: Any) -> Any:
        own = jnp.shape(leaf)[axes:]
        return jnp.broadcast_to(leaf, shape + own).reshape(-1, *own)

    betas = jnp.broadcast_to(beta, shape).reshape(-1)
    values = jax.vmap(lambda b, x: path._prior_at(b).log_prob(x))(betas, jax.tree.map(flat, features.x))
    return values.reshape(shape) + features.log_likelihood
