"""Choose points for integrals: double-exponential quadrature in one and more dimensions, and Monte Carlo."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..core import FloatArray, Point, PRNGKey, Scalar, ScalarLike, is_double
from ..densities import DensityLike, draw, evaluate


class Nodes(eqx.Module):
    """Points and log weights: the integral of f is the sum of `exp(log_weights) f(points)`.

    Make them with `line`, `product` or `monte_carlo`. Quadrature and importance sampling are the same from here on.

    Args:
        points: The nodes, a point with a leading axis.
        log_weights: One for each.

    Quadrature on a line (Takahasi and Mori, 1974) is exact to many digits for smooth integrands. In three dimensions
    and more the product has too many nodes: use `monte_carlo`.

    Examples:
        >>> import qpaths as qp
        >>> nodes = Nodes.line(-20.0, 20.0)
        >>> round(float(nodes.integral(nodes.log_values(qp.Normal(1.0, 2.0)))), 4)
        1.0
    """

    points: Point
    log_weights: FloatArray

    def log_values(self, density: DensityLike) -> FloatArray:
        """Log density at every node."""
        return _log_probs(density, self.points)

    def integral(self, log_values: FloatArray) -> Scalar:
        """The integral of `exp(log_values)`."""
        return jnp.sum(jnp.exp(log_values + self.log_weights))

    @staticmethod
    def line(
        low: ScalarLike = -np.inf, high: ScalarLike = np.inf, num: int = 401, *, scale: ScalarLike = 1.0
    ) -> "Nodes":
        """Double-exponential quadrature on a finite, half infinite or infinite interval (Takahasi and Mori, 1974).

        The trapezoid rule after `x = tanh(pi/2 sinh t)`, `exp(pi/2 sinh t)` or `sinh(pi/2 sinh t)`: exponentially
        accurate for smooth integrands, heavy tails and singular ends included. `scale` is the width in which an
        infinite interval is resolved best. In 32 bits the nodes end at 1e15 times that.
        """
        if not low < high:
            raise ValueError(f"`low` must be less than `high`, got {low} and {high}.")
        finite = np.isfinite(low), np.isfinite(high)
        t, step = np.linspace(-1, 1, num, retstep=True)
        reach = 3.6 if all(finite) else 4.9 if is_double() else 3.8  # squares of nodes must have a number
        t, step = reach * t, reach * step
        u, slope = np.pi / 2 * np.sinh(t), np.pi / 2 * np.cosh(t)
        if all(finite):
            # Distances from the nearer end, so that ends keep their digits.
            width = high - low
            from_end = width / (1 + np.exp(2 * np.abs(u)))
            points = np.where(u < 0, low + from_end, high - from_end)
            log_jacobian = np.log(width / 2) - 2 * np.logaddexp(u, -u) + 2 * np.log(2)
        elif any(finite):
            away = scale * np.exp(u)
            points = low + away if finite[0] else high - away
            log_jacobian = np.log(scale) + u
        else:
            points = scale * np.sinh(u)
            log_jacobian = np.log(scale) + np.logaddexp(u, -u) - np.log(2)
        return Nodes(jnp.asarray(points), jnp.asarray(log_jacobian + np.log(slope) + np.log(step)))

    @staticmethod
    def product(*lines: "Nodes") -> "Nodes":
        """The product rule: points of d coordinates from d lines."""
        points = jnp.stack(jnp.meshgrid(*(line.points for line in lines), indexing="ij"), axis=-1)
        log_weights: Any = jnp.zeros(())
        for line in lines:
            log_weights = log_weights[..., None] + line.log_weights
        return Nodes(points.reshape(-1, len(lines)), log_weights.ravel())

    @staticmethod
    def monte_carlo(proposal: DensityLike, num: int, *, key: PRNGKey) -> "Nodes":
        """`num` draws from a normalized density that covers the integrand, weighted by its inverse."""
        points = _draws(proposal, jax.random.split(key, num))
        return Nodes(points, -_log_probs(proposal, points) - np.log(num))


@eqx.filter_jit
def _log_probs(density: DensityLike, points: Point) -> FloatArray:
    return jax.vmap(lambda x: evaluate(density, x, "density"))(points)


@eqx.filter_jit
def _draws(density: DensityLike, keys: Any) -> Point:
    return jax.vmap(lambda key: draw(density, key, "proposal"))(keys)
