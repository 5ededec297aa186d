"""Define a family: natural and moment parameters, free energy, and how two members mix in either of them."""

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core import Point, PRNGKey, Scalar, ScalarLike, is_concrete
from .dual import solve_dual

Parameters: TypeAlias = tuple[Array, ...]
"""Natural or moment parameters: one array per sufficient statistic, each of the statistic's shape."""


class AbstractFamily(eqx.Module):
    """A member of a (q-)exponential family, `g(x) exp_q(theta . phi(x) - psi_q(theta))` with `delta = 1 - q`.

    A member is a normalized density that can be sampled exactly. Its natural parameters are theta; its moment
    parameters are eta = grad psi_q(theta), the expected phi under the escort density (proportional to p^q), which at
    q = 1 is the density itself (paper, eq. std_exp_fam, qexp_fam and appendix D).

    [Families](families.md) lists the members. `qpaths.MomentPath` and `qpaths.EscortMomentPath` join two of one family;
    two of different families have no such path.

    Examples:
        >>> import qpaths as qp
        >>> normal = qp.Normal(1.0, 2.0)
        >>> isinstance(normal, AbstractFamily), [float(eta) for eta in normal.moments]  # mean, and mean square
        (True, [1.0, 5.0])
    """

    @abc.abstractmethod
    def log_prob(self, x: Point) -> Scalar:
        """Log density of one point."""

    @abc.abstractmethod
    def sample(self, key: PRNGKey) -> Point:
        """One exact draw."""

    @property
    @abc.abstractmethod
    def delta(self) -> ScalarLike:
        """`1 - q`, the order of the family."""

    @property
    def fixed(self) -> dict[str, Any]:
        """Return what all members of the family share, by name."""
        return {}

    @abc.abstractmethod
    def sufficient_statistics(self, x: Point) -> Parameters:
        """phi(x)."""

    def log_base_measure(self, x: Point) -> ScalarLike:
        """log g(x) inside the support."""
        return 0.0

    @abc.abstractmethod
    def free_energy(self, natural: Parameters) -> Scalar:
        """psi_q(theta), convex; the log partition function at q = 1."""

    @property
    @abc.abstractmethod
    def natural(self) -> Parameters:
        """theta."""

    @property
    def moments(self) -> Parameters:
        """eta = grad psi_q(theta)."""
        return jax.grad(self.free_energy)(self.natural)

    @abc.abstractmethod
    def with_natural(self, natural: Parameters) -> Any:
        """The member of the same family with these natural parameters."""

    @abc.abstractmethod
    def with_moments(self, moments: Parameters) -> Any:
        """The member of the same family with these moment parameters."""

    def mix_moments(self, other: Any, beta: ScalarLike) -> Any:
        """The member whose moment parameters are `(1-beta) self + beta other`."""
        return self.with_moments(mix(self.moments, other.moments, beta))

    def legendre_dual(self, moments: Parameters) -> Scalar:
        """`psi_q*(eta) = max theta . eta - psi_q(theta)`, the convex conjugate of the free energy.

        It is the expected `log_q` of the member's density over g under its escort; at q = 1 the negative entropy.
        """
        natural = self.with_moments(moments).natural
        return dot(natural, moments) - self.free_energy(natural)

    def divergence(self, other: Any) -> Scalar:
        """`psi_q(theta_other) - psi_q(theta) - (theta_other - theta) . eta`: the Bregman divergence of the free energy.

        It is the expected `log_q self - log_q other` under the escort of self (Amari and Ohara, 2011). It is zero
        between equal members and positive otherwise. At q = 1 it is KL[self : other].
        """
        check_same_family(self, other, "self", "other")
        difference = jax.tree.map(jnp.subtract, other.natural, self.natural)
        return self.free_energy(other.natural) - self.free_energy(self.natural) - dot(difference, self.moments)

    @abc.abstractmethod
    def with_offset(self, natural: Parameters, offset: ScalarLike) -> "ScaledMember":
        """The measure `g(x) exp_q(natural . phi(x) - offset)`: a member times its mass."""


