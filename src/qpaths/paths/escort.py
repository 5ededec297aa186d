"""The escort moment-averaging path between two members of a q-exponential family."""

from typing import Any

import equinox as eqx

from ..core import ScalarLike
from ..families import AbstractQExponentialFamily, check_same_family
from .moment import check_member
from .parametric import AbstractParametricPath


class EscortMomentPath(AbstractParametricPath):
    """Members whose escort moments mix linearly, as published (paper, eq. escort), or exactly.

    Between Student-t endpoints of one df = nu, in any dimension, the path is Student-t with

        mu_beta    = (1-beta) mu_0 + beta mu_1
        Sigma_beta = (1-beta) Sigma_0 + beta Sigma_1 + c beta (1-beta) (mu_1 - mu_0)(mu_1 - mu_0)^T

    and c = (nu + 2) / nu: the path of the paper's figures and experiments. Its derivation takes the *scale matrix*
    nu/(nu+2) Sigma of the escort for its *covariance*, which is Sigma. With the covariance c = 1, and the dual
    parameters grad psi_q mix linearly, as the definition asks: `exact=True`. Both tend to `MomentPath` as nu -> inf.

    q-Gaussian endpoints follow the same formula with c = 1 + 2 (q-1) / (3-q). Generalized Pareto endpoints, which the
    paper does not treat, are mixed exactly in either case: their scales mix linearly.

    Args:
        base: A member of a q-exponential family, such as `StudentT`.
        target: Another member of the same family, with the same order.
        exact: Whether to mix the escort moments as defined, instead of as published.

    Ends of different families or orders are an error.

    Examples:
        >>> import qpaths as qp
        >>> path = EscortMomentPath(qp.StudentT(1.0, -4.0, 1.0), qp.StudentT(1.0, 4.0, 1.0))
        >>> middle = path.at(0.5)
        >>> float(middle.loc), float(middle.scale) > 1
        (0.0, True)
    """

    base: Any
    target: Any
    exact: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        check_member("base", self.base, AbstractQExponentialFamily, "a q-exponential family, such as `StudentT`")
        check_same_family(self.base, self.target)

    def member(self, beta: ScalarLike) -> Any:
        mixed = self.base.mix_moments if self.exact else self.base.mix_moments_as_published
        return mixed(self.target, beta)
