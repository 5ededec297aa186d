"""Generalized means of the natural parameters: the moment path with any function in the place of the moments."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..core import ScalarLike
from ..densities import as_pytree
from ..families import AbstractFamily, Parameters, check_same_family, mix, solve_root
from .moment import check_member
from .parametric import AbstractParametricPath


class ParameterMeanPath(AbstractParametricPath):
    """The member with `h(theta_beta) = (1-beta) h(theta_0) + beta h(theta_1)` (paper, appendix D.3).

    A generalized mean over the natural parameters theta instead of densities. In an exponential family the identity as
    h is the geometric path. (The q-path of another family mixes theta before the densities are normalized, and
    normalizing changes theta there.) `h(theta) = eta(theta)`, the gradient of the free energy, is `MomentPath` or
    `EscortMomentPath` with `exact=True`.

    Args:
        base: A member of an exponential or q-exponential family.
        target: Another member of the same family.
        transform: h, a function of the natural parameters (a tuple of arrays), differentiable by JAX.
        inverse: The inverse of h. None inverts numerically, from the linear mix of theta: least squares come near, and
            Newton's method ends it. Then h must return a tuple of the same shapes. Where no root is found there is no
            member: an error, or NaN under `jax.jit`.

    Examples:
        >>> import jax.numpy as jnp
        >>> from qpaths.families import Poisson
        >>> base, target = Poisson(1.0), Poisson(4.0)
        >>> path = ParameterMeanPath(base, target, lambda theta: (jnp.exp(theta[0] / 2),))  # roots of the rates mix
        >>> round(float(path.at(0.5).rate), 4)
        2.25
    """

    base: Any
    target: Any
    transform: Callable[[Parameters], Any] = eqx.field(converter=as_pytree)
    inverse: Callable[[Any], Parameters] | None = eqx.field(
        converter=lambda value: None if value is None else as_pytree(value), default=None
    )

    def __check_init__(self) -> None:
        kinds = "an exponential or q-exponential family, such as `Normal`"
        check_member("base", self.base, AbstractFamily, kinds)
        check_same_family(self.base, self.target)

    def member(self, beta: ScalarLike) -> Any:
        mixed = mix(self.transform(self.base.natural), self.transform(self.target.natural), beta)
        if self.inverse is not None:
            return self.base.with_natural(self.inverse(mixed))
        start = mix(self.base.natural, self.target.natural, beta)
        start, mixed = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf, 0.0)), (start, mixed))
        import optimistix as optx  # 0.2 s that only this path needs

        solver: Any = optx.LevenbergMarquardt(rtol=1e-4, atol=1e-4)
        near = optx.least_squares(self._residual, solver, start, args=mixed, throw=False).value
        return self.base.with_natural(solve_root(self._residual, jax.lax.stop_gradient(near), mixed))

    def _residual(self, natural: Parameters, mixed: Any) -> Any:
        return jax.tree.map(jnp.subtract, self.transform(natural), mixed)