class AbstractExponentialFamily(AbstractFamily):
    """A member of an exponential family (q = 1), `g(x) exp(theta . phi(x) - psi(theta))`.

    A new family needs `log_prob`, `sample`, `sufficient_statistics`, `log_partition`, `natural` and `with_natural`.
    The moments are then the gradient of the log partition function and their inverse is found numerically, unless a
    closed form is better. `log_partition` must be infinite or NaN outside the natural parameter space.

    See Wainwright and Jordan (2008) on exponential families and their duality.

    Examples:
        >>> import qpaths as qp
        >>> normal = qp.Normal(0.0, 1.0).with_moments(qp.Normal(2.0, 1.0).moments)
        >>> float(normal.loc), float(normal.scale)
        (2.0, 1.0)
    """

    @abc.abstractmethod
    def log_partition(self, natural: Parameters) -> Scalar:
        """psi(theta) = log of the integral of g exp(theta . phi)."""

    @property
    def delta(self) -> float:
        return 0.0

    def free_energy(self, natural: Parameters) -> Scalar:
        return self.log_partition(natural)

    def with_moments(self, moments: Parameters) -> Any:
        """The member with these moment parameters: Newton's method on the convex dual, `max theta . eta - psi`."""
        return self.with_natural(solve_dual(self.log_partition, moments, self.natural))

    def with_offset(self, natural: Parameters, offset: ScalarLike) -> "ScaledMember":
        return ScaledMember(self.with_natural(natural), self.log_partition(natural) - offset)

    def kl_divergence(self, other: Any) -> Scalar:
        """KL[self : other] in closed form, the Bregman divergence of the log partition function."""
        return self.divergence(other)


class ScaledMember(eqx.Module):
    """A member of a family times the mass `exp(log_mass)`, which is its normalizing constant.

    Args:
        member: The normalized member.
        log_mass: The log of the mass.

    `GeometricPath.at(beta)` and `QPath.at(beta)` return one between members of a family of their order (paper, appendix
    D.2). Between other densities they cannot.

    Examples:
        >>> import qpaths as qp
        >>> middle = qp.GeometricPath(qp.Normal(-1.0, 1.0), qp.Normal(1.0, 1.0)).at(0.5)
        >>> float(middle.member.loc), round(float(middle.log_mass), 3)
        (0.0, -0.5)
    """

    member: AbstractFamily
    log_mass: ScalarLike

    def log_prob(self, x: Point) -> Scalar:
        return self.member.log_prob(x) + self.log_mass

    def sample(self, key: PRNGKey) -> Point:
        return self.member.sample(key)


def dot(a: Parameters, b: Parameters) -> Scalar:
    """`theta . phi`, summed over all statistics."""
    return sum((jnp.sum(x * y) for x, y in zip(a, b, strict=True)), jnp.zeros(()))


def mix(a: Any, b: Any, beta: ScalarLike) -> Any:
    """`(1-beta) a + beta b`, array by array."""
    return jax.tree.map(lambda x, y: (1 - beta) * x + beta * y, a, b)


def power_mean_member(base: Any, target: Any, beta: ScalarLike, delta: ScalarLike) -> ScaledMember | None:
    """`[(1-beta) base^delta + beta target^delta]^(1/delta)` where it is a multiple of a member, else None.

    It is where both ends are members of one family of this order: the natural parameters and the free energies
    mix linearly (paper, appendix D.2). Not so for q < 1, where the supports of the ends differ: outside the smaller one
    the power mean keeps the other end alone. The paper's derivation drops the positive part that makes the difference.
    """
    if not (isinstance(base, AbstractFamily) and is_concrete((delta, base.delta)) and is_same_family(base, target)):
        return None
    tolerance = 4 * float(jnp.finfo(jnp.result_type(float)).eps)
    if base.delta > 0 or abs(float(delta) - float(base.delta)) > tolerance:
        return None
    theta, theta_target = base.natural, target.natural
    offset = mix(base.free_energy(theta), target.free_energy(theta_target), beta)
    return base.with_offset(mix(theta, theta_target, beta), offset)


def is_same_family(a: Any, b: Any) -> bool:
    """Return whether two members are of one family; what is traced counts as unequal."""
    if type(a) is not type(b) or not is_concrete((a.fixed, b.fixed)):
        return False
    return all(np.array_equal(value, b.fixed[name]) for name, value in a.fixed.items())


def check_same_family(a: Any, b: Any, name_a: str = "base", name_b: str = "target") -> None:
    """Raise if two members are of different families, or differ in what their family shares."""
    if type(a) is not type(b):
        raise ValueError(
            f"`{name_a}` and `{name_b}` must be members of one family, got {type(a).__name__} and {type(b).__name__}: "
            f"between any two densities there is `QPath`."
        )
    for name, value in a.fixed.items():
        if is_concrete((value, b.fixed[name])) and not np.array_equal(value, b.fixed[name]):
            raise ValueError(
                f"`{name_a}` and `{name_b}` must have the same `{name}`, got {value} and {b.fixed[name]}: "
                f"between any two densities there is `QPath`."
            )
