"""Paths through the members of one family: what they share."""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..core import FloatArray, Point, RealLike, ScalarLike, check_beta, is_concrete
from ..densities import evaluate
from .base import AbstractPath, inside


class MemberFeatures(NamedTuple):
    """Hold what a parametric path needs to know about a point: the point, and its log densities at the two ends."""

    x: FloatArray
    log_base: FloatArray
    log_target: FloatArray


class AbstractParametricPath(AbstractPath[MemberFeatures]):
    """A path through the members of one family; every `at(beta)` is normalized and can be sampled exactly.

    A new parametric path needs `member`. Both endpoints are normalized, so the log evidence is known to be 0. Such
    paths serve to study and test algorithms.

    `qpaths.paths.ParameterMeanPath` makes one from any transform of the parameters (paper, appendix D.3).

    Examples:
        >>> import qpaths as qp
        >>> path = qp.MomentPath(qp.Normal(0.0, 1.0), qp.Normal(2.0, 1.0))
        >>> float(path.member(0.5).loc)
        1.0
    """

    @abc.abstractmethod
    def member(self, beta: ScalarLike) -> Any:
        """The member of the family at `beta`, which may be traced."""

    def at(self, beta: ScalarLike) -> Any:
        check_beta(beta)
        if is_concrete(beta) and beta == 0:
            return self.base
        if is_concrete(beta) and beta == 1:
            return self.target
        return self.member(beta)

    def features(self, x: Point) -> MemberFeatures:
        x = jnp.asarray(x)
        return MemberFeatures(x, evaluate(self.base, x, "base"), evaluate(self.target, x, "target"))

    def log_density_from(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        beta = jnp.asarray(beta)
        between = self._log_prob(_within(beta), features)
        return inside(beta, jnp.where(beta == 0, features.log_base, jnp.where(beta == 1, features.log_target, between)))

    def derivative_from(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
        return inside(beta, _member_derivative(self, _within(beta), features))

    def _log_prob(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        """Log density of the members at `beta`, broadcast against a batch of points; one member for each beta."""
        return _member_log_prob(self, beta, features)

    def _log_prob_of_members(self, beta: RealLike, features: MemberFeatures) -> FloatArray:
        coordinates = ",".join(f"n{i}" for i in range(jnp.ndim(features.x) - jnp.ndim(features.log_base)))
        log_prob = jnp.vectorize(lambda b, x: self.member(b).log_prob(x), signature=f"(),({coordinates})->()")
        return log_prob(beta, features.x)


@jax.jit
def _member_log_prob(path: AbstractParametricPath, beta: Any, features: MemberFeatures) -> Array:
    """Compiled, because on the host the members' own functions would run operation by operation."""
    return path._log_prob_of_members(beta, features)


@jax.jit
def _member_derivative(path: AbstractParametricPath, beta: Any, features: MemberFeatures) -> Array:
    # Inside the ends: the `where` of `log_density_from` has no derivative there.
    return jax.jvp(lambda b: path._log_prob_of_members(b, features), (beta,), (jnp.ones_like(beta),))[1]


def _within(beta: Array) -> Array:
    """A beta in [0, 1] in place of one outside, where there is no member of the family."""
    return jnp.where((beta >= 0) & (beta <= 1), beta, 0.5)
