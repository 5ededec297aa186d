"""From moment to natural parameters where there is no closed form."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def solve_root(residual: Callable[[Any, Any], Any], start: Any, arguments: Any) -> Any:
    """The root of `residual(value, arguments)` near `start`, by Newton's method; NaN if none is found.

    Differentiable in the arguments by the implicit function theorem.
    """
    import optimistix as optx  # 0.2 s that only these families need

    eps = float(jnp.finfo(jnp.result_type(*jax.tree.leaves(start))).eps)
    solver: Any = optx.Newton(rtol=8 * eps, atol=8 * eps)
    root = optx.root_find(residual, solver, start, args=arguments, max_steps=64, throw=False).value
    # Rounding can keep the last steps above any fixed tolerance, so the residual decides, not the solver's own verdict.
    found = _largest(residual(root, arguments)) <= eps**0.5 * (1 + _largest(arguments))
    return jax.tree.map(lambda leaf: jnp.where(found, leaf, jnp.nan), root)


def _largest(tree: Any) -> Any:
    """The largest absolute value in a tree."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(tree)]))


def solve_dual(log_partition: Callable[[Any], Any], moments: Any, start: Any) -> Any:
    """The natural parameters theta at which the gradient of the log partition function is `moments`.

    `psi(theta) - theta . eta` is convex, so a line search from any member comes near, and Newton's method ends it with
    quadratic convergence. Where the log partition function is infinite or NaN the line search turns back.
    """

    def objective(theta: Any, eta: Any) -> Any:
        products = jax.tree.map(lambda t, e: jnp.sum(t * e), theta, eta)
        return log_partition(theta) - sum(jax.tree.leaves(products))

    import optimistix as optx

    near = optx.minimise(
        objective, optx.BFGS(rtol=1e-4, atol=1e-4), start, args=jax.lax.stop_gradient(moments), throw=False
    ).value
    return solve_root(jax.grad(objective), jax.lax.stop_gradient(near), moments)
