"""The conformance suite must reject paths that break a rule; each wrong path here breaks one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import qpaths as qp
from qpaths.densities import DensityLike, endpoint
from qpaths.testing import check_path

BASE = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
TARGET = qp.Density(lambda x: jnp.where(x[0] > -0.5, -2.0 * jnp.sum((x - 1.0) ** 2), -jnp.inf))


class _Path(qp.AbstractPointwisePath):
    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))

    def interpolate(self, beta, log_base, log_target):
        return qp.GeometricPath(self.base, self.target).interpolate(beta, log_base, log_target)


class _InexactEnds(_Path):
    def interpolate(self, beta, log_base, log_target):
        return super().interpolate(beta, log_base, log_target) + 1e-13


class _NaiveGeometric(_Path):
    def interpolate(self, beta, log_base, log_target):
        return (1 - beta) * log_base + beta * log_target


class _WrongSign(_Path):
    def derivative(self, beta, log_base, log_target):
        return log_base - log_target


class _OwnWeights(_Path):
    def log_ratio(self, beta, new_beta, features):
        return (new_beta - beta) * (features.log_target - features.log_base) * 1.01


class _WrongShares(_Path):
    def shares(self, beta, log_base, log_target):
        return beta, 1 - beta


class _EvaluatesTwice(_Path):
    def log_density(self, beta, x):
        self.target.log_prob(x)
        return super().log_density(beta, x)


class _OtherDensityAt(_Path):
    def at(self, beta):
        return super().at(beta**2)


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
    ],
)
def test_wrong_paths_are_rejected(kind, message, key):
    points = jax.random.normal(key, (16, 2))
    check_path(_Path(BASE, TARGET), points)
    with pytest.raises(AssertionError, match=message):
        check_path(kind(BASE, TARGET), points)


def test_points_are_drawn_from_the_base_when_none_are_given(key):
    check_path(qp.QPath(BASE, TARGET, q=0.9), key=key)
    with pytest.raises(ValueError, match="`base` has no `sample`"):
        check_path(qp.GeometricPath(TARGET, BASE))
