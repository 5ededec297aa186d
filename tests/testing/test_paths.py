"""The conformance suite must reject paths that break a rule; each wrong path here breaks one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.densities import DensityLike, endpoint
from qpaths.testing import StuckEnds, check_path

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: jnp.where(x[0] > -0.5, -2.0 * jnp.sum((x - 1.0) ** 2), -jnp.inf))


class _Path(qp.paths.AbstractPointwisePath):
    """A right path that leaves everything but `interpolate` to the base class."""

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    def interpolate(self, beta, log_base, log_target):
        return qp.GeometricPath(self.base, self.target).interpolate(beta, log_base, log_target)


class _InexactEnds(qp.GeometricPath):
    def interpolate(self, beta, log_base, log_target):
        return super().interpolate(beta, log_base, log_target) + 1e-13


class _NaiveGeometric(qp.GeometricPath):
    def interpolate(self, beta, log_base, log_target):
        return (1 - beta) * log_base + beta * log_target


class _WrongSign(qp.GeometricPath):
    def derivative(self, beta, log_base, log_target):
        return log_base - log_target


class _OwnWeights(qp.GeometricPath):
    def log_ratio(self, beta, new_beta, features):
        return (new_beta - beta) * (features.log_target - features.log_base) * 1.01


class _WrongShares(qp.GeometricPath):
    def shares(self, beta, log_base, log_target):
        return beta, 1 - beta


class _EvaluatesTwice(qp.GeometricPath):
    def log_density(self, beta, x):
        self.target.log_prob(x)
        return super().log_density(beta, x)


class _OtherDensityAt(qp.GeometricPath):
    def at(self, beta):
        return super().at(beta**2)


class _WrongCurvature(qp.GeometricPath):
    def derivatives_from(self, beta, features):
        first, second = super().derivatives_from(beta, features)
        return first, second + 0.01 * jnp.exp(-1e4 * beta)


class _ANumberOutside(qp.GeometricPath):
    def interpolate(self, beta, log_base, log_target):
        return super().interpolate(jnp.clip(beta, 0, 1), log_base, log_target)


class _OneBetaForAll(qp.GeometricPath):
    def log_density_from(self, beta, features):
        return super().log_density_from(jnp.ravel(beta)[0], features)


class _OnlyForJax(qp.GeometricPath):
    def interpolate(self, beta, log_base, log_target):
        value = super().interpolate(beta, log_base, log_target)
        at_end = (beta == 0) | (beta == 1)
        return value if isinstance(log_base, jax.Array) else np.where(at_end, value, value + 1e-9)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (_InexactEnds, "bit for bit"),
        (_NaiveGeometric, "NaN"),
        (_WrongSign, "derivative_from must be the derivative"),
        (_OwnWeights, "log_ratio"),
        (_WrongShares, "mix of the endpoint scores"),
        (_EvaluatesTwice, "must evaluate `target` once, not 2 times"),
        (_OtherDensityAt, r"at\(beta\).log_prob\(x\) must agree"),
        (StuckEnds, r"(?s)- derivative_from must be .* beta = 1.*- Reversed\(path\).derivative_from .* beta = 0"),
        (_WrongCurvature, "derivatives_from must return the second derivative, also at beta = 0"),
        (_ANumberOutside, "log_density_from must be NaN where beta"),
        (_OneBetaForAll, "log_density_from must be elementwise"),
        (_OnlyForJax, "must give the same for NumPy and for JAX features"),
    ],
)
def test_wrong_paths_are_rejected(kind, message, key):
    with pytest.raises(AssertionError, match=message):
        check_path(kind(BASE, TARGET), jax.random.normal(key, (16, 2)))


def test_a_right_path_is_accepted(key):
    check_path(_Path(BASE, TARGET), jax.random.normal(key, (16, 2)))


def test_points_are_drawn_from_the_base_when_none_are_given(key):
    check_path(qp.QPath(BASE, TARGET, q=0.9), key=key)
    with pytest.raises(ValueError, match="`base` has no `sample`"):
        check_path(qp.GeometricPath(TARGET, BASE))
