"""Keep the model of a result in memory, and make the densities that follow from it."""

import dataclasses
import hashlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..adapters import Model
from ..core import Point, named_leaves
from ..densities import Density, DensityLike, as_pytree, evaluate, has_gradient, is_numpy
from ..kernels import HMC, AbstractKernel, RandomWalk
from ..paths import AbstractPath, GeometricPath
from ..recipe import Recipe
from ..results import Result

_BLIND_STEPS = 10
"""Random-walk moves where there is no gradient."""


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """The model behind a result.

    Attributes:
        path: From the base, or prior, to the target.
        model: The model with variables by name, if it is one.
        likelihood: A function of a point, or of a point and data; None where only a base and a target were given.
        data: What was observed; None where the likelihood takes no data.
        recipe: What the run was made with, if it is known.
    """

    path: AbstractPath[Any]
    model: Model | None = None
    likelihood: Any = None
    data: Any = None
    recipe: Recipe | None = None

    @property
    def base(self) -> DensityLike:
        """Return the prior."""
        return self.path.base

    @property
    def target(self) -> DensityLike:
        """Return the density of the draws, not normalized."""
        return self.path.target

    @property
    def kernel(self) -> AbstractKernel[Any]:
        """Return a kernel that can move draws of the target, to be fitted to them."""
        if has_gradient(self.target) and has_gradient(self.base):
            return HMC(num_leapfrog=5)
        return RandomWalk(_BLIND_STEPS)

    def points(self, result: Result) -> Point:
        """Return the draws of a result as the densities take them."""
        return result.samples if result.unconstrained is None else result.unconstrained

    def named(self, points: Point) -> Any:
        """Return points as variables by name where the model has names, and otherwise as they are."""
        return points if self.model is None else named_by(self.model, points)

    def columns(self, points: Point) -> dict[str, np.ndarray]:
        """Return each number of the variables as a column, by names such as `theta[2]`."""
        found: dict[str, np.ndarray] = {}
        for name, leaf in named_leaves(self.named(points)).items():
            flat = np.asarray(leaf, float).reshape(len(leaf), -1)
            indices = ["".join(f"[{i}]" for i in index) for index in np.ndindex(*leaf.shape[1:])]
            found |= {name + index: flat[:, j] for j, index in enumerate(indices)}
        return found

    def path_to(self, target: DensityLike) -> GeometricPath:
        """Return the path from the density of the draws to another one of the same points."""
        # The draws are there: the sampler of the prior only shows what a point is.
        return GeometricPath(_with_sampler(self.target, self.base), target)

    def moved_to(self, target: DensityLike, **changes: Any) -> "Given":
        """Return the same model with another target."""
        return dataclasses.replace(self, path=GeometricPath(self.base, target), recipe=None, **changes)

    def plus(self, function: Any, data: Any) -> Density:
        """Return the target times another likelihood, a function of a point and data."""
        parts = self.target, as_pytree(function), data
        return Density(jax.tree_util.Partial(_plus, *parts), backend="numpy" if is_numpy(self.target) else "jax")


def _with_sampler(density: DensityLike, base: DensityLike) -> Density:
    """Return a density with the sampler of another one."""
    if not isinstance(density, Density):
        density = Density(density.log_prob)
    sample = as_pytree(base.sample)  # type: ignore[attr-defined]
    return eqx.tree_at(lambda d: d.sample, density, sample, is_leaf=lambda leaf: leaf is None)


def _plus(target: DensityLike, function: Any, data: Any, x: Point) -> Any:
    more = Density(lambda x: function(x, data), backend="numpy" if is_numpy(target) else "jax")
    value, added = evaluate(target, x, "target"), evaluate(more, x, "log_likelihood")
    xp = np if is_numpy(target) else jnp
    return xp.where(value == -jnp.inf, -jnp.inf, value + added)


def named_by(model: Model, points: Point) -> dict[str, Any]:
    """Return the variables of a model at its points, in the order of its prior."""
    named = model.named(points)
    order = [*model.variables, *(name for name in named if name not in model.variables)]  # JAX sorts names
    return {name: named[name] for name in order}


def digests(data: Any) -> tuple[str, ...]:
    """Return one for each array of the data, in single precision: the same for the same numbers in any package."""
    found = []
    for leaf in jax.tree.leaves(data):
        array = np.ascontiguousarray(np.asarray(leaf, np.float32))
        found.append(hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest()[:16])
    return tuple(sorted(found))
