"""Path, schedule and kernel together: what a run needs, as `qpaths.tune` returns it."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx

from .core import AnyArray, Cost, RandomKey, is_traced
from .kernels import AbstractKernel
from .remarks import Remark
from .schedules import AbstractSchedule


class Recipe(eqx.Module):
    """A path, the schedule along it, and the kernel that moves particles there.

    `path, schedule, kernel = recipe` takes it apart, and `recipe.run(SMC, 1000, key=key)` runs an algorithm with it.
    Where many problems share a recipe, `path` is a function that makes the path of one problem.

    Attributes:
        path: The path, perhaps from a fitted reference instead of the user's base.
        schedule: A fixed schedule, if the recipe was tuned.
        kernel: A frozen kernel, if the recipe was tuned.
        barrier: The length of the path, the sum of the lengths of its steps; None where it is not known.
        notes: What was chosen and why, as records; `str(note)` is the sentence.
        findings: What looks unreliable.
        num_evaluations: The cost of the pilots.
        modes: All optima of the target that the pilots met, used or not: an answer without their mass is wrong.

    A recipe of parts that you chose yourself is not frozen: a kernel that is fitted during the run makes SMC slightly
    biased. See [Choosing q, schedule, kernel and reference](tutorials/choosing.md).

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> recipe = qp.Recipe(path, qp.LinearSchedule(6), qp.RandomWalk(3))
        >>> result = recipe.run(qp.SMC, 200, key=jax.random.key(0))
        >>> path, schedule, kernel = recipe
        >>> len(result.betas)
        6
    """

    path: Any
    schedule: AbstractSchedule
    kernel: AbstractKernel[Any]
    barrier: float | None = eqx.field(static=True, default=None)
    notes: tuple[Remark, ...] = eqx.field(static=True, default=())
    findings: tuple[Remark, ...] = eqx.field(static=True, default=())
    num_evaluations: Cost = eqx.field(static=True, default=Cost())
    modes: tuple[Any, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        yield from (self.path, self.schedule, self.kernel)

    def run(self, algorithm: Any, num: int, *arguments: Any, key: RandomKey, **settings: Any) -> Any:
        """The result of an algorithm with `num` particles or chains.

        `arguments` are those that `algorithm.run` takes after the path, `settings` those of its constructor:
        `recipe.run(BDMC, 64, target_samples, key=key)`, `recipe.run(SMC, 1000, key=key, chunk_size=100)`.
        """
        return algorithm(num, self.schedule, self.kernel, **settings).run(self.path, *arguments, key=key)

    @property
    def betas(self) -> AnyArray:
        """Those of a fixed schedule, as every tuned one is."""
        return self.schedule.betas  # type: ignore[attr-defined]

    @property
    def num_steps(self) -> int:
        """Steps from one distribution to the next."""
        return self.betas.shape[0] - 1

    @property
    def cost_per_particle(self) -> Cost:
        """Cost of one particle or chain costs, fits of the kernel not counted."""
        return self.kernel.start_cost(1) + self.num_steps * self.kernel.num_steps * self.kernel.cost


def check_parts(kernel: Any, *schedules: Any) -> None:
    """Raise unless an algorithm was given a kernel and, where it takes one, a schedule."""
    if not isinstance(kernel, AbstractKernel):
        raise TypeError(f"`kernel` must be a kernel such as `HMC()` or `RandomWalk()`, got {kernel!r}.")
    if is_traced(kernel.num_steps):
        raise TypeError(
            f"`num_steps` of {type(kernel).__name__} must be a plain integer, got an array that JAX traces: declare it "
            f"as `num_steps: int = eqx.field(static=True, default=1)`."
        )
    for schedule in schedules:
        if not isinstance(schedule, AbstractSchedule):
            raise TypeError(
                f"`schedule` must be a schedule such as `AdaptiveSchedule()` or `LinearSchedule(10)`, got {schedule!r}."
            )
