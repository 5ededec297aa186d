"""q-exponential families: what all members can do, the relations of their orders, and the two normalizations."""

import abc
from typing import Any

import jax
import jax.numpy as jnp

from ..core import Scalar, ScalarLike, is_concrete
from ..deformed import log_exp_delta, log_q_of_exp
from .base import AbstractFamily, Parameters
from .parameters import check_between, check_positive


class AbstractQExponentialFamily(AbstractFamily):
    """A member of a q-exponential family, `exp_q(theta . phi(x) - psi_q(theta))` (paper, eq. qexp_fam).

    A subclass needs what `AbstractFamily` needs, and `escort`. The escort exists for q > 0 only.

    Examples:
        >>> import qpaths as qp
        >>> escort = qp.StudentT(1.0, 0.0, 1.0).escort()
        >>> float(escort.df), round(float(escort.scale), 4)  # df + 2 and sqrt(df / (df + 2))
        (3.0, 0.5774)
    """

    @abc.abstractmethod
    def escort(self) -> Any:
        """The escort density, proportional to p^q; it exists in the same kind of family for q > 0."""

    def mix_moments_as_published(self, other: Any, beta: ScalarLike) -> Any:
        """`mix_moments`, or what the paper has in its place; see `EscortMomentPath`."""
        return self.mix_moments(other, beta)

    def multiplicative(self) -> tuple[Parameters, Scalar]:
        """`(beta, log Z_q)` with which the density is `exp_q(beta . phi(x)) / Z_q`."""
        natural = self.natural
        return to_multiplicative(natural, self.free_energy(natural), delta=self.delta)


def to_multiplicative(natural: Parameters, offset: ScalarLike, *, delta: ScalarLike) -> tuple[Parameters, Scalar]:
    """From `exp_q(theta . phi - psi_q)` to `exp_q(beta . phi) / Z_q` (paper, appendix B).

    beta = theta / (1 - delta psi_q) and Z_q = 1 / exp_q(-psi_q). It needs `delta psi_q < 1`: for q < 1 that says that
    phi = 0 lies inside the support. Otherwise it is an error.

    Args:
        natural: The natural parameters theta.
        offset: The free energy psi_q.
        delta: `1 - q`.

    Returns:
        beta, and log Z_q.

    Examples:
        >>> import jax.numpy as jnp
        >>> (beta,), log_z = to_multiplicative((jnp.array(1.0),), 1.0, delta=-1.0)  # q = 2
        >>> float(beta), round(float(jnp.exp(log_z)), 4)
        (0.5, 2.0)
    """
    divisor = 1 - delta * offset
    if is_concrete(divisor) and not divisor > 0:
        raise ValueError(
            f"`offset` must be less than 1 / delta = {1 / delta:g}, got {offset}: the density is zero where phi(x) = "
            f"0, so it is no multiple of exp_q(beta . phi(x)); measure x from a point of the support."
        )
    return jax.tree.map(lambda leaf: leaf / divisor, natural), -log_exp_delta(-offset, delta)


def to_subtractive(beta: Parameters, log_z: ScalarLike, *, delta: ScalarLike) -> tuple[Parameters, Scalar]:
    """The inverse of `to_multiplicative`: theta = beta Z_q^(-delta) and psi_q = -log_q(1 / Z_q).

    Args:
        beta: The parameters of `exp_q(beta . phi) / Z_q` (paper, appendix B).
        log_z: log Z_q.
        delta: `1 - q`.

    Returns:
        The natural parameters theta, and psi_q.

    For q < 1 only a density with phi = 0 inside its support has this form.

    Examples:
        >>> import jax.numpy as jnp
        >>> (theta,), psi = to_subtractive((jnp.array(0.5),), jnp.log(2.0), delta=-1.0)  # q = 2
        >>> round(float(theta), 4), round(float(psi), 4)
        (1.0, 1.0)
    """
    scale = jnp.exp(-delta * log_z)
    return jax.tree.map(lambda leaf: leaf * scale, beta), -log_q_of_exp(-log_z, delta)


def q_from_df(df: ScalarLike, dimension: int = 1) -> ScalarLike:
    """q = (nu + d + 2) / (nu + d) of the Student-t in d dimensions (paper, appendix D.1).

    Args:
        df: Degrees of freedom nu, positive.
        dimension: The dimension d.

    Returns:
        q, between 1 and 1 + 2/d.

    Examples:
        >>> q_from_df(1.0)  # Cauchy
        2.0
    """
    check_positive("df", df, "the degrees of freedom")
    return 1 + 2 / (df + dimension)


def df_from_q(q: ScalarLike, dimension: int = 1) -> ScalarLike:
    """nu = (d - d q + 2) / (q - 1), for 1 < q < 1 + 2/d; (3 - q) / (q - 1) for d = 1.

    One caption of the paper has 1 - q in the denominator; the text and this code have q - 1, which makes nu positive.

    Args:
        q: The order; outside 1 < q < 1 + 2/d it is an error.
        dimension: The dimension d.

    Returns:
        The degrees of freedom nu.

    Examples:
        >>> df_from_q(2.0)
        1.0
    """
    check_between("q", q, 1, 1 + 2 / dimension, f"only these orders are Student-t in {dimension} dimension(s)")
    return 2 / (q - 1) - dimension


def q_from_shape(shape: ScalarLike) -> ScalarLike:
    """q = (2 xi + 1) / (xi + 1) of the generalized Pareto density (paper, appendix D.1).

    Args:
        shape: xi; -1 or less is an error.

    Returns:
        q, below 2.

    Examples:
        >>> q_from_shape(0.0)  # exponential
        1.0
    """
    check_between("shape", shape, -1, jnp.inf, "-1 is the uniform density, where q is infinite")
    return 1 + shape / (1 + shape)


def shape_from_q(q: ScalarLike) -> ScalarLike:
    """xi = (q - 1) / (2 - q), for q < 2. The paper prints the denominator as q - 2, which has the wrong sign.

    Args:
        q: The order; 2 or more is an error.

    Returns:
        xi.

    Examples:
        >>> shape_from_q(1.5)
        1.0
    """
    check_between("q", q, -jnp.inf, 2, "only these orders are generalized Pareto")
    return (q - 1) / (2 - q)
