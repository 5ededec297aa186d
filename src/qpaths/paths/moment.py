"""The moment-averaging path between two members of an exponential family."""

from typing import Any

from ..core import ScalarLike
from ..families import AbstractExponentialFamily, check_same_family
from .parametric import AbstractParametricPath


class MomentPath(AbstractParametricPath):
    """The member whose expected sufficient statistics are `(1-beta) eta_0 + beta eta_1` (paper, eq. moments_path).

    Grosse, Maddison and Salakhutdinov, 2013. The minimum of `(1-beta) KL[base : r] + beta KL[target : r]` over the
    family. Between normals the means mix linearly and the covariance is the mixed one plus beta (1-beta) times the
    outer product of the difference of the means.

    Args:
        base: A member of an exponential family, such as `Normal` or `Gamma`.
        target: Another member of the same family.

    Both ends must belong to one family, so the log evidence is known to be 0. The path serves to study and to test
    samplers. Members of different families are an error.

    Examples:
        >>> import qpaths as qp
        >>> middle = MomentPath(qp.Normal(-4.0, 1.0), qp.Normal(4.0, 1.0)).at(0.5)
        >>> float(middle.loc), round(float(middle.scale), 3)  # variance 1 + 8^2 / 4
        (0.0, 4.123)
    """

    base: Any
    target: Any

    def __check_init__(self) -> None:
        check_member("base", self.base, AbstractExponentialFamily, "an exponential family, such as `Normal`")
        check_same_family(self.base, self.target)

    def member(self, beta: ScalarLike) -> Any:
        return self.base.mix_moments(self.target, beta)


def check_member(name: str, value: Any, kind: type, description: str) -> None:
    """Raise if an endpoint is no member of the kind of family that a path needs."""
    if not isinstance(value, kind):
        raise ValueError(f"`{name}` must be a member of {description}, got {type(value).__name__}.")
