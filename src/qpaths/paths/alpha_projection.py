"""The path of mixed alpha-divergences projected onto an exponential family."""

from typing import Any

import jax
import jax.numpy as jnp

from ..core import ScalarLike, is_concrete
from ..families import AbstractExponentialFamily, Parameters, check_same_family, mix, solve_root
from .moment import check_member
from .parametric import AbstractParametricPath

_DIGITS = 1e4
"""The parameters have an error of `eps / (1 - q)`, relative to the moments: it must stay below 1e-4."""


class AlphaProjectionPath(AbstractParametricPath):
    """The member r that minimizes `(1-beta) D_alpha[base : r] + beta D_alpha[target : r]`, alpha = 2 q - 1, 0 <= q < 1.

    Minka, 2005; Bui, 2020. Unlike the q-path, whose minimum is over all measures, this one stays in the family. The
    minimum matches the moments of `(1-beta) base^(1-q) r^q + beta target^(1-q) r^q`, both terms of which are multiples
    of members. Minka's fixed-point iteration comes near, and Newton's method ends it. q = 0 is `MomentPath`; as q -> 1
    it tends to `GeometricPath`.

    Between ends that are far apart there can be several local minima: a wide member that covers both ends, and a narrow
    one at either. The iteration starts at each end and between them, and the lowest minimum counts. It can pass from
    one to another, and the path then jumps at that beta. Between N(-4, 3) and N(4, 1) with q = 0.5 the scale falls from
    3.9 to 1.1 near beta = 0.6. No continuous path of minima leads around the jump: the wide minimum ends before 0.66.

    Args:
        base: A member of an exponential family.
        target: Another member of the same family.
        q: The order, in [0, 1).

    Examples:
        >>> from qpaths.families import Poisson
        >>> middle = AlphaProjectionPath(Poisson(1.0), Poisson(4.0), q=0.5).at(0.5)
        >>> bool(2.0 < middle.rate < 2.5)  # between the geometric path (2) and the moment path (2.5)
        True
    """

    base: Any
    target: Any
    q: ScalarLike

    def __check_init__(self) -> None:
        check_member("base", self.base, AbstractExponentialFamily, "an exponential family, such as `Normal`")
        check_same_family(self.base, self.target)
        if is_concrete(self.q) and not 0 <= self.q < 1:
            raise ValueError(
                f"`q` must lie in [0, 1), got {self.q}: 0 is `MomentPath`, and the limit 1 is `GeometricPath`."
            )
        eps = float(jnp.finfo(jnp.result_type(*jax.tree.leaves(self.base.natural))).eps)
        if is_concrete(self.q) and 1 - self.q < _DIGITS * eps:
            raise ValueError(
                f"`q` must be at most 1 - {_DIGITS * eps:.1g} in this precision, got {self.q}: nearer to 1 the root "
                f"drowns in rounding; take `GeometricPath`, the limit."
            )

    def member(self, beta: ScalarLike) -> Any:
        """The minimum, by iteration; differentiable in all parameters by the implicit function theorem."""
        import optimistix as optx  # 0.2 s that only this path needs

        dtype = jnp.result_type(*jax.tree.leaves(self.base.natural))
        arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), (self.base, self.target, self.q, beta))
        starts = [self.base.mix_moments(self.target, beta).natural, self.base.natural, self.target.natural]
        stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf, dtype) for leaf in leaves]), *starts)

        def from_start(start: Parameters) -> tuple[Parameters, Any]:
            near = optx.fixed_point(
                _project, optx.FixedPointIteration(rtol=1e-3, atol=1e-3), start, arguments, max_steps=1024, throw=False
            ).value
            return near, _log_affinity(near, arguments)

        found, affinity = jax.vmap(from_start)(stacked)
        near = jax.tree.map(lambda leaf: leaf[jnp.argmax(affinity)], found)
        return self.base.with_natural(solve_root(_residual, jax.lax.stop_gradient(near), arguments))


def _parts(natural: Parameters, arguments: tuple[Any, ...]) -> list[Any]:
    """`base^(1-q) r^q` and `target^(1-q) r^q`: members times their masses."""
    base, target, q, _ = arguments
    return [base.with_offset(mix(end.natural, natural, q), _offset(end, natural, q)) for end in (base, target)]


def _log_affinity(natural: Parameters, arguments: tuple[Any, ...]) -> Any:
    """Log of `(1-beta) int base^(1-q) r^q + beta int target^(1-q) r^q`, largest where the divergence is least."""
    beta = arguments[3]
    first, second = (part.log_mass for part in _parts(natural, arguments))
    return jnp.logaddexp(jnp.log1p(-beta) + first, jnp.log(beta) + second)


def _project(natural: Parameters, arguments: tuple[Any, ...]) -> Parameters:
    """One step of Minka's scheme: the member with the moments of the mixed tilted endpoints."""
    beta, parts = arguments[3], _parts(natural, arguments)
    log_odds = parts[1].log_mass - parts[0].log_mass
    weight = beta / (beta + (1 - beta) * jnp.exp(-log_odds))
    return parts[0].member.mix_moments(parts[1].member, weight).natural


def _offset(end: AbstractExponentialFamily, natural: Parameters, q: ScalarLike) -> Any:
    return mix(end.log_partition(end.natural), end.log_partition(natural), q)


def _residual(natural: Parameters, arguments: tuple[Any, ...]) -> Parameters:
    """Zero where a step of the scheme changes nothing."""
    return jax.tree.map(jnp.subtract, _project(natural, arguments), natural)
