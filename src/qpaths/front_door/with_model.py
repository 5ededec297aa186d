"""The model of a result that was read from a file, given again."""

import dataclasses
from typing import Any

import numpy as np

from ..adapters import Model
from ..core import named_leaves
from ..densities import DensityLike
from ..results import Result
from ..rows import layout_of
from .problem import Problem


def with_model(
    result: Result, base: DensityLike | Model | None = None, target: DensityLike | None = None, **model: Any
) -> Result:
    """Return a result that holds its model again, for `draws`, `update`, `loo` and the like.

    Files hold no functions. So a result that was read from one does not know its model.

    Args:
        result: The result.
        base: As in `evidence`.
        target: As in `evidence`.
        **model: The other arguments of `evidence` that describe a model: `prior`, `log_likelihood`, `data`,
            `log_prior`, `sample_prior`, `path`, `backend`.

    Returns:
        The same result with the model. Nothing can check that it is the right one, but names and shapes must fit.

    Examples:
        >>> import tempfile, jax, qpaths as qp
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p: -(p["mu"] ** 2)}
        >>> file = tempfile.mkdtemp() + "/result.npz"
        >>> qp.evidence(**model, budget=20_000, key=jax.random.key(0)).save(file)
        >>> result = qp.with_model(qp.load_result(file), **model)
        >>> result.draws(100, key=jax.random.key(1)).samples["mu"].shape
        (100,)
    """
    names = "base", "target", "log_prior", "log_likelihood", "sample_prior", "prior", "data", "path"
    backend = model.pop("backend", "jax")
    unknown = [name for name in model if name not in names]
    if unknown:
        raise TypeError(f"`with_model` takes what describes a model, got {unknown[0]!r}: give {', '.join(names)}.")
    given = dict.fromkeys(names) | {"base": base, "target": target} | model
    problem = Problem.of(given, None, True, None, backend)
    wanted = {name: tuple(leaf.shape) for name, leaf in _example(problem).items()}
    points = result.samples if result.unconstrained is None else result.unconstrained
    there = {name: np.shape(leaf)[1:] for name, leaf in named_leaves(points).items()}
    if wanted != there:
        raise ValueError(f"the model has points of shapes {wanted}, and the result has {there}: give its own model.")
    return dataclasses.replace(result, origin=problem.kept())


def _example(problem: Problem) -> dict[str, Any]:
    layout = layout_of(problem.path)
    return named_leaves(layout.points(np.zeros(layout.dimension)))
