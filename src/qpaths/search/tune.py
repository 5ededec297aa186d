"""One name for the two ways to choose a recipe: for a population, and for chains of a fixed length."""

from typing import Any, TypedDict, Unpack

from ..core import RandomKey, check_num
from ..kernels import AbstractKernel
from ..recipe import Recipe
from .chain_search import Search
from .for_chains import Start, tune_chains
from .for_population import tune_population


class ChainOptions(TypedDict, total=False):
    """Options of `tune` for chains of a fixed length; they need `num_gradients`."""

    num_chains: int
    num_leapfrog: int | None
    q: float | None
    problems: Any
    target_samples: Any


def tune(
    path: Any,
    *,
    key: RandomKey,
    budget: int = 1_000_000,
    kernel: AbstractKernel[Any] | None = None,
    reference: bool = True,
    num_gradients: int | None = None,
    **options: Unpack[ChainOptions],
) -> Recipe:
    """Choose reference, q, schedule and kernel; `path, schedule, kernel = tune(path, key=key)`.

    Everything is frozen, so AIS and SMC with the recipe are unbiased. `qpaths.search.tune_population` has the details.

    Args:
        path: A path, or a function that makes the path of one of the `problems`.
        key: The key of the pilots.
        budget: Evaluations of the pilots and of the run that will follow; a gradient counts as two.
        kernel: The kind of kernel; HMC by default.
        reference: Whether the path may start at a fitted distribution instead of its base.
        num_gradients: Gradients of one chain of AIS or BDMC. Without it the recipe is for a population.
        **options: For chains only, see below.

    Returns:
        A `Recipe`: path, schedule and kernel, with notes on what was chosen and why.

    With `num_gradients` the run is made of chains of that many gradients each (AIS, BDMC), and the budget is that of
    `num_chains` chains. Further options are then `num_leapfrog` and `q`, which fix what would otherwise be chosen,
    `problems` and `target_samples`: see `qpaths.search.tune_chains`.

    See [Choosing q, schedule, kernel and reference](tutorials/choosing.md). What the pilots never visit, the recipe
    does not cover.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> recipe = qp.tune(path, key=jax.random.key(0), budget=20_000)
        >>> result = recipe.run(qp.SMC, 200, key=jax.random.key(1))
        >>> bool(abs(result.log_evidence - -2.4094) < 5 * result.log_evidence_se)
        True
    """
    if num_gradients is None:
        if any(value is not None for value in options.values()):
            names = ", ".join(f"`{name}`" for name in options)
            raise ValueError(f"{names} need `num_gradients`, the length of the chains, got None.")
        return tune_population(path, key=key, budget=budget, kernel=kernel, reference=reference)
    search, num_leapfrog, q = Search(), options.get("num_leapfrog"), options.get("q")
    if num_leapfrog is not None:
        check_num("num_leapfrog", num_leapfrog, smallest=1)
        search = search._replace(leapfrogs=(num_leapfrog,))
    if q is not None:
        search = search._replace(deltas=())
    return tune_chains(
        path,
        key=key,
        num_gradients=num_gradients,
        num_chains=options.get("num_chains", 10),
        start=Start(kernel, reference, q),
        search=search,
        problems=options.get("problems"),
        target_samples=options.get("target_samples"),
    )
